//! One WebSocket player, from the 101 to the close.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use spillway_flv::tag;
use spillway_hub::{AttachError, EndReason, Format, Hub};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::super::drive::over;
use super::super::player::{Player, reason_of};
use super::super::refused;
use super::inbound::{Inbound, InboundError, Reader};
use super::outbound::Outbox;
use crate::access::{Pass, Visit};

/// RFC 6455 §7.4.1, and 4404 from the range for applications: no such stream.
const CLOSE_NORMAL: u16 = 1000;
const CLOSE_GOING_AWAY: u16 = 1001;
const CLOSE_POLICY: u16 = 1008;
const CLOSE_INTERNAL: u16 = 1011;
const CLOSE_TRY_AGAIN: u16 = 1013;
const CLOSE_NOT_FOUND: u16 = 4404;
/// How long the player may take to answer a close frame.
const CLOSE_WAIT: Duration = Duration::from_secs(2);
/// Players say little: pings and one close frame.
const READ_BYTES: usize = 512;

/// What one turn of the connection brought.
enum Turn {
    /// So many bytes of media are out.
    Wrote(u64),
    Said(Inbound),
}

/// Why the connection is of no more use.
enum Broken {
    Io(io::Error),
    Protocol(InboundError),
    Closed(Option<u16>),
}

impl Broken {
    fn reason(&self) -> EndReason {
        match self {
            Self::Io(error) => reason_of(error),
            Self::Closed(_) => EndReason::Client,
            Self::Protocol(_) => EndReason::Protocol,
        }
    }
}

/// How playing ended.
enum Played {
    /// There will be no more media.
    Out(EndReason),
    /// Nobody takes it any more.
    Broken(Broken),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Link<IO> {
    io: IO,
    /// The socket below, for a lane to write to.
    socket: Option<Arc<TcpStream>>,
    reader: Reader,
    buf: Box<[u8; READ_BYTES]>,
    filled: usize,
    at: usize,
    /// TLS has taken what the socket may not have: it goes out by a flush, not by itself.
    unflushed: bool,
}

/// Runs the session: waits for the stream, sends it, says why it ends. Every end is logged by the viewer.
pub(super) async fn run<IO>(io: IO, socket: Option<Arc<TcpStream>>, hub: Hub, visit: Visit, pass: Pass)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut link = Link {
        io,
        socket,
        reader: Reader::default(),
        buf: Box::new([0; READ_BYTES]),
        filled: 0,
        at: 0,
        unflushed: false,
    };
    let mut outbox = Outbox::new();
    let info = visit.session;
    let ends = pass.grant.lifetime.map(|lifetime| Instant::now() + lifetime);
    let attached = tokio::select! {
        attached = hub.attach(&visit.stream, info) => attached,
        broken = link.serve_control(&mut outbox) => {
            link.end(&mut outbox, broken).await;
            return;
        }
    };
    match attached {
        Ok(viewer) => {
            let tracks = viewer.tracks();
            outbox.flv_header(&tag::file_header(tracks.has_audio, tracks.has_video));
            let mut player = Player::new(viewer, Format::Ws);
            let played = tokio::select! {
                played = link.play(&mut player, &mut outbox) => played,
                () = over(ends) => Played::Out(EndReason::Expired),
            };
            let played = match player.stand(&mut outbox.media) {
                Ok(()) => played,
                Err(error) => Played::Broken(error.into()),
            };
            match played {
                Played::Out(reason) => {
                    player.end(reason);
                    pass.end(reason);
                    let (code, text) = close_of_end(reason);
                    link.close(&mut outbox, code, text).await;
                }
                Played::Broken(broken) => {
                    player.end(broken.reason());
                    pass.end(broken.reason());
                    link.end(&mut outbox, broken).await;
                }
            }
        }
        Err(error) => {
            pass.end(refused(&hub, &info, error));
            let (code, text) = close_of_refusal(error);
            link.close(&mut outbox, code, text).await;
        }
    }
}

fn close_of_refusal(error: AttachError) -> (u16, &'static str) {
    match error {
        AttachError::NotFound => (CLOSE_NOT_FOUND, "no such stream"),
        AttachError::ShuttingDown => (CLOSE_GOING_AWAY, "shutting down"),
        AttachError::ShortOfMemory => (CLOSE_TRY_AGAIN, "the server is short of memory"),
        AttachError::TooManyStreams | AttachError::TooManyViewers | AttachError::TooManyViewersInAll => {
            (CLOSE_TRY_AGAIN, "no room")
        }
        _ => (CLOSE_POLICY, "refused"),
    }
}

