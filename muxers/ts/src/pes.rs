//! PES packet headers (ISO/IEC 13818-1 §2.4.3.7).

/// One 90 kHz stamp has 33 bits.
pub const STAMP_MASK: u64 = (1 << 33) - 1;

const STREAM_ID_VIDEO: u8 = 0xE0;
const STREAM_ID_AUDIO: u8 = 0xC0;

/// A rendered PES packet header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PesHeader {
    bytes: [u8; 19],
    len: usize,
}

impl PesHeader {
    /// The header of a video PES packet; the decoding time is written only if it differs.
    pub(crate) fn video(pts: u64, dts: u64, payload_bytes: usize) -> Self {
        Self::render(STREAM_ID_VIDEO, pts, (dts != pts).then_some(dts), payload_bytes)
    }

    /// The header of an audio PES packet.
    pub(crate) fn audio(pts: u64, payload_bytes: usize) -> Self {
        Self::render(STREAM_ID_AUDIO, pts, None, payload_bytes)
    }

    /// The rendered bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn render(stream_id: u8, pts: u64, dts: Option<u64>, payload_bytes: usize) -> Self {
        let optional: u8 = if dts.is_some() { 10 } else { 5 };
        let length = payload_bytes + 3 + usize::from(optional);
        // 0 means "until the next start", which is allowed for video only; audio never grows that long.
        let length = u16::try_from(length).unwrap_or(0).to_be_bytes();
        let mut bytes = [0; 19];
        bytes[..9].copy_from_slice(&[
            0,
            0,
            1,
            stream_id,
            length[0],
            length[1],
            0x84, // '10', data_alignment_indicator
            if dts.is_some() { 0xC0 } else { 0x80 },
            optional,
        ]);
        bytes[9..14].copy_from_slice(&stamp(if dts.is_some() { 3 } else { 2 }, pts));
        if let Some(dts) = dts {
            bytes[14..19].copy_from_slice(&stamp(1, dts));
        }
        Self {
            bytes,
            len: 9 + usize::from(optional),
        }
    }
}

/// One stamp in its five-byte form with marker bits set.
fn stamp(prefix: u8, ticks: u64) -> [u8; 5] {
    let ticks = ticks & STAMP_MASK;
    [
        (prefix << 4) | ((ticks >> 29) as u8 & 0x0E) | 1,
        (ticks >> 22) as u8,
        ((ticks >> 14) as u8 & 0xFE) | 1,
        (ticks >> 7) as u8,
        ((ticks << 1) as u8 & 0xFE) | 1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_carry_33_bits_and_markers() {
        assert_eq!(stamp(2, STAMP_MASK), [0x2F, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(stamp(3, 0), [0x31, 0x00, 0x01, 0x00, 0x01]);
        assert_eq!(stamp(1, 90_000), [0x11, 0x00, 0x05, 0xBF, 0x21]);
    }

    #[test]
    fn equal_stamps_are_written_once() {
        assert_eq!(PesHeader::video(10, 10, 4).as_slice().len(), 14);
        assert_eq!(PesHeader::video(20, 10, 4).as_slice().len(), 19);
    }

    #[test]
    fn the_length_is_exact_until_it_no_longer_fits() {
        let length = |header: PesHeader| u16::from_be_bytes([header.as_slice()[4], header.as_slice()[5]]);
        assert_eq!(length(PesHeader::audio(1, 100)), 108);
        assert_eq!(length(PesHeader::video(2, 1, 65_522)), 65_535);
        assert_eq!(length(PesHeader::video(2, 1, 65_523)), 0);
    }
}
