//! The message layer both sides share: chunks in and out, acknowledgements, pings, aggregates and
//! the bound on output.

use super::{HEAD_ROOM, MediaKind, SessionError, TAIL_ROOM};
use crate::chunk::{ChunkReader, ChunkWriter, Message, MessageHeader, OUT_CHUNK_SIZE, ReaderOptions};
use crate::command::Command;
use crate::limits::ReaderLimits;
use crate::message::{self, Aggregate, UserControl, chunk_stream, type_id};
use bytes::BytesMut;

/// The smallest acknowledgement window taken from a peer. A window of a few bytes would make an
/// answer of every message (and of every acknowledgement).
const MIN_WINDOW_BYTES: u32 = 32 * 1024;
/// The longest command message read. A connect command with every known property is about 1 KiB;
/// tokens and user parameters add a few more.
const MAX_COMMAND_BYTES: usize = 64 * 1024;

/// The part of the output bound that media leaves to answers.
const CONTROL_RESERVE_BYTES: usize = 64 * 1024;

/// What came in, protocol control taken care of.
pub(super) enum Incoming {
    /// A command, AMF0 or AMF3.
    Command {
        message_stream_id: u32,
        command: Command,
    },
    /// Audio, video or data; `buf` is [`HEAD_ROOM`] zero bytes and the body.
    Media {
        kind: MediaKind,
        timestamp_ms: u32,
        buf: Vec<u8>,
    },
    /// A user control event other than a ping request, which has been answered.
    User(UserControl),
    /// The peer limits our output and expects our acknowledgement window in return.
    PeerBandwidth,
}

pub(super) struct Link {
    reader: ChunkReader,
    writer: ChunkWriter,
    out: BytesMut,
    out_limit_bytes: usize,
    received_bytes: u64,
    acknowledged_bytes: u64,
    window_bytes: u32,
    aggregate: Option<Aggregate>,
}

impl Link {
    /// `window_bytes` is the window in force until the peer names its own.
    pub(super) fn new(limits: ReaderLimits, out_limit_bytes: usize, window_bytes: u32) -> Self {
        Self {
            reader: ChunkReader::new(ReaderOptions {
                head_room: HEAD_ROOM,
                tail_room: TAIL_ROOM,
                limits,
            }),
            writer: ChunkWriter::new(),
            out: BytesMut::new(),
            out_limit_bytes,
            received_bytes: 0,
            acknowledged_bytes: 0,
            window_bytes: window_bytes.max(MIN_WINDOW_BYTES),
            aggregate: None,
        }
    }

    pub(super) fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Changes what the peer's chunk stream may cost; see [`ChunkReader::set_limits`].
    pub(super) fn set_limits(&mut self, limits: ReaderLimits) {
        self.reader.set_limits(limits);
    }

    /// Memory held for messages not yet complete, in bytes.
    pub(super) fn bytes_held(&self) -> usize {
        self.reader.bytes_held()
    }

