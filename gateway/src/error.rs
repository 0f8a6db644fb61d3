//! Why the gateway does not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Why the gateway does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A listener's address cannot be bound.
    #[error(
        "cannot listen on {address} ({key}): {source}; choose another address with --set {key}=\"HOST:PORT\" or stop what uses it"
    )]
    Bind {
        /// The configuration key.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system does not say where a listener is bound.
    #[error("cannot learn the address of {key}: {source}")]
    LocalAddress {
        /// The configuration key.
        key: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The keys of tokens cannot be read.
    #[error("auth.jwt.jwks: {0}")]
    KeySet(#[from] crate::auth::KeySetError),
    /// The hook cannot be called.
    #[error("hooks.url: {0}")]
    Hook(#[from] spillway_hooks::HookError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers for the key of HLS sessions")]
    NoRandomNumbers,
    /// The certificates cannot be used.
    #[error("cannot serve TLS: {0}")]
    Tls(#[from] spillway_net::TlsError),
    /// The demo publishes by RTMP, which a PROXY header must precede.
    #[error(
        "--demo publishes over rtmp.listen without a PROXY header, and rtmp.proxy_protocol is \"required\": leave one of both out"
    )]
    DemoBehindProxy,
    /// The runtime cannot be started.
    #[error("cannot start the runtime's threads: {0}")]
    Runtime(#[source] io::Error),
    /// Signals cannot be listened to.
    #[error("cannot listen for signals: {0}")]
    Signals(#[source] io::Error),
}
