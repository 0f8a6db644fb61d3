//! Bounds that keep the process standing whatever peers do.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::units::{BitRate, ByteSize, Period, UnitError};

/// The longest message RTMP can carry: its length field has 24 bits (RTMP 1.0 §5.3.1.2.1).
pub const MAX_MESSAGE_BYTES: u32 = (1 << 24) - 1;

/// Section `[limits]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Most connections at a time, over the RTMP and HTTP listeners together; further ones are closed at once.
    pub max_connections: u32,
    /// Most connections at a time from one IP address, an IPv6 address counting with its /64 network; further ones are
    /// closed at once. The address is the one that `proxies.trusted` name, if they name one. 0 sets no limit.
    pub max_connections_per_ip: u32,
    /// Most streams at a time; further publishers are refused.
    pub max_streams: u32,
    /// Most streams at a time published from one IP address, an IPv6 address counting with its /64 network; further ones
    /// are refused. 0 sets no limit.
    pub max_streams_per_ip: u32,
    /// A publisher that sends more than this, on average over several seconds, is disconnected. 0bit/s sets no limit.
    pub publish_bitrate: BitRate,
    /// Most viewers over RTMP, HTTP-FLV and WebSocket-FLV together, of all streams; further ones are refused. 0 sets no
    /// limit.
    pub max_viewers: u32,
    /// Most viewers of one stream over RTMP, HTTP-FLV and WebSocket-FLV together; further ones are refused. 0 sets no limit.
    pub max_viewers_per_stream: u32,
    /// Bytes of media in memory, over all streams, beyond which new publishers and viewers are refused while those there
    /// are play on: `"auto"` is half of the memory this process may use (its cgroup limit, else the machine's).
    pub memory: Memory,
    /// How long a new connection may take for a PROXY header and the handshake of TLS, for the handshake of RTMP and to say
    /// what it wants, and for the head of an HTTP request.
    pub handshake_timeout: Period,
    /// The largest RTMP message that is accepted; a peer that announces a larger one is disconnected. RTMP itself ends one
    /// byte below 16 MiB.
    pub max_message: ByteSize,
    /// Most RTMP chunk streams of one connection; each costs about 100 bytes and a partly received message.
    pub chunk_streams: u32,
    /// Most bytes of RTMP messages that one connection has begun and not completed. At least `max_message`.
    pub partial_messages: ByteSize,
    /// The largest head of an HTTP request, request line included; a larger one is answered with 431.
    pub http_header: ByteSize,
}

impl Limits {
    /// [`Self::max_message`] in bytes, within what RTMP can carry.
    pub fn max_message_bytes(&self) -> u32 {
        u32::try_from(self.max_message.get())
            .unwrap_or(u32::MAX)
            .min(MAX_MESSAGE_BYTES)
    }
}

/// `limits.memory`: how much media may be in memory before new publishers and viewers are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Memory {
    /// Half of the memory that this process may use.
    Auto,
    /// This much.
    Size(ByteSize),
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Size(size) => size.fmt(f),
        }
    }
}

impl FromStr for Memory {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "auto" {
            Ok(Self::Auto)
        } else {
            text.parse().map(Self::Size)
        }
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MemoryVisitor;
        impl de::Visitor<'_> for MemoryVisitor {
            type Value = Memory;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a size with its unit, such as \"512MiB\" or \"4GiB\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Memory, E> {
                text.parse()
                    .map_err(|error| E::custom(format!("{error}, or \"auto\"")))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Memory, E> {
                Err(E::custom(format!(
                    "the number {number} has no unit: write it as \"{number}MiB\", or \"auto\""
                )))
            }
        }
        deserializer.deserialize_any(MemoryVisitor)
    }
}

impl JsonSchema for Memory {
    fn schema_name() -> Cow<'static, str> {
        "Memory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^(auto|\s*[0-9_]+(\.[0-9_]+)?\s*(B|kB|KiB|MB|MiB|GB|GiB)\s*)$",
            "examples": ["auto", "512MiB", "4GiB"]
        })
    }
}
