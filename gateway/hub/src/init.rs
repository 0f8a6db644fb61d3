//! [`Init`]: what a decoder must be told before the first frame.

use std::sync::Arc;

use spillway_media::codec::{Codec, CodecConfig};

use crate::frame::Frame;

/// One track as it stands: its codec, its parameter sets as far as they are understood, and the sequence
/// header frame that carries them.
#[derive(Debug, Clone)]
pub struct Track {
    /// The codec.
    pub codec: Codec,
    /// The parsed parameter sets; `Other` when this codec is only passed through.
    pub config: Arc<CodecConfig>,
    /// The sequence header, for codecs that have one.
    pub header: Option<Arc<Frame>>,
}

/// The metadata and tracks at one point of a stream. Replaced whole, never changed.
#[derive(Debug, Clone, Default)]
pub struct Init {
    /// The cleaned `onMetaData`.
    pub metadata: Option<Arc<Frame>>,
    /// The video track.
    pub video: Option<Track>,
    /// The audio track.
    pub audio: Option<Track>,
}

impl Init {
    /// The sequence headers, video first.
    pub fn headers(&self) -> impl Iterator<Item = &Arc<Frame>> {
        self.video
            .iter()
            .chain(&self.audio)
            .filter_map(|track| track.header.as_ref())
    }
}
