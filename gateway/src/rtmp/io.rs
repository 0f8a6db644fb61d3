//! Reading from and writing to a connection's socket.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};

use spillway_hub::Sink;
use spillway_net::Socket;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// What is read from a socket at once. One buffer per runtime worker: a connection has none of its own.
const READ_BYTES: usize = 128 << 10;

thread_local! {
    pub(super) static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Reads what is there.
pub(super) fn read_once(socket: &mut Socket, buffer: &mut [u8]) -> io::Result<usize> {
    match socket {
        Socket::Plain(socket) => read_plain(socket, buffer),
        Socket::Tls(tls) => tls.try_read(buffer),
    }
}

/// Writes what is taken now.
pub(super) fn write_slices(socket: &mut Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match socket {
        Socket::Plain(socket) => socket.try_write_slices(slices),
        tls @ Socket::Tls(_) => tls.try_write_vectored(slices),
    }
}

/// A short read has emptied the socket; saying so spares the read that would find that out.
fn read_plain(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut short = None;
    let result = socket.try_io(Interest::READABLE, || {
        let count = rustix::io::read(socket, &mut *buffer)?;
        if count == 0 || count == buffer.len() {
            return Ok(count);
        }
        short = Some(count);
        Err(ErrorKind::WouldBlock.into())
    });
    short.map_or(result, Ok)
}
