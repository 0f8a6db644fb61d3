//! The listening sockets of a gateway.

use std::net::SocketAddr;

use spillway_config::{Config, ListenAddr, OptionalAddr, ProxyProtocol};
use spillway_net::{Door, TlsUse};
use tokio::net::TcpListener;

use crate::doors::Doors;
use crate::error::StartError;
use crate::net;

/// The addresses the listeners are bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// RTMP.
    pub rtmp: SocketAddr,
    /// The viewers' HTTP.
    pub http: SocketAddr,
    /// Metrics, probes and the API.
    pub admin: SocketAddr,
    /// RTMP under TLS.
    pub rtmps: Option<SocketAddr>,
    /// The viewers' HTTP under TLS.
    pub https: Option<SocketAddr>,
    /// Metrics, probes and the API under TLS.
    pub admin_tls: Option<SocketAddr>,
}

/// The bound listeners.
pub(crate) struct Listeners {
    rtmp: TcpListener,
    rtmps: Option<TcpListener>,
    http: TcpListener,
    https: Option<TcpListener>,
    admin: TcpListener,
    admin_tls: Option<TcpListener>,
}

impl Listeners {
    /// Binds all that are configured.
    ///
    /// # Errors
    /// Which of them cannot be bound.
    pub(crate) fn bind(config: &Config) -> Result<Self, StartError> {
        let optional = |key, address: OptionalAddr| address.get().map(|at| bind(key, at)).transpose();
        Ok(Self {
            rtmp: bind("rtmp.listen", config.rtmp.listen)?,
            rtmps: optional("rtmps.listen", config.rtmps.listen)?,
            http: bind("http.listen", config.http.listen)?,
            https: optional("https.listen", config.https.listen)?,
            admin: bind("admin.listen", config.admin.listen)?,
            admin_tls: optional("admin.tls_listen", config.admin.tls_listen)?,
        })
    }

    /// Where they are bound.
    ///
    /// # Errors
    /// When the system does not say.
    pub(crate) fn addresses(&self) -> Result<Addresses, StartError> {
        let optional = |key, at: &Option<TcpListener>| at.as_ref().map(|at| local(key, at)).transpose();
        Ok(Addresses {
            rtmp: local("rtmp.listen", &self.rtmp)?,
            rtmps: optional("rtmps.listen", &self.rtmps)?,
            http: local("http.listen", &self.http)?,
            https: optional("https.listen", &self.https)?,
            admin: local("admin.listen", &self.admin)?,
            admin_tls: optional("admin.tls_listen", &self.admin_tls)?,
        })
    }
    /// Each with its door: for RTMP, for viewers by HTTP, and for operators.
    pub(crate) fn with_doors(self, config: &Config, doors: &mut Doors) -> (Doored, Doored, Doored) {
        let mut doored = |listener: Option<TcpListener>, name, proxy, tls| {
            listener.map(|listener| (listener, doors.door(name, proxy, tls)))
        };
        let rtmps = Some(TlsUse::Rtmps);
        let https = Some(TlsUse::Https);
        let admin_tls = Some(TlsUse::Admin);
        let rtmp = [
            doored(Some(self.rtmp), "rtmp", config.rtmp.proxy_protocol, None),
            doored(self.rtmps, "rtmps", config.rtmps.proxy_protocol, rtmps),
        ];
        let live = [
            doored(Some(self.http), "http", config.http.proxy_protocol, None),
            doored(self.https, "https", config.https.proxy_protocol, https),
        ];
        let admin = [
            doored(Some(self.admin), "admin", ProxyProtocol::Off, None),
            doored(self.admin_tls, "admin_tls", ProxyProtocol::Off, admin_tls),
        ];
        [rtmp, live, admin]
            .map(|two| two.into_iter().flatten().collect())
            .into()
    }
}

/// Listeners with their doors.
pub(crate) type Doored = Vec<(TcpListener, Door)>;

fn bind(key: &'static str, address: ListenAddr) -> Result<TcpListener, StartError> {
    let address = address.get();
    net::bind(address).map_err(|source| StartError::Bind { key, address, source })
}

fn local(key: &'static str, listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener
        .local_addr()
        .map_err(|source| StartError::LocalAddress { key, source })
}
