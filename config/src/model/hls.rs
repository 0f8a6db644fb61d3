//! HTTP Live Streaming.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{ByteSize, Period};

/// Section `[hls]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Hls {
    /// When segments are made: `"on-demand"` from the first request of a stream on, `"always"`, or `"off"`.
    pub mode: HlsMode,
    /// Segments are cut at the first key frame after this time. The encoder's key frame interval should divide it.
    pub segment_duration: Period,
    /// The longest segment: a stream whose key frames are further apart is cut here all the same.
    pub max_segment_duration: Period,
    /// Segments listed in the playlist. As many again stay served after they left it.
    pub window: u32,
    /// With `mode = "on-demand"`: a stream's segments are no longer made this long after the last request.
    pub idle_stop: Period,
    /// The first request is held up to this long until there is a playlist to answer with.
    pub first_wait: Period,
    /// Most bytes of segments kept in memory for one stream; the oldest go first.
    pub max_bytes: ByteSize,
    /// How long playlist and segments stay served after a stream has ended.
    pub end_retain: Period,
}

/// `hls.mode`: when segments are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum HlsMode {
    /// From the first request of a stream on, until `hls.idle_stop` after the last.
    OnDemand,
    /// For every stream, all the time: no first wait, at the price of the work.
    Always,
    /// Never: HLS requests are answered with 404.
    Off,
}
