//! What a chunk stream carries.

/// What the chunk heads said of a message (RTMP 1.0 §5.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageHeader {
    /// The chunk stream it came on. Says nothing of the message's kind.
    pub chunk_stream_id: u32,
    /// Absolute timestamp in milliseconds, wrapping at 2^32.
    pub timestamp_ms: u32,
    /// Message type id.
    pub type_id: u8,
    /// Message stream id.
    pub message_stream_id: u32,
    /// Length of the body in bytes, at most 2^24 − 1.
    pub length: u32,
}

/// One complete message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What the chunk heads said of it.
    pub header: MessageHeader,
    pub(super) buf: Vec<u8>,
    pub(super) head_room: usize,
}

impl Message {
    /// The body.
    pub fn body(&self) -> &[u8] {
        self.buf.get(self.head_room..).unwrap_or_default()
    }

    /// The buffer that the body was received into: the head room (zero bytes), then the body, with the tail room as
    /// spare capacity.
    pub fn into_buf(self) -> Vec<u8> {
        self.buf
    }
}
