//! Streams going out.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use crate::units::Period;

/// Section `[play]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Play {
    /// How long a viewer who comes before the publisher is kept waiting before it is told that there is no such stream.
    pub wait: Period,
    /// A viewer that falls this far behind the live edge jumps ahead to the newest key frame.
    pub max_lag: Period,
    /// A viewer that takes no byte for this long, while there are bytes to send, is disconnected.
    pub stall_timeout: Period,
    /// How long frames may be gathered into one write: `"auto"`, `"0ms"` (each frame at once) or a fixed duration.
    /// `"auto"` writes at once while there is processor time to spare and gathers more the busier a stream's fan-out is.
    pub flush: Flush,
    /// The longest time that `flush = "auto"` gathers.
    pub flush_max: Period,
}

/// `play.flush`: how long frames may be gathered into one write to a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flush {
    /// At once while there is processor time to spare, longer under load, up to `play.flush_max`.
    Auto,
    /// This long always; zero writes each frame at once.
    Every(Period),
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Every(period) => period.fmt(f),
        }
    }
}

impl Serialize for Flush {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Flush {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FlushVisitor;
        impl de::Visitor<'_> for FlushVisitor {
            type Value = Flush;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"auto\" or a duration with its unit, such as \"0ms\" or \"100ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Flush, E> {
                if text == "auto" {
                    return Ok(Flush::Auto);
                }
                text.parse()
                    .map(Flush::Every)
                    .map_err(|error| E::custom(format!("{error}, or \"auto\"")))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Flush, E> {
                Err(E::custom(format!(
                    "the number {number} has no unit: write it as \"{number}ms\", or \"auto\""
                )))
            }
        }
        deserializer.deserialize_any(FlushVisitor)
    }
}

impl JsonSchema for Flush {
    fn schema_name() -> Cow<'static, str> {
        "Flush".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^(auto|\s*([0-9_]+(\.[0-9_]+)?\s*(ms|s|m|h|d))+\s*)$",
            "examples": ["auto", "0ms", "100ms"]
        })
    }
}
