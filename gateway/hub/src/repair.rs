//! What some encoders send in place of standard FLV, put right before anyone sees it: H.264 as Annex B or
//! with short lengths, parameter sets only in band, AAC with ADTS headers.

use bytes::Bytes;
use spillway_flv::sample;
use spillway_flv::tag::HEAD_LEN;
use spillway_flv::video::VideoHeader;
use spillway_media::aac;
use spillway_media::codec::CodecConfig;
use spillway_media::h264::{self, AvcConfig, NAL_PPS, NAL_SPS};
use spillway_media::nal;

/// A message in standard form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repaired {
    /// The message, behind its room for the tag's head.
    pub(crate) buf: Vec<u8>,
    /// The body of a sequence header that must come before it: the stream has new parameter sets.
    pub(crate) header: Option<Vec<u8>>,
}

/// Puts a legacy H.264 frame right, whose publisher writes lengths of `length_size` bytes; `config` is what
/// viewers know, with lengths of 4. A frame that is neither length-prefixed nor Annex B stays as it is.
pub(crate) fn h264_frame(
    config: Option<&CodecConfig>,
    length_size: u8,
    header: &VideoHeader,
    buf: Vec<u8>,
) -> Repaired {
    let known = match config {
        Some(CodecConfig::Avc(avc)) => Some(avc),
        _ => None,
    };
    let start = HEAD_LEN + header.data_at;
    let data = buf.get(start..).unwrap_or_default();
    let standard = length_size == 4 && !sample::is_annex_b(data, length_size);
    let rewritten = if standard {
        None
    } else {
        sample::access_unit(&Bytes::copy_from_slice(data), length_size).ok()
    };
    let data = rewritten.as_deref().unwrap_or(data);
    let header = header.key.then(|| in_band(known, data)).flatten();
    let buf = match rewritten.as_deref() {
        Some(data) => [buf.get(..start).unwrap_or_default(), data].concat(),
        None => buf,
    };
    Repaired { buf, header }
}

/// The sequence header for parameter sets that a key frame (with 4-byte lengths) brings itself, when they
/// are news.
fn in_band(known: Option<&AvcConfig>, data: &[u8]) -> Option<Vec<u8>> {
    let config = match known {
        Some(avc) => avc.with_in_band(data)?,
        None => {
            let sets = |kind| {
                nal::length_prefixed(data, 4)
                    .map_while(Result::ok)
                    .filter(|unit| unit.first().is_some_and(|byte| h264::nal_type(*byte) == kind))
                    .map(Bytes::copy_from_slice)
                    .collect()
            };
            AvcConfig::from_parameter_sets(sets(NAL_SPS), sets(NAL_PPS)).ok()?
        }
    };
    sample::legacy_sequence_header(&CodecConfig::Avc(config))
}

/// The sequence header with 4-byte lengths in place of one with shorter ones.
pub(crate) fn h264_header(config: &CodecConfig) -> Option<Vec<u8>> {
    match config {
        CodecConfig::Avc(avc) if avc.nal_length_size != 4 => sample::legacy_sequence_header(config),
        _ => None,
    }
}

