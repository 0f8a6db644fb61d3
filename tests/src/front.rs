//! A proxy before the gateway: it names another client by a PROXY header, or says whatever a test wants it to say first.

use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

/// A PROXY header, version 1, for a client by IPv4.
#[must_use]
pub fn header_v1(client: &str) -> Vec<u8> {
    let client: SocketAddr = client.parse().expect("an address with a port");
    format!("PROXY TCP4 {} 192.0.2.1 {} 1935\r\n", client.ip(), client.port()).into_bytes()
}

/// A PROXY header, version 2, with a type-length value after the addresses, as clouds send it.
#[must_use]
pub fn header_v2(client: &str) -> Vec<u8> {
    let client: SocketAddr = client.parse().expect("an address with a port");
    let (family, source, destination) = match client.ip() {
        IpAddr::V4(ip) => (0x11, ip.octets().to_vec(), vec![192, 0, 2, 1]),
        IpAddr::V6(ip) => (0x21, ip.octets().to_vec(), vec![0; 16]),
    };
    let value = [0x04, 0, 3, b'a', b'b', b'c'];
    let mut body = [source, destination].concat();
    body.extend_from_slice(&client.port().to_be_bytes());
    body.extend_from_slice(&1935_u16.to_be_bytes());
    body.extend_from_slice(&value);
    let length = u16::try_from(body.len()).expect("small").to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[family], &length, &body].concat()
}

/// A connection from `source`, an address in 127.0.0.0/8, that begins with `first`.
///
/// # Panics
/// When it is refused.
pub async fn connect(source: &str, to: SocketAddr, first: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let source = format!("{source}:0").parse().expect("an address");
    socket.bind(source).expect("a loopback address");
    let mut stream = socket.connect(to).await.expect("the gateway listens");
    stream.write_all(first).await.expect("the first bytes to go out");
    stream
}

/// A running proxy; it ends when dropped.
pub struct Front {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Front {
    /// Listens, and begins each connection to `to` with `first`.
    ///
    /// # Panics
    /// When it cannot listen.
    pub async fn start(to: SocketAddr, first: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let first = first.clone();
                tokio::spawn(async move {
                    let mut server = connect("127.0.0.1", to, &first).await;
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}
