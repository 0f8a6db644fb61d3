//! Spillway's configuration: a typed tree, its defaults, and the layers it is read from.
//!
//! The layers are, each overriding the one before: built-in defaults, the file (TOML), environment variables
//! `SPILLWAY__SECTION__KEY`, and flags `--set section.key=value`. Durations and sizes carry their unit (`"2s"`,
//! `"16MiB"`); a bare number is refused. Everything wrong is reported at once, each with its file, line and column, or
//! its variable or flag, the key, and what was expected.
//!
//! [`Loaded::read`] is the way in; [`schema`] gives the JSON schema. `config/spillway.toml` is the annotated list of all
//! keys; a test keeps it, the schema and the structs in step. This crate knows no protocol: the gateway maps it to each
//! crate's own options.

mod address;
mod check;
mod defaults;
mod error;
mod keys;
mod layer;
mod load;
mod model;
mod network;
mod pattern;
mod range;
mod schema;
mod secret;
mod units;

pub use address::{AddressError, ListenAddr, OptionalAddr};
pub use error::{ConfigError, Problem, Source};
pub use keys::{Key, Keys, Kind};
pub use layer::ENVIRONMENT_PREFIX;
pub use load::{LoadInput, Loaded};
pub use model::{
    AccessKey, Admin, Auth, Config, Flush, ForwardedHeader, Hls, HlsMode, HookEvent, HookFail, Hooks, Http,
    Https, Jwt, Limits, Log, LogFormat, LogLevel, MAX_MESSAGE_BYTES, Memory, Metrics, Play, PlayPolicy,
    Proxies, ProxyProtocol, Publish, PublishPolicy, Ring, Rtmp, Rtmps, Runtime, Shutdown, Tls,
};
pub use network::{Network, NetworkError};
pub use pattern::{MAX_PATTERN_BYTES, PatternError, StreamPattern};
pub use range::{RANGES, Range};
pub use schema::schema;
pub use secret::{REDACTED, Secret, SecretError, constant_time_eq};
pub use units::{BitRate, ByteSize, MAX_PERIOD_MS, Period, UnitError};
