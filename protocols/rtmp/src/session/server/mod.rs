//! The server's side of a connection.

mod allowance;
mod commands;
mod event;
mod held;
mod options;
mod streams;

pub use event::{ConnectInfo, PlayRefusal, PublishRefusal, RequestId, ServerEvent};
pub use options::ServerOptions;

use super::link::{Incoming, Link};
use super::{MediaKind, SessionError};
use crate::command::status::{Level, code, on_status};
use crate::command::{Connect, reply};
use crate::handshake::ServerHandshake;
use crate::message::UserControl;
use allowance::Allowance;
use bytes::BytesMut;
use held::HeldMedia;
use streams::{Purpose, Streams};

/// The server's side of one connection, from the first byte on.
///
/// A connection publishes one stream or plays one, never both at a time; it may do either again
/// after the other. What it asks for beside that is refused here and never becomes an event. The
/// caller decides on each request by `accept_…` or `refuse_…`; until then the client waits and
/// media it sends ahead is held. See [`super`] for how to drive it.
///
/// The configured [`limits`](ServerOptions::limits) are for a client whose publish is accepted.
/// Without one the longest message is 256 KiB and incomplete messages take 320 KiB at most, while
/// one is requested as much as can be [held](ServerOptions::held_media_bytes) on top: before the
/// caller has decided, anybody may be at the other end.
pub struct ServerSession {
    options: ServerOptions,
    handshake: Option<ServerHandshake>,
    link: Link,
    connect: Option<Connect>,
    streams: Streams,
    held: HeldMedia,
    following_event: Option<ServerEvent>,
    stray_messages: u64,
    allowance: Allowance,
}

impl ServerSession {
    /// A session at the start of its handshake.
    pub fn new(options: ServerOptions) -> Self {
        let allowance = Allowance::Idle;
        let limits = allowance.limits(&options);
        Self {
            handshake: Some(ServerHandshake::new(options.random_seed)),
            link: Link::new(limits, options.out_limit_bytes, options.window_ack_bytes),
            connect: None,
            streams: Streams::default(),
            held: HeldMedia::new(options.held_media_bytes),
            following_event: None,
            stray_messages: 0,
            allowance,
            options,
        }
    }