/// Takes ADTS headers off a legacy AAC frame and makes the sequence header they stand for, when the stream
/// has none or another.
pub(crate) fn aac_frame(config: Option<&CodecConfig>, data_at: usize, buf: Vec<u8>) -> Repaired {
    let start = HEAD_LEN + data_at;
    let looks_like_adts = matches!(buf.get(start..start + 2), Some([0xFF, second]) if second & 0xF6 == 0xF0);
    if !looks_like_adts {
        return Repaired { buf, header: None };
    }
    let data = Bytes::copy_from_slice(buf.get(start..).unwrap_or_default());
    let Some(stripped) = aac::strip_adts(&data) else {
        return Repaired { buf, header: None };
    };
    // Raw AAC is one frame a message; several ADTS frames in one would need times of their own.
    let Some(frame) = stripped.frames.first().filter(|_| stripped.frames.len() == 1) else {
        return Repaired { buf, header: None };
    };
    let known = matches!(config, Some(CodecConfig::Aac(_)));
    let header = (!known).then(|| sample::legacy_sequence_header(&CodecConfig::Aac(stripped.config.clone())));
    Repaired {
        buf: [buf.get(..start).unwrap_or_default(), frame].concat(),
        header: header.flatten(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPS: &[u8] = &[0x67, 0x42, 0xC0, 0x1E, 0xD9];
    const PPS: &[u8] = &[0x68, 0xCE, 0x3C];
    const IDR: &[u8] = &[0x65, 0x88, 0x84];

    fn message(data: &[u8]) -> (VideoHeader, Vec<u8>) {
        let body = [&[0x17, 1, 0, 0, 0], data].concat();
        (
            VideoHeader::parse(&body).unwrap(),
            [&[0; HEAD_LEN], &body[..]].concat(),
        )
    }

    fn prefixed(units: &[&[u8]], size: usize) -> Vec<u8> {
        units
            .iter()
            .flat_map(|u| [&u32::try_from(u.len()).unwrap().to_be_bytes()[4 - size..], u].concat())
            .collect()
    }

    fn config() -> CodecConfig {
        CodecConfig::Avc(
            AvcConfig::from_parameter_sets(vec![Bytes::from_static(SPS)], vec![Bytes::from_static(PPS)])
                .unwrap(),
        )
    }

    #[test]
    fn a_standard_frame_is_not_touched() {
        let (header, buf) = message(&prefixed(&[IDR], 4));
        let pointer = buf.as_ptr();
        let repaired = h264_frame(Some(&config()), 4, &header, buf);
        assert_eq!((repaired.buf.as_ptr(), repaired.header), (pointer, None));
    }

    #[test]
    fn annex_b_becomes_length_prefixed_and_its_parameter_sets_a_header() {
        let start = [0, 0, 0, 1];
        let (header, buf) = message(&[&start, SPS, &start, PPS, &start, IDR].concat());
        let repaired = h264_frame(None, 4, &header, buf);
        assert_eq!(repaired.buf[HEAD_LEN + 5..], prefixed(&[SPS, PPS, IDR], 4));
        let made = sample::config_of_video(&repaired.header.unwrap()).unwrap();
        assert_eq!(made.codec_string(), config().codec_string());
    }

    #[test]
    fn short_lengths_become_long_ones() {
        let (header, buf) = message(&prefixed(&[IDR], 2));
        let repaired = h264_frame(Some(&config()), 2, &header, buf);
        assert_eq!(repaired.buf[HEAD_LEN + 5..], prefixed(&[IDR], 4));
    }

    #[test]
    fn other_parameter_sets_in_band_make_a_new_header_and_the_same_do_not() {
        let (header, buf) = message(&prefixed(&[SPS, PPS, IDR], 4));
        assert_eq!(h264_frame(Some(&config()), 4, &header, buf).header, None);
        let (header, buf) = message(&prefixed(&[SPS, &[0x68, 0xCE, 0x3D], IDR], 4));
        assert!(h264_frame(Some(&config()), 4, &header, buf).header.is_some());
    }

    #[test]
    fn adts_is_taken_off_and_makes_the_missing_header() {
        let adts = [0xFF, 0xF1, 0x50, 0x80, 0x01, 0x3F, 0xFC, 0x21, 0x10];
        let buf = [&[0; HEAD_LEN], &[0xAF, 1][..], &adts].concat();
        let repaired = aac_frame(None, 2, buf.clone());
        assert_eq!(repaired.buf[HEAD_LEN + 2..], [0x21, 0x10]);
        let made = sample::config_of_audio(&repaired.header.unwrap()).unwrap();
        assert_eq!(made.codec_string().as_deref(), Some("mp4a.40.2"));
        let raw = [&[0; HEAD_LEN], &[0xAF, 1, 0xFF, 0xF1, 0x01][..]].concat();
        assert_eq!(
            aac_frame(None, 2, raw.clone()).buf,
            raw,
            "raw AAC that begins alike"
        );
    }
}
