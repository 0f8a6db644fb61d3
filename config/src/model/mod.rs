//! The configuration tree: one struct per section, one file per group of sections.

mod access_key;
mod auth;
mod hls;
mod hooks;
mod limits;
mod observe;
mod one_or_many;
mod play;
mod publish;
mod ring;
mod server;
mod tls;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access_key::AccessKey;
pub use auth::{Auth, Jwt, PlayPolicy, PublishPolicy};
pub use hls::{Hls, HlsMode};
pub use hooks::{HookEvent, HookFail, Hooks};
pub use limits::{Limits, MAX_MESSAGE_BYTES, Memory};
pub use observe::{Log, LogFormat, LogLevel, Metrics};
pub use play::{Flush, Play};
pub use publish::Publish;
pub use ring::Ring;
pub use server::{Admin, Http, Rtmp, Runtime, Shutdown};
pub(crate) use tls::is_empty;
pub use tls::{ForwardedHeader, Https, Proxies, ProxyProtocol, Rtmps, Tls};

/// Spillway's configuration. Every key has a default; `config/spillway.toml` lists them all.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// RTMP: publishers and players.
    pub rtmp: Rtmp,
    /// Viewers over HTTP: HTTP-FLV, WebSocket-FLV, HLS and the players' page.
    pub http: Http,
    /// Metrics, probes and the API, for operators.
    pub admin: Admin,
    /// RTMP under TLS.
    pub rtmps: Rtmps,
    /// Viewers over HTTP under TLS.
    pub https: Https,
    /// The certificate of all TLS listeners.
    pub tls: Tls,
    /// Proxies in front.
    pub proxies: Proxies,
    /// Streams coming in.
    pub publish: Publish,
    /// Streams going out to RTMP, HTTP-FLV and WebSocket-FLV viewers.
    pub play: Play,
    /// The memory of each stream from which its viewers are served.
    pub ring: Ring,
    /// HTTP Live Streaming.
    pub hls: Hls,
    /// Who may publish and who may play.
    pub auth: Auth,
    /// A program that is asked about publishers and viewers, and told of them.
    pub hooks: Hooks,
    /// Logs, written to standard error.
    pub log: Log,
    /// Prometheus metrics, served by the admin listener at `/metrics`.
    pub metrics: Metrics,
    /// Leaving in good order on SIGTERM and SIGINT.
    pub shutdown: Shutdown,
    /// The process.
    pub runtime: Runtime,
    /// Bounds that keep the process standing whatever peers do.
    pub limits: Limits,
}
