//! A scripted client in front of a [`ServerSession`]: what it sends is built by this crate's
//! writer, what it gets back is read by this crate's reader and put into short lines.

#![allow(dead_code, reason = "each test file uses a part of it")]

use bytes::BytesMut;
use spillway_amf::{Value, amf0};
use spillway_rtmp::chunk::{ChunkReader, ChunkWriter, ReaderOptions};
use spillway_rtmp::command::Command;
use spillway_rtmp::command::status::Status;
use spillway_rtmp::message::{UserControl, type_id};
use spillway_rtmp::session::{
    HEAD_ROOM, MediaKind, RequestId, ServerEvent, ServerOptions, ServerSession, SessionError,
};

pub(crate) const HANDSHAKE_BYTES: usize = 1 + 1536 + 1536;

pub(crate) struct Client {
    pub(crate) session: ServerSession,
    writer: ChunkWriter,
    reader: ChunkReader,
    pub(crate) events: Vec<ServerEvent>,
}

impl Client {
    /// A client whose handshake is done and answered.
    pub(crate) fn new() -> Self {
        Self::with_options(ServerOptions::default())
    }

    pub(crate) fn with_options(options: ServerOptions) -> Self {
        let mut client = Self {
            session: ServerSession::new(options),
            writer: ChunkWriter::new(),
            reader: ChunkReader::new(ReaderOptions::default()),
            events: Vec::new(),
        };
        client.feed(&handshake_bytes()).expect("handshake");
        assert_eq!(client.events.pop(), Some(ServerEvent::HandshakeDone));
        let answer = client.session.output().split();
        assert_eq!(answer.len(), HANDSHAKE_BYTES);
        client
    }

    /// A client that has connected to `app`.
    pub(crate) fn connected(app: &str) -> Self {
        let mut client = Self::new();
        client.send(0, &connect(app));
        assert!(matches!(client.events.pop(), Some(ServerEvent::Connected(_))));
        client.replies();
        client
    }

    /// A client whose publish of `live/key` on stream 1 is accepted.
    pub(crate) fn publishing() -> Self {
        let mut client = Self::connected("live");
        client.send(0, &Command::new("createStream", 2.0, []));
        client.send(1, &publish(3.0, "key"));
        client.accept();
        client.replies();
        client
    }

    /// A client whose play of `live/key` on stream 1 is accepted.
    pub(crate) fn playing() -> Self {
        let mut client = Self::connected("live");
        client.send(0, &Command::new("createStream", 2.0, []));
        client.send(1, &Command::new("play", 3.0, [Value::from("key")]));
        client.accept();
        client.replies();
        client
    }

    /// Feeds raw bytes and collects the events.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let mut input = bytes;
        while let Some(event) = self.session.read(&mut input)? {
            self.events.push(event);
        }
        assert!(input.is_empty(), "without an event the input is used up");
        Ok(())
    }

    /// Sends one message.
    pub(crate) fn message(&mut self, chunk_stream_id: u32, type_id: u8, message_stream_id: u32, body: &[u8]) {
        self.message_at(chunk_stream_id, 0, type_id, message_stream_id, body);
    }

    pub(crate) fn message_at(&mut self, csid: u32, timestamp_ms: u32, type_id: u8, msid: u32, body: &[u8]) {
        let mut bytes = BytesMut::new();
        self.writer
            .write(&mut bytes, csid, timestamp_ms, type_id, msid, body)
            .expect("message");
        self.feed(&bytes).expect("session goes on");
    }

    /// Sends a command on chunk stream 3.
    pub(crate) fn send(&mut self, message_stream_id: u32, command: &Command) {
        self.message(3, type_id::COMMAND, message_stream_id, &command.to_body());
    }

    /// Sends a user control event.
    pub(crate) fn user_control(&mut self, event: UserControl) {
        self.message(2, type_id::USER_CONTROL, 0, &event.to_body());
    }

    /// Announces and uses a chunk size.
    pub(crate) fn chunk_size(&mut self, chunk_size: u32) {
        self.message(2, type_id::SET_CHUNK_SIZE, 0, &chunk_size.to_be_bytes());
        self.writer.set_chunk_size(chunk_size);
    }

    /// The newest request, and the path it asks for.
    pub(crate) fn request(&self) -> (RequestId, String) {
        match self.events.last() {
            Some(
                ServerEvent::PublishRequested { request, stream }
                | ServerEvent::PlayRequested { request, stream },
            ) => (*request, stream.path.clone()),
            other => panic!("no request but {other:?}"),
        }
    }

    /// Accepts the newest request, removes it from the events and returns its path. Media held
    /// for it is then in the events.
    pub(crate) fn accept(&mut self) -> String {
        let (request, path) = self.request();
        let accepted = match self.events.pop() {
            Some(ServerEvent::PublishRequested { .. }) => self.session.accept_publish(request),
            _ => self.session.accept_play(request),
        };
        assert_eq!(accepted, Ok(true));
        self.feed(&[]).expect("session goes on");
        path
    }

    /// What the server sent since the last call, one line for each message.
    pub(crate) fn replies(&mut self) -> Vec<String> {
        let output = self.session.output().split();
        let mut input = &output[..];
        let mut lines = Vec::new();
        while let Some(message) = self
            .reader
            .read(&mut input)
            .expect("the server's chunks are sound")
        {
            let header = message.header;
            lines.push(line(header.type_id, header.message_stream_id, message.body()));
        }
        lines
    }

    /// The media events collected, as kind, time and body; other events are left.
    pub(crate) fn media(&mut self) -> Vec<(MediaKind, u32, Vec<u8>)> {
        let mut media = Vec::new();
        self.events.retain(|event| match event {
            ServerEvent::Media {
                kind,
                timestamp_ms,
                buf,
            } => {
                assert_eq!(buf[..HEAD_ROOM], [0; HEAD_ROOM]);
                media.push((*kind, *timestamp_ms, buf[HEAD_ROOM..].to_vec()));
                false
            }
            _ => true,
        });
        media
    }
}

