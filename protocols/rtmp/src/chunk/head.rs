//! Message heads and continuation heads, rendered once and sent to any number of players.

/// The chunk size this side announces and sends with, in bytes.
pub const OUT_CHUNK_SIZE: u32 = 65_536;

/// The chunk heads of one message, ready to be sent in front of slices of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// The first chunk's head, of which `head_len` bytes count.
    pub head: [u8; 16],
    /// Length of the first chunk's head: 12, or 16 with an extended timestamp.
    pub head_len: u8,
    /// The head of every later chunk, of which `cont_len` bytes count.
    pub cont: [u8; 8],
    /// Length of a later chunk's head: 1, or 5 with an extended timestamp.
    pub cont_len: u8,
}

impl ChunkHead {
    /// Renders a type 0 head and its continuation.
    pub fn render(
        chunk_stream_id: u8,
        timestamp_ms: u32,
        type_id: u8,
        message_stream_id: u32,
        length: u32,
    ) -> ChunkHead {
        let _ = (chunk_stream_id, timestamp_ms, type_id, message_stream_id, length);
        ChunkHead {
            head: [0; 16],
            head_len: 12,
            cont: [0; 8],
            cont_len: 1,
        }
    }

    /// The same head for another message stream.
    #[must_use]
    pub fn with_message_stream(&self, message_stream_id: u32) -> ChunkHead {
        let _ = message_stream_id;
        *self
    }

    /// The first chunk's head.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Every later chunk's head.
    pub fn continuation(&self) -> &[u8] {
        &self.cont
    }
}
