//! One RTMP connection: reads commands and media, writes replies and, for a player, frames.

mod requests;

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use spillway_access::Refusal;
use spillway_hub::{
    Batch, EndReason, Format, Limit, Protocol, Publisher, SessionInfo, StreamKey, TagType, Viewer,
};
use spillway_net::{ClientAddr, Socket};
use spillway_rtmp::command::status::code;
use spillway_rtmp::session::MediaKind;
use spillway_rtmp::session::server::{RequestId, ServerEvent, ServerOptions, ServerSession};
use spillway_web::Pass;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Rtmp;
use super::exit::{Exit, limit_of};
use super::io::{READ_BUFFER, read_once, write_slices};
use super::player::{Player, PlayerWake, Wish};
use crate::random;
use requests::{Asking, Attaching, Connecting, NoPlay, Stay};

/// A deadline for what has none.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a connection that is being closed may take to fetch the last words.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The change in what a connection holds of incoming messages that is worth counting.
const HELD_STEP: usize = 16 << 10;

/// What the connection is for.
enum State {
    /// Handshake and first commands.
    Starting,
    /// Waiting for leave to publish.
    Asking {
        request: RequestId,
        stream: StreamKey,
        asking: Asking,
    },
    /// Publishing.
    Publishing {
        publisher: Publisher,
        lost: Pin<Box<WaitForCancellationFutureOwned>>,
        since: Instant,
    },
    /// Waiting for the stream to play.
    Attaching {
        request: RequestId,
        attaching: Attaching,
    },
    /// Playing.
    Playing(Player),
    /// The last words are on their way.
    Closing { until: Instant, told: bool },
}

/// Serves one connection to its end.
pub(super) async fn serve(rtmp: Arc<Rtmp>, socket: Socket, client: ClientAddr, shutdown: CancellationToken) {
    let options = ServerOptions {
        random_seed: random::number(),
        limits: rtmp.options.limits,
        ..ServerOptions::default()
    };
    let now = Instant::now();
    let mut connection = Connection {
        info: SessionInfo::new(Protocol::Rtmp, client.address()),
        client,
        session: ServerSession::new(options),
        socket,
        state: State::Starting,
        batch: Batch::new(Format::Rtmp),
        opened: now,
        stalled: false,
        stalled_since: None,
        counted_bytes: 0,
        stay: Stay::default(),
        connecting: None,
        rtmp,
    };
    let exit = connection.run(shutdown).await;
    connection.finish(&exit);
}

struct Connection {
    rtmp: Arc<Rtmp>,
    socket: Socket,
    session: ServerSession,
    info: SessionInfo,
    client: ClientAddr,
    state: State,
    batch: Batch,
    opened: Instant,
    /// The socket takes no more for now.
    stalled: bool,
    /// Since when it has taken nothing.
    stalled_since: Option<Instant>,
    /// Bytes of incoming messages that the process's count knows of.
    counted_bytes: usize,
    stay: Stay,
    /// Until the first request.
    connecting: Option<Connecting>,
}

/// What woke the connection.
enum Wake {
    Readable,
    Writable,
    Player(PlayerWake),
    Decided(Result<Pass, Refusal>),
    Attached(Box<Result<(Viewer, Pass), NoPlay>>),
    Lost,
    Shutdown,
    Timer,
}

