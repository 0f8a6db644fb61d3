//! What can go wrong while a sample becomes transport stream packets.

use spillway_media::codec::Codec;

/// Why a sample or a track could not be written. The stream goes on without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TsError {
    /// The codec has no stream type in our MPEG-TS output.
    #[error("{} cannot be carried in MPEG-TS: publish H.264 or HEVC with AAC or MP3 to see this track over HLS", .0.name())]
    PeerUnsupportedCodec(Codec),
    /// The codec could be carried, but its sequence header is missing or damaged.
    #[error("{} cannot be carried in MPEG-TS without a valid sequence header: check the encoder's extradata", .0.name())]
    PeerBadConfig(Codec),
    /// The AAC configuration cannot be written as an ADTS header.
    #[error(
        "AAC with an explicit sampling rate or a program config element has no ADTS header: use a standard rate and 1 to 8 channels"
    )]
    PeerAdtsImpossible,
    /// The access unit's NAL units are neither length-prefixed as configured nor Annex B.
    #[error("access unit of {bytes} bytes is damaged: a NAL unit length points past its end")]
    PeerDamagedAccessUnit {
        /// Size of the refused access unit.
        bytes: usize,
    },
    /// An access unit holds more NAL units than any real picture.
    #[error("access unit with more than {limit} NAL units refused")]
    PeerTooManyNalUnits {
        /// The limit, [`MAX_NAL_UNITS`](crate::es::MAX_NAL_UNITS).
        limit: usize,
    },
    /// An audio frame is empty, too long for its framing, or not what its configuration says.
    #[error("audio frame of {bytes} bytes refused: it does not fit the track's framing")]
    PeerDamagedAudioFrame {
        /// Size of the refused frame.
        bytes: usize,
    },
    /// The sample's track has no configuration yet.
    #[error("sample before its track's configuration: send the sequence header first")]
    PeerNoConfig,
}

impl TsError {
    /// Why a configuration that names this codec cannot be used.
    pub(crate) fn of_config(codec: Codec) -> Self {
        match codec {
            Codec::Avc | Codec::Hevc | Codec::Aac | Codec::Mp3 => Self::PeerBadConfig(codec),
            _ => Self::PeerUnsupportedCodec(codec),
        }
    }
}
