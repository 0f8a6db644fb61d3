//! Chunk heads as they are on the wire (RTMP 1.0 §5.3.1).

/// The timestamp field's value that says that an extended timestamp follows.
pub(super) const EXTENDED: u32 = 0xFF_FFFF;

/// The highest chunk stream id the three-byte basic header can say.
pub(super) const MAX_CHUNK_STREAM_ID: u32 = 65_599;

/// One chunk head without the extended timestamp of a type 3 chunk, which only the chunk stream's state can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WireHead {
    pub(super) chunk_type: u8,
    pub(super) chunk_stream_id: u32,
    /// Types 0, 1 and 2: the timestamp or delta, extended or not.
    pub(super) time: u32,
    /// Types 0, 1 and 2: whether `time` was in the extended field.
    pub(super) extended: bool,
    /// Types 0 and 1.
    pub(super) length: u32,
    /// Types 0 and 1.
    pub(super) type_id: u8,
    /// Type 0.
    pub(super) message_stream_id: u32,
    /// How many bytes the head took.
    pub(super) bytes: usize,
}

impl WireHead {
    /// Reads a head from the front of `bytes`; `None` when it is not there completely.
    pub(super) fn parse(bytes: &[u8]) -> Option<WireHead> {
        let first = *bytes.first()?;
        let (chunk_stream_id, basic) = match first & 0x3f {
            0 => (64 + u32::from(*bytes.get(1)?), 2),
            1 => (
                64 + u32::from(*bytes.get(1)?) + 256 * u32::from(*bytes.get(2)?),
                3,
            ),
            id => (u32::from(id), 1),
        };
        let mut head = WireHead {
            chunk_type: first >> 6,
            chunk_stream_id,
            time: 0,
            extended: false,
            length: 0,
            type_id: 0,
            message_stream_id: 0,
            bytes: basic,
        };
        let fields = bytes.get(basic..)?;
        let fields = match head.chunk_type {
            0 => fields.get(..11)?,
            1 => fields.get(..7)?,
            2 => fields.get(..3)?,
            _ => return Some(head),
        };
        head.bytes += fields.len();
        if let [a, b, c, rest @ ..] = fields {
            head.time = u32::from_be_bytes([0, *a, *b, *c]);
            if let [a, b, c, type_id, rest @ ..] = rest {
                head.length = u32::from_be_bytes([0, *a, *b, *c]);
                head.type_id = *type_id;
                if let [a, b, c, d] = rest {
                    head.message_stream_id = u32::from_le_bytes([*a, *b, *c, *d]);
                }
            }
        }
        if head.time == EXTENDED {
            head.time = u32::from_be_bytes(*bytes.get(head.bytes..)?.first_chunk()?);
            head.extended = true;
            head.bytes += 4;
        }
        Some(head)
    }
}

/// Renders a basic header: chunk type and chunk stream id. Returns the bytes and how many of them count.
///
/// Ids that the wire cannot express (below 2, above 65,599) become the nearest one it can.
pub(super) fn basic_header(chunk_type: u8, chunk_stream_id: u32) -> ([u8; 3], usize) {
    let [.., high, low] = chunk_stream_id
        .clamp(2, MAX_CHUNK_STREAM_ID)
        .saturating_sub(64)
        .to_be_bytes();
    let fmt = chunk_type << 6;
    match chunk_stream_id {
        0..=2 => ([fmt | 2, 0, 0], 1),
        3..=63 => ([fmt | chunk_stream_id.to_be_bytes()[3], 0, 0], 1),
        64..=319 => ([fmt, low, 0], 2),
        _ => ([fmt | 1, low, high], 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_stream_id_is_rendered_in_a_form_that_is_read_back() {
        for id in 2..=MAX_CHUNK_STREAM_ID {
            let (bytes, length) = basic_header(3, id);
            let head = WireHead::parse(&bytes[..length]).unwrap();
            assert_eq!(
                (head.chunk_type, head.chunk_stream_id, head.bytes),
                (3, id, length)
            );
        }
        assert_eq!(basic_header(0, 0), basic_header(0, 2));
        assert_eq!(basic_header(0, 70_000), basic_header(0, MAX_CHUNK_STREAM_ID));
    }

    #[test]
    fn a_small_id_may_come_in_the_three_byte_form() {
        assert_eq!(WireHead::parse(&[0xc1, 5, 0]).unwrap().chunk_stream_id, 69);
        assert_eq!(WireHead::parse(&[0xc1, 0, 1]).unwrap().chunk_stream_id, 320);
    }

    #[test]
    fn a_head_is_read_only_when_it_is_complete() {
        let head = [0x03, 0xff, 0xff, 0xff, 0, 1, 2, 20, 1, 0, 0, 0, 0x01, 0, 0, 2];
        for length in 0..head.len() {
            assert_eq!(WireHead::parse(&head[..length]), None, "{length}");
        }
        assert_eq!(
            WireHead::parse(&head),
            Some(WireHead {
                chunk_type: 0,
                chunk_stream_id: 3,
                time: 0x0100_0002,
                extended: true,
                length: 258,
                type_id: 20,
                message_stream_id: 1,
                bytes: 16,
            })
        );
    }
}
