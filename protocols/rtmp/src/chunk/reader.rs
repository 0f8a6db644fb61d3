//! Chunks to messages.

use super::{
    INITIAL_CHUNK_SIZE, Message, MessageHeader,
    partial::{Budget, Partial},
    wire::WireHead,
};
use crate::{
    error::{ChunkError, ChunkPlace},
    limits::{MAX_MESSAGE_BYTES, ReaderLimits},
};

/// SetChunkSize (RTMP 1.0 §5.4.1).
const SET_CHUNK_SIZE: u8 = 1;

/// Abort (RTMP 1.0 §5.4.2).
const ABORT: u8 = 2;

/// How many messages in a row may be given up on a chunk stream. A publisher that drops a frame midway does it once;
/// a peer whose framing is lost does it again and again.
const MAX_ABANDONED_IN_A_ROW: u8 = 4;

/// How many empty messages of type 0 may come in a row: three are 36 zero bytes and more, which no peer means.
const MAX_ZERO_MESSAGES_IN_A_ROW: u8 = 3;

/// How many messages of unknown types may come in a row. Some encoders send one type of their own now and then.
const MAX_UNKNOWN_MESSAGES_IN_A_ROW: u8 = 8;

/// The largest chunk size that may be sent: the top bit must be zero (RTMP 1.0 §5.4.1).
const MAX_SENDABLE_CHUNK_SIZE: u32 = 0x7FFF_FFFF;

/// How a [`ChunkReader`] lays out its buffers and what it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Zero bytes in front of every body, for a header that is put there later.
    pub head_room: usize,
    /// Spare capacity behind every body, for a trailer that is put there later.
    pub tail_room: usize,
    /// What a peer may cost.
    pub limits: ReaderLimits,
}

/// Puts messages together again from chunks (RTMP 1.0 §5.3).
///
/// SetChunkSize and Abort messages are obeyed and not returned. Each message is received into one buffer, which is
/// reserved by what the connection has shown to need and not by the length it claims.
#[derive(Debug)]
pub struct ChunkReader {
    options: ReaderOptions,
    chunk_size: u32,
    streams: Vec<ChunkStream>,
    /// Index of the chunk stream used last.
    current: usize,
    /// The chunk whose payload is being read.
    open: Option<OpenChunk>,
    /// The start of a chunk head that did not end within the input.
    carry: Vec<u8>,
    budget: Budget,
    /// Bytes read, without those in `carry`.
    offset: u64,
    /// The peer was seen not to repeat an extended timestamp in a continuation.
    omits_extended: bool,
    previous: Option<MessageHeader>,
    tiny_chunks: u64,
    abandoned_messages: u64,
    zero_messages: u8,
    unknown_messages: u8,
}

/// The state of one chunk stream.
#[derive(Debug)]
struct ChunkStream {
    /// Header of the last message begun.
    header: MessageHeader,
    /// What a type 3 chunk adds to the timestamp when it begins a message.
    delta_ms: u32,
    /// The extended timestamp field of the last type 0, 1 or 2 chunk.
    extended: Option<u32>,
    partial: Option<Partial>,
    /// Messages given up since the last complete one.
    abandoned: u8,
}

#[derive(Clone, Copy, Debug)]
struct OpenChunk {
    stream: usize,
    bytes_left: usize,
}

/// What became of some input.
enum Step {
    /// More input is needed; what is left belongs to a head that is not complete.
    Starved,
    Progress,
    Complete(Message),
}

/// What a type 3 chunk's extended timestamp field says.
enum Repeated {
    Starved,
    Absent,
    Present(u32),
}

impl ChunkReader {
    /// A reader at the start of a chunk stream, with the protocol's initial chunk size of 128 bytes.
    pub fn new(options: ReaderOptions) -> ChunkReader {
        ChunkReader {
            options,
            chunk_size: INITIAL_CHUNK_SIZE,
            streams: Vec::new(),
            current: 0,
            open: None,
            carry: Vec::new(),
            budget: Budget {
                limit: options.limits.max_partial_bytes,
                held: 0,
                largest: 0,
            },
            offset: 0,
            omits_extended: false,
            previous: None,
            tiny_chunks: 0,
            abandoned_messages: 0,
            zero_messages: 0,
            unknown_messages: 0,
        }
    }

