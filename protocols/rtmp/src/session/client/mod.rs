//! The client's side of a connection: publishes to or plays from another server.

mod options;

pub use options::{ClientMode, ClientOptions};

use super::link::{Incoming, Link};
use super::{HEAD_ROOM, MediaKind, SessionError};
use crate::command::status::{Status, code};
use crate::command::{Command, request};
use crate::ertmp;
use crate::handshake::ClientHandshake;
use crate::message::{self, UserControl, type_id};
use bytes::BytesMut;
use spillway_amf::Value;

/// One event of a client session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// The server accepted the publish, or began to play.
    Ready,
    /// A message of the stream that is played.
    Media {
        /// What it carries.
        kind: MediaKind,
        /// The message's time in milliseconds, wrapping at 2^32.
        timestamp_ms: u32,
        /// [`HEAD_ROOM`] zero bytes, then the body, which may be empty.
        buf: Vec<u8>,
    },
    /// The server refused, or broke off with an error. Nothing more will come.
    Refused {
        /// The status code, such as `NetStream.Publish.Denied`; empty if the server gave none.
        code: String,
        /// The server's description; may be empty.
        description: String,
    },
    /// The stream that is played is over, or the server ended the publish.
    Ended,
}

/// How far the dialogue is. The numbers are transaction ids of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    CreatingStream,
    Starting,
    Ready,
    Over,
}

const CONNECT_ID: f64 = 1.0;
const RELEASE_STREAM_ID: f64 = 2.0;
const FC_PUBLISH_ID: f64 = 3.0;
const CREATE_STREAM_ID: f64 = 4.0;
const START_ID: f64 = 5.0;
const FC_UNPUBLISH_ID: f64 = 6.0;

/// The acknowledgement window this side announces, in bytes.
const WINDOW_BYTES: u32 = 2_500_000;
/// What a player says it buffers, in milliseconds. Live servers do not act on it.
const BUFFER_MS: u32 = 3_000;

/// The client's side of one connection, from the first byte on. See [`super`] for how to drive it;
/// [`output`](Self::output) has bytes to send from the start.
pub struct ClientSession {
    options: ClientOptions,
    handshake: Option<ClientHandshake>,
    link: Link,
    phase: Phase,
    message_stream_id: u32,
    following_event: Option<ClientEvent>,
}

impl ClientSession {
    /// A session whose first bytes are in the output.
    pub fn new(options: ClientOptions) -> Self {
        let mut link = Link::new(options.limits, options.out_limit_bytes, WINDOW_BYTES);
        let handshake = ClientHandshake::start(options.random_seed, options.digest, link.out());
        Self {
            options,
            handshake: Some(handshake),
            link,
            phase: Phase::Connecting,
            message_stream_id: 1,
            following_event: None,
        }
    }

