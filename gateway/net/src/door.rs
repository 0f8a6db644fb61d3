//! [`Door`]: what a connection passes between `accept` and its session.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client::ClientAddr;
use crate::log_budget::LogBudget;
use crate::proxy::{self, MAX_HEADER_BYTES, Progress, ProxyError, Source};
use crate::tls::{Certificates, TlsUse};
use crate::trust::TrustedProxies;

/// What a listener wants of a connection before its session begins: a PROXY header, a TLS handshake, or nothing.
#[derive(Debug, Clone)]
pub struct Door {
    /// The listener's name in logs and metrics.
    pub name: &'static str,
    /// Whether a PROXY header must come first.
    pub proxy_protocol: bool,
    /// Whose word on a client's address is taken.
    pub trusted: Arc<TrustedProxies>,
    /// The certificates to serve with, where the listener speaks TLS.
    pub tls: Option<(Arc<Certificates>, TlsUse)>,
    /// How long header and handshake may take together.
    pub timeout: Duration,
    /// The log lines that strangers may cause.
    pub log_budget: Arc<LogBudget>,
    /// Where it counts.
    pub counters: Arc<DoorCounters>,
}

/// What one door counts.
#[derive(Debug, Default)]
pub struct DoorCounters {
    proxy_refusals: AtomicU64,
    tls_handshakes: AtomicU64,
    tls_failures: AtomicU64,
}

/// The values of [`DoorCounters`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoorSnapshot {
    /// Connections closed for want of a PROXY header, or because it came from an address that is not trusted.
    pub proxy_refusals: u64,
    /// TLS handshakes that were done.
    pub tls_handshakes: u64,
    /// Connections closed because their TLS handshake failed.
    pub tls_failures: u64,
}

impl DoorCounters {
    /// Reads all counters.
    pub fn snapshot(&self) -> DoorSnapshot {
        DoorSnapshot {
            proxy_refusals: self.proxy_refusals.load(Ordering::Relaxed),
            tls_handshakes: self.tls_handshakes.load(Ordering::Relaxed),
            tls_failures: self.tls_failures.load(Ordering::Relaxed),
        }
    }
}

/// A connection that was let in.
#[derive(Debug)]
pub enum Entry {
    /// Over plain TCP.
    Plain(TcpStream),
    /// Over TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Why a connection was not let in.
#[derive(Debug, Error)]
enum Shut {
    #[error("it is no trusted proxy (proxies.trusted), and this listener takes connections from those only")]
    NotTrusted,
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("its PROXY header broke off: {0}")]
    ProxyIo(io::Error),
    #[error("its PROXY header did not come within limits.handshake_timeout")]
    ProxyLate,
    #[error("its TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("its TLS handshake took longer than limits.handshake_timeout")]
    TlsLate,
}

impl Door {
    /// A door that stands open: plain TCP, no proxies.
    pub fn open(name: &'static str) -> Self {
        Self {
            name,
            proxy_protocol: false,
            trusted: Arc::default(),
            tls: None,
            timeout: Duration::from_secs(10),
            log_budget: Arc::default(),
            counters: Arc::default(),
        }
    }

    /// Whether a connection is let in without a word said.
    pub fn is_open(&self) -> bool {
        !self.proxy_protocol && self.tls.is_none()
    }

    /// The client as far as TCP tells.
    pub fn client_of(&self, peer: SocketAddr) -> ClientAddr {
        self.trusted.client_of(peer)
    }

    /// Reads the PROXY header and does the handshake, as far as this listener wants them. `None` when the connection
    /// was not let in: that is logged and counted, and the connection closed.
    pub async fn admit(&self, socket: TcpStream, peer: SocketAddr) -> Option<(Entry, ClientAddr)> {
        match self.try_admit(socket, peer).await {
            Ok(entered) => Some(entered),
            Err(shut) => {
                self.refuse(peer, &shut);
                None
            }
        }
    }

    async fn try_admit(&self, mut socket: TcpStream, peer: SocketAddr) -> Result<(Entry, ClientAddr), Shut> {
        let start = tokio::time::Instant::now();
        let mut client = self.client_of(peer);
        if self.proxy_protocol {
            if !self.trusted.contains(peer.ip()) {
                return Err(Shut::NotTrusted);
            }
            let header = timeout(self.timeout, read_header(&mut socket)).await;
            if let Source::Client(address) = header.unwrap_or(Err(Shut::ProxyLate))? {
                client = ClientAddr::proxied(address);
            }
        }
        let Some((certificates, wanted)) = &self.tls else {
            return Ok((Entry::Plain(socket), client));
        };
        let left = self.timeout.saturating_sub(start.elapsed());
        let acceptor = TlsAcceptor::from(certificates.server_config(*wanted));
        let stream = timeout(left, acceptor.accept(socket)).await;
        let stream = stream.map_err(|_| Shut::TlsLate)?.map_err(Shut::Tls)?;
        self.counters.tls_handshakes.fetch_add(1, Ordering::Relaxed);
        Ok((Entry::Tls(Box::new(stream)), client))
    }

