//! The server's side of a connection.

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
use bytes::BytesMut;
use held::HeldMedia;
use streams::{Purpose, Streams};

/// The server's side of one connection, from the first byte on.
///
/// A connection publishes at most one stream and plays at most one at a time; it may do either
/// again after the other. The caller decides on each request by `accept_…` or `refuse_…`; until
/// then the client waits and media it sends ahead is held. See [`super`] for how to drive it.
pub struct ServerSession {
    options: ServerOptions,
    handshake: Option<ServerHandshake>,
    link: Link,
    connect: Option<Connect>,
    streams: Streams,
    held: HeldMedia,
    following_event: Option<ServerEvent>,
    stray_messages: u64,
}

impl ServerSession {
    /// A session at the start of its handshake.
    pub fn new(options: ServerOptions) -> Self {
        Self {
            handshake: Some(ServerHandshake::new(options.random_seed)),
            link: Link::new(options.limits, options.out_limit_bytes, options.window_ack_bytes),
            connect: None,
            streams: Streams::default(),
            held: HeldMedia::new(options.held_media_bytes),
            following_event: None,
            stray_messages: 0,
            options,
        }
    }

    /// Consumes `input` from the front until there is an event, or the input is used up and there
    /// is none. After [`accept_publish`](Self::accept_publish) call it even without new input: it
    /// first gives out the media held meanwhile.
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
            let Some(incoming) = self.link.read(input)? else {
                return Ok(None);
            };
            let event = match incoming {
                Incoming::Command {
                    message_stream_id,
                    command,
                } => self.command(message_stream_id, &command)?,
                Incoming::Media {
                    kind,
                    message_stream_id,
                    timestamp_ms,
                    buf,
                } => self.media(kind, message_stream_id, timestamp_ms, buf),
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
        self.link.user_control(UserControl::StreamBegin(id))?;
        let status = on_status(Level::Status, code::PUBLISH_START, "Publishing has started.");
        self.link.command(reply_to, &status)?;
        Ok(true)
    }

    /// Refuses a publish. `description` is shown to a person: say what to change. Give the client
    /// a moment to read it before closing, or it will report a lost connection and try again.
    /// Returns false if the request is no longer open.
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
    /// [`play_stream_id`](Self::play_stream_id). Returns false if the request is no longer open.
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
    /// `PublishEnded` follows.
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

    /// Messages thrown away: media while nothing was published, and the oldest of the held media
    /// when that became too much.
    pub fn dropped_messages(&self) -> u64 {
        self.stray_messages.saturating_add(self.held.dropped_messages())
    }

    /// Media goes to the publish whatever its message stream id, because metadata often comes on
    /// id 0 and some encoders use one id per kind. Only the id of a stream that plays is not it.
    fn media(
        &mut self,
        kind: MediaKind,
        message_stream_id: u32,
        timestamp_ms: u32,
        buf: Vec<u8>,
    ) -> Option<ServerEvent> {
        let accepted = match self.streams.current(Purpose::Publish) {
            Some(stream) if !self.streams.plays(message_stream_id) => stream.is_accepted(),
            _ => {
                self.stray_messages = self.stray_messages.saturating_add(1);
                return None;
            }
        };
        if accepted {
            return Some(ServerEvent::Media {
                kind,
                timestamp_ms,
                buf,
            });
        }
        self.held.push(kind, timestamp_ms, buf);
        None
    }

    fn next_held(&mut self) -> Option<ServerEvent> {
        if self.held.is_empty() || !self.streams.current(Purpose::Publish)?.is_accepted() {
            return None;
        }
        self.held.pop()
    }
}