    /// Consumes `input` from the front until there is an event, or the input is used up and there
    /// is none. After [`accept_publish`](Self::accept_publish) and
    /// [`accept_play`](Self::accept_play) call it even without new input: it first gives out the
    /// media held meanwhile, or what the player asked for meanwhile.
    ///
    /// # Errors
    /// See [`SessionError`]; the connection must be closed, after sending what is in the output.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<ServerEvent>, SessionError> {
        if let Some(handshake) = &mut self.handshake {
            if !handshake.read(input, self.link.out())? {
                return Ok(None);
            }
            self.handshake = None;
            return Ok(Some(ServerEvent::HandshakeDone));
        }
        loop {
            if let Some(event) = self.following_event.take().or_else(|| self.next_held()) {
                return Ok(Some(event));
            }
            if let Some(event) = self.next_wish()? {
                return Ok(Some(event));
            }
            let incoming = match self.link.read(input) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.allowance.explain(error, &self.options)),
            };
            let event = match incoming {
                Incoming::Command {
                    message_stream_id,
                    command,
                } => self.command(message_stream_id, &command)?,
                Incoming::Media {
                    kind,
                    timestamp_ms,
                    buf,
                } => self.media(kind, timestamp_ms, buf),
                Incoming::User(_) | Incoming::PeerBandwidth => None,
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Bytes to send to the client. The caller takes them out.
    pub fn output(&mut self) -> &mut BytesMut {
        self.link.out()
    }

    /// Lets the client publish. Returns false, and does nothing, if the request is no longer open:
    /// the client withdrew it or the session has ended it.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn accept_publish(&mut self, request: RequestId) -> Result<bool, SessionError> {
        let Some(stream) = self.streams.open_request(request, Purpose::Publish) else {
            return Ok(false);
        };
        stream.accept();
        let (id, reply_to) = (stream.id, stream.reply_to());
        self.fit_allowance();
        self.link.user_control(UserControl::StreamBegin(id))?;
        let status = on_status(Level::Status, code::PUBLISH_START, "Publishing has started.");
        self.link.command(reply_to, &status)?;
        Ok(true)
    }

    /// Refuses a publish. `description` is shown to a person: say what to change. Give the client
    /// a moment to read it before closing, or it will report a lost connection and try again.
    /// Large frames that it has sent ahead are an error from then on. Returns false if the request
    /// is no longer open.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn refuse_publish(
        &mut self,
        request: RequestId,
        refusal: PublishRefusal,
        description: &str,
    ) -> Result<bool, SessionError> {
        let refused = self.refuse(request, Purpose::Publish, refusal.code(), description)?;
        if refused {
            self.held.clear();
        }
        Ok(refused)
    }

    /// Lets the client play: tells it that the stream begins. Media sent afterwards must carry
    /// [`play_stream_id`](Self::play_stream_id). If the client has paused, or turned audio or video
    /// off or on, while it waited, the next [`read`](Self::read) says so before anything else and
    /// answers it. Returns false if the request is no longer open.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn accept_play(&mut self, request: RequestId) -> Result<bool, SessionError> {
        let Some(stream) = self.streams.open_request(request, Purpose::Play) else {
            return Ok(false);
        };
        stream.accept();
        let (id, reply_to) = (stream.id, stream.reply_to());
        self.link.user_control(UserControl::StreamBegin(id))?;
        let reset = on_status(Level::Status, code::PLAY_RESET, "Playing and resetting.");
        self.link.command(reply_to, &reset)?;
        let start = on_status(Level::Status, code::PLAY_START, "Playback has started.");
        self.link.command(reply_to, &start)?;
        self.link.data(id, &reply::sample_access())?;
        Ok(true)
    }

    /// Refuses a play, as [`refuse_publish`](Self::refuse_publish) does a publish.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn refuse_play(
        &mut self,
        request: RequestId,
        refusal: PlayRefusal,
        description: &str,
    ) -> Result<bool, SessionError> {
        self.refuse(request, Purpose::Play, refusal.code(), description)
    }

    fn refuse(
        &mut self,
        request: RequestId,
        purpose: Purpose,
        code: &str,
        description: &str,
    ) -> Result<bool, SessionError> {
        let Some(stream) = self.streams.open_request(request, purpose) else {
            return Ok(false);
        };
        let reply_to = stream.reply_to();
        stream.release();
        self.fit_allowance();
        self.link
            .command(reply_to, &on_status(Level::Error, code, description))?;
        Ok(true)
    }

    /// The message stream id that media to this player must carry. It is 1 for every client that
    /// plays on the first stream it creates, and for a client that plays nothing.
    pub fn play_stream_id(&self) -> u32 {
        self.streams.current(Purpose::Play).map_or(1, |stream| stream.id)
    }

    /// Tells the player that the stream is over. Does nothing if it plays nothing.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn end_play(&mut self, description: &str) -> Result<(), SessionError> {
        let Some(stream) = self.streams.current_mut(Purpose::Play) else {
            return Ok(());
        };
        let (id, reply_to) = (stream.id, stream.reply_to());
        stream.release();
        self.link.user_control(UserControl::StreamEof(id))?;
        let status = on_status(Level::Status, code::PLAY_UNPUBLISH_NOTIFY, description);
        self.link.command(reply_to, &status)
    }

    /// Ends the client's publish from this side, such as when another publisher took the name over
    /// ([`code::PUBLISH_BAD_NAME`]) or the server shuts down ([`code::UNPUBLISH_SUCCESS`]). Every
    /// code but the latter is sent as an error. Does nothing if the client publishes nothing; no
    /// `PublishEnded` follows. Frames still on their way are thrown away, and large ones are an
    /// error as before a publish: close the connection once the client has had a moment to read.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn end_publish(&mut self, code: &str, description: &str) -> Result<(), SessionError> {
        let Some(stream) = self.streams.current_mut(Purpose::Publish) else {
            return Ok(());
        };
        let reply_to = stream.reply_to();
        stream.release();
        self.held.clear();
        self.fit_allowance();
        let level = if code == code::UNPUBLISH_SUCCESS {
            Level::Status
        } else {
            Level::Error
        };
        self.link.command(reply_to, &on_status(level, code, description))
    }

    /// Asks the client to connect again, to `tc_url` or to the same place (Enhanced RTMP v2). Sends
    /// nothing and returns false if the client has not said that it understands this.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn request_reconnect(
        &mut self,
        tc_url: Option<&str>,
        description: &str,
    ) -> Result<bool, SessionError> {
        if !self
            .connect
            .as_ref()
            .is_some_and(|connect| connect.capabilities.reconnect())
        {
            return Ok(false);
        }
        self.link
            .command(0, &reply::reconnect_request(tc_url, description))?;
        Ok(true)
    }

    /// Sends a ping that carries `timestamp_ms`, unless much output waits already. Clients answer
    /// when they next read, which for some is when they next send.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`].
    pub fn ping(&mut self, timestamp_ms: u32) -> Result<(), SessionError> {
        if self.handshake.is_some() {
            return Ok(());
        }
        self.link
            .optional_user_control(UserControl::PingRequest(timestamp_ms))
    }

    /// Memory held for incomplete messages and for media that waits for
    /// [`accept_publish`](Self::accept_publish), in bytes.
    pub fn bytes_held(&self) -> usize {
        self.link.bytes_held().saturating_add(self.held.bytes())
    }

    /// How many audio, video and data messages this session has thrown away since it began:
    ///
    /// - those that came while the client had no publish, before the first and after each that
    ///   ended or was refused, which a player should never send;
    /// - those that came while a publish waited for its acceptance and were more than
    ///   [`held_media_bytes`](ServerOptions::held_media_bytes).
    ///
    /// Held media that is forgotten because its publish is refused or withdrawn is not counted, nor
    /// are messages of other types. The count never falls.
    pub fn dropped_messages(&self) -> u64 {
        self.stray_messages.saturating_add(self.held.dropped_messages())
    }

    /// Media goes to the publish whatever its message stream id, because metadata often comes on
    /// id 0 and some encoders use one id per kind.
    fn media(&mut self, kind: MediaKind, timestamp_ms: u32, buf: Vec<u8>) -> Option<ServerEvent> {
        match self.allowance {
            Allowance::Publishing => {
                return Some(ServerEvent::Media {
                    kind,
                    timestamp_ms,
                    buf,
                });
            }
            Allowance::Pending => self.held.push(kind, timestamp_ms, buf),
            Allowance::Idle => self.stray_messages = self.stray_messages.saturating_add(1),
        }
        None
    }

    /// To be called when a publish is requested, accepted, refused or over.
    fn fit_allowance(&mut self) {
        let allowance = match self.streams.current(Purpose::Publish) {
            None => Allowance::Idle,
            Some(stream) if stream.is_accepted() => Allowance::Publishing,
            Some(_) => Allowance::Pending,
        };
        if allowance != self.allowance {
            self.allowance = allowance;
            self.link.set_limits(allowance.limits(&self.options));
        }
    }

    fn next_held(&mut self) -> Option<ServerEvent> {
        if self.held.is_empty() || self.allowance != Allowance::Publishing {
            return None;
        }
        self.held.pop()
    }
}
