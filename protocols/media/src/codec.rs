//! The codecs FLV and Enhanced RTMP can name.

pub use crate::config::CodecConfig;
pub use crate::geometry::Geometry;

/// A codec of legacy FLV (Annex E of the FLV specification 10.1) or Enhanced RTMP v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// H.264 / AVC.
    Avc,
    /// H.265 / HEVC.
    Hevc,
    /// H.266 / VVC.
    Vvc,
    /// AV1.
    Av1,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
    /// Sorenson H.263 (FLV codec id 2).
    Sorenson,
    /// Screen video (FLV codec id 3).
    ScreenVideo,
    /// On2 VP6 (FLV codec id 4).
    Vp6,
    /// On2 VP6 with alpha channel (FLV codec id 5).
    Vp6Alpha,
    /// Screen video version 2 (FLV codec id 6).
    ScreenVideo2,
    /// AAC, any object type.
    Aac,
    /// MPEG audio layer III.
    Mp3,
    /// Opus.
    Opus,
    /// FLAC.
    Flac,
    /// AC-3.
    Ac3,
    /// Enhanced AC-3.
    Eac3,
    /// G.711 A-law.
    G711A,
    /// G.711 µ-law.
    G711U,
    /// Linear PCM (FLV sound formats 0 and 3).
    Pcm,
    /// ADPCM (FLV sound format 1).
    Adpcm,
    /// Nellymoser (FLV sound formats 4 to 6).
    Nellymoser,
    /// Speex.
    Speex,
}

impl Codec {
    /// The name used in metric labels and the API. Lower case, stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avc => "h264",
            Self::Hevc => "hevc",
            Self::Vvc => "vvc",
            Self::Av1 => "av1",
            Self::Vp8 => "vp8",
            Self::Vp9 => "vp9",
            Self::Sorenson => "sorenson",
            Self::ScreenVideo => "screenvideo",
            Self::Vp6 => "vp6",
            Self::Vp6Alpha => "vp6alpha",
            Self::ScreenVideo2 => "screenvideo2",
            Self::Aac => "aac",
            Self::Mp3 => "mp3",
            Self::Opus => "opus",
            Self::Flac => "flac",
            Self::Ac3 => "ac3",
            Self::Eac3 => "eac3",
            Self::G711A => "g711a",
            Self::G711U => "g711u",
            Self::Pcm => "pcm",
            Self::Adpcm => "adpcm",
            Self::Nellymoser => "nellymoser",
            Self::Speex => "speex",
        }
    }

    /// Whether this codec carries pictures.
    pub const fn is_video(self) -> bool {
        matches!(
            self,
            Self::Avc
                | Self::Hevc
                | Self::Vvc
                | Self::Av1
                | Self::Vp8
                | Self::Vp9
                | Self::Sorenson
                | Self::ScreenVideo
                | Self::Vp6
                | Self::Vp6Alpha
                | Self::ScreenVideo2
        )
    }

    /// The Enhanced RTMP v2 FourCC, `None` for codecs that only legacy FLV can name.
    pub const fn fourcc(self) -> Option<[u8; 4]> {
        Some(match self {
            Self::Avc => *b"avc1",
            Self::Hevc => *b"hvc1",
            Self::Vvc => *b"vvc1",
            Self::Av1 => *b"av01",
            Self::Vp8 => *b"vp08",
            Self::Vp9 => *b"vp09",
            Self::Aac => *b"mp4a",
            Self::Mp3 => *b".mp3",
            Self::Opus => *b"Opus",
            Self::Flac => *b"fLaC",
            Self::Ac3 => *b"ac-3",
            Self::Eac3 => *b"ec-3",
            _ => return None,
        })
    }

    /// The video codec an Enhanced RTMP FourCC names.
    pub const fn from_video_fourcc(fourcc: [u8; 4]) -> Option<Self> {
        Some(match &fourcc {
            b"avc1" => Self::Avc,
            b"hvc1" => Self::Hevc,
            b"vvc1" => Self::Vvc,
            b"av01" => Self::Av1,
            b"vp08" => Self::Vp8,
            b"vp09" => Self::Vp9,
            _ => return None,
        })
    }

    /// The audio codec an Enhanced RTMP FourCC names.
    pub const fn from_audio_fourcc(fourcc: [u8; 4]) -> Option<Self> {
        Some(match &fourcc {
            b"mp4a" => Self::Aac,
            b".mp3" => Self::Mp3,
            b"Opus" => Self::Opus,
            b"fLaC" => Self::Flac,
            b"ac-3" => Self::Ac3,
            b"ec-3" => Self::Eac3,
            _ => return None,
        })
    }

    /// Whether an enhanced `CodedFrames` body of this codec begins with a composition time
    /// (E-RTMP v2, video body).
    pub const fn has_composition_time(self) -> bool {
        matches!(self, Self::Avc | Self::Hevc | Self::Vvc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Codec; 23] = [
        Codec::Avc,
        Codec::Hevc,
        Codec::Vvc,
        Codec::Av1,
        Codec::Vp8,
        Codec::Vp9,
        Codec::Sorenson,
        Codec::ScreenVideo,
        Codec::Vp6,
        Codec::Vp6Alpha,
        Codec::ScreenVideo2,
        Codec::Aac,
        Codec::Mp3,
        Codec::Opus,
        Codec::Flac,
        Codec::Ac3,
        Codec::Eac3,
        Codec::G711A,
        Codec::G711U,
        Codec::Pcm,
        Codec::Adpcm,
        Codec::Nellymoser,
        Codec::Speex,
    ];

    #[test]
    fn every_fourcc_leads_back_to_its_codec() {
        for codec in ALL {
            let Some(fourcc) = codec.fourcc() else { continue };
            let (video, audio) = (Codec::from_video_fourcc(fourcc), Codec::from_audio_fourcc(fourcc));
            if codec.is_video() {
                assert_eq!((video, audio), (Some(codec), None));
            } else {
                assert_eq!((video, audio), (None, Some(codec)));
            }
        }
        assert_eq!(Codec::from_video_fourcc(*b"AVC1"), None);
    }

    #[test]
    fn names_are_distinct_labels() {
        let mut names: Vec<_> = ALL.iter().map(|codec| codec.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
        );
    }
}
