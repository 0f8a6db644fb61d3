//! Our client against the peculiarities of other servers.

use bytes::BytesMut;
use spillway_amf::Value;
use spillway_rtmp::chunk::{ChunkReader, ChunkWriter, ReaderOptions};
use spillway_rtmp::command::status::on_status;
use spillway_rtmp::command::{Command, Level, code, reply};
use spillway_rtmp::message::{UserControl, type_id};
use spillway_rtmp::session::{ClientEvent, ClientMode, ClientOptions, ClientSession};

/// A server of few words in front of a [`ClientSession`].
struct Server {
    client: ClientSession,
    writer: ChunkWriter,
    reader: ChunkReader,
}

impl Server {
    /// A client whose handshake is done, with its connect command taken.
    fn new(mode: ClientMode) -> Self {
        let client = ClientSession::new(ClientOptions::new("localhost:1935", "live", "key", mode));
        let mut server = Self {
            client,
            writer: ChunkWriter::new(),
            reader: ChunkReader::new(ReaderOptions::default()),
        };
        assert_eq!(server.client.output().split().len(), 1 + 1536);
        let mut handshake = vec![0; 1 + 1536 + 1536];
        handshake[0] = 3;
        server.feed(&handshake);
        let _c2 = server.client.output().split_to(1536);
        assert_eq!(server.calls(), ["connect(1)"]);
        server
    }

    fn started(mode: ClientMode) -> Self {
        let mut server = Self::new(mode);
        server.send(0, &reply::connect_result(1.0));
        server.send(0, &reply::create_stream_result(4.0, 1));
        server.calls();
        server
    }

    fn feed(&mut self, bytes: &[u8]) -> Vec<ClientEvent> {
        let mut input = bytes;
        let mut events = Vec::new();
        while let Some(event) = self.client.read(&mut input).expect("client goes on") {
            events.push(event);
        }
        events
    }

    fn message(&mut self, type_id: u8, message_stream_id: u32, body: &[u8]) -> Vec<ClientEvent> {
        let mut bytes = BytesMut::new();
        self.writer
            .write(&mut bytes, 3, 0, type_id, message_stream_id, body)
            .expect("written");
        self.feed(&bytes)
    }

    fn send(&mut self, message_stream_id: u32, command: &Command) -> Vec<ClientEvent> {
        self.message(type_id::COMMAND, message_stream_id, &command.to_body())
    }

    fn status(&mut self, level: Level, code: &str) -> Vec<ClientEvent> {
        self.send(1, &on_status(level, code, ""))
    }

    /// The commands the client sent, with transaction id, message stream and first string.
    fn calls(&mut self) -> Vec<String> {
        let output = self.client.output().split();
        let mut input = &output[..];
        let mut calls = Vec::new();
        while let Some(message) = self
            .reader
            .read(&mut input)
            .expect("the client's chunks are sound")
        {
            if message.header.type_id == type_id::COMMAND {
                let command = Command::parse(message.body(), false).expect("command");
                let at = match message.header.message_stream_id {
                    0 => String::new(),
                    id => format!("@{id}"),
                };
                let name = command.string(1).unwrap_or_default();
                let kind = command.string(2).unwrap_or_default();
                let call = format!("{}({}){at} {name} {kind}", command.name, command.transaction_id);
                calls.push(call.trim_end().to_owned());
            }
        }
        calls
    }
}

#[test]
fn a_publish_is_announced_and_always_live() {
    let mut server = Server::new(ClientMode::Publish);
    assert!(server.send(0, &reply::connect_result(1.0)).is_empty());
    assert_eq!(
        server.calls(),
        ["releaseStream(2) key", "FCPublish(3) key", "createStream(4)"]
    );
    assert!(server.send(0, &reply::create_stream_result(4.0, 7)).is_empty());
    assert_eq!(server.calls(), ["publish(5)@7 key live"]);
    assert_eq!(
        server.status(Level::Status, code::PUBLISH_START),
        [ClientEvent::Ready]
    );
    server.client.stop().expect("stopped");
    assert_eq!(server.calls(), ["FCUnpublish(6) key", "deleteStream(0)"]);
}