    fn refuse(&self, peer: SocketAddr, shut: &Shut) {
        let counter = match shut {
            Shut::Tls(_) | Shut::TlsLate => &self.counters.tls_failures,
            _ => &self.counters.proxy_refusals,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.log_budget.take() {
            tracing::warn!(listener = self.name, %peer, left_out, "connection closed: {shut}");
        }
    }
}

/// Reads one PROXY header and not a byte more. Version 1 says how long it is only by its end, so it is read in small
/// pieces: about fifteen reads of what is there already, once for each connection of a proxy.
async fn read_header(socket: &mut TcpStream) -> Result<Source, Shut> {
    let mut buffer = [0; MAX_HEADER_BYTES];
    let mut taken = 0;
    loop {
        let known = buffer.get(..taken).unwrap_or_default();
        match proxy::parse(known)? {
            Progress::Done(source) => return Ok(source),
            Progress::Needs(more) => {
                let Some(room) = buffer.get_mut(taken..taken + more) else {
                    return Err(ProxyError::BadLine.into());
                };
                socket.read_exact(room).await.map_err(Shut::ProxyIo)?;
                taken += more;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::forwarded::ForwardedHeader;
    use crate::tls::Origin;

    async fn pair() -> (TcpStream, TcpStream, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, peer) = listener.accept().await.unwrap();
        (client, server, peer)
    }

    fn behind_proxies() -> Door {
        let networks = vec!["127.0.0.0/8".parse().unwrap()];
        Door {
            proxy_protocol: true,
            trusted: Arc::new(TrustedProxies::new(networks, ForwardedHeader::default())),
            ..Door::open("test")
        }
    }

    #[tokio::test]
    async fn a_trusted_proxy_names_the_client_and_what_follows_is_left() {
        let (mut client, server, peer) = pair().await;
        client
            .write_all(b"PROXY TCP4 203.0.113.5 192.0.2.1 45678 443\r\nhello")
            .await
            .unwrap();
        let (entry, address) = behind_proxies().admit(server, peer).await.unwrap();
        assert_eq!(address.to_string(), "203.0.113.5:45678");
        assert!(!address.is_local());
        let Entry::Plain(mut socket) = entry else {
            panic!("{entry:?}");
        };
        let mut rest = [0; 5];
        socket.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"hello");
    }

    #[tokio::test]
    async fn a_proxy_that_speaks_for_itself_is_not_local() {
        let (mut client, server, peer) = pair().await;
        client.write_all(b"PROXY UNKNOWN\r\n").await.unwrap();
        let (_, address) = behind_proxies().admit(server, peer).await.unwrap();
        assert_eq!(address.address(), peer);
        assert!(!address.is_local());
    }

    #[tokio::test]
    async fn strangers_and_those_without_a_header_are_not_let_in() {
        let (_client, server, peer) = pair().await;
        let door = Door {
            trusted: Arc::default(),
            ..behind_proxies()
        };
        assert!(door.admit(server, peer).await.is_none());
        assert_eq!(door.counters.snapshot().proxy_refusals, 1);

        let (mut client, server, peer) = pair().await;
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let door = behind_proxies();
        assert!(door.admit(server, peer).await.is_none());
        assert_eq!(door.counters.snapshot().proxy_refusals, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_proxy_is_given_up() {
        let (_client, server, peer) = pair().await;
        assert!(behind_proxies().admit(server, peer).await.is_none());
    }

    #[tokio::test]
    async fn garbage_on_a_tls_port_closes_only_its_connection() {
        let certificates =
            Certificates::load(Origin::SelfSigned(vec!["localhost".to_owned()]), None).unwrap();
        let door = Door {
            tls: Some((Arc::new(certificates), TlsUse::Rtmps)),
            ..Door::open("test")
        };
        let (mut client, server, peer) = pair().await;
        client.write_all(&[3; 1537]).await.unwrap();
        assert!(door.admit(server, peer).await.is_none());
        assert_eq!(door.counters.snapshot().tls_failures, 1);
    }
}
