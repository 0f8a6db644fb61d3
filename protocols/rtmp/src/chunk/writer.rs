//! Messages to chunks.

use bytes::BytesMut;

use crate::error::ChunkError;

/// Cuts messages into chunks.
#[derive(Debug, Default)]
pub struct ChunkWriter {}

impl ChunkWriter {
    /// A writer with the protocol's initial chunk size of 128 that writes type 0 heads only.
    pub fn new() -> ChunkWriter {
        ChunkWriter::default()
    }

    /// Sets the size used from the next message on. The caller sends the SetChunkSize message, before this call.
    pub fn set_chunk_size(&mut self, chunk_size: u32) {
        let _ = chunk_size;
    }

    /// Appends one message to `out`.
    ///
    /// # Errors
    /// [`ChunkError::MessageTooLong`] when the payload is longer than the 24-bit length field can say; nothing is written.
    pub fn write(
        &mut self,
        out: &mut BytesMut,
        chunk_stream_id: u32,
        timestamp_ms: u32,
        type_id: u8,
        message_stream_id: u32,
        payload: &[u8],
    ) -> Result<(), ChunkError> {
        let _ = (
            out,
            chunk_stream_id,
            timestamp_ms,
            type_id,
            message_stream_id,
            payload,
        );
        Ok(())
    }
}
