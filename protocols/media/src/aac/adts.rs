//! Audio Data Transport Stream headers (ISO/IEC 14496-3 §1.A.3).

use bytes::Bytes;

use super::AacConfig;
use crate::error::MediaError;

/// Bytes of a header without CRC.
pub const ADTS_HEADER_LEN: usize = 7;
/// Bytes of a header with CRC.
const ADTS_CRC_HEADER_LEN: usize = 9;
/// Most a 13-bit frame length can say.
const MAX_FRAME_LEN: usize = 0x1FFF;

/// Writes a header; the caller has checked that the values fit ADTS.
pub(super) fn header(
    object_type: u8,
    sampling_index: u8,
    channel_config: u8,
    payload_len: usize,
) -> Option<[u8; ADTS_HEADER_LEN]> {
    let length = payload_len
        .checked_add(ADTS_HEADER_LEN)
        .filter(|length| *length <= MAX_FRAME_LEN)?;
    let length = length as u16;
    Some([
        0xFF,
        // MPEG-4, layer 0, no CRC.
        0xF1,
        (object_type - 1) << 6 | sampling_index << 2 | channel_config >> 2,
        (channel_config & 3) << 6 | (length >> 11) as u8,
        (length >> 3) as u8,
        // Buffer fullness 0x7FF: variable rate. One raw data block.
        (length as u8 & 7) << 5 | 0x1F,
        0xFC,
    ])
}

/// One ADTS header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdtsHeader {
    /// The config the header stands for.
    pub config: AacConfig,
    /// Bytes of the header: 7, or 9 with CRC.
    pub header_bytes: usize,
    /// Bytes of the whole frame, header included.
    pub frame_bytes: usize,
    /// `number_of_raw_data_blocks_in_frame` + 1.
    pub raw_data_blocks: u8,
}

impl AdtsHeader {
    /// Reads the header at the start of `data`.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] under seven bytes; [`MediaError::Invalid`] without the sync word,
    /// for a layer other than 0, a reserved rate or a frame shorter than its header.
    pub fn parse(data: &[u8]) -> Result<Self, MediaError> {
        let Some(head) = data.first_chunk::<ADTS_HEADER_LEN>() else {
            return Err(MediaError::Truncated {
                what: "ADTS header",
                need: ADTS_HEADER_LEN,
                have: data.len(),
            });
        };
        let [sync, version, b2, b3, b4, b5, b6] = *head;
        if sync != 0xFF || version & 0xF6 != 0xF0 {
            let value = u64::from(sync) << 8 | u64::from(version);
            return Err(MediaError::Invalid {
                what: "ADTS sync word",
                value,
            });
        }
        let header_bytes = if version & 1 == 1 {
            ADTS_HEADER_LEN
        } else {
            ADTS_CRC_HEADER_LEN
        };
        let frame_bytes = usize::from(b3 & 3) << 11 | usize::from(b4) << 3 | usize::from(b5) >> 5;
        if frame_bytes <= header_bytes {
            return Err(MediaError::Invalid {
                what: "ADTS frame length",
                value: frame_bytes as u64,
            });
        }
        let index = b2 >> 2 & 15;
        if index > 12 {
            return Err(MediaError::Invalid {
                what: "ADTS sampling index",
                value: u64::from(index),
            });
        }
        let config = AacConfig::from_parts((b2 >> 6) + 1, index, (b2 & 1) << 2 | b3 >> 6)?;
        Ok(Self {
            config,
            header_bytes,
            frame_bytes,
            raw_data_blocks: (b6 & 3) + 1,
        })
    }
}

/// What was inside an ADTS message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrippedAdts {
    /// The config of the first header; serves as sequence header where none was sent.
    pub config: AacConfig,
    /// The raw frames, slices of the message.
    pub frames: Vec<Bytes>,
}

