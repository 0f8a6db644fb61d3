//! FLV framing (FLV specification 10.1, annex E.2 to E.4.1).

use bytes::Bytes;

/// Bytes in front of a tag's body.
pub const HEAD_LEN: usize = 11;
/// Bytes of the PreviousTagSize behind it.
pub const TAIL_LEN: usize = 4;
/// Bytes of the file header with PreviousTagSize0.
pub const FILE_HEADER_LEN: usize = 13;
/// The longest body a tag can declare (24 bits).
pub const MAX_BODY_LEN: u32 = 0xFF_FFFF;

/// What a tag carries; the values are also RTMP's message types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TagType {
    /// An audio message.
    Audio = 8,
    /// A video message.
    Video = 9,
    /// Script data, AMF0.
    Script = 18,
}

impl TagType {
    /// The type of a tag's first byte: its low five bits; reserved and filter bits are ignored.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte & 0x1F {
            8 => Some(Self::Audio),
            9 => Some(Self::Video),
            18 => Some(Self::Script),
            _ => None,
        }
    }
}

/// Writes a tag head: type, body length, timestamp with its high byte last, stream id 0. Of
/// `body_len` the low 24 bits are written; a body is never over [`MAX_BODY_LEN`].
pub fn write_head(head: &mut [u8; HEAD_LEN], tag_type: TagType, body_len: u32, timestamp_ms: u32) {
    let [_, l2, l1, l0] = body_len.to_be_bytes();
    let [t3, t2, t1, t0] = timestamp_ms.to_be_bytes();
    *head = [tag_type as u8, l2, l1, l0, t2, t1, t0, t3, 0, 0, 0];
}

/// Makes a complete tag of a buffer that holds [`HEAD_LEN`] bytes of room and then the body:
/// writes the head in place and appends PreviousTagSize. Nothing is copied when the buffer has
/// [`TAIL_LEN`] bytes of spare capacity.
///
/// A buffer under [`HEAD_LEN`] bytes becomes a tag without body; a body over [`MAX_BODY_LEN`],
/// which no RTMP message can have, is cut there.
pub fn finish(mut buf: Vec<u8>, tag_type: TagType, timestamp_ms: u32) -> Bytes {
    buf.resize(buf.len().clamp(HEAD_LEN, HEAD_LEN + MAX_BODY_LEN as usize), 0);
    let size = buf.len() as u32;
    if let Some(head) = buf.first_chunk_mut::<HEAD_LEN>() {
        write_head(head, tag_type, size - HEAD_LEN as u32, timestamp_ms);
    }
    buf.reserve_exact(TAIL_LEN);
    buf.extend_from_slice(&size.to_be_bytes());
    Bytes::from(buf)
}

/// A complete tag around a copy of `body`, for the few messages that are made and not relayed.
pub fn from_body(body: &[u8], tag_type: TagType, timestamp_ms: u32) -> Bytes {
    let mut buf = Vec::with_capacity(HEAD_LEN + body.len() + TAIL_LEN);
    buf.resize(HEAD_LEN, 0);
    buf.extend_from_slice(body);
    finish(buf, tag_type, timestamp_ms)
}

/// The body of a complete tag, a slice of the same buffer; empty when `tag` is no complete tag.
pub fn body_of(tag: &Bytes) -> Bytes {
    match tag.len().checked_sub(TAIL_LEN) {
        Some(end) if end >= HEAD_LEN => tag.slice(HEAD_LEN..end),
        _ => Bytes::new(),
    }
}

/// The file header and PreviousTagSize0. Players wait for every track flagged here (interop case
/// 142), so flag only what exists.
pub const fn file_header(has_audio: bool, has_video: bool) -> [u8; FILE_HEADER_LEN] {
    let flags = (has_audio as u8) << 2 | has_video as u8;
    [b'F', b'L', b'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_finished_in_place() {
        let mut buf = Vec::with_capacity(HEAD_LEN + 2 + TAIL_LEN);
        buf.resize(HEAD_LEN, 0xEE);
        buf.extend_from_slice(&[0xAF, 0x01]);
        let at = buf.as_ptr();
        let tag = finish(buf, TagType::Audio, 0x0123_4567);
        assert_eq!(
            &tag[..],
            [
                8, 0, 0, 2, 0x23, 0x45, 0x67, 0x01, 0, 0, 0, 0xAF, 0x01, 0, 0, 0, 13
            ]
        );
        assert_eq!(tag.as_ptr(), at, "the buffer was not moved");
        assert_eq!(&body_of(&tag)[..], [0xAF, 0x01]);
        assert_eq!(from_body(&[0xAF, 0x01], TagType::Audio, 0x0123_4567), tag);
    }

    #[test]
    fn odd_buffers_still_make_whole_tags() {
        let tag = finish(vec![1, 2], TagType::Script, 0);
        assert_eq!(&tag[..], [18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11]);
        assert!(body_of(&tag).is_empty());
        assert!(body_of(&Bytes::from_static(&[0; 14])).is_empty());
        let tag = finish(vec![0; HEAD_LEN + MAX_BODY_LEN as usize + 5], TagType::Video, 0);
        assert_eq!(tag[1..4], [0xFF; 3]);
        assert_eq!(tag.len(), HEAD_LEN + MAX_BODY_LEN as usize + TAIL_LEN);
    }

    #[test]
    fn file_headers_flag_the_tracks() {
        assert_eq!(file_header(true, true), *b"FLV\x01\x05\0\0\0\x09\0\0\0\0");
        assert_eq!(file_header(true, false)[4], 4);
        assert_eq!(file_header(false, true)[4], 1);
        assert_eq!(file_header(false, false)[4], 0);
    }

    #[test]
    fn tag_types_ignore_the_filter_bits() {
        assert_eq!(TagType::from_byte(9), Some(TagType::Video));
        assert_eq!(TagType::from_byte(0x28), Some(TagType::Audio));
        assert_eq!(TagType::from_byte(18), Some(TagType::Script));
        assert_eq!(TagType::from_byte(15), None);
    }
}
