//! What a peer may cost before it is refused.

/// The longest message the 24-bit length field can announce.
pub const MAX_MESSAGE_BYTES: u32 = 0xFF_FFFF;

/// Bounds of a [`ChunkReader`](crate::chunk::ChunkReader).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderLimits {
    /// The longest message taken, in bytes. Default: 16 MiB − 1, what the wire can express.
    pub max_message_bytes: u32,
    /// How many chunk streams may be in use; each costs about 100 bytes for the life of the connection. Default: 64,
    /// where real clients use at most 8.
    pub max_chunk_streams: usize,
    /// Memory for messages that are not complete yet, in bytes over all chunk streams. Default: 32 MiB, two of the
    /// longest messages interleaved.
    pub max_partial_bytes: usize,
    /// A chunk that carries less than this and does not end its message counts as tiny. Default: 32 bytes; the
    /// protocol's own default chunk is 128.
    pub tiny_chunk_bytes: u32,
    /// How many tiny chunks one connection may send. Tiny chunks are legal (a chunk size of 1 is) but cost a header
    /// parse for almost no payload. Default: 16 Mi, about half a second of CPU time.
    pub max_tiny_chunks: u64,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        ReaderLimits {
            max_message_bytes: MAX_MESSAGE_BYTES,
            max_chunk_streams: 64,
            max_partial_bytes: 32 << 20,
            tiny_chunk_bytes: 32,
            max_tiny_chunks: 16 << 20,
        }
    }
}
