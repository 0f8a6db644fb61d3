//! Listeners and the process.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access_key::AccessKey;
use super::one_or_many::one_or_many;
use super::tls::{ProxyProtocol, is_empty};
use crate::address::{ListenAddr, OptionalAddr};
use crate::network::Network;
use crate::units::Period;

/// Section `[rtmp]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Rtmp {
    /// Address and port for publishers and RTMP players. Port 0 takes any free port.
    pub listen: ListenAddr,
    /// Whether each connection must begin with a PROXY header: `"off"` or `"required"`.
    pub proxy_protocol: ProxyProtocol,
}

/// Section `[http]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Http {
    /// Address and port for viewers: HTTP-FLV, WebSocket-FLV, HLS and the players' page. Port 0 takes any free port.
    pub listen: ListenAddr,
    /// Whether the players' page at `/` lists the live streams. With false a viewer must know a stream's name.
    pub list_streams: bool,
    /// Whether each connection must begin with a PROXY header: `"off"` or `"required"`.
    pub proxy_protocol: ProxyProtocol,
}

/// Section `[admin]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Admin {
    /// Address and port of the operators' listener: `/metrics`, `/livez`, `/readyz`, `/api/v1/`. On any other address than
    /// loopback it needs `admin.tokens`.
    pub listen: ListenAddr,
    /// Tokens, one of which every request but probes then has to bring as `Authorization: Bearer TOKEN`; each a text of at
    /// least 16 characters or a table with `key_file`, a file that holds it. Without any, requests must be for this machine
    /// by address or as `localhost`.
    #[serde(deserialize_with = "one_or_many")]
    pub tokens: Vec<AccessKey>,
    /// Addresses and networks that may use it; none named lets all.
    #[serde(deserialize_with = "one_or_many")]
    pub allow: Vec<Network>,
    /// Addresses and networks that may not use it, whatever `admin.allow` says.
    #[serde(deserialize_with = "one_or_many")]
    pub deny: Vec<Network>,
    /// Address and port of a second operators' listener, under TLS. `""` is off. On any other address than loopback it
    /// needs `admin.tls_client_ca_file` or `admin.tokens`.
    pub tls_listen: OptionalAddr,
    /// Certificates in PEM; `admin.tls_listen` then serves only clients whose certificate one of them has signed (mTLS);
    /// the certificate stands in for a token. Reloaded when it changes. `""` asks for no client certificate.
    pub tls_client_ca_file: PathBuf,
}

impl Admin {
    /// Whether [`Self::tls_listen`] serves only clients that show a certificate (mTLS).
    pub fn tls_asks_for_certificate(&self) -> bool {
        !is_empty(&self.tls_client_ca_file)
    }
}

/// Section `[shutdown]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Shutdown {
    /// Longest time from SIGTERM to the end of the process; what is still connected then is cut.
    pub grace: Period,
}

/// Section `[runtime]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Runtime {
    /// Worker threads. 0 takes the number of processors this process may use: its CPU affinity and cgroup quota.
    pub workers: u32,
}