fn close_of_end(reason: EndReason) -> (u16, &'static str) {
    match reason {
        EndReason::StreamEnded => (CLOSE_NORMAL, "the stream has ended"),
        EndReason::Shutdown => (CLOSE_GOING_AWAY, "shutting down"),
        EndReason::Refused => (CLOSE_POLICY, "refused"),
        EndReason::Expired => (CLOSE_POLICY, "the time granted is over"),
        _ => (CLOSE_INTERNAL, reason.label()),
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Link<IO> {
    async fn play(&mut self, player: &mut Player, outbox: &mut Outbox) -> Played {
        loop {
            let turn = if !outbox.is_empty() {
                self.turn(outbox).await
            } else if self.socket.as_ref().is_some_and(|socket| player.sit(socket)) {
                match self.sit(player, outbox).await {
                    Ok(None) => continue,
                    Ok(Some(said)) => Ok(Turn::Said(said)),
                    Err(broken) => Err(broken),
                }
            } else {
                tokio::select! {
                    biased;
                    next = player.next(&mut outbox.media) => match next {
                        Ok(()) => continue,
                        Err(reason) => return Played::Out(reason),
                    },
                    said = self.said() => said.map(Turn::Said),
                }
            };
            match turn {
                Ok(Turn::Wrote(media_bytes)) => player.sent(media_bytes),
                Ok(Turn::Said(Inbound::Ping(payload))) => outbox.pong(&payload),
                Ok(Turn::Said(Inbound::Close(code))) => return Played::Broken(Broken::Closed(code)),
                Err(broken) => return Played::Broken(broken),
            }
        }
    }

    /// Lets a lane write until it hands the player back or the player says something.
    async fn sit(&mut self, player: &mut Player, outbox: &mut Outbox) -> Result<Option<Inbound>, Broken> {
        let said = tokio::select! {
            biased;
            said = self.said() => Some(said),
            () = player.handed_back() => None,
        };
        player.stand(&mut outbox.media)?;
        said.transpose()
    }

    /// Answers pings until the connection is of no more use.
    async fn serve_control(&mut self, outbox: &mut Outbox) -> Broken {
        loop {
            match self.turn(outbox).await {
                Ok(Turn::Wrote(_)) => {}
                Ok(Turn::Said(Inbound::Ping(payload))) => outbox.pong(&payload),
                Ok(Turn::Said(Inbound::Close(code))) => return Broken::Closed(code),
                Err(broken) => return broken,
            }
        }
    }

    /// Ends a connection that the player broke or closed.
    async fn end(&mut self, outbox: &mut Outbox, broken: Broken) {
        match broken {
            Broken::Closed(code) => {
                outbox.close(code.unwrap_or(CLOSE_NORMAL), "");
                let _flushed = timeout(CLOSE_WAIT, self.flush(outbox)).await;
            }
            Broken::Protocol(error) => {
                debug!(%error, "WebSocket connection closed");
                self.close(outbox, error.close_code(), "").await;
            }
            Broken::Io(_) => {}
        }
    }

    /// Sends a close frame and waits a moment for the player's own.
    async fn close(&mut self, outbox: &mut Outbox, code: u16, text: &str) {
        outbox.close(code, text);
        let goodbye = async {
            self.flush(outbox).await?;
            loop {
                if let Inbound::Close(_) = self.said().await? {
                    return Ok::<(), Broken>(());
                }
            }
        };
        let _answered = timeout(CLOSE_WAIT, goodbye).await;
        let _shut = timeout(CLOSE_WAIT, self.io.shutdown()).await;
    }

    async fn flush(&mut self, outbox: &mut Outbox) -> Result<(), Broken> {
        while !outbox.is_empty() {
            poll_fn(|cx| self.poll_write(cx, outbox)).await?;
        }
        Ok(poll_fn(|cx| self.poll_flush(cx)).await?)
    }

    /// Writes if the socket takes anything, else hears what the player says.
    async fn turn(&mut self, outbox: &mut Outbox) -> Result<Turn, Broken> {
        poll_fn(|cx| {
            if !outbox.is_empty()
                && let Poll::Ready(written) = self.poll_write(cx, outbox)
            {
                return Poll::Ready(written.map(Turn::Wrote).map_err(Broken::Io));
            }
            self.poll_said(cx).map_ok(Turn::Said)
        })
        .await
    }

    async fn said(&mut self) -> Result<Inbound, Broken> {
        poll_fn(|cx| self.poll_said(cx)).await
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, outbox: &mut Outbox) -> Poll<io::Result<u64>> {
        let io = Pin::new(&mut self.io);
        let written = outbox.write_with(|slices| match io.poll_write_vectored(cx, slices) {
            Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        });
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            written => {
                self.unflushed = self.socket.is_none();
                Poll::Ready(written)
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Hears what the player says, and flushes meanwhile.
    fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Inbound, Broken>> {
        if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
            return Poll::Ready(Err(Broken::Io(error)));
        }
        loop {
            let mut input = self.buf.get(self.at..self.filled).unwrap_or_default();
            let said = self.reader.read(&mut input);
            self.at = self.filled - input.len();
            match said {
                Ok(Some(said)) => return Poll::Ready(Ok(said)),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Err(Broken::Protocol(error))),
            }
            let mut buf = ReadBuf::new(&mut self.buf[..]);
            match Pin::new(&mut self.io).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if buf.filled().is_empty() => {
                    return Poll::Ready(Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())));
                }
                Poll::Ready(Ok(())) => (self.at, self.filled) = (0, buf.filled().len()),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Broken::Io(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