/// Takes the ADTS headers off a message body that should have held one raw frame (interop cases
/// 103, 106). `None` when it is not ADTS: raw AAC may begin with the same bits, so the frame
/// lengths must add up to the whole body and the configs agree. Frames of several raw data blocks
/// cannot be taken apart and give `None` too.
pub fn strip_adts(body: &Bytes) -> Option<StrippedAdts> {
    let mut config: Option<AacConfig> = None;
    let mut frames = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let header = AdtsHeader::parse(body.get(at..)?).ok()?;
        let end = at
            .checked_add(header.frame_bytes)
            .filter(|end| *end <= body.len())?;
        if header.raw_data_blocks != 1 || config.as_ref().is_some_and(|config| *config != header.config) {
            return None;
        }
        frames.push(body.slice(at + header.header_bytes..end));
        config.get_or_insert(header.config);
        at = end;
    }
    config.map(|config| StrippedAdts { config, frames })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_of_ffmpeg_is_read() {
        // ffmpeg 5.1 -ac 2 -c:a aac -f adts, first frame.
        let header = AdtsHeader::parse(&[0xFF, 0xF1, 0x50, 0x80, 0x03, 0xDF, 0xFC]).unwrap();
        assert_eq!(
            (header.header_bytes, header.frame_bytes, header.raw_data_blocks),
            (7, 30, 1)
        );
        assert_eq!((header.config.sample_rate, header.config.channels), (44_100, 2));
    }

    #[test]
    fn headers_round_trip() {
        let config = AacConfig::parse(&[0x11, 0xB0]).unwrap();
        let written = config.adts_header(8184).unwrap();
        let read = AdtsHeader::parse(&written).unwrap();
        assert_eq!((read.frame_bytes, read.config), (8191, config.clone()));
        assert_eq!(config.adts_header(8185), None);
        assert_eq!(config.adts_header(usize::MAX), None);
    }

    fn framed(payloads: &[&[u8]], crc: bool) -> Bytes {
        let config = AacConfig::parse(&[0x12, 0x10]).unwrap();
        let mut body = Vec::new();
        for payload in payloads {
            let mut header = config
                .adts_header(payload.len() + if crc { 2 } else { 0 })
                .unwrap();
            if crc {
                header[1] &= 0xFE;
            }
            body.extend_from_slice(&header);
            if crc {
                body.extend_from_slice(&[0xAB, 0xCD]);
            }
            body.extend_from_slice(payload);
        }
        Bytes::from(body)
    }

    #[test]
    fn whole_messages_are_stripped() {
        for crc in [false, true] {
            let stripped = strip_adts(&framed(&[&[1, 2, 3], &[4]], crc)).unwrap();
            assert_eq!(stripped.frames, [&[1u8, 2, 3][..], &[4]]);
            assert_eq!(&stripped.config.raw[..], [0x12, 0x10]);
        }
    }

    #[test]
    fn raw_frames_that_begin_like_adts_are_left_alone() {
        let body = framed(&[&[1, 2, 3], &[4]], false);
        assert_eq!(strip_adts(&body.slice(..body.len() - 1)), None);
        assert_eq!(strip_adts(&Bytes::from([&body[..], &[0]].concat())), None);
        assert_eq!(strip_adts(&Bytes::from_static(&[0xFF, 0xF1])), None);
        assert_eq!(strip_adts(&Bytes::new()), None);
    }

    #[test]
    fn blocks_that_cannot_be_taken_apart_are_left_alone() {
        let mut body = framed(&[&[1, 2, 3]], false).to_vec();
        body[6] |= 1;
        assert_eq!(strip_adts(&body.into()), None);
    }

    proptest! {
        #[test]
        fn never_panics(mut data: Vec<u8>) {
            drop(strip_adts(&Bytes::from(data.clone())));
            if data.len() > 1 {
                (data[0], data[1]) = (0xFF, 0xF0 | data[1] & 1);
                drop(strip_adts(&Bytes::from(data)));
            }
        }
    }
}