    /// Consumes `input` from the front until there is an event, or the input is used up and there
    /// is none.
    ///
    /// # Errors
    /// See [`SessionError`]; the connection must be closed.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<ClientEvent>, SessionError> {
        if let Some(handshake) = &mut self.handshake {
            if !handshake.read(input, self.link.out())? {
                return Ok(None);
            }
            self.handshake = None;
            self.connect()?;
        }
        loop {
            if let Some(event) = self.following_event.take() {
                return Ok(Some(event));
            }
            let Some(incoming) = self.link.read(input)? else {
                return Ok(None);
            };
            let event = match incoming {
                Incoming::Command { command, .. } => self.command(&command)?,
                Incoming::Media {
                    kind,
                    timestamp_ms,
                    buf,
                } => self.played(kind, timestamp_ms, buf),
                Incoming::User(UserControl::StreamEof(_)) => self.ended(),
                Incoming::User(_) => None,
                Incoming::PeerBandwidth => {
                    let window = message::window_ack_size(WINDOW_BYTES);
                    self.link.control(type_id::WINDOW_ACK_SIZE, &window)?;
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// Bytes to send to the server. The caller takes them out.
    pub fn output(&mut self) -> &mut BytesMut {
        self.link.out()
    }

    /// Publishes one message. `body` is the message's payload as in an FLV tag; `@setDataFrame`,
    /// by which servers know metadata to keep, is put in front of `onMetaData` here.
    ///
    /// # Errors
    /// [`SessionError::LocalNotPublishing`] before `Ready` and after the end,
    /// [`SessionError::LocalOutputFull`] if the output is not being taken, or an error of the
    /// chunk writer if the body is longer than 16 MiB − 1.
    pub fn write_media(
        &mut self,
        kind: MediaKind,
        timestamp_ms: u32,
        body: &[u8],
    ) -> Result<(), SessionError> {
        if self.phase != Phase::Ready || self.options.mode != ClientMode::Publish {
            return Err(SessionError::LocalNotPublishing);
        }
        if kind == MediaKind::Data && body.starts_with(ON_META_DATA) {
            let body = [SET_DATA_FRAME, body].concat();
            return self.link.media(kind, self.message_stream_id, timestamp_ms, &body);
        }
        self.link.media(kind, self.message_stream_id, timestamp_ms, body)
    }

    /// Says goodbye: ends the publish or the play and deletes the stream. The caller sends the
    /// output and closes the connection.
    ///
    /// # Errors
    /// [`SessionError::PeerNotReading`] if the output is full.
    pub fn stop(&mut self) -> Result<(), SessionError> {
        let begun = matches!(self.phase, Phase::Starting | Phase::Ready);
        self.phase = Phase::Over;
        if !begun {
            return Ok(());
        }
        if self.options.mode == ClientMode::Publish {
            let name = Value::from(self.options.stream_name.as_str());
            self.link
                .command(0, &Command::new("FCUnpublish", FC_UNPUBLISH_ID, [name]))?;
        }
        let id = Value::from(self.message_stream_id);
        self.link.command(0, &Command::new("deleteStream", 0.0, [id]))
    }

    fn connect(&mut self) -> Result<(), SessionError> {
        let options = &self.options;
        let mut properties = vec![
            ("app".to_owned(), Value::from(options.app.as_str())),
            ("type".to_owned(), Value::from("nonprivate")),
            ("flashVer".to_owned(), Value::from(options.flash_version.as_str())),
            ("tcUrl".to_owned(), Value::from(options.tc_url.as_str())),
        ];
        if options.mode == ClientMode::Play {
            properties.extend([
                ("fpad".to_owned(), Value::Boolean(false)),
                ("capabilities".to_owned(), Value::Number(15.0)),
                ("audioCodecs".to_owned(), Value::Number(4071.0)),
                ("videoCodecs".to_owned(), Value::Number(252.0)),
                ("videoFunction".to_owned(), Value::Number(1.0)),
            ]);
        }
        properties.extend(ertmp::client_properties());
        let command = Command::with_object("connect", CONNECT_ID, Value::Object(properties), []);
        self.link.command(0, &command)
    }

    fn command(&mut self, command: &Command) -> Result<Option<ClientEvent>, SessionError> {
        match command.name.as_str() {
            "_result" => self.result(command),
            "_error" => Ok(self.error(command)),
            "onStatus" => Ok(self.status(command)),
            "close" => Ok(self.ended()),
            _ => Ok(None),
        }
    }

    fn result(&mut self, command: &Command) -> Result<Option<ClientEvent>, SessionError> {
        match self.phase {
            Phase::Connecting if is_id(command, CONNECT_ID) => self.create_stream()?,
            Phase::CreatingStream if is_id(command, CREATE_STREAM_ID) => {
                let id = command.number(1).and_then(request::message_stream_id);
                self.message_stream_id = id.unwrap_or(1);
                self.start()?;
            }
            // A few servers answer publish and play like any other call.
            Phase::Starting if is_id(command, START_ID) && self.options.mode == ClientMode::Publish => {
                return Ok(self.ready());
            }
            _ => {}
        }
        Ok(None)
    }

    fn create_stream(&mut self) -> Result<(), SessionError> {
        self.phase = Phase::CreatingStream;
        match self.options.mode {
            ClientMode::Publish => {
                self.link.announce_chunk_size()?;
                let name = || Value::from(self.options.stream_name.as_str());
                let release = Command::new("releaseStream", RELEASE_STREAM_ID, [name()]);
                let announce = Command::new("FCPublish", FC_PUBLISH_ID, [name()]);
                self.link.command(0, &release)?;
                self.link.command(0, &announce)?;
            }
            ClientMode::Play => {
                let window = message::window_ack_size(WINDOW_BYTES);
                self.link.control(type_id::WINDOW_ACK_SIZE, &window)?;
            }
        }
        self.link
            .command(0, &Command::new("createStream", CREATE_STREAM_ID, []))
    }

    fn start(&mut self) -> Result<(), SessionError> {
        self.phase = Phase::Starting;
        let message_stream_id = self.message_stream_id;
        let name = Value::from(self.options.stream_name.as_str());
        match self.options.mode {
            // YouTube refuses any publish type but this.
            ClientMode::Publish => {
                let publish = Command::new("publish", START_ID, [name, Value::from("live")]);
                self.link.command(message_stream_id, &publish)
            }
            ClientMode::Play => {
                let play = Command::new("play", START_ID, [name, Value::Number(START_LIVE_OR_RECORDED)]);
                self.link.command(message_stream_id, &play)?;
                self.link.user_control(UserControl::SetBufferLength {
                    message_stream_id,
                    buffer_ms: BUFFER_MS,
                })
            }
        }
    }

    fn error(&mut self, command: &Command) -> Option<ClientEvent> {
        let fatal = match self.phase {
            Phase::Connecting => true,
            Phase::CreatingStream => is_id(command, CREATE_STREAM_ID),
            Phase::Starting => is_id(command, START_ID),
            Phase::Ready | Phase::Over => false,
        };
        if !fatal {
            return None;
        }
        let status = Status::from_command(command);
        let (code, description) = status.map_or_else(Default::default, |s| (s.code, s.description));
        Some(self.refused(code, description))
    }

    fn refused(&mut self, code: String, description: String) -> ClientEvent {
        self.phase = Phase::Over;
        ClientEvent::Refused { code, description }
    }

    fn status(&mut self, command: &Command) -> Option<ClientEvent> {
        if self.phase == Phase::Over {
            return None;
        }
        let status = Status::from_command(command)?;
        if status.is_error {
            return Some(self.refused(status.code, status.description));
        }
        match status.code.as_str() {
            code::PUBLISH_START if self.options.mode == ClientMode::Publish => self.ready(),
            code::PLAY_START if self.options.mode == ClientMode::Play => self.ready(),
            code::UNPUBLISH_SUCCESS | code::PLAY_UNPUBLISH_NOTIFY | code::PLAY_STOP | code::PLAY_COMPLETE => {
                self.ended()
            }
            _ => None,
        }
    }

    fn ready(&mut self) -> Option<ClientEvent> {
        if self.phase != Phase::Starting {
            return None;
        }
        self.phase = Phase::Ready;
        Some(ClientEvent::Ready)
    }

    fn ended(&mut self) -> Option<ClientEvent> {
        if self.phase != Phase::Ready {
            return None;
        }
        self.phase = Phase::Over;
        Some(ClientEvent::Ended)
    }

    fn played(&mut self, kind: MediaKind, timestamp_ms: u32, buf: Vec<u8>) -> Option<ClientEvent> {
        let body = buf.get(HEAD_ROOM..).unwrap_or_default();
        let of_the_connection =
            kind == MediaKind::Data && NOT_OF_THE_STREAM.iter().any(|name| body.starts_with(name));
        if self.options.mode != ClientMode::Play || of_the_connection {
            return None;
        }
        let media = ClientEvent::Media {
            kind,
            timestamp_ms,
            buf,
        };
        match self.phase {
            Phase::Ready => Some(media),
            // Some servers send media without having said that playback starts.
            Phase::Starting if matches!(kind, MediaKind::Audio | MediaKind::Video) => {
                self.following_event = Some(media);
                self.ready()
            }
            _ => None,
        }
    }
}

/// `play`'s start argument: the live stream of this name, else a recorded one.
const START_LIVE_OR_RECORDED: f64 = -2.0;

/// The AMF0 string `onMetaData`, with which the body of a metadata message begins.
const ON_META_DATA: &[u8] = b"\x02\x00\x0AonMetaData";
/// The AMF0 string `@setDataFrame`.
const SET_DATA_FRAME: &[u8] = b"\x02\x00\x0D@setDataFrame";

/// Names of data messages (AMF0 strings) that speak of the connection, not of the stream: handed
/// on, `onStatus` would appear to FFmpeg as a track of its own.
const NOT_OF_THE_STREAM: [&[u8]; 2] = [b"\x02\x00\x11|RtmpSampleAccess", b"\x02\x00\x08onStatus"];

/// Whether a result belongs to the call `id`. Some servers write 0 for every result.
fn is_id(command: &Command, id: f64) -> bool {
    command.transaction_id == id || (command.transaction_id == 0.0 && id == CONNECT_ID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spillway_amf::amf0;

    #[test]
    fn the_metadata_constants_are_what_the_amf_writer_writes() {
        for (constant, text) in [
            (ON_META_DATA, "onMetaData"),
            (SET_DATA_FRAME, "@setDataFrame"),
            (NOT_OF_THE_STREAM[0], "|RtmpSampleAccess"),
            (NOT_OF_THE_STREAM[1], "onStatus"),
        ] {
            let mut written = Vec::new();
            amf0::write(&Value::from(text), &mut written);
            assert_eq!(constant, written);
        }
    }
}
