//! Sockets that take little: the kernel keeps a few kilobytes for them and then closes the window.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

/// A connection, with TLS or without.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Any connection.
pub type Socket = Box<dyn Io>;

/// The least receive buffer the kernel gives, asked for by stalled and slow viewers.
pub const SMALL_BUFFER: usize = 4096;

/// Connects, with a receive buffer of the given size if there is one.
///
/// # Errors
/// When the connection is refused.
pub async fn connect(to: SocketAddr, receive_buffer: Option<usize>) -> io::Result<TcpStream> {
    connect_from(None, to, receive_buffer).await
}

/// The same from an address of this machine's own, for example another one of 127.0.0.0/8.
///
/// # Errors
/// When the address cannot be used or the connection is refused.
pub async fn connect_from(
    from: Option<IpAddr>,
    to: SocketAddr,
    receive_buffer: Option<usize>,
) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(u32::try_from(bytes).unwrap_or(u32::MAX))?;
    }
    if let Some(from) = from {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    socket.connect(to).await
}
