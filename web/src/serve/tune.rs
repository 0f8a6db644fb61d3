//! Accepted sockets: their options, and which failures of `accept` concern one of them only.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// The unsent bytes the kernel may hold for one connection: enough for a second of most streams, small enough
/// that a viewer's lag is seen here and not hidden in a send buffer of megabytes.
const NOTSENT_LOWAT_BYTES: u32 = 128 * 1024;
/// When keep-alive probes of a silent TCP connection start and how often they follow: a peer that vanished
/// without a FIN is gone after about two minutes even when nothing is being sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Sets what a media connection needs, RTMP or HTTP: no Nagle, vanished peers noticed, little unsent in the
/// kernel.
///
/// # Errors
/// What the system says; the connection works all the same.
pub fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
    socket.set_tcp_notsent_lowat(NOTSENT_LOWAT_BYTES)?;
    Ok(())
}

/// Whether `accept` failed because of the connection at hand and not for want of a resource: then the next one
/// may be accepted at once.
pub fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted, NetworkDown,
        NetworkUnreachable, PermissionDenied, TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | PermissionDenied
            | TimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_tuned_socket_notices_a_vanished_peer_and_hides_no_lag() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune(&stream).unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(10));
            assert_eq!(socket.tcp_notsent_lowat().unwrap(), 128 * 1024);
        }
    }

    #[test]
    fn only_a_want_of_resources_makes_the_listener_pause() {
        assert!(is_of_one_connection(&io::ErrorKind::ConnectionAborted.into()));
        assert!(!is_of_one_connection(&io::Error::from_raw_os_error(24)));
    }
}
