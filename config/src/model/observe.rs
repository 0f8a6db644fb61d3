//! Logs and metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[log]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Log {
    /// The least severe lines that are written: `"error"`, `"warn"`, `"info"`, `"debug"` or `"trace"`. The environment variable
    /// `RUST_LOG` overrides it, and can set it per module.
    pub level: LogLevel,
    /// `"human"`, or `"json"`: one object per line.
    pub format: LogFormat,
}

/// `log.level`: the least severe lines that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum LogLevel {
    /// What stopped working.
    Error,
    /// What an operator should look at.
    Warn,
    /// The life of streams and sessions.
    Info,
    /// What peers say.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The level's name, as in `RUST_LOG`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// `log.format`: the form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

/// Section `[metrics]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Metrics {
    /// Most streams that get series of their own; those beyond it are summed up as stream `_other`. 0 gives sums only.
    pub max_streams: u32,
}
