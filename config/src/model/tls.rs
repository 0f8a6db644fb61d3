//! TLS and proxies in front.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::OptionalAddr;
use crate::network::Network;

/// Section `[rtmps]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Rtmps {
    /// Address and port for publishers and RTMP players under TLS: `rtmps://HOST:PORT/APP/NAME`. `""` is off.
    pub listen: OptionalAddr,
    /// Whether each connection must begin with a PROXY header: `"off"` or `"required"`.
    pub proxy_protocol: ProxyProtocol,
}

/// Section `[https]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Https {
    /// Address and port for viewers under TLS, by HTTP/1.1 and HTTP/2. `""` is off.
    pub listen: OptionalAddr,
    /// Whether each connection must begin with a PROXY header: `"off"` or `"required"`.
    pub proxy_protocol: ProxyProtocol,
}

/// Section `[tls]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Tls {
    /// The certificate chain in PEM, the server's own certificate first. Reloaded when it changes.
    pub cert_file: PathBuf,
    /// The certificate's private key in PEM, without a pass phrase. Reloaded when it changes.
    pub key_file: PathBuf,
    /// Makes a certificate in memory that nobody vouches for, for trying: in place of the two files.
    pub self_signed: bool,
}

/// Section `[proxies]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Proxies {
    /// Addresses or networks of proxies whose word on a client's address is taken: by the PROXY protocol on all
    /// listeners that require it, by `proxies.header` on HTTP. They never count as programs on this machine.
    pub trusted: Vec<Network>,
    /// The header in which they name HTTP clients: `"x-forwarded-for"`, `"forwarded"` (RFC 7239) or `"off"`.
    pub header: ForwardedHeader,
}

/// `….proxy_protocol`: whether connections begin with a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ProxyProtocol {
    /// They do not.
    Off,
    /// They do, version 1 or 2; connections from other addresses than `proxies.trusted` are closed.
    Required,
}

/// `proxies.header`: where trusted proxies name HTTP clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// In `X-Forwarded-For`.
    XForwardedFor,
    /// In `Forwarded`, RFC 7239.
    Forwarded,
    /// Nowhere.
    Off,
}

impl ProxyProtocol {
    /// Whether a header must come first.
    pub fn is_required(self) -> bool {
        self == Self::Required
    }
}

impl Tls {
    /// Whether there is anything to serve TLS with.
    pub fn is_set(&self) -> bool {
        self.self_signed || !(is_empty(&self.cert_file) && is_empty(&self.key_file))
    }
}

/// Whether a path is not set.
pub(crate) fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}
