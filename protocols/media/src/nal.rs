//! Walking NAL units: length-prefixed (ISO/IEC 14496-15) and Annex B byte streams.

use std::borrow::Cow;

use crate::error::MediaError;

/// NAL units of a length-prefixed access unit, in order. Empty units are left out (cameras send
/// them, interop case 90). After an error the iterator ends.
#[derive(Debug, Clone)]
pub struct LengthPrefixed<'a> {
    data: &'a [u8],
    size: usize,
    at: usize,
}

/// Iterates over the NAL units of `data`, each behind a big-endian length of `size` bytes (1..=4;
/// anything else is an error on the first item). The value 3 is illegal in the specification but
/// is read (interop case 88).
pub fn length_prefixed(data: &[u8], size: u8) -> LengthPrefixed<'_> {
    LengthPrefixed {
        data,
        size: usize::from(size),
        at: 0,
    }
}

impl<'a> LengthPrefixed<'a> {
    fn fail(&mut self, error: MediaError) -> Option<Result<&'a [u8], MediaError>> {
        self.at = self.data.len();
        Some(Err(error))
    }
}

impl<'a> Iterator for LengthPrefixed<'a> {
    type Item = Result<&'a [u8], MediaError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.data.get(self.at..).filter(|rest| !rest.is_empty())?;
            if !(1..=4).contains(&self.size) {
                let value = self.size as u64;
                return self.fail(MediaError::Invalid {
                    what: "NAL unit length size",
                    value,
                });
            }
            let Some((length, body)) = rest.split_at_checked(self.size) else {
                let (need, have) = (self.size, rest.len());
                return self.fail(MediaError::Truncated {
                    what: "NAL unit length",
                    need,
                    have,
                });
            };
            let declared = length
                .iter()
                .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            let unit = usize::try_from(declared)
                .ok()
                .and_then(|length| body.get(..length));
            let Some(unit) = unit else {
                let (at, left) = (self.at, body.len());
                return self.fail(MediaError::NalOverrun { at, declared, left });
            };
            self.at += self.size + unit.len();
            if !unit.is_empty() {
                return Some(Ok(unit));
            }
        }
    }
}

/// Whether the length format holds over the whole of `data` and yields at least one NAL unit.
/// This is what decides between the formats (interop cases 86, 87): the declared one is tried
/// first, over the whole body, because a NAL unit of length 1 looks like a start code.
pub fn is_length_prefixed(data: &[u8], size: u8) -> bool {
    let mut units = length_prefixed(data, size);
    let mut any = false;
    units.all(|unit| {
        any |= unit.is_ok();
        unit.is_ok()
    }) && any
}

/// NAL units of an Annex B byte stream, in order, without start codes and trailing zeros.
#[derive(Debug, Clone)]
pub struct AnnexB<'a> {
    rest: &'a [u8],
}

/// Iterates over the NAL units of an Annex B byte stream (H.264 and H.265 Annex B). Bytes before
/// the first start code are skipped; empty units are left out.
pub fn annex_b(data: &[u8]) -> AnnexB<'_> {
    let rest = match start_code(data) {
        Some(at) => data.get(at + 3..).unwrap_or_default(),
        None => &[],
    };
    AnnexB { rest }
}

impl<'a> Iterator for AnnexB<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = start_code(self.rest);
            let unit = self
                .rest
                .get(..end.unwrap_or(self.rest.len()))
                .unwrap_or_default();
            self.rest = match end {
                Some(end) => self.rest.get(end + 3..).unwrap_or_default(),
                None => &[],
            };
            let unit = trim_trailing_zeros(unit);
            if !unit.is_empty() {
                return Some(unit);
            }
        }
        None
    }
}

/// Offset of the first `00 00 01`.
fn start_code(data: &[u8]) -> Option<usize> {
    data.windows(3).position(|window| window == [0, 0, 1])
}

/// Whether `data` begins like an Annex B byte stream: zeros, then `00 00 01`.
pub fn starts_like_annex_b(data: &[u8]) -> bool {
    let zeros = data.iter().take_while(|byte| **byte == 0).count();
    zeros >= 2 && data.get(zeros) == Some(&1)
}

/// Rewrites an Annex B access unit with 4-byte lengths. The result is at most 4/3 of the input.
pub fn annex_b_to_length_prefixed(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 16);
    annex_b(data).for_each(|unit| push_length_prefixed(&mut out, unit));
    out
}

/// Rewrites a length-prefixed access unit with 4-byte lengths and without empty units (interop
/// cases 88 and 90). With `size` 1 the result is at most 2.5 times the input.
///
/// # Errors
/// The first error of [`length_prefixed`].
pub fn to_four_byte_lengths(data: &[u8], size: u8) -> Result<Vec<u8>, MediaError> {
    let mut out = Vec::with_capacity(data.len() + 16);
    for unit in length_prefixed(data, size) {
        push_length_prefixed(&mut out, unit?);
    }
    Ok(out)
}

