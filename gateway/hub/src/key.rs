//! [`StreamKey`]: the one canonical name of a stream, for every protocol.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The longest key accepted, in bytes: room for any name people use, small enough for logs and tables.
pub const MAX_KEY_BYTES: usize = 512;

/// The canonical name of a stream, `app/name`; the app may have several segments.
///
/// Every protocol makes its key through [`StreamKey::parse`], so that one spelling rule and one check
/// serve all of them. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(Arc<str>);

/// Why a path is no stream key; the message tells the peer what to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no application or no stream name.
    #[error("the URL needs an application and a stream name: rtmp://HOST/APP/NAME")]
    Incomplete,
    /// A segment is `.` or `..`.
    #[error("the stream name may not contain '.' or '..' as a path segment")]
    Traversal,
    /// A control character, a backslash or the like stands in the name.
    #[error("the stream name may not contain control characters, backslashes or bytes that are not UTF-8")]
    ForbiddenCharacter,
    /// The percent-escapes do not give UTF-8.
    #[error("the stream name is not UTF-8 once its percent-escapes are decoded")]
    NotUtf8,
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("the stream name is longer than {MAX_KEY_BYTES} bytes")]
    TooLong,
}

impl StreamKey {
    /// Makes the key of a path such as `live/cam%201`: percent-escapes are decoded once, empty segments
    /// dropped, traversal and control characters refused. A query must have been taken off before.
    ///
    /// # Errors
    /// [`KeyError`] when the path cannot name a stream.
    pub fn parse(path: &str) -> Result<Self, KeyError> {
        if path.len() > MAX_KEY_BYTES * 3 {
            return Err(KeyError::TooLong);
        }
        let decoded = String::from_utf8(percent_decode(path)).map_err(|_| KeyError::NotUtf8)?;
        if decoded.chars().any(is_forbidden) {
            return Err(KeyError::ForbiddenCharacter);
        }
        let segments: Vec<&str> = decoded.split('/').filter(|s| !s.is_empty()).collect();
        if segments.iter().any(|s| *s == "." || *s == "..") {
            return Err(KeyError::Traversal);
        }
        if segments.len() < 2 {
            return Err(KeyError::Incomplete);
        }
        let key = segments.join("/");
        if key.len() > MAX_KEY_BYTES {
            return Err(KeyError::TooLong);
        }
        Ok(Self(key.into()))
    }

    /// The whole key, `app/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The application: everything before the last slash.
    pub fn app(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(app, _)| app)
    }

    /// The stream name: everything after the last slash.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Control characters, backslashes, what stands for bytes that were no UTF-8, and characters that turn the
/// direction or the line of the text around a name.
fn is_forbidden(c: char) -> bool {
    let misleading = matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    c.is_control() || c == '\\' || c == char::REPLACEMENT_CHARACTER || misleading
}

/// Decodes valid `%XX` escapes and leaves everything else as it is.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escape = match tail {
            [high, low, ..] if byte == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            out.push(high << 4 | low);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_stream_has_one_key_however_it_is_spelled() {
        let key = StreamKey::parse("live/caf%C3%A9").unwrap();
        for path in ["/live/café", "live//café/", "live/caf%c3%a9", "live%2Fcafé"] {
            assert_eq!(StreamKey::parse(path).unwrap(), key, "{path}");
        }
        assert_eq!((key.app(), key.name()), ("live", "café"));
        let deep = StreamKey::parse("a/b/c").unwrap();
        assert_eq!((deep.app(), deep.name()), ("a/b", "c"));
    }

    #[test]
    fn an_escape_is_decoded_once_and_a_broken_one_stays() {
        assert_eq!(StreamKey::parse("live/a%2520b").unwrap().as_str(), "live/a%20b");
        assert_eq!(StreamKey::parse("live/100%").unwrap().as_str(), "live/100%");
        assert_eq!(StreamKey::parse("live/%zz").unwrap().as_str(), "live/%zz");
    }

    #[test]
    fn traversal_control_characters_and_half_names_are_refused() {
        use KeyError::{ForbiddenCharacter, Incomplete, NotUtf8, TooLong, Traversal};
        for (path, error) in [
            ("live/../x", Traversal),
            ("live/%2e%2e/x", Traversal),
            ("live/..%2fx", Traversal),
            ("live/a%00", ForbiddenCharacter),
            ("live/a\r\nb", ForbiddenCharacter),
            ("live\\x/y", ForbiddenCharacter),
            ("live/\u{FFFD}", ForbiddenCharacter),
            ("live/a\u{202E}b", ForbiddenCharacter),
            ("live", Incomplete),
            ("/live/", Incomplete),
            ("", Incomplete),
            ("live/%ff", NotUtf8),
        ] {
            assert_eq!(StreamKey::parse(path), Err(error), "{path:?}");
        }
        assert_eq!(
            StreamKey::parse(&format!("live/{}", "x".repeat(512))),
            Err(TooLong)
        );
    }

    proptest! {
        #[test]
        fn a_key_never_escapes_its_folder(path in ".{0,80}") {
            if let Ok(key) = StreamKey::parse(&path) {
                prop_assert!(key.as_str().split('/').all(|s| !s.is_empty() && s != "." && s != ".."));
                prop_assert!(!key.as_str().chars().any(char::is_control));
            }
        }
    }
}
