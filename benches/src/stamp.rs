//! What every generated frame says of itself inside its payload.
//!
//! All bytes of a stamp have their high bit set and carry seven bits each, so a stamp can stand in
//! an H.264 NAL unit without looking like a start code and without needing emulation prevention.

/// Length of a stamp, in bytes.
pub const STAMP_LEN: usize = 36;
/// First bytes of a stamp.
pub const MAGIC: [u8; 4] = [0xD3, 0xF0, 0xE9, 0xEC];
/// Where the checksum stands in a stamp.
const CHECKSUM_AT: usize = STAMP_LEN - CHECKSUM_LEN;
/// Length of the checksum.
const CHECKSUM_LEN: usize = 5;

/// A frame's identity and time of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The publisher's number.
    pub stream: u32,
    /// The frame's number on its track, counted from 0.
    pub sequence: u32,
    /// Decoding time on the publisher's time line, in milliseconds.
    pub dts_ms: u32,
    /// When the publisher wrote the frame, on `CLOCK_MONOTONIC`, in nanoseconds.
    pub sent_ns: u64,
    /// A video key frame.
    pub key: bool,
}

/// A stamp as read, with the checksum it states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamped {
    /// The stamp.
    pub stamp: Stamp,
    /// CRC-32 of the stamp before the checksum and of the payload behind it.
    pub checksum: u32,
}

impl Stamp {
    /// Writes the stamp to the front of `payload`, with the checksum over everything behind it.
    ///
    /// Returns `false`, with nothing written, if `payload` is shorter than [`STAMP_LEN`].
    pub fn write(&self, payload: &mut [u8]) -> bool {
        let Some((head, rest)) = payload.split_at_mut_checked(STAMP_LEN) else {
            return false;
        };
        let (fields, checksum_field) = head.split_at_mut(CHECKSUM_AT);
        let mut fill = Fill { at: 0, bytes: fields };
        fill.bytes_raw(&MAGIC);
        fill.number(u64::from(self.stream), 5);
        fill.number(u64::from(self.sequence), 5);
        fill.number(u64::from(self.dts_ms), 5);
        fill.number(self.sent_ns, 10);
        fill.number(u64::from(self.key), 2);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(fields);
        checksum.update(rest);
        Fill {
            at: 0,
            bytes: checksum_field,
        }
        .number(u64::from(checksum.finalize()), CHECKSUM_LEN);
        true
    }
}

impl Stamped {
    /// Reads the stamp at the front of `payload`; `None` if there is none.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let head = payload.get(..STAMP_LEN)?;
        if !head.starts_with(&MAGIC) {
            return None;
        }
        let stamp = Stamp {
            stream: number(head.get(4..9)?)? as u32,
            sequence: number(head.get(9..14)?)? as u32,
            dts_ms: number(head.get(14..19)?)? as u32,
            sent_ns: number(head.get(19..29)?)?,
            key: number(head.get(29..31)?)? != 0,
        };
        let checksum = number(head.get(CHECKSUM_AT..)?)? as u32;
        Some(Self { stamp, checksum })
    }
}

/// A checksum that has seen the fields of the stamp at the front of `head`, ready for the payload
/// behind the stamp.
pub fn checksum_of_fields(head: &[u8]) -> crc32fast::Hasher {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(head.get(..CHECKSUM_AT).unwrap_or(head));
    checksum
}

struct Fill<'a> {
    at: usize,
    bytes: &'a mut [u8],
}

impl Fill<'_> {
    fn bytes_raw(&mut self, source: &[u8]) {
        for (to, from) in self.bytes.iter_mut().skip(self.at).zip(source) {
            *to = *from;
        }
        self.at += source.len();
    }

    /// Writes the low `7 * len` bits of `value`, the highest first.
    fn number(&mut self, value: u64, len: usize) {
        let places = (0..len).rev();
        for (to, place) in self.bytes.iter_mut().skip(self.at).zip(places) {
            *to = 0x80 | (value >> (7 * place) & 0x7F) as u8;
        }
        self.at += len;
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.iter().try_fold(0, |value: u64, byte| {
        (byte & 0x80 != 0).then_some(value << 7 | u64::from(byte & 0x7F))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        stream: 999,
        sequence: 4_000_000_000,
        dts_ms: u32::MAX,
        sent_ns: u64::MAX >> 1,
        key: true,
    };

    #[test]
    fn a_stamp_reads_back_as_written() {
        let mut payload = vec![0x81; 100];
        assert!(STAMP.write(&mut payload));
        let read = Stamped::read(&payload).unwrap();
        assert_eq!(read.stamp, STAMP);
        let mut checksum = checksum_of_fields(&payload);
        checksum.update(&payload[STAMP_LEN..]);
        assert_eq!(checksum.finalize(), read.checksum);
        assert!(payload[..STAMP_LEN].iter().all(|byte| byte & 0x80 != 0));
    }

    #[test]
    fn no_stamp_in_foreign_or_short_payloads() {
        assert_eq!(Stamped::read(&[0; 100]), None);
        let mut payload = vec![0x81; STAMP_LEN - 1];
        assert!(!STAMP.write(&mut payload));
        assert_eq!(Stamped::read(&payload), None);
    }
}
