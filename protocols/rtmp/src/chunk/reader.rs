//! Chunks to messages.

use crate::{error::ChunkError, limits::ReaderLimits};

/// What the chunk heads said of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageHeader {
    /// The chunk stream it came on; says nothing of its kind.
    pub chunk_stream_id: u32,
    /// Absolute timestamp in milliseconds, wrapping at 2^32.
    pub timestamp_ms: u32,
    /// Message type id.
    pub type_id: u8,
    /// Message stream id.
    pub message_stream_id: u32,
    /// Length of the body in bytes.
    pub length: u32,
}

/// One complete message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What the chunk heads said of it.
    pub header: MessageHeader,
    buf: Vec<u8>,
    head_room: usize,
}

impl Message {
    /// The body.
    pub fn body(&self) -> &[u8] {
        self.buf.get(self.head_room..).unwrap_or_default()
    }

    /// The buffer the body was received into: the head room (zero bytes), then the body.
    pub fn into_buf(self) -> Vec<u8> {
        self.buf
    }
}

/// How a [`ChunkReader`] lays out its buffers and what it refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Zero bytes in front of every body.
    pub head_room: usize,
    /// Spare capacity kept after every body.
    pub tail_room: usize,
    /// What a peer may cost.
    pub limits: ReaderLimits,
}

/// Puts messages together again from chunks.
#[derive(Debug)]
pub struct ChunkReader {
    options: ReaderOptions,
}

impl ChunkReader {
    /// A reader at the start of a chunk stream, with the protocol's initial chunk size of 128.
    pub fn new(options: ReaderOptions) -> ChunkReader {
        ChunkReader { options }
    }

    /// Consumes `input` from the front until a message is complete (`Some`) or the input is used up (`None`).
    ///
    /// # Errors
    /// Any [`ChunkError`]; the connection cannot be read further.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Message>, ChunkError> {
        let _ = (input, self.options);
        Ok(None)
    }

    /// Sets the chunk size, as if the peer had sent SetChunkSize.
    pub fn set_chunk_size(&mut self, chunk_size: u32) {
        let _ = chunk_size;
    }

    /// Memory held for messages that are not complete, in bytes.
    pub fn bytes_held(&self) -> usize {
        0
    }
}
