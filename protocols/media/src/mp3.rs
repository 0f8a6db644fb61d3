//! MPEG audio frame headers (ISO/IEC 11172-3 §2.4.1.3, 13818-3 §2.4.2.3).

use crate::error::MediaError;

/// Bytes of a frame header.
pub const HEADER_LEN: usize = 4;

/// The header of one MPEG audio frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Samples a second.
    pub sample_rate: u32,
    /// 1 or 2.
    pub channels: u8,
    /// Samples per channel that the frame decodes to.
    pub samples_per_frame: u32,
    /// Bits a second.
    pub bitrate_bps: u32,
    /// Bytes of the whole frame, header included.
    pub frame_bytes: usize,
    /// MPEG-1 (true) or MPEG-2 / 2.5 low rates; decides the TS stream type (3 or 4).
    pub mpeg1: bool,
    /// Layer 1, 2 or 3.
    pub layer: u8,
}

const LAYER1_V1_KBPS: [u32; 15] = [
    0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448,
];
const LAYER2_V1_KBPS: [u32; 15] = [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
const LAYER3_V1_KBPS: [u32; 15] = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const LAYER1_V2_KBPS: [u32; 15] = [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256];
const LAYER23_V2_KBPS: [u32; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
const MPEG1_RATES: [u32; 3] = [44_100, 48_000, 32_000];

impl FrameHeader {
    /// Reads the header at the start of `data`; the frame itself need not be there.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] under four bytes; [`MediaError::Invalid`] without the sync word,
    /// for reserved values and for the free format (bit rate index 0), whose frame length the
    /// header does not tell.
    pub fn parse(data: &[u8]) -> Result<Self, MediaError> {
        let Some(head) = data.first_chunk::<HEADER_LEN>() else {
            return Err(MediaError::Truncated {
                what: "MPEG audio header",
                need: HEADER_LEN,
                have: data.len(),
            });
        };
        let word = u32::from_be_bytes(*head);
        let invalid = |what, value: u32| MediaError::Invalid {
            what,
            value: u64::from(value),
        };
        if word >> 21 != 0x7FF {
            return Err(invalid("MPEG audio sync word", word >> 21));
        }
        let rate_shift = match word >> 19 & 3 {
            3 => 0,
            2 => 1,
            0 => 2,
            version => return Err(invalid("MPEG audio version", version)),
        };
        let mpeg1 = rate_shift == 0;
        let layer = match word >> 17 & 3 {
            3 => 1,
            2 => 2,
            1 => 3,
            code => return Err(invalid("MPEG audio layer", code)),
        };
        let table = match (mpeg1, layer) {
            (true, 1) => &LAYER1_V1_KBPS,
            (true, 2) => &LAYER2_V1_KBPS,
            (true, _) => &LAYER3_V1_KBPS,
            (false, 1) => &LAYER1_V2_KBPS,
            (false, _) => &LAYER23_V2_KBPS,
        };
        let index = word >> 12 & 15;
        let kbps = table.get(index as usize).copied().filter(|kbps| *kbps > 0);
        let bitrate_bps = kbps.ok_or(invalid("MPEG audio bit rate index", index))? * 1000;
        let index = word >> 10 & 3;
        let rate = MPEG1_RATES
            .get(index as usize)
            .ok_or(invalid("MPEG audio rate index", index))?;
        let sample_rate = rate >> rate_shift;
        let padding = word >> 9 & 1;
        let (samples_per_frame, frame_bytes) = match (layer, mpeg1) {
            (1, _) => (384, (12 * bitrate_bps / sample_rate + padding) * 4),
            (3, false) => (576, 72 * bitrate_bps / sample_rate + padding),
            _ => (1152, 144 * bitrate_bps / sample_rate + padding),
        };
        let channels = if word >> 6 & 3 == 3 { 1 } else { 2 };
        let frame_bytes = frame_bytes as usize;
        Ok(Self {
            sample_rate,
            channels,
            samples_per_frame,
            bitrate_bps,
            frame_bytes,
            mpeg1,
            layer,
        })
    }

    /// Whether a decoder treats frames of both headers as one track: all but bit rate and size.
    pub fn same_format(&self, other: &Self) -> bool {
        self.sample_rate == other.sample_rate
            && self.channels == other.channels
            && self.samples_per_frame == other.samples_per_frame
            && self.mpeg1 == other.mpeg1
            && self.layer == other.layer
    }
}

/// The frames of a message that holds whole MPEG audio frames back to back. Ends at the first
/// byte that is no frame; a last frame cut short is not returned.
pub fn frames(data: &[u8]) -> impl Iterator<Item = (FrameHeader, &[u8])> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let header = FrameHeader::parse(rest).ok()?;
        let (frame, after) = rest.split_at_checked(header.frame_bytes)?;
        rest = after;
        Some((header, frame))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lame_mono_44100() {
        // ffmpeg 5.1 -c:a libmp3lame, first and second frame: 208 bytes, then 209 with padding.
        let first = FrameHeader::parse(&[0xFF, 0xFB, 0x50, 0xC4]).unwrap();
        assert_eq!(
            first,
            FrameHeader {
                sample_rate: 44_100,
                channels: 1,
                samples_per_frame: 1152,
                bitrate_bps: 64_000,
                frame_bytes: 208,
                mpeg1: true,
                layer: 3,
            }
        );
        let second = FrameHeader::parse(&[0xFF, 0xFB, 0x52, 0xC4]).unwrap();
        assert_eq!(second.frame_bytes, 209);
        assert!(first.same_format(&second));
    }

    #[test]
    fn low_rates_and_other_layers() {
        let mpeg2 = FrameHeader::parse(&[0xFF, 0xF3, 0x40, 0xC4]).unwrap();
        assert_eq!(
            (mpeg2.sample_rate, mpeg2.samples_per_frame, mpeg2.mpeg1),
            (22_050, 576, false)
        );
        assert_eq!(mpeg2.frame_bytes, 72 * 32_000 / 22_050);
        let mpeg25 = FrameHeader::parse(&[0xFF, 0xE3, 0x18, 0x00]).unwrap();
        assert_eq!((mpeg25.sample_rate, mpeg25.channels), (8_000, 2));
        let layer2 = FrameHeader::parse(&[0xFF, 0xFD, 0xA4, 0x00]).unwrap();
        assert_eq!(
            (layer2.sample_rate, layer2.bitrate_bps, layer2.frame_bytes),
            (48_000, 192_000, 576)
        );
        let layer1 = FrameHeader::parse(&[0xFF, 0xFF, 0xC4, 0x00]).unwrap();
        assert_eq!((layer1.samples_per_frame, layer1.frame_bytes), (384, 384));
    }

    #[test]
    fn reserved_values_are_refused() {
        for head in [
            [0xFF, 0xFB, 0x00, 0x00],
            [0xFF, 0xFB, 0xF0, 0x00],
            [0xFF, 0xFB, 0x5C, 0x00],
            [0xFF, 0xEB, 0x50, 0x00],
            [0xFF, 0xF9, 0x50, 0x00],
            [0x49, 0x44, 0x33, 0x04],
        ] {
            assert!(
                matches!(FrameHeader::parse(&head), Err(MediaError::Invalid { .. })),
                "{head:x?}"
            );
        }
        assert!(matches!(
            FrameHeader::parse(&[0xFF, 0xFB]),
            Err(MediaError::Truncated { .. })
        ));
    }

    #[test]
    fn several_frames_in_one_message() {
        let mut data = vec![0; 208 + 209 + 3];
        data[..4].copy_from_slice(&[0xFF, 0xFB, 0x50, 0xC4]);
        data[208..212].copy_from_slice(&[0xFF, 0xFB, 0x52, 0xC4]);
        let sizes: Vec<_> = frames(&data).map(|(_, frame)| frame.len()).collect();
        assert_eq!(sizes, [208, 209]);
    }

    proptest! {
        #[test]
        fn never_panics_and_always_moves(data: Vec<u8>, head: u32) {
            let _ = FrameHeader::parse(&data);
            if let Ok(header) = FrameHeader::parse(&head.to_be_bytes()) {
                prop_assert!(header.frame_bytes >= HEADER_LEN && header.sample_rate > 0);
            }
            prop_assert!(frames(&data).count() <= data.len());
        }
    }
}
