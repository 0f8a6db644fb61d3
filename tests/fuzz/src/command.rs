//! The command layer: what a client asks for once its handshake is done.

use bytes::BytesMut;
use spillway_rtmp::chunk::ChunkWriter;
use spillway_rtmp::command::{Command, Connect, Request};
use spillway_rtmp::message::type_id;
use spillway_rtmp::name::StreamPath;
use spillway_rtmp::session::server::{ServerEvent, ServerOptions, ServerSession};

/// Bytes in front of each message: its type and message stream, and the length of its body.
const HEAD_BYTES: usize = 3;
/// Parameters that one URL can make, three queries of at most 64 each.
const MOST_PARAMS: usize = 3 * 64;
/// What a session may have to say to one message: the longest answer that repeats a name of the client's.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// Commands of any kind in any order: each reads back as it was written, and a session stays within its bounds.
pub fn command(data: &[u8]) {
    for amf3 in [false, true] {
        if let Some(command) = Command::parse(data, amf3) {
            reads_back(&command);
        }
    }
    let mut session = Session::open();
    let mut rest = data;
    while let Some((head, tail)) = rest.split_at_checked(HEAD_BYTES) {
        let length = usize::from(u16::from_be_bytes([head[1], head[2]])).min(tail.len());
        let (body, tail) = tail.split_at(length);
        rest = tail;
        let kind = match head[0] & 7 {
            0 => type_id::COMMAND_AMF3,
            1 => type_id::DATA,
            2 => type_id::USER_CONTROL,
            3 => type_id::AGGREGATE,
            4 => type_id::VIDEO,
            _ => type_id::COMMAND,
        };
        if !session.take(kind, u32::from(head[0] >> 3 & 3), body, head[0] & 0x80 == 0) {
            return;
        }
    }
}

fn reads_back(command: &Command) {
    let _ = Request::from_command(command);
    let connect = Connect::from_command(command);
    let name = command.string(1).unwrap_or_default();
    let path = StreamPath::new(&connect.app, &connect.tc_url, name);
    assert!(
        path.params.len() <= MOST_PARAMS,
        "{} parameters",
        path.params.len()
    );
    assert!(
        path.path.is_empty() || path.path.split('/').all(|segment| !segment.is_empty()),
        "an empty segment in {:?}",
        path.path
    );
    let body = command.to_body();
    let again = Command::parse(&body, false).expect("a command of our own reads");
    // NaN is not equal to itself: the bytes are compared, not the values.
    assert_eq!(body, again.to_body(), "{command:?} read back as {again:?}");
}

/// A session whose client is connected.
struct Session {
    session: ServerSession,
    writer: ChunkWriter,
    /// Bytes received.
    fed: usize,
}

impl Session {
    fn open() -> Self {
        let mut session = ServerSession::new(ServerOptions::default());
        let mut hello = vec![3];
        hello.resize(1 + 2 * 1536, 0);
        let mut input = hello.as_slice();
        while matches!(session.read(&mut input), Ok(Some(_))) {}
        let mut this = Self {
            session,
            writer: ChunkWriter::new(),
            fed: hello.len(),
        };
        let connect = Command::with_object(
            "connect",
            1.0,
            spillway_amf::Value::object([("app", spillway_amf::Value::from("live"))]),
            [],
        );
        assert!(
            this.take(type_id::COMMAND, 0, &connect.to_body(), true),
            "connect is taken"
        );
        this
    }

    /// Sends one message; false when the session is over.
    fn take(&mut self, kind: u8, message_stream: u32, body: &[u8], accept: bool) -> bool {
        let mut chunks = BytesMut::new();
        let written = self.writer.write(&mut chunks, 3, 0, kind, message_stream, body);
        written.expect("a message of less than 16 MiB");
        self.fed += chunks.len();
        let mut input = &chunks[..];
        loop {
            match self.session.read(&mut input) {
                Ok(Some(event)) => {
                    if accept && self.accept(&event).is_err() {
                        return false;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = error.to_string();
                    return false;
                }
            }
        }
        let answer = self.session.output().len();
        assert!(
            answer <= MOST_ANSWER_BYTES + 2 * body.len(),
            "{answer} bytes of answer"
        );
        self.session.output().clear();
        let held = self.session.bytes_held();
        assert!(
            held <= self.fed + (1 << 17),
            "holds {held} bytes after {}",
            self.fed
        );
        true
    }

    fn accept(&mut self, event: &ServerEvent) -> Result<(), spillway_rtmp::session::SessionError> {
        match event {
            ServerEvent::PublishRequested { request, .. } => self.session.accept_publish(*request)?,
            ServerEvent::PlayRequested { request, .. } => self.session.accept_play(*request)?,
            _ => true,
        };
        Ok(())
    }
}
