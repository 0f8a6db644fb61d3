//! What a sequence header says about a track.

use crate::aac::AacConfig;
use crate::codec::Codec;
use crate::geometry::Geometry;
use crate::h264::AvcConfig;
use crate::hevc::HevcConfig;
use crate::mp3;

/// A track's decoder configuration. Two are equal when a decoder need not be re-initialised
/// between them, so a repeated sequence header compares equal (interop case 83) and a new one
/// does not (cases 84, 107).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CodecConfig {
    /// H.264 with its parameter sets.
    Avc(AvcConfig),
    /// H.265 with its parameter sets.
    Hevc(HevcConfig),
    /// AAC with its AudioSpecificConfig.
    Aac(AacConfig),
    /// MP3, described by its first frame.
    Mp3(mp3::FrameHeader),
    /// A codec that is relayed but not looked into.
    Other(Codec),
}

impl CodecConfig {
    /// The codec.
    pub fn codec(&self) -> Codec {
        match self {
            Self::Avc(_) => Codec::Avc,
            Self::Hevc(_) => Codec::Hevc,
            Self::Aac(_) => Codec::Aac,
            Self::Mp3(_) => Codec::Mp3,
            Self::Other(codec) => *codec,
        }
    }

    /// The RFC 6381 `codecs` string, `None` where this crate does not know one.
    pub fn codec_string(&self) -> Option<String> {
        match self {
            Self::Avc(config) => Some(config.codec_string()),
            Self::Hevc(config) => Some(config.codec_string()),
            Self::Aac(config) => Some(config.codec_string()),
            Self::Mp3(_) => Some("mp4a.40.34".to_owned()),
            Self::Other(codec) => match codec {
                Codec::Opus => Some("opus".to_owned()),
                Codec::Flac => Some("flac".to_owned()),
                Codec::Ac3 => Some("ac-3".to_owned()),
                Codec::Eac3 => Some("ec-3".to_owned()),
                _ => None,
            },
        }
    }

    /// Size and rate of the pictures, `None` for audio or when the parameter set cannot be read.
    pub fn geometry(&self) -> Option<Geometry> {
        match self {
            Self::Avc(config) => config.geometry(),
            Self::Hevc(config) => config.geometry(),
            _ => None,
        }
    }
}

impl PartialEq for CodecConfig {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Avc(a), Self::Avc(b)) => a == b,
            (Self::Hevc(a), Self::Hevc(b)) => a == b,
            (Self::Aac(a), Self::Aac(b)) => a == b,
            // Each MP3 frame has its own header; bit rate and padding may differ from frame to frame.
            (Self::Mp3(a), Self::Mp3(b)) => a.same_format(b),
            (Self::Other(a), Self::Other(b)) => a == b,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mp3(head: [u8; 4]) -> CodecConfig {
        CodecConfig::Mp3(mp3::FrameHeader::parse(&head).unwrap())
    }

    #[test]
    fn a_variable_bit_rate_does_not_change_an_mp3_track() {
        assert_eq!(mp3([0xFF, 0xFB, 0x50, 0xC4]), mp3([0xFF, 0xFB, 0x92, 0xC4]));
        assert_ne!(mp3([0xFF, 0xFB, 0x50, 0xC4]), mp3([0xFF, 0xFB, 0x54, 0xC4]));
    }

    #[test]
    fn other_codecs_compare_by_name_only() {
        assert_eq!(CodecConfig::Other(Codec::Opus), CodecConfig::Other(Codec::Opus));
        assert_ne!(CodecConfig::Other(Codec::Opus), CodecConfig::Other(Codec::Flac));
        assert_eq!(
            CodecConfig::Other(Codec::Opus).codec_string().as_deref(),
            Some("opus")
        );
        assert_eq!(CodecConfig::Other(Codec::Speex).codec_string(), None);
        assert_eq!(CodecConfig::Other(Codec::Speex).geometry(), None);
    }
}
