//! One coded frame.

use bytes::Bytes;

/// Which of a stream's two tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
}

impl TrackKind {
    /// The name used in metric labels and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }
}

/// One coded frame on the stream's own timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The track it belongs to.
    pub kind: TrackKind,
    /// Decoding time in milliseconds.
    pub dts_ms: i64,
    /// Composition time in milliseconds: display time minus decoding time. May be negative
    /// (interop case 80). Zero for audio.
    pub cts_ms: i32,
    /// Whether decoding can start here, as the container says (always true for audio).
    pub key: bool,
    /// The codec's own payload: length-prefixed NAL units, one raw AAC frame, or MP3 frames.
    pub data: Bytes,
}

impl Sample {
    /// Display time in milliseconds.
    pub fn pts_ms(&self) -> i64 {
        self.dts_ms.saturating_add(i64::from(self.cts_ms))
    }
}