/// Appends `unit` behind its 4-byte length.
fn push_length_prefixed(out: &mut Vec<u8>, unit: &[u8]) {
    let length = u32::try_from(unit.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(unit);
}

/// `unit` without the zero bytes that may follow a NAL unit (`trailing_zero_8bits`).
pub fn trim_trailing_zeros(unit: &[u8]) -> &[u8] {
    let end = unit.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    unit.get(..end).unwrap_or_default()
}

/// The raw byte sequence payload of a NAL unit: emulation prevention bytes (the 3 in `00 00 03`)
/// taken out. Borrows when there are none.
pub fn unescape(unit: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = unit.windows(3).position(|window| window == [0, 0, 3]) else {
        return Cow::Borrowed(unit);
    };
    let (head, tail) = unit.split_at(first);
    let mut out = Vec::with_capacity(unit.len());
    out.extend_from_slice(head);
    let mut zeros = 0;
    for byte in tail {
        if zeros >= 2 && *byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        out.push(*byte);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(data: &[u8], size: u8) -> Vec<Vec<u8>> {
        length_prefixed(data, size)
            .map(|unit| unit.unwrap().to_vec())
            .collect()
    }

    #[test]
    fn every_length_size_is_read() {
        assert_eq!(units(&[2, 9, 16, 1, 5], 1), [vec![9, 16], vec![5]]);
        assert_eq!(units(&[0, 2, 9, 16, 0, 1, 5], 2), [vec![9, 16], vec![5]]);
        assert_eq!(units(&[0, 0, 2, 9, 16, 0, 0, 1, 5], 3), [vec![9, 16], vec![5]]);
        assert_eq!(
            units(&[0, 0, 0, 2, 9, 16, 0, 0, 0, 1, 5], 4),
            [vec![9, 16], vec![5]]
        );
    }

    #[test]
    fn empty_units_are_left_out() {
        assert_eq!(units(&[0, 0, 1, 5, 0, 0], 1), [vec![5]]);
        assert!(units(&[0, 0, 0, 0], 4).is_empty());
        assert!(!is_length_prefixed(&[0, 0, 0, 0], 4));
        assert!(!is_length_prefixed(&[], 4));
    }

    #[test]
    fn an_overrun_is_reported_once() {
        let mut walk = length_prefixed(&[0, 0, 0, 1, 5, 0xFF, 0xFF, 0xFF, 0xFF, 1], 4);
        assert_eq!(walk.next(), Some(Ok(&[5u8][..])));
        assert_eq!(
            walk.next(),
            Some(Err(MediaError::NalOverrun {
                at: 5,
                declared: 0xFFFF_FFFF,
                left: 1
            }))
        );
        assert_eq!(walk.next(), None);
        let mut walk = length_prefixed(&[0, 0], 4);
        assert!(matches!(walk.next(), Some(Err(MediaError::Truncated { .. }))));
        assert_eq!(walk.next(), None);
        for size in [0, 5, 255] {
            assert!(matches!(
                length_prefixed(&[1], size).next(),
                Some(Err(MediaError::Invalid { .. }))
            ));
        }
    }

    #[test]
    fn annex_b_takes_both_start_codes_and_trims_zeros() {
        let stream = [0, 0, 0, 1, 0x67, 1, 0, 0, 0, 1, 0x68, 2, 0, 0, 1, 0x65, 3, 0, 0];
        let found: Vec<_> = annex_b(&stream).collect();
        assert_eq!(found, [&[0x67u8, 1][..], &[0x68, 2], &[0x65, 3]]);
        assert_eq!(annex_b(&[1, 2, 3]).count(), 0);
        assert_eq!(annex_b(&[0, 0, 1, 0, 0, 1]).count(), 0);
        assert!(starts_like_annex_b(&stream));
        assert!(starts_like_annex_b(&[0, 0, 1]));
        assert!(!starts_like_annex_b(&[0, 0, 2, 1]));
        assert!(!starts_like_annex_b(&[0, 1]));
    }

    #[test]
    fn a_unit_of_length_one_is_not_taken_for_a_start_code() {
        // Case 87: `00 00 00 01` is the length of the access unit delimiter's first byte here.
        let data = [0, 0, 0, 1, 0x0C, 0, 0, 0, 2, 0x65, 0x88];
        assert!(starts_like_annex_b(&data));
        assert!(is_length_prefixed(&data, 4));
    }

    #[test]
    fn conversions_meet_in_four_byte_lengths() {
        let expected = [0, 0, 0, 2, 0x67, 1, 0, 0, 0, 1, 0x65];
        assert_eq!(
            annex_b_to_length_prefixed(&[0, 0, 1, 0x67, 1, 0, 0, 1, 0x65]),
            expected
        );
        assert_eq!(
            to_four_byte_lengths(&[0, 2, 0x67, 1, 0, 0, 0, 1, 0x65], 2).unwrap(),
            expected
        );
        assert!(to_four_byte_lengths(&[9, 9], 1).is_err());
    }

    #[test]
    fn emulation_prevention_is_removed() {
        assert_eq!(&*unescape(&[1, 0, 0, 3, 0, 0, 3, 1, 3]), [1, 0, 0, 0, 0, 1, 3]);
        assert_eq!(&*unescape(&[0, 0, 3]), [0, 0]);
        assert!(matches!(unescape(&[1, 2, 3, 0, 3]), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn walks_never_panic_and_stay_inside(data: Vec<u8>, size: u8) {
            let total: usize = length_prefixed(&data, size).flatten().map(<[u8]>::len).sum();
            prop_assert!(total <= data.len());
            let total: usize = annex_b(&data).map(<[u8]>::len).sum();
            prop_assert!(total <= data.len());
            prop_assert!(unescape(&data).len() <= data.len());
        }

        #[test]
        fn length_prefixed_round_trips(list in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..300), 0..8)) {
            let mut data = Vec::new();
            list.iter().for_each(|unit| push_length_prefixed(&mut data, unit));
            prop_assert_eq!(units(&data, 4), list);
        }

        #[test]
        fn escaping_is_undone(payload: Vec<u8>) {
            let mut escaped = Vec::new();
            let mut zeros = 0;
            for byte in &payload {
                if zeros >= 2 && *byte <= 3 {
                    escaped.push(3);
                    zeros = 0;
                }
                zeros = if *byte == 0 { zeros + 1 } else { 0 };
                escaped.push(*byte);
            }
            prop_assert_eq!(&*unescape(&escaped), &payload[..]);
        }
    }
}
