//! [`Segment`]: finished media with what a playlist says about it.

use std::sync::Arc;

use bytes::Bytes;
use spillway_media::codec::{Codec, CodecConfig, Geometry};

/// One track of a segment as playlists describe it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackInfo {
    /// The codec.
    pub codec: Codec,
    /// Its RFC 6381 string, `None` if unknown.
    pub codec_string: Option<String>,
    /// The pictures' size and rate, `None` for audio or if unknown.
    pub geometry: Option<Geometry>,
}

impl TrackInfo {
    pub(crate) fn of(config: &CodecConfig) -> Self {
        Self {
            codec: config.codec(),
            codec_string: config.codec_string(),
            geometry: config.geometry(),
        }
    }
}

/// The tracks a segment declares.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SegmentTracks {
    /// The video track.
    pub video: Option<TrackInfo>,
    /// The audio track.
    pub audio: Option<TrackInfo>,
}

/// One finished segment.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Its duration in 90 kHz ticks: the next segment's start minus this one's.
    pub duration_ticks_90k: u64,
    /// Whether its times or tracks have no relation to the segment before it.
    pub discontinuity: bool,
    /// Whether it can be decoded without any other segment.
    pub independent: bool,
    /// The wall clock at its start, in Unix milliseconds; advances by media time inside a timeline.
    pub program_date_time_unix_ms: u64,
    /// Its bytes in order, never joined.
    pub parts: Arc<[Bytes]>,
    /// Their sum.
    pub bytes: u64,
    /// What it holds.
    pub tracks: Arc<SegmentTracks>,
}

impl Segment {
    /// The duration in seconds, rounded to the nearest whole one: what `EXT-X-TARGETDURATION` bounds.
    pub fn rounded_s(&self) -> u64 {
        (self.duration_ticks_90k + 45_000) / 90_000
    }

    /// The bit rate over the segment, in bits per second.
    pub fn bits_per_second(&self) -> u64 {
        // Bits × 90 000 stay below 2^64 up to 25 TB.
        self.bytes.saturating_mul(8 * 90_000) / self.duration_ticks_90k.max(1)
    }
}