#[test]
fn errors_of_the_announcing_calls_do_not_matter() {
    let mut server = Server::new(ClientMode::Publish);
    server.send(0, &reply::connect_result(1.0));
    for transaction_id in [2.0, 3.0, 77.0] {
        assert!(
            server
                .send(0, &reply::error(transaction_id, code::CALL_FAILED, "unknown"))
                .is_empty()
        );
    }
    server.send(0, &Command::new("onBWDone", 0.0, []));
    // FFmpeg's server leaves the transaction id out.
    let on_fc_publish = Command {
        name: "onFCPublish".to_owned(),
        transaction_id: 0.0,
        arguments: vec![],
    };
    server.send(0, &on_fc_publish);
    server.send(0, &reply::create_stream_result(4.0, 1));
    assert_eq!(
        server.status(Level::Status, code::PUBLISH_START),
        [ClientEvent::Ready]
    );
}

#[test]
fn a_publish_that_is_answered_twice_or_as_a_call_is_ready_once() {
    let mut server = Server::started(ClientMode::Publish);
    assert_eq!(
        server.send(0, &reply::result(5.0, Value::Null)),
        [ClientEvent::Ready]
    );
    assert!(server.status(Level::Status, code::PUBLISH_START).is_empty());
    assert!(server.status(Level::Warning, "NetStream.Publish.Slow").is_empty());
}

#[test]
fn a_refused_connect_ends_it() {
    let mut server = Server::new(ClientMode::Play);
    let events = server.send(0, &reply::error(1.0, code::CONNECT_REJECTED, "no such app"));
    let expected = ClientEvent::Refused {
        code: code::CONNECT_REJECTED.to_owned(),
        description: "no such app".to_owned(),
    };
    assert_eq!(events, [expected]);
    assert!(server.send(0, &reply::connect_result(1.0)).is_empty());
}

#[test]
fn a_result_with_transaction_0_is_taken_for_that_of_connect() {
    let mut server = Server::new(ClientMode::Play);
    server.send(0, &reply::connect_result(0.0));
    assert_eq!(server.calls(), ["createStream(4)"]);
}

#[test]
fn media_without_a_word_that_playback_starts_is_playback() {
    let mut server = Server::started(ClientMode::Play);
    assert!(server.message(type_id::DATA, 1, &[2, 0, 1, b'x']).is_empty());
    let events = server.message(type_id::AUDIO, 1, &[0xAF, 1]);
    assert!(matches!(
        &events[..],
        [ClientEvent::Ready, ClientEvent::Media { .. }]
    ));
}

#[test]
fn data_about_the_connection_is_not_part_of_the_stream() {
    let mut server = Server::started(ClientMode::Play);
    server.status(Level::Status, code::PLAY_START);
    assert!(
        server
            .message(type_id::DATA, 1, &reply::sample_access())
            .is_empty()
    );
    let data_start = b"\x02\x00\x08onStatus\x03\x00\x00\x09";
    assert!(server.message(type_id::DATA, 1, data_start).is_empty());
    assert_eq!(
        server.message(type_id::DATA, 1, b"\x02\x00\x0AonMetaData").len(),
        1
    );
}

#[test]
fn the_end_is_told_once_however_often_the_server_says_it() {
    let mut server = Server::started(ClientMode::Play);
    assert_eq!(
        server.status(Level::Status, code::PLAY_START),
        [ClientEvent::Ready]
    );
    let stream_eof = UserControl::StreamEof(1).to_body();
    assert_eq!(
        server.message(type_id::USER_CONTROL, 0, &stream_eof),
        [ClientEvent::Ended]
    );
    assert!(
        server
            .status(Level::Status, code::PLAY_UNPUBLISH_NOTIFY)
            .is_empty()
    );
    assert!(server.message(type_id::AUDIO, 1, &[0xAF, 1]).is_empty());
}

#[test]
fn the_servers_pings_and_odd_events_are_survived() {
    let mut server = Server::started(ClientMode::Play);
    server.client.output().clear();
    for event in [26u16, 27, 31, 32] {
        let body = [&event.to_be_bytes()[..], &[0, 0, 0, 1]].concat();
        assert!(server.message(type_id::USER_CONTROL, 0, &body).is_empty());
    }
    assert!(server.client.output().is_empty());
    server.message(type_id::USER_CONTROL, 0, &UserControl::PingRequest(9).to_body());
    let pong = UserControl::PingResponse(9).to_body();
    assert!(server.client.output().ends_with(&pong));
}