/// C0, C1 and C2 of a client that does the plain handshake and does not wait.
pub(crate) fn handshake_bytes() -> Vec<u8> {
    let mut bytes = vec![0x5A; HANDSHAKE_BYTES];
    bytes[0] = 3;
    bytes[1..9].fill(0);
    bytes
}

pub(crate) fn connect(app: &str) -> Command {
    connect_with(app, [])
}

pub(crate) fn connect_with<'a>(app: &str, more: impl IntoIterator<Item = (&'a str, Value)>) -> Command {
    let url = format!("rtmp://localhost:1935/{app}");
    let mut properties = vec![("app", Value::from(app)), ("tcUrl", Value::from(url))];
    properties.extend(more);
    Command::with_object("connect", 1.0, Value::object(properties), [])
}

pub(crate) fn publish(transaction_id: f64, name: &str) -> Command {
    Command::new(
        "publish",
        transaction_id,
        [Value::from(name), Value::from("live")],
    )
}

pub(crate) fn call(name: &str, transaction_id: f64, argument: impl Into<Value>) -> Command {
    Command::new(name, transaction_id, [argument.into()])
}

/// The body of a metadata message as encoders send it.
pub(crate) fn set_data_frame() -> Vec<u8> {
    let properties = vec![("width".to_owned(), Value::Number(320.0))];
    let mut body = Vec::new();
    for value in [
        Value::from("@setDataFrame"),
        Value::from("onMetaData"),
        Value::EcmaArray(properties),
    ] {
        amf0::write(&value, &mut body);
    }
    body
}

/// One server message as text, `@` naming a message stream other than 0.
pub(crate) fn line(type_id: u8, message_stream_id: u32, body: &[u8]) -> String {
    let at = if message_stream_id == 0 {
        String::new()
    } else {
        format!("@{message_stream_id}")
    };
    let number = || {
        body.first_chunk::<4>()
            .map_or(0, |bytes| u32::from_be_bytes(*bytes))
    };
    match type_id {
        type_id::ACKNOWLEDGEMENT => format!("Acknowledgement {}", number()),
        type_id::WINDOW_ACK_SIZE => format!("WindowAckSize {}", number()),
        type_id::SET_PEER_BANDWIDTH => format!("SetPeerBandwidth {} {}", number(), body[4]),
        type_id::USER_CONTROL => format!("{:?}", UserControl::parse(body).expect("user control")),
        type_id::COMMAND => {
            let command = Command::parse(body, false).expect("command");
            let code = Status::from_command(&command)
                .map(|status| status.code)
                .filter(|code| !code.is_empty());
            let value = code
                .or_else(|| command.number(1).map(|number| number.to_string()))
                .unwrap_or_default();
            format!("{}({}){at} {value}", command.name, command.transaction_id)
                .trim_end()
                .to_owned()
        }
        type_id::DATA => format!(
            "data{at} {}",
            amf0::read_lenient(body)[0].as_str().unwrap_or_default()
        ),
        other => format!("type {other}{at} of {} bytes", body.len()),
    }
}
