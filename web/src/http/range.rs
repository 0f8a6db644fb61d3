//! `Range` (RFC 9110 §14): a single range of bytes; anything else is ignored, as the RFC allows.

use std::ops::Range;

use axum::http::HeaderMap;
use axum::http::header::RANGE;

/// What a request wants of a body of known length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: no range, several ranges, or a unit or syntax not understood.
    All,
    /// 206 with these bytes; never empty.
    Part(Range<u64>),
    /// 416.
    Unsatisfiable,
}

/// Reads the `Range` header against a body of `length` bytes.
pub(crate) fn wanted(headers: &HeaderMap, length: u64) -> Wanted {
    let mut values = headers.get_all(RANGE).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (Some(Ok(value)), None) => parse(value, length).unwrap_or(Wanted::All),
        _ => Wanted::All,
    }
}

fn parse(value: &str, length: u64) -> Option<Wanted> {
    let (unit, set) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || set.contains(',') {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let range = match (first, last) {
        (Some(first), Some(last)) if last < first => return None,
        (Some(first), Some(last)) => first..last.saturating_add(1).min(length),
        (Some(first), None) => first..length,
        (None, Some(suffix)) => length.saturating_sub(suffix)..length,
        (None, None) => return None,
    };
    Some(if range.start >= range.end {
        Wanted::Unsatisfiable
    } else {
        Wanted::Part(range)
    })
}

/// `Some(None)` for nothing, `None` for what is no number. One too large for 64 bits is far beyond any end.
fn number(text: &str) -> Option<Option<u64>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(None);
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn of(value: &'static str, length: u64) -> Wanted {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static(value));
        wanted(&headers, length)
    }

    #[test]
    fn single_ranges() {
        assert_eq!(wanted(&HeaderMap::new(), 10), Wanted::All);
        for (value, range) in [
            ("bytes=0-", 0..10),
            ("bytes=0-0", 0..1),
            ("bytes=2-5", 2..6),
            ("bytes=2-500", 2..10),
            ("bytes=-3", 7..10),
            ("bytes=-300", 0..10),
            ("Bytes = 9-9", 9..10),
            ("bytes=9-99999999999999999999999", 9..10),
        ] {
            assert_eq!(of(value, 10), Wanted::Part(range), "{value}");
        }
    }

    #[test]
    fn beyond_the_end_is_unsatisfiable() {
        for value in [
            "bytes=10-",
            "bytes=10-12",
            "bytes=-0",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(of(value, 10), Wanted::Unsatisfiable, "{value}");
        }
        assert_eq!(of("bytes=0-", 0), Wanted::Unsatisfiable);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "bytes=0-1,3-4",
            "items=0-1",
            "bytes=5-2",
            "bytes=-",
            "bytes=a-b",
            "bytes",
            "bytes=+1-2",
        ] {
            assert_eq!(of(value, 10), Wanted::All, "{value}");
        }
    }
}