impl Connection {
    async fn run(&mut self, shutdown: CancellationToken) -> Exit {
        let timer = sleep_until(self.deadline());
        let stop = shutdown.cancelled();
        tokio::pin!(timer, stop);
        loop {
            if let Err(exit) = self.write() {
                return exit;
            }
            self.hang_up();
            let deadline = self.deadline();
            if deadline < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(deadline);
            }
            let closing = matches!(self.state, State::Closing { .. });
            let wake = tokio::select! {
                biased;
                () = stop.as_mut(), if !closing && !self.is_told_of_shutdown() => Wake::Shutdown,
                () = timer.as_mut() => Wake::Timer,
                ready = poll_fn(|cx| self.socket.poll_read_ready(cx)) => match ready {
                    Ok(()) => Wake::Readable,
                    Err(error) => return error.into(),
                },
                ready = poll_fn(|cx| self.socket.poll_write_ready(cx)), if self.stalled => match ready {
                    Ok(()) => Wake::Writable,
                    Err(error) => return error.into(),
                },
                wake = next_of(&mut self.state, &mut self.batch, !self.stalled) => wake,
            };
            if let Err(exit) = self.handle(wake) {
                return exit;
            }
        }
    }

    /// Whether the shutdown reaches the peer through its stream: a player whose socket is full cannot be told.
    fn is_told_of_shutdown(&self) -> bool {
        match self.state {
            State::Publishing { .. } => true,
            State::Playing(_) => !self.stalled,
            State::Starting | State::Asking { .. } | State::Attaching { .. } | State::Closing { .. } => false,
        }
    }

    /// After the last words the peer is told that nothing follows; it has until the deadline to close, so
    /// that the words are not lost in a reset.
    fn hang_up(&mut self) {
        if let State::Closing { told, .. } = &mut self.state
            && !self.stalled
            && !std::mem::replace(told, true)
        {
            self.socket.hang_up();
        }
    }

    fn handle(&mut self, wake: Wake) -> Result<(), Exit> {
        match wake {
            Wake::Readable => self.read(),
            Wake::Writable => {
                self.stalled = false;
                Ok(())
            }
            Wake::Player(wake) => self.player_woke(wake),
            Wake::Decided(decision) => self.decided(decision),
            Wake::Attached(result) => self.attached(*result),
            Wake::Lost => self.publisher_lost(),
            Wake::Shutdown => Err(Exit::Failed(
                EndReason::Shutdown,
                "the server is shutting down".into(),
            )),
            Wake::Timer => self.check_deadline(),
        }
    }

    /// When something is overdue if nothing happens before.
    fn deadline(&self) -> Instant {
        let options = &self.rtmp.options;
        // A publisher that reads nothing may go on sending: what we say to it is bounded by the session.
        let waits = !matches!(self.state, State::Publishing { .. });
        let stall = self
            .stalled_since
            .filter(|_| waits)
            .map(|since| since + options.stall_timeout);
        let own = match &self.state {
            State::Starting => self.opened + options.handshake_timeout,
            State::Publishing { publisher, since, .. } => match publisher.last_media() {
                Some(at) => at + options.idle_timeout,
                None => *since + options.first_media_timeout,
            },
            State::Asking { .. } | State::Attaching { .. } | State::Playing(_) => self.opened + NEVER,
            State::Closing { until, .. } => *until,
        };
        [stall, self.stay.until]
            .into_iter()
            .flatten()
            .fold(own, Instant::min)
    }

    fn check_deadline(&mut self) -> Result<(), Exit> {
        let now = Instant::now();
        if now < self.deadline() {
            return Ok(());
        }
        if self.stay.until.is_some_and(|until| until <= now) {
            return self.stay_over();
        }
        let stalls = !matches!(self.state, State::Closing { .. } | State::Publishing { .. });
        if self.stalled_since.is_some() && stalls {
            let text = "the peer took no byte for play.stall_timeout";
            return Err(Exit::Failed(EndReason::Stalled, text.into()));
        }
        match &self.state {
            State::Starting => {
                self.rtmp.hub.stats().refused(Limit::HandshakeTimeout);
                let text = "no publish or play command came within limits.handshake_timeout";
                Err(Exit::Failed(EndReason::Timeout, text.into()))
            }
            State::Publishing { publisher, .. } => {
                let key = if publisher.last_media().is_some() {
                    "publish.idle_timeout"
                } else {
                    "publish.first_media_timeout"
                };
                Err(Exit::Failed(
                    EndReason::Idle,
                    format!("the publisher sent no media for {key}"),
                ))
            }
            State::Closing { .. } => Err(Exit::Done),
            State::Asking { .. } | State::Attaching { .. } | State::Playing(_) => Ok(()),
        }
    }

    fn read(&mut self) -> Result<(), Exit> {
        let result = self.read_and_act();
        let held = self.session.bytes_held();
        if held.abs_diff(self.counted_bytes) >= HELD_STEP {
            self.count_held(held);
        }
        result
    }

    /// Tells the process's count how much the connection holds of messages that are not complete.
    fn count_held(&mut self, held: usize) {
        let count = &self.rtmp.hub.stats().incoming_bytes;
        count.add(held as u64);
        count.sub(self.counted_bytes as u64);
        self.counted_bytes = held;
    }

    /// Reads what is there and acts on it.
    fn read_and_act(&mut self) -> Result<(), Exit> {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let count = match read_once(&mut self.socket, buffer) {
                Ok(0) => return Err(Exit::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if matches!(self.state, State::Closing { .. }) {
                return Ok(());
            }
            let mut input = buffer.get(..count).unwrap_or_default();
            loop {
                match self.session.read(&mut input) {
                    Ok(Some(event)) => self.event(event)?,
                    Ok(None) => return Ok(()),
                    Err(error) => {
                        if let Some(limit) = limit_of(&error) {
                            self.rtmp.hub.stats().refused(limit);
                        }
                        return Err(error.into());
                    }
                }
                if matches!(self.state, State::Closing { .. }) {
                    return Ok(());
                }
            }
        })
    }

    fn event(&mut self, event: ServerEvent) -> Result<(), Exit> {
        match event {
            ServerEvent::HandshakeDone => {}
            ServerEvent::Connected(connect) => self.connect(&connect),
            ServerEvent::PublishRequested { request, stream } => self.publish(request, &stream)?,
            ServerEvent::PlayRequested { request, stream } => self.play(request, &stream)?,
            ServerEvent::Media {
                kind,
                timestamp_ms,
                buf,
            } => self.media(kind, timestamp_ms, buf)?,
            ServerEvent::PublishEnded => {
                if let State::Publishing { .. } | State::Asking { .. } = self.state {
                    self.change_state(State::Starting, EndReason::Client);
                    self.opened = Instant::now();
                }
            }
            ServerEvent::PlayEnded => {
                if let State::Playing(_) | State::Attaching { .. } = self.state {
                    self.change_state(State::Starting, EndReason::Client);
                    self.opened = Instant::now();
                }
            }
            ServerEvent::Paused(paused) => self.wish(Wish::Paused(paused))?,
            ServerEvent::ReceiveAudio(audio) => self.wish(Wish::Audio(audio))?,
            ServerEvent::ReceiveVideo(video) => self.wish(Wish::Video(video))?,
        }
        Ok(())
    }

    fn media(&mut self, kind: MediaKind, timestamp_ms: u32, mut buf: Vec<u8>) -> Result<(), Exit> {
        let State::Publishing { publisher, .. } = &mut self.state else {
            return Ok(());
        };
        let tag = match kind {
            MediaKind::Audio => TagType::Audio,
            MediaKind::Video => TagType::Video,
            MediaKind::Data => TagType::Script,
            MediaKind::DataAmf3 => {
                // An AMF3 data message is AMF0 behind one selector byte (RTMP 1.0 §7.1.2).
                if buf.len() > spillway_flv::tag::HEAD_LEN {
                    buf.remove(spillway_flv::tag::HEAD_LEN);
                }
                TagType::Script
            }
        };
        match publisher.push(tag, timestamp_ms, buf) {
            Ok(()) => Ok(()),
            Err(_) => self.publisher_lost(),
        }
    }

    fn publisher_lost(&mut self) -> Result<(), Exit> {
        let State::Publishing { publisher, .. } = &self.state else {
            return Ok(());
        };
        let reason = publisher.loss_reason();
        let (code, text) = match reason {
            EndReason::Shutdown => (
                code::UNPUBLISH_SUCCESS,
                "the server is shutting down; connect again in a moment",
            ),
            EndReason::Replaced => (code::PUBLISH_BAD_NAME, "another publisher took this stream over"),
            EndReason::TooFast => (
                code::PUBLISH_DENIED,
                "the publisher sent more than limits.publish_bitrate, or the hook, allows; send in real time (ffmpeg -re) or lower the bit rate",
            ),
            _ => (code::UNPUBLISH_SUCCESS, "the stream was ended"),
        };
        if reason == EndReason::Shutdown {
            self.session.request_reconnect(None, text)?;
        }
        self.session.end_publish(code, text)?;
        self.close_with(reason);
        Ok(())
    }

    fn player_woke(&mut self, wake: PlayerWake) -> Result<(), Exit> {
        let State::Playing(player) = &mut self.state else {
            return Ok(());
        };
        match wake {
            PlayerWake::Frames => player.prepare(&mut self.batch, self.session.play_stream_id()),
            PlayerWake::HandedBack => {
                self.stalled_since = None;
                player.stand(&mut self.batch)?;
            }
            PlayerWake::Over(reason) => return self.end_play(reason),
        }
        Ok(())
    }

    fn wish(&mut self, wish: Wish) -> Result<(), Exit> {
        match &mut self.state {
            State::Playing(player) => Ok(player.obey(wish, &mut self.batch)?),
            _ => Ok(()),
        }
    }

    fn end_play(&mut self, reason: EndReason) -> Result<(), Exit> {
        let text = match reason {
            EndReason::Shutdown => "the server is shutting down; connect again in a moment",
            _ => "the stream is over",
        };
        if reason == EndReason::Shutdown {
            self.session.request_reconnect(None, text)?;
        }
        self.session.end_play(text)?;
        self.close_with(reason);
        Ok(())
    }

    /// Ends whatever stream the connection had, and the connection once everything is written.
    fn close_with(&mut self, reason: EndReason) {
        self.change_state(
            State::Closing {
                until: Instant::now() + CLOSE_TIMEOUT,
                told: false,
            },
            reason,
        );
    }

    fn change_state(&mut self, state: State, reason: EndReason) {
        match std::mem::replace(&mut self.state, state) {
            State::Publishing { publisher, .. } => publisher.end(reason),
            State::Playing(player) => player.end(reason, &mut self.batch),
            State::Starting | State::Asking { .. } | State::Attaching { .. } | State::Closing { .. } => {}
        }
        std::mem::take(&mut self.stay).end(reason);
    }

    /// Writes until everything is out or the socket takes no more.
    fn write(&mut self) -> Result<(), Exit> {
        if let State::Playing(player) = &mut self.state
            && !self.session.output().is_empty()
        {
            player.stand(&mut self.batch)?;
        }
        while !self.stalled {
            let control = !self.session.output().is_empty() && self.batch.at_message_start();
            let result = if control {
                self.socket.try_write(self.session.output())
            } else if self.batch.is_done() {
                return self.all_written();
            } else {
                self.batch
                    .write_with(|slices| write_slices(&mut self.socket, slices))
            };
            match result {
                Ok(count) => {
                    self.stalled_since = None;
                    if control {
                        let output = self.session.output();
                        output.advance(count);
                        if output.is_empty() {
                            // Most connections have had their say: they keep no buffer for it.
                            *output = BytesMut::new();
                        }
                    } else if let State::Playing(player) = &mut self.state {
                        player.sent(count as u64);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stalled = true;
                    self.stalled_since.get_or_insert_with(Instant::now);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Everything is written: TLS may still hold some of it, and on plain TCP a lane can go on from here.
    fn all_written(&mut self) -> Result<(), Exit> {
        match (&mut self.socket, &mut self.state) {
            (Socket::Plain(socket), State::Playing(player)) => {
                player.sit(&self.batch, socket, self.session.play_stream_id());
                Ok(())
            }
            (Socket::Plain(_), _) => Ok(()),
            (tls @ Socket::Tls(_), _) => match tls.try_flush() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stalled = true;
                    self.stalled_since.get_or_insert_with(Instant::now);
                    Ok(())
                }
                result => {
                    self.stalled_since = None;
                    Ok(result?)
                }
            },
        }
    }

    /// Closes the books on the connection.
    fn finish(mut self, exit: &Exit) {
        self.count_held(0);
        let reason = match exit {
            Exit::Closed | Exit::Done => EndReason::Client,
            Exit::Failed(EndReason::Shutdown, _) => EndReason::Shutdown,
            Exit::Failed(reason, text) => {
                self.log_failure(*reason, text);
                *reason
            }
        };
        self.rtmp
            .hub
            .stats()
            .unplaced_messages
            .add(self.session.dropped_messages());
        if matches!((&self.state, exit), (State::Starting, Exit::Failed(..))) {
            self.rtmp.hub.stats().connection_failed(reason);
        }
        self.change_state(
            State::Closing {
                until: Instant::now(),
                told: true,
            },
            reason,
        );
    }

    /// Whoever has a stream gets a line for it; all others share a budget.
    fn log_failure(&self, reason: EndReason, text: &str) {
        let known = matches!(self.state, State::Publishing { .. } | State::Playing(_));
        let leave = if known {
            Some(0)
        } else {
            self.rtmp.log_budget.take()
        };
        if let Some(left_out) = leave {
            let (session, peer, stage) = (self.info.id, self.info.peer, self.stage());
            let reason = reason.label();
            tracing::warn!(%session, %peer, stage, reason, left_out, "connection closed: {text}");
        }
    }

    fn stage(&self) -> &'static str {
        match self.state {
            State::Starting => "starting",
            State::Asking { .. } => "waiting for leave",
            State::Publishing { .. } => "publishing",
            State::Attaching { .. } => "waiting for the stream",
            State::Playing(_) => "playing",
            State::Closing { .. } => "closing",
        }
    }
}

/// What the state itself waits for.
async fn next_of(state: &mut State, batch: &mut Batch, may_fill: bool) -> Wake {
    match state {
        State::Publishing { lost, .. } => {
            lost.await;
            Wake::Lost
        }
        State::Asking { asking, .. } => Wake::Decided(asking.await),
        State::Attaching { attaching, .. } => Wake::Attached(Box::new(attaching.await)),
        State::Playing(player) => Wake::Player(player.next(batch, may_fill).await),
        _ => std::future::pending().await,
    }
}
