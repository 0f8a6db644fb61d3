//! Message heads and continuation heads, rendered once and sent to any number of players.

use super::wire::EXTENDED;
use crate::limits::MAX_MESSAGE_BYTES;

/// The chunk size this side announces and sends with, in bytes.
///
/// Few messages are longer, so most go out as one head and one slice.
pub const OUT_CHUNK_SIZE: u32 = 65_536;

/// The chunk heads of one message, ready to be put in front of slices of its body.
///
/// The first slice of at most a chunk size goes behind [`head`](ChunkHead::head), every later one behind
/// [`continuation`](ChunkHead::continuation).
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
    /// Renders a type 0 head and its continuation (RTMP 1.0 §5.3.1.2.1, §5.3.1.2.4, §5.3.1.3).
    ///
    /// A timestamp of 0xFFFFFF ms and more goes into the extended field, which every continuation repeats.
    /// `chunk_stream_id` is taken into 2..=63 and `length` to at most 2^24 − 1, what one-byte basic headers and the
    /// length field can say.
    pub fn render(
        chunk_stream_id: u8,
        timestamp_ms: u32,
        type_id: u8,
        message_stream_id: u32,
        length: u32,
    ) -> ChunkHead {
        let id = chunk_stream_id.clamp(2, 63);
        let [_, t0, t1, t2] = timestamp_ms.min(EXTENDED).to_be_bytes();
        let [_, l0, l1, l2] = length.min(MAX_MESSAGE_BYTES).to_be_bytes();
        let [m0, m1, m2, m3] = message_stream_id.to_le_bytes();
        let [e0, e1, e2, e3] = timestamp_ms.to_be_bytes();
        let extended = timestamp_ms >= EXTENDED;
        let mut rendered = ChunkHead {
            head: [id, t0, t1, t2, l0, l1, l2, type_id, m0, m1, m2, m3, 0, 0, 0, 0],
            head_len: 12,
            cont: [3 << 6 | id, 0, 0, 0, 0, 0, 0, 0],
            cont_len: 1,
        };
        if extended {
            rendered.head[12..].copy_from_slice(&[e0, e1, e2, e3]);
            rendered.head_len = 16;
            rendered.cont[1..5].copy_from_slice(&[e0, e1, e2, e3]);
            rendered.cont_len = 5;
        }
        rendered
    }

    /// The same head for another message stream; the continuation does not name it.
    #[must_use]
    pub fn with_message_stream(&self, message_stream_id: u32) -> ChunkHead {
        let mut other = *self;
        other.head[8..12].copy_from_slice(&message_stream_id.to_le_bytes());
        other
    }

    /// The first chunk's head.
    pub fn head(&self) -> &[u8] {
        self.head.get(..usize::from(self.head_len)).unwrap_or(&self.head)
    }

    /// Every later chunk's head.
    pub fn continuation(&self) -> &[u8] {
        self.cont.get(..usize::from(self.cont_len)).unwrap_or(&self.cont)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_with_a_plain_timestamp_has_twelve_bytes_and_a_continuation_of_one() {
        let head = ChunkHead::render(6, 0xFF_FFFE, 9, 1, 0x01_0203);
        assert_eq!(head.head(), [6, 0xff, 0xff, 0xfe, 1, 2, 3, 9, 1, 0, 0, 0]);
        assert_eq!(head.continuation(), [0xc6]);
    }

    #[test]
    fn from_ffffff_on_the_timestamp_is_extended_and_repeated_in_the_continuation() {
        let head = ChunkHead::render(4, 0xFF_FFFF, 8, 0x0102_0304, 2);
        assert_eq!(
            head.head(),
            [4, 0xff, 0xff, 0xff, 0, 0, 2, 8, 4, 3, 2, 1, 0, 0xff, 0xff, 0xff]
        );
        assert_eq!(head.continuation(), [0xc4, 0, 0xff, 0xff, 0xff]);
        assert_eq!(
            ChunkHead::render(4, u32::MAX, 8, 1, 2).continuation(),
            [0xc4, 0xff, 0xff, 0xff, 0xff]
        );
    }

    #[test]
    fn another_message_stream_changes_only_its_four_bytes() {
        let head = ChunkHead::render(6, 0x0100_0000, 9, 1, 500);
        assert_eq!(
            head.with_message_stream(0x0A0B),
            ChunkHead::render(6, 0x0100_0000, 9, 0x0A0B, 500)
        );
    }

    #[test]
    fn what_the_wire_cannot_say_is_taken_to_the_nearest_it_can() {
        let head = ChunkHead::render(64, 0, 9, 1, u32::MAX);
        assert_eq!(head.head(), [63, 0, 0, 0, 0xff, 0xff, 0xff, 9, 1, 0, 0, 0]);
        assert_eq!(ChunkHead::render(0, 0, 9, 1, 0).continuation(), [0xc2]);
    }
}