    /// Consumes input until there is something for the session, or the input is used up.
    pub(super) fn read(&mut self, input: &mut &[u8]) -> Result<Option<Incoming>, SessionError> {
        loop {
            if let Some(media) = self.next_of_aggregate() {
                return Ok(Some(media));
            }
            let before = input.len();
            let message = self.reader.read(input)?;
            self.received_bytes = self.received_bytes.wrapping_add((before - input.len()) as u64);
            self.acknowledge()?;
            let Some(message) = message else { return Ok(None) };
            if let Some(incoming) = self.take(message)? {
                return Ok(Some(incoming));
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<Option<Incoming>, SessionError> {
        let MessageHeader {
            type_id,
            timestamp_ms,
            ..
        } = message.header;
        if let Some(kind) = MediaKind::from_type_id(type_id) {
            let buf = message.into_buf();
            return Ok(Some(Incoming::Media {
                kind,
                timestamp_ms,
                buf,
            }));
        }
        match type_id {
            type_id::COMMAND | type_id::COMMAND_AMF3 => return command(&message),
            type_id::AGGREGATE => {
                self.aggregate = Some(Aggregate::new(message.into_buf(), HEAD_ROOM, timestamp_ms));
            }
            type_id::WINDOW_ACK_SIZE => {
                if let Some(window_bytes @ 1..) = message::leading_u32(message.body()) {
                    self.window_bytes = window_bytes.max(MIN_WINDOW_BYTES);
                }
            }
            type_id::SET_PEER_BANDWIDTH => return Ok(Some(Incoming::PeerBandwidth)),
            type_id::USER_CONTROL => match UserControl::parse(message.body()) {
                Some(UserControl::PingRequest(time_ms)) => {
                    self.optional_user_control(UserControl::PingResponse(time_ms))?;
                }
                event => return Ok(event.map(Incoming::User)),
            },
            _ => {}
        }
        Ok(None)
    }

    fn next_of_aggregate(&mut self) -> Option<Incoming> {
        let aggregate = self.aggregate.as_mut()?;
        while let Some(sub) = aggregate.next_message() {
            if let Some(kind) = MediaKind::from_type_id(sub.type_id) {
                let mut buf = Vec::with_capacity(HEAD_ROOM + sub.body.len() + TAIL_ROOM);
                buf.resize(HEAD_ROOM, 0);
                buf.extend_from_slice(sub.body);
                return Some(Incoming::Media {
                    kind,
                    timestamp_ms: sub.timestamp_ms,
                    buf,
                });
            }
        }
        self.aggregate = None;
        None
    }

    /// Acknowledges at half the window, so that a peer which counts strictly never has to wait.
    /// Put off while much output waits: the next one says the same and more.
    fn acknowledge(&mut self) -> Result<(), SessionError> {
        let due = u64::from(self.window_bytes / 2);
        if self.received_bytes.wrapping_sub(self.acknowledged_bytes) < due || self.is_congested() {
            return Ok(());
        }
        self.acknowledged_bytes = self.received_bytes;
        self.control(
            type_id::ACKNOWLEDGEMENT,
            &message::acknowledgement(self.received_bytes),
        )
    }

    /// Half of the output bound is kept for answers that must not be left out.
    fn is_congested(&self) -> bool {
        self.out.len() > self.out_limit_bytes / 2
    }

    /// Announces [`OUT_CHUNK_SIZE`] and sends with it from then on.
    pub(super) fn announce_chunk_size(&mut self) -> Result<(), SessionError> {
        self.control(type_id::SET_CHUNK_SIZE, &message::set_chunk_size(OUT_CHUNK_SIZE))?;
        self.writer.set_chunk_size(OUT_CHUNK_SIZE);
        Ok(())
    }

    /// Sends a protocol control message.
    pub(super) fn control(&mut self, type_id: u8, body: &[u8]) -> Result<(), SessionError> {
        self.answer(chunk_stream::CONTROL, type_id, 0, body)
    }

    /// Sends a user control event.
    pub(super) fn user_control(&mut self, event: UserControl) -> Result<(), SessionError> {
        self.control(type_id::USER_CONTROL, &event.to_body())
    }

    /// Sends a user control event unless much output waits: pings are the first thing to go.
    pub(super) fn optional_user_control(&mut self, event: UserControl) -> Result<(), SessionError> {
        if self.is_congested() {
            return Ok(());
        }
        self.user_control(event)
    }

    /// Sends a command on a message stream.
    pub(super) fn command(&mut self, message_stream_id: u32, command: &Command) -> Result<(), SessionError> {
        let chunk_stream = if message_stream_id == 0 {
            chunk_stream::COMMAND
        } else {
            chunk_stream::STREAM
        };
        self.answer(
            chunk_stream,
            type_id::COMMAND,
            message_stream_id,
            &command.to_body(),
        )
    }

    /// Sends a data message of the session's own.
    pub(super) fn data(&mut self, message_stream_id: u32, body: &[u8]) -> Result<(), SessionError> {
        self.answer(chunk_stream::DATA, type_id::DATA, message_stream_id, body)
    }

    fn answer(
        &mut self,
        chunk_stream: u32,
        type_id: u8,
        message_stream_id: u32,
        body: &[u8],
    ) -> Result<(), SessionError> {
        let pending_bytes = self.out.len().saturating_add(body.len());
        if pending_bytes > self.out_limit_bytes {
            return Err(SessionError::PeerNotReading {
                pending_bytes,
                limit_bytes: self.out_limit_bytes,
            });
        }
        Ok(self
            .writer
            .write(&mut self.out, chunk_stream, 0, type_id, message_stream_id, body)?)
    }

    /// Sends a media message. It may not take the last [`CONTROL_RESERVE_BYTES`] of the bound.
    pub(super) fn media(
        &mut self,
        kind: MediaKind,
        message_stream_id: u32,
        timestamp_ms: u32,
        body: &[u8],
    ) -> Result<(), SessionError> {
        let limit_bytes = self.out_limit_bytes.saturating_sub(CONTROL_RESERVE_BYTES);
        let pending_bytes = self.out.len().saturating_add(body.len());
        if pending_bytes > limit_bytes {
            return Err(SessionError::LocalOutputFull {
                pending_bytes,
                limit_bytes,
            });
        }
        let chunk_stream = match kind {
            MediaKind::Audio => chunk_stream::AUDIO,
            MediaKind::Video => chunk_stream::VIDEO,
            MediaKind::Data | MediaKind::DataAmf3 => chunk_stream::DATA,
        };
        let type_id = kind.type_id();
        Ok(self.writer.write(
            &mut self.out,
            chunk_stream,
            timestamp_ms,
            type_id,
            message_stream_id,
            body,
        )?)
    }
}

/// Reads a command message; one that has no name is passed over.
fn command(message: &Message) -> Result<Option<Incoming>, SessionError> {
    let body = message.body();
    if body.len() > MAX_COMMAND_BYTES {
        return Err(SessionError::PeerCommandTooLong {
            length: body.len(),
            limit: MAX_COMMAND_BYTES,
        });
    }
    let MessageHeader {
        type_id,
        message_stream_id,
        ..
    } = message.header;
    let command = Command::read(body, type_id == type_id::COMMAND_AMF3)
        .map_err(|error| SessionError::PeerCommandTooComplex { error })?;
    Ok(command.map(|command| Incoming::Command {
        message_stream_id,
        command,
    }))
}
