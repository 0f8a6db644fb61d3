//! [`SharedSocket`]: a TCP socket that hyper reads and writes, and that a viewer's lane may write to while hyper
//! has nothing to say.

use std::io::{self, IoSlice, Read};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use spillway_hub::Sink;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The socket, shared.
#[derive(Debug, Clone)]
pub(crate) struct SharedSocket(pub(crate) Arc<TcpStream>);

impl SharedSocket {
    /// Writes when the socket takes something.
    fn poll_with<T>(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// Reads what is there. A short read has emptied the socket; saying so spares the read that would find that out.
fn read_some(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut short = None;
    let result = socket.try_io(Interest::READABLE, || {
        let count = (&*SockRef::from(socket)).read(buffer)?;
        if count == 0 || count == buffer.len() {
            return Ok(count);
        }
        short = Some(count);
        Err(io::ErrorKind::WouldBlock.into())
    });
    short.map_or(result, Ok)
}

impl AsyncRead for SharedSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match read_some(&self.0, buf.initialize_unfilled()) {
                Ok(count) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for SharedSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |socket| socket.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, |socket| socket.try_write_slices(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}
