//! An RTMP player: handshake, connect, createStream, play, and then only a chunk stream to scan.

use super::Turn;
use super::chunk::{ChunkScan, Sink, number};
use crate::error::LoadError;
use crate::meter::{Moment, Watch};
use crate::scan::{Finding, Track};
use crate::url::Target;
use bytes::BytesMut;
use spillway_amf::Value;
use spillway_rtmp::chunk::ChunkWriter;
use spillway_rtmp::command::Command;
use spillway_rtmp::message::{self, UserControl, chunk_stream, type_id};
use std::sync::Arc;

/// Length of C1, S1, C2 and S2.
const HANDSHAKE_LEN: usize = 1536;
/// S0, S1 and S2.
const SERVER_HANDSHAKE_LEN: usize = 1 + 2 * HANDSHAKE_LEN;
const CONNECT_ID: f64 = 1.0;
const CREATE_STREAM_ID: f64 = 2.0;
const PLAY_ID: f64 = 3.0;
/// `play`'s start argument: a live stream.
const START_LIVE: f64 = -1.0;
/// The least acknowledgement window that is answered, in bytes.
const MIN_WINDOW_BYTES: u64 = 65_536;

/// The dialogue of one player.
#[derive(Debug)]
pub(crate) struct RtmpPlayer {
    target: Arc<Target>,
    /// S0 to S2 as they arrive; `None` once the handshake is done.
    handshake: Option<Vec<u8>>,
    chunks: ChunkScan,
    window_bytes: u64,
    received_bytes: u64,
    acknowledged_bytes: u64,
}

impl RtmpPlayer {
    /// A player of `target`. With `raw` there is no dialogue: the server sends chunks at once.
    pub(crate) fn new(target: Arc<Target>, raw: bool) -> Self {
        Self {
            target,
            handshake: (!raw).then(Vec::new),
            chunks: ChunkScan::default(),
            window_bytes: u64::MAX,
            received_bytes: 0,
            acknowledged_bytes: 0,
        }
    }

    /// The first bytes to send.
    pub(crate) fn hello(&self, out: &mut Vec<u8>) {
        if self.handshake.is_some() {
            out.push(3);
            out.resize(out.len() + 8, 0);
            out.extend((8..HANDSHAKE_LEN).map(|at| at as u8));
        }
    }

    /// Takes what was read from the socket.
    pub(crate) fn read(
        &mut self,
        mut input: &[u8],
        turn: &mut Turn<'_>,
        watch: &mut Watch,
    ) -> Result<(), LoadError> {
        self.received_bytes += input.len() as u64;
        if let Some(mut handshake) = self.handshake.take() {
            let taken = super::carry::take(&mut input, SERVER_HANDSHAKE_LEN - handshake.len());
            handshake.extend_from_slice(taken);
            if handshake.len() < SERVER_HANDSHAKE_LEN {
                self.handshake = Some(handshake);
                return Ok(());
            }
            turn.out
                .extend_from_slice(handshake.get(1..1 + HANDSHAKE_LEN).unwrap_or_default());
            self.connect(turn.out)?;
        }
        let mut dialogue = Dialogue {
            target: &self.target,
            window_bytes: &mut self.window_bytes,
            out: &mut *turn.out,
            moment: &mut turn.moment,
            watch,
        };
        self.chunks.read(input, &mut dialogue)?;
        if self.received_bytes - self.acknowledged_bytes >= self.window_bytes / 2 {
            self.acknowledged_bytes = self.received_bytes;
            let body = message::acknowledgement(self.received_bytes);
            write(
                turn.out,
                chunk_stream::CONTROL,
                type_id::ACKNOWLEDGEMENT,
                0,
                &body,
            )?;
        }
        Ok(())
    }

    fn connect(&self, out: &mut Vec<u8>) -> Result<(), LoadError> {
        let (app, _) = self.target.app_and_name()?;
        let app = app.split('?').next().unwrap_or(app);
        let properties = vec![
            ("app".to_owned(), Value::String(app.to_owned())),
            ("flashVer".to_owned(), Value::String("LNX 9,0,124,2".to_owned())),
            (
                "tcUrl".to_owned(),
                Value::String(format!("rtmp://{}/{app}", self.target.host_port)),
            ),
            ("fpad".to_owned(), Value::Boolean(false)),
            ("capabilities".to_owned(), Value::Number(15.0)),
            ("audioCodecs".to_owned(), Value::Number(4071.0)),
            ("videoCodecs".to_owned(), Value::Number(252.0)),
            ("videoFunction".to_owned(), Value::Number(1.0)),
        ];
        command(
            out,
            0,
            &Command::with_object("connect", CONNECT_ID, Value::Object(properties), []),
        )
    }
}