    /// Consumes `input` from the front until a message is complete (`Some`) or the input is used up (`None`).
    ///
    /// The input may be split anywhere. Call again with the same slice after `Some`, with new bytes after `None`.
    ///
    /// # Errors
    /// Any [`ChunkError`] but those of writing. Framing is lost then: the reader must not be used further.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Message>, ChunkError> {
        loop {
            let step = if self.carry.is_empty() {
                self.step(input)?
            } else {
                self.step_carried()?
            };
            match step {
                Step::Complete(message) => return Ok(Some(message)),
                Step::Progress => {}
                Step::Starved if self.carry.is_empty() => {
                    self.carry.extend_from_slice(input);
                    *input = &[];
                    return Ok(None);
                }
                Step::Starved => {
                    let Some((first, rest)) = input.split_first() else {
                        return Ok(None);
                    };
                    self.carry.push(*first);
                    *input = rest;
                }
            }
        }
    }

    /// Sets the chunk size as if the peer had sent SetChunkSize. Values that it could not send are taken to the
    /// nearest it could.
    pub fn set_chunk_size(&mut self, chunk_size: u32) {
        self.chunk_size = chunk_size.clamp(1, MAX_MESSAGE_BYTES);
    }

    /// Changes what the peer may cost from the next message on.
    ///
    /// Messages that have begun may be completed: where they are more than the new limits allow, room for them and
    /// for what the new limits allow beside them is left until they are done.
    pub fn set_limits(&mut self, limits: ReaderLimits) {
        self.options.limits = limits;
        if limits.max_partial_bytes >= self.budget.limit {
            self.budget.limit = limits.max_partial_bytes;
        } else {
            self.lower_budget();
        }
    }

    /// Brings the budget down to the limit, as far as messages begun before it was lowered allow.
    fn lower_budget(&mut self) {
        let begun = self.streams.iter().filter_map(|stream| stream.partial.as_ref());
        let needed = begun.fold(0, |sum: usize, partial| sum.saturating_add(partial.needed()));
        let lowered = needed.saturating_add(self.options.limits.max_partial_bytes);
        self.budget.limit = lowered.min(self.budget.limit);
    }

    /// The chunk size in force, in bytes. Sizes over 2^24 − 1 are kept as that: no message is longer.
    pub fn chunk_size(&self) -> u32 {
        self.chunk_size
    }

    /// Memory held for messages that are not complete, in bytes.
    pub fn bytes_held(&self) -> usize {
        self.budget.held
    }

    /// How many messages the peer began anew before they were complete.
    pub fn abandoned_messages(&self) -> u64 {
        self.abandoned_messages
    }

    /// A step on the bytes kept from earlier input.
    fn step_carried(&mut self) -> Result<Step, ChunkError> {
        let mut carry = std::mem::take(&mut self.carry);
        let mut rest = &carry[..];
        let step = self.step(&mut rest)?;
        let used = carry.len() - rest.len();
        carry.drain(..used);
        self.carry = carry;
        Ok(step)
    }

    /// Reads one chunk head, or what there is of one chunk's payload.
    fn step(&mut self, bytes: &mut &[u8]) -> Result<Step, ChunkError> {
        match self.open {
            Some(chunk) => self.payload(chunk, bytes),
            None => self.head(bytes),
        }
    }

    fn payload(&mut self, chunk: OpenChunk, bytes: &mut &[u8]) -> Result<Step, ChunkError> {
        let (taken, rest) = bytes.split_at(chunk.bytes_left.min(bytes.len()));
        *bytes = rest;
        self.offset += taken.len() as u64;
        let bytes_left = chunk.bytes_left - taken.len();
        self.open = (bytes_left > 0).then_some(OpenChunk { bytes_left, ..chunk });

        let Some(stream) = self.streams.get_mut(chunk.stream) else {
            return Ok(Step::Progress);
        };
        let Some(partial) = &mut stream.partial else {
            return Ok(Step::Progress);
        };
        if !partial.append(taken, &mut self.budget) {
            return Err(self.too_much_partial());
        }
        if partial.missing() == 0 {
            self.complete(chunk.stream)
        } else if taken.is_empty() {
            Ok(Step::Starved)
        } else {
            Ok(Step::Progress)
        }
    }

    /// Reads a chunk head. Nothing is changed before it is there completely.
    fn head(&mut self, bytes: &mut &[u8]) -> Result<Step, ChunkError> {
        let Some(wire) = WireHead::parse(bytes) else {
            return Ok(Step::Starved);
        };
        let index = self.find(wire.chunk_stream_id);
        let mut head_bytes = wire.bytes;
        let mut repeated = None;
        if wire.chunk_type == 3
            && let Some(stream) = index.and_then(|index| self.streams.get(index))
            && let Some(extended) = stream.extended
        {
            let continues = stream.partial.is_some();
            let rest = bytes.get(wire.bytes..).unwrap_or_default();
            match repeated_extended(rest, extended, continues || self.omits_extended) {
                Repeated::Starved => return Ok(Step::Starved),
                Repeated::Absent => self.omits_extended |= continues,
                Repeated::Present(time) => {
                    head_bytes += 4;
                    repeated = Some(time);
                }
            }
        }
        let index = match index {
            Some(index) => index,
            None => self.add_stream(&wire)?,
        };
        self.current = index;
        self.begin_chunk(index, &wire, repeated)?;
        *bytes = bytes.get(head_bytes..).unwrap_or_default();
        self.offset += head_bytes as u64;
        match self.open {
            Some(OpenChunk { bytes_left: 0, .. }) => {
                self.open = None;
                self.complete(index)
            }
            _ => Ok(Step::Progress),
        }
    }

    fn find(&self, chunk_stream_id: u32) -> Option<usize> {
        let is_it = |stream: &ChunkStream| stream.header.chunk_stream_id == chunk_stream_id;
        if self.streams.get(self.current).is_some_and(is_it) {
            return Some(self.current);
        }
        self.streams.iter().position(is_it)
    }

    fn add_stream(&mut self, wire: &WireHead) -> Result<usize, ChunkError> {
        // Some clients begin chunk stream 2 with type 1, whose missing fields can only be zero.
        if wire.chunk_type >= 2 {
            return Err(ChunkError::PeerNoHistory(self.place(wire)));
        }
        let limit = self.options.limits.max_chunk_streams;
        if self.streams.len() >= limit {
            return Err(ChunkError::PeerTooManyChunkStreams {
                limit,
                place: self.place(wire),
            });
        }
        self.streams.push(ChunkStream {
            header: MessageHeader {
                chunk_stream_id: wire.chunk_stream_id,
                ..MessageHeader::default()
            },
            delta_ms: 0,
            extended: None,
            partial: None,
            abandoned: 0,
        });
        Ok(self.streams.len() - 1)
    }

    /// Begins or continues a message with the chunk of this head. `repeated` is a type 3 chunk's extended timestamp.
    fn begin_chunk(
        &mut self,
        index: usize,
        wire: &WireHead,
        repeated: Option<u32>,
    ) -> Result<(), ChunkError> {
        if wire.chunk_type == 0 {
            self.abandon(index, wire)?;
        }
        if self.budget.limit > self.options.limits.max_partial_bytes {
            self.lower_budget();
        }
        let limits = self.options.limits;
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        if wire.chunk_type < 3 {
            stream.extended = wire.extended.then_some(wire.time);
        }
        let missing = if let Some(partial) = &stream.partial {
            partial.missing()
        } else {
            stream.begin_message(wire, repeated);
            let header = stream.header;
            if header.length > limits.max_message_bytes {
                let (length, limit) = (u64::from(header.length), limits.max_message_bytes);
                return Err(ChunkError::MessageTooLong { length, limit });
            }
            let ReaderOptions {
                head_room, tail_room, ..
            } = self.options;
            stream.partial = Partial::begin(header, head_room, tail_room, &mut self.budget);
            if stream.partial.is_none() {
                return Err(self.too_much_partial());
            }
            header.length as usize
        };
        let bytes_left = missing.min(self.chunk_size as usize);
        if bytes_left < missing && bytes_left < limits.tiny_chunk_bytes as usize {
            self.tiny_chunks += 1;
            if self.tiny_chunks > limits.max_tiny_chunks {
                let limit = limits.max_tiny_chunks;
                return Err(ChunkError::PeerTooManyTinyChunks {
                    limit,
                    chunk_size: self.chunk_size,
                });
            }
        }
        self.previous = Some(stream.header);
        self.open = Some(OpenChunk {
            stream: index,
            bytes_left,
        });
        Ok(())
    }

    /// Gives up the message that a type 0 chunk on its chunk stream interrupts.
    fn abandon(&mut self, index: usize, wire: &WireHead) -> Result<(), ChunkError> {
        let place = self.place(wire);
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        let Some(partial) = stream.partial.take() else {
            return Ok(());
        };
        partial.release(&mut self.budget);
        self.abandoned_messages += 1;
        stream.abandoned = stream.abandoned.saturating_add(1);
        if stream.abandoned >= MAX_ABANDONED_IN_A_ROW {
            return Err(ChunkError::PeerAbandonedMessages {
                count: stream.abandoned,
                place,
            });
        }
        Ok(())
    }

    /// Takes a complete message off its chunk stream, and obeys it where it concerns the chunk stream itself.
    fn complete(&mut self, index: usize) -> Result<Step, ChunkError> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(Step::Progress);
        };
        let Some(partial) = stream.partial.take() else {
            return Ok(Step::Progress);
        };
        stream.abandoned = 0;
        let message = partial.finish(&mut self.budget);
        self.check_meaning(&message.header)?;
        match message.header.type_id {
            SET_CHUNK_SIZE => self.obey_set_chunk_size(message.body())?,
            ABORT => self.obey_abort(message.body()),
            _ => return Ok(Step::Complete(message)),
        }
        Ok(Step::Progress)
    }

    fn obey_set_chunk_size(&mut self, body: &[u8]) -> Result<(), ChunkError> {
        let chunk_size = body.first_chunk().copied().map(u32::from_be_bytes);
        let chunk_size = chunk_size.ok_or(ChunkError::PeerShortSetChunkSize { length: body.len() })?;
        if chunk_size == 0 || chunk_size > MAX_SENDABLE_CHUNK_SIZE {
            return Err(ChunkError::PeerChunkSize { chunk_size });
        }
        self.set_chunk_size(chunk_size);
        Ok(())
    }

    /// Drops what has arrived of a message; the chunk stream's header stays. A body too short to name a chunk stream
    /// names none.
    fn obey_abort(&mut self, body: &[u8]) {
        let Some(id) = body.first_chunk().copied().map(u32::from_be_bytes) else {
            return;
        };
        if let Some(index) = self.find(id)
            && let Some(partial) = self
                .streams
                .get_mut(index)
                .and_then(|stream| stream.partial.take())
        {
            partial.release(&mut self.budget);
        }
    }

    /// Finds runs of messages that no peer means. They come from zero fill and from lost framing.
    fn check_meaning(&mut self, header: &MessageHeader) -> Result<(), ChunkError> {
        let zero = header.type_id == 0 && header.length == 0;
        let known = matches!(header.type_id, 1..=6 | 8 | 9 | 15..=20 | 22);
        self.zero_messages = if zero {
            self.zero_messages.saturating_add(1)
        } else {
            0
        };
        self.unknown_messages = if known {
            0
        } else {
            self.unknown_messages.saturating_add(1)
        };
        if self.zero_messages < MAX_ZERO_MESSAGES_IN_A_ROW
            && self.unknown_messages < MAX_UNKNOWN_MESSAGES_IN_A_ROW
        {
            return Ok(());
        }
        Err(ChunkError::PeerDesynchronised {
            count: self.unknown_messages,
            type_id: header.type_id,
            offset: self.offset,
            chunk_size: self.chunk_size,
        })
    }

    fn place(&self, wire: &WireHead) -> ChunkPlace {
        ChunkPlace {
            offset: self.offset,
            chunk_stream_id: wire.chunk_stream_id,
            chunk_type: wire.chunk_type,
            chunk_size: self.chunk_size,
            previous: self.previous,
        }
    }

    fn too_much_partial(&self) -> ChunkError {
        ChunkError::PeerTooMuchPartial {
            bytes: self.budget.held,
            limit: self.budget.limit,
        }
    }
}

