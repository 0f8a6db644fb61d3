//! Messages to chunks.

use bytes::{BufMut, BytesMut};

use super::{
    INITIAL_CHUNK_SIZE, MessageHeader,
    wire::{EXTENDED, basic_header},
};
use crate::{error::ChunkError, limits::MAX_MESSAGE_BYTES};

/// Cuts messages into chunks.
///
/// A message is written as a whole; nothing is interleaved. Where the timestamp is extended, every continuation
/// chunk repeats it (RTMP 1.0 §5.3.1.3).
#[derive(Clone, Debug)]
pub struct ChunkWriter {
    chunk_size: usize,
    compress: bool,
    /// The last message of each chunk stream with the value of its time field; used when compressing.
    history: Vec<(MessageHeader, u32)>,
}

impl Default for ChunkWriter {
    fn default() -> Self {
        ChunkWriter::new()
    }
}

impl ChunkWriter {
    /// A writer with the protocol's initial chunk size of 128 bytes. Every message starts with a type 0 head, which
    /// all peers understand in the same way.
    pub fn new() -> ChunkWriter {
        ChunkWriter {
            chunk_size: INITIAL_CHUNK_SIZE as usize,
            compress: false,
            history: Vec::new(),
        }
    }

    /// As [`new`](ChunkWriter::new), but messages start with the shortest head that says the same (types 1 to 3), as
    /// most publishers write. Keeps 32 bytes for each chunk stream that the caller uses.
    pub fn compressing() -> ChunkWriter {
        ChunkWriter {
            compress: true,
            ..ChunkWriter::new()
        }
    }

    /// Sets the size of chunks from the next message on, at least 1. The caller writes the SetChunkSize message
    /// before.
    pub fn set_chunk_size(&mut self, chunk_size: u32) {
        self.chunk_size = chunk_size.max(1) as usize;
    }

    /// Appends one message to `out`. Chunk stream ids are 2 to 65,599.
    ///
    /// # Errors
    /// [`ChunkError::MessageTooLong`] when the payload is longer than the 24-bit length field can say; nothing is
    /// written then.
    pub fn write(
        &mut self,
        out: &mut BytesMut,
        chunk_stream_id: u32,
        timestamp_ms: u32,
        type_id: u8,
        message_stream_id: u32,
        payload: &[u8],
    ) -> Result<(), ChunkError> {
        let length = u32::try_from(payload.len())
            .ok()
            .filter(|length| *length <= MAX_MESSAGE_BYTES)
            .ok_or(ChunkError::MessageTooLong {
                length: payload.len() as u64,
                limit: MAX_MESSAGE_BYTES,
            })?;
        let header = MessageHeader {
            chunk_stream_id,
            timestamp_ms,
            type_id,
            message_stream_id,
            length,
        };
        let (chunk_type, time) = self.compressed(&header);

        let chunks = payload.len().div_ceil(self.chunk_size).max(1);
        out.reserve(payload.len() + 11 + chunks.saturating_mul(7));
        let (basic, basic_len) = basic_header(chunk_type, chunk_stream_id);
        out.put(&basic[..basic_len]);
        if chunk_type < 3 {
            out.put_uint(u64::from(time.min(EXTENDED)), 3);
        }
        if chunk_type < 2 {
            out.put_uint(u64::from(length), 3);
            out.put_u8(type_id);
        }
        if chunk_type == 0 {
            out.put_u32_le(message_stream_id);
        }
        if time >= EXTENDED {
            out.put_u32(time);
        }

        let (basic, basic_len) = basic_header(3, chunk_stream_id);
        for (index, slice) in payload.chunks(self.chunk_size).enumerate() {
            if index > 0 {
                out.put(&basic[..basic_len]);
                if time >= EXTENDED {
                    out.put_u32(time);
                }
            }
            out.put(slice);
        }
        Ok(())
    }

