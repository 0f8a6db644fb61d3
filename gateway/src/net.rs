//! Listening sockets and the options of accepted ones.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

/// Connections the kernel may hold for us between two accepts: a herd comes at once.
const BACKLOG: i32 = 4096;
/// What the kernel may hold unsent of one connection before it takes no more: keeps a viewer's lag where it
/// can be seen and skipped.
const NOTSENT_LOWAT_BYTES: u32 = 128 << 10;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Binds a listener; port 0 picks a free one.
///
/// # Errors
/// What the system says, such as an address in use.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Sets what a media connection needs: no Nagle, dead peers noticed, little unsent in the kernel.
pub(crate) fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)
}
