//! Bounds that keep the process standing whatever peers do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{ByteSize, Period};

/// The longest message RTMP can carry: its length field has 24 bits (RTMP 1.0 §5.3.1.2.1).
pub const MAX_MESSAGE_BYTES: u32 = (1 << 24) - 1;

/// Section `[limits]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Most connections at a time, over the RTMP and HTTP listeners together; further ones are closed at once.
    pub max_connections: u32,
    /// Most streams at a time; further publishers are refused.
    pub max_streams: u32,
    /// Most viewers of one stream over RTMP, HTTP-FLV and WebSocket-FLV together; further ones are refused. 0 sets no limit.
    pub max_viewers_per_stream: u32,
    /// How long a new connection may take for its handshake, and then to say what it wants, or for the head of an HTTP
    /// request.
    pub handshake_timeout: Period,
    /// The largest RTMP message that is accepted; a peer that announces a larger one is disconnected. RTMP itself ends one
    /// byte below 16 MiB.
    pub max_message: ByteSize,
    /// Most RTMP chunk streams of one connection; each costs about 100 bytes and a partly received message.
    pub chunk_streams: u32,
}

impl Limits {
    /// [`Self::max_message`] in bytes, within what RTMP can carry.
    pub fn max_message_bytes(&self) -> u32 {
        u32::try_from(self.max_message.get())
            .unwrap_or(u32::MAX)
            .min(MAX_MESSAGE_BYTES)
    }
}