/// What answers the server's messages.
struct Dialogue<'a, 'b> {
    target: &'a Target,
    window_bytes: &'a mut u64,
    out: &'a mut Vec<u8>,
    moment: &'a mut Moment<'b>,
    watch: &'a mut Watch,
}

impl Dialogue<'_, '_> {
    fn command(&mut self, received: &Command) -> Result<(), LoadError> {
        let is_answer_to = |id: f64| (received.transaction_id - id).abs() < 0.5;
        match received.name.as_str() {
            "_result" if is_answer_to(CONNECT_ID) => {
                command(self.out, 0, &Command::new("createStream", CREATE_STREAM_ID, []))
            }
            "_result" if is_answer_to(CREATE_STREAM_ID) => self.play(received),
            "_error" => Err(LoadError::Refused(describe(received))),
            "onStatus" => {
                let description = describe(received);
                let level = property(received, "level").unwrap_or_default();
                let ended = ["UnpublishNotify", "Play.Stop", "Play.Complete"];
                if level == "error" || ended.iter().any(|end| description.contains(end)) {
                    return Err(LoadError::Refused(description));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn play(&mut self, received: &Command) -> Result<(), LoadError> {
        let stream_id = received.arguments.get(1).and_then(Value::as_f64).unwrap_or(1.0) as u32;
        let (_, name) = self.target.app_and_name()?;
        let name = Value::String(name.to_owned());
        let play = Command::new("play", PLAY_ID, [name, Value::Number(START_LIVE)]);
        command(self.out, stream_id, &play)?;
        let buffer = UserControl::SetBufferLength {
            message_stream_id: stream_id,
            buffer_ms: 3_000,
        };
        write(
            self.out,
            chunk_stream::CONTROL,
            type_id::USER_CONTROL,
            0,
            &buffer.to_body(),
        )
    }
}

impl Sink for Dialogue<'_, '_> {
    fn media(&mut self, track: Track, timestamp_ms: u32, finding: &Finding) {
        self.watch.body(self.moment, track, timestamp_ms, finding);
    }

    fn control(&mut self, type_id: u8, body: &[u8]) -> Result<(), LoadError> {
        match type_id {
            type_id::COMMAND | type_id::COMMAND_AMF3 => {
                match Command::parse(body, type_id == type_id::COMMAND_AMF3) {
                    Some(command) => self.command(&command),
                    None => Err(LoadError::Protocol("a command without a name")),
                }
            }
            type_id::WINDOW_ACK_SIZE => {
                *self.window_bytes = u64::from(number(body)).max(MIN_WINDOW_BYTES);
                Ok(())
            }
            type_id::USER_CONTROL => match UserControl::parse(body) {
                Some(UserControl::PingRequest(time)) => {
                    let answer = UserControl::PingResponse(time).to_body();
                    write(self.out, chunk_stream::CONTROL, type_id::USER_CONTROL, 0, &answer)
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

fn property<'a>(command: &'a Command, key: &str) -> Option<&'a str> {
    command.arguments.get(1)?.get(key)?.as_str()
}

fn describe(command: &Command) -> String {
    property(command, "code").unwrap_or(&command.name).to_owned()
}

fn command(out: &mut Vec<u8>, message_stream_id: u32, command: &Command) -> Result<(), LoadError> {
    write(
        out,
        chunk_stream::COMMAND,
        type_id::COMMAND,
        message_stream_id,
        &command.to_body(),
    )
}

fn write(
    out: &mut Vec<u8>,
    stream: u32,
    type_id: u8,
    message_stream: u32,
    body: &[u8],
) -> Result<(), LoadError> {
    let mut chunks = BytesMut::new();
    ChunkWriter::new()
        .write(&mut chunks, stream, 0, type_id, message_stream, body)
        .map_err(|_| LoadError::Protocol("a message too long to send"))?;
    out.extend_from_slice(&chunks);
    Ok(())
}
