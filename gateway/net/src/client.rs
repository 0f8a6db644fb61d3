//! [`ClientAddr`]: who is at the other end of a connection, and whether a proxy says so.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The client's address, as sessions, logs, authorisation and limits see it.
///
/// It is the TCP peer's, unless the peer is a trusted proxy that names another one. It is never believed to be this
/// machine when a proxy stands between: everybody behind a proxy on this machine would look local.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddr {
    address: SocketAddr,
    proxied: bool,
}

impl ClientAddr {
    /// A client without a proxy between.
    pub const fn direct(peer: SocketAddr) -> Self {
        Self {
            address: peer,
            proxied: false,
        }
    }

    /// A client that a trusted proxy speaks for.
    pub const fn proxied(address: SocketAddr) -> Self {
        Self {
            address,
            proxied: true,
        }
    }

    /// Its address and port; the port is 0 when the proxy does not say it.
    pub const fn address(self) -> SocketAddr {
        self.address
    }

    /// Its address; an IPv4 address mapped into IPv6 is given as IPv4.
    pub fn ip(self) -> IpAddr {
        self.address.ip().to_canonical()
    }

    /// Whether a proxy stands between.
    pub const fn is_proxied(self) -> bool {
        self.proxied
    }

    /// Whether it is a program on this machine, reached without a proxy.
    pub fn is_local(self) -> bool {
        !self.proxied && self.ip().is_loopback()
    }
}

impl Default for ClientAddr {
    /// Nobody known.
    fn default() -> Self {
        Self::direct(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0))
    }
}

impl fmt::Display for ClientAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_comes_over_loopback_without_a_proxy_is_local() {
        for local in ["127.0.0.1:9", "127.8.8.8:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            let address = local.parse().unwrap();
            assert!(ClientAddr::direct(address).is_local(), "{local}");
            assert!(!ClientAddr::proxied(address).is_local(), "{local}");
        }
        assert!(!ClientAddr::direct("192.0.2.1:9".parse().unwrap()).is_local());
        assert!(!ClientAddr::default().is_local());
    }
}
