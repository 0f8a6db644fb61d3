//! [`Socket`]: a connection that is read and written without waiting, over plain TCP or TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::net::TcpStream;

use crate::door::Entry;

/// A connection's socket. Nothing here waits: what cannot be done now is [`io::ErrorKind::WouldBlock`], and the
/// `poll_…_ready` methods say when to try again.
#[derive(Debug)]
pub enum Socket {
    /// Plain TCP; others may hold the socket too.
    Plain(Arc<TcpStream>),
    /// TLS, after the handshake.
    Tls(Box<TlsSocket>),
}

/// A TLS connection over its socket. It holds at most one buffer of what was encrypted and not yet sent, 64 KiB;
/// as long as there is any, it takes nothing new, so that back pressure is the socket's own.
#[derive(Debug)]
pub struct TlsSocket {
    tcp: TcpStream,
    session: ServerConnection,
    /// There may be more to read that the socket has given already.
    has_more: bool,
}

/// The socket as a `Read` and `Write` that never blocks.
struct Now<'a>(&'a TcpStream);

impl Read for Now<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buf)
    }
}

impl Write for Now<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_write(buf)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<Entry> for Socket {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Plain(socket) => Self::Plain(Arc::new(socket)),
            Entry::Tls(stream) => {
                let (tcp, session) = stream.into_inner();
                Self::Tls(Box::new(TlsSocket {
                    tcp,
                    session,
                    has_more: true,
                }))
            }
        }
    }
}

impl Socket {
    /// The plain socket, which others may write to; over TLS there is none.
    pub fn plain(&self) -> Option<&Arc<TcpStream>> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(_) => None,
        }
    }

    /// The TCP socket below.
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.tcp,
        }
    }

    /// Waits until there may be something to read.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tls(tls) if tls.has_more => Poll::Ready(Ok(())),
            _ => self.tcp().poll_read_ready(cx),
        }
    }

    /// Waits until the socket may take something.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp().poll_write_ready(cx)
    }

    /// Writes what is taken now.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is taken now; anything else when the connection has failed.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(bytes),
            Self::Tls(tls) => tls.try_write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// The same with several slices.
    ///
    /// # Errors
    /// Those of [`Socket::try_write`].
    pub fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.try_write_vectored(slices),
            Self::Tls(tls) => tls.try_write_vectored(slices),
        }
    }

    /// Sends what was taken and not sent yet.
    ///
    /// # Errors
    /// `WouldBlock` when something is left; anything else when the connection has failed.
    pub fn try_flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.try_flush(),
        }
    }

    /// Says that nothing follows. A peer that is gone already needs no telling, so there is no error.
    pub fn hang_up(&mut self) {
        if let Self::Tls(tls) = self {
            tls.session.send_close_notify();
            // One record of a few bytes: it fits, or the peer takes nothing anyway.
            let _ = tls.try_flush();
        }
        let _ = socket2::SockRef::from(self.tcp()).shutdown(Shutdown::Write);
    }
}

impl TlsSocket {
    /// Reads what is there, as much as fits; 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing; `InvalidData` when the peer broke TLS; others when the connection failed.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        self.has_more = true;
        while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
            match self.session.reader().read(room) {
                Ok(0) => return Ok(filled),
                Ok(count) => {
                    filled += count;
                    continue;
                }
                // The peer closed without saying so: that is how many end.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(filled),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            match self.session.read_tls(&mut Now(&self.tcp)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.has_more = false;
                    return if filled > 0 { Ok(filled) } else { Err(error) };
                }
                Err(error) => return Err(error),
            }
            if let Err(error) = self.session.process_new_packets() {
                // The alert that says why.
                let _ = self.try_flush();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(filled)
    }

    fn try_write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.try_flush()?;
        let taken = self.session.writer().write_vectored(slices)?;
        match self.try_flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut Now(&self.tcp))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
