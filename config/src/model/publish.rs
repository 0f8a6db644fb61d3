//! Streams coming in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Period;

/// Section `[publish]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Publish {
    /// How long a stream keeps its viewers after its publisher left, so that a reconnecting encoder finds them still there.
    pub linger: Period,
    /// A publisher that sends no media for this long is disconnected.
    pub idle_timeout: Period,
    /// A publisher that has sent no media at all this long after its publish was accepted is disconnected.
    pub first_media_timeout: Period,
}