    /// The chunk type and the time field's value for a message, which is remembered for the next one.
    fn compressed(&mut self, header: &MessageHeader) -> (u8, u32) {
        if !self.compress {
            return (0, header.timestamp_ms);
        }
        let Some((last, last_time)) = self
            .history
            .iter_mut()
            .find(|(last, _)| last.chunk_stream_id == header.chunk_stream_id)
        else {
            self.history.push((*header, header.timestamp_ms));
            return (0, header.timestamp_ms);
        };
        let absolute =
            header.timestamp_ms < last.timestamp_ms || header.message_stream_id != last.message_stream_id;
        let delta = header.timestamp_ms.wrapping_sub(last.timestamp_ms);
        let same_shape = header.length == last.length && header.type_id == last.type_id;
        let (chunk_type, time) = match (absolute, same_shape, delta == *last_time) {
            (true, ..) => (0, header.timestamp_ms),
            (false, false, _) => (1, delta),
            (false, true, false) => (2, delta),
            (false, true, true) => (3, delta),
        };
        (*last, *last_time) = (*header, time);
        (chunk_type, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_longer_than_a_chunk_is_continued_with_type_3() {
        let mut out = BytesMut::new();
        let mut writer = ChunkWriter::new();
        writer.write(&mut out, 3, 5, 20, 0, &[7; 300]).unwrap();
        assert_eq!(out[..12], [3, 0, 0, 5, 0, 1, 44, 20, 0, 0, 0, 0]);
        assert_eq!((out[12 + 128], out[12 + 128 + 129]), (0xc3, 0xc3));
        assert_eq!(out.len(), 12 + 300 + 2);
    }

    #[test]
    fn continuations_repeat_the_extended_timestamp() {
        let mut out = BytesMut::new();
        ChunkWriter::new()
            .write(&mut out, 320, 0x0100_0000, 9, 1, &[7; 129])
            .unwrap();
        assert_eq!(out[..3], [1, 0, 1]);
        assert_eq!(out[14..18], [1, 0, 0, 0]);
        assert_eq!(out[18 + 128..], [0xc1, 0, 1, 1, 0, 0, 0, 7]);
    }

    #[test]
    fn an_empty_message_is_a_head_alone() {
        let mut out = BytesMut::new();
        ChunkWriter::new().write(&mut out, 4, 0, 8, 1, &[]).unwrap();
        assert_eq!(out[..], [4, 0, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0]);
    }

    #[test]
    fn a_payload_over_the_length_field_is_refused_and_nothing_written() {
        let mut out = BytesMut::new();
        let payload = vec![0; MAX_MESSAGE_BYTES as usize + 1];
        assert_eq!(
            ChunkWriter::new().write(&mut out, 4, 0, 9, 1, &payload),
            Err(ChunkError::MessageTooLong {
                length: 1 << 24,
                limit: MAX_MESSAGE_BYTES
            })
        );
        assert!(out.is_empty());
    }

    #[test]
    fn compression_takes_the_shortest_head_that_says_the_same() {
        let mut writer = ChunkWriter::compressing();
        let mut chunk_type = |timestamp_ms, type_id, message_stream_id, payload: &[u8]| {
            let mut out = BytesMut::new();
            writer
                .write(&mut out, 4, timestamp_ms, type_id, message_stream_id, payload)
                .unwrap();
            (out[0] >> 6, out.len() - payload.len())
        };
        assert_eq!(chunk_type(26, 8, 1, b"ab"), (0, 12));
        assert_eq!(chunk_type(52, 8, 1, b"cd"), (3, 1));
        assert_eq!(chunk_type(92, 8, 1, b"ef"), (2, 4));
        assert_eq!(chunk_type(132, 8, 1, b"gh"), (3, 1));
        assert_eq!(chunk_type(172, 9, 1, b"gh"), (1, 8));
        assert_eq!(chunk_type(100, 9, 1, b"gh"), (0, 12));
        assert_eq!(chunk_type(200, 9, 2, b"gh"), (0, 12));
        assert_eq!(chunk_type(0x0100_0000 + 200, 9, 2, b"gh"), (2, 8));
        assert_eq!(chunk_type(0x0200_0000 + 200, 9, 2, b"gh"), (3, 5));
    }
}
