//! The ring of frames of each stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{ByteSize, Period};

/// Section `[ring]`. The first bound that is reached holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ring {
    /// Most bytes of media one stream keeps for viewers who join or lag. Bounds the memory of a stream, whatever its
    /// number of viewers.
    pub max_bytes: ByteSize,
    /// Longest time of media one stream keeps. A new viewer starts at the newest key frame, so this should hold more than one
    /// key frame interval.
    pub max_duration: Period,
    /// Most messages (frames) one stream keeps; a power of two. A slot costs 16 bytes.
    pub slots: u32,
}