impl ChunkStream {
    /// Applies the head of a message's first chunk (RTMP 1.0 §5.3.1.2).
    fn begin_message(&mut self, wire: &WireHead, repeated: Option<u32>) {
        let header = &mut self.header;
        if wire.chunk_type <= 1 {
            header.length = wire.length;
            header.type_id = wire.type_id;
        }
        self.delta_ms = if wire.chunk_type < 3 {
            wire.time
        } else {
            repeated.unwrap_or(self.delta_ms)
        };
        if wire.chunk_type == 0 {
            // The specification makes the timestamp of a type 0 chunk the delta of a type 3 message behind it.
            header.timestamp_ms = wire.time;
            header.message_stream_id = wire.message_stream_id;
        } else {
            header.timestamp_ms = header.timestamp_ms.wrapping_add(self.delta_ms);
        }
    }
}

/// Looks for the extended timestamp in a type 3 chunk, whose bytes behind the basic header are `rest`.
///
/// Older librtmp does not repeat it in continuations, so there it counts only if it has the value of the message's
/// head; a difference in any byte is enough to know that the payload begins.
fn repeated_extended(rest: &[u8], extended: u32, may_be_absent: bool) -> Repeated {
    let expected = extended.to_be_bytes();
    match rest.first_chunk() {
        Some(field) if !may_be_absent || *field == expected => Repeated::Present(u32::from_be_bytes(*field)),
        Some(_) => Repeated::Absent,
        None if may_be_absent && !expected.starts_with(rest) => Repeated::Absent,
        None => Repeated::Starved,
    }
}
