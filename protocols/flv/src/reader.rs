//! Reading an FLV byte stream tag by tag.

use bytes::Bytes;

use crate::error::FlvError;
use crate::tag::{HEAD_LEN, MAX_BODY_LEN, TAIL_LEN, TagType};

/// Bytes of the file header itself.
const FILE_HEAD_LEN: usize = 9;
/// Most bytes a file header may say it has. Known files say 9.
const MAX_DATA_OFFSET: u32 = 65_536;
/// Reserved for a body before its bytes arrive; more is allocated only as they do.
const FIRST_RESERVE: usize = 65_536;

/// One tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// What it carries.
    pub tag_type: TagType,
    /// The timestamp, all 32 bits.
    pub timestamp_ms: u32,
    /// The body, without head and PreviousTagSize.
    pub body: Bytes,
}

/// Reads tags from a file or stream that comes in pieces of any size. It holds at most one
/// unfinished tag.
///
/// Tags of other types (AMF3 script data, vendors' own) are skipped; PreviousTagSize is not
/// checked, for files in the wild get it wrong (interop case 143).
#[derive(Debug)]
pub struct TagReader {
    max_body_len: u32,
    state: State,
    /// Bytes of the fixed-size field being read.
    field: Vec<u8>,
    body: Vec<u8>,
    flags: Option<u8>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    FileHead,
    Skip(usize),
    TagHead,
    Body {
        tag_type: TagType,
        timestamp_ms: u32,
        length: usize,
    },
}

impl TagReader {
    /// A reader that refuses bodies over `max_body_len` bytes, which bounds its memory.
    pub fn new(max_body_len: u32) -> Self {
        Self {
            max_body_len: max_body_len.min(MAX_BODY_LEN),
            state: State::FileHead,
            field: Vec::with_capacity(HEAD_LEN),
            body: Vec::new(),
            flags: None,
        }
    }

    /// Whether the file header flags audio and video; `None` before it was read.
    pub fn flags(&self) -> Option<(bool, bool)> {
        self.flags.map(|flags| (flags & 4 != 0, flags & 1 != 0))
    }

    /// Consumes `input` from the front until one tag is complete or the input is used up. Call
    /// again with the rest, or with more.
    ///
    /// # Errors
    /// [`FlvError::NotFlv`] or [`FlvError::TagTooLarge`]; the reader is of no use afterwards.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Tag>, FlvError> {
        loop {
            match self.state {
                State::FileHead => {
                    let Some(head) = self.field::<FILE_HEAD_LEN>(input) else {
                        return Ok(None);
                    };
                    self.start_file(head)?;
                }
                State::Skip(left) => {
                    let taken = left.min(input.len());
                    *input = input.get(taken..).unwrap_or_default();
                    if taken < left {
                        self.state = State::Skip(left - taken);
                        return Ok(None);
                    }
                    self.state = State::TagHead;
                }
                State::TagHead => {
                    let Some(head) = self.field::<HEAD_LEN>(input) else {
                        return Ok(None);
                    };
                    self.start_tag(head)?;
                }
                State::Body {
                    tag_type,
                    timestamp_ms,
                    length,
                } => {
                    let missing = length.saturating_sub(self.body.len());
                    let (taken, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
                    self.body.extend_from_slice(taken);
                    *input = rest;
                    if self.body.len() < length {
                        return Ok(None);
                    }
                    self.state = State::Skip(TAIL_LEN);
                    let body = Bytes::from(std::mem::take(&mut self.body));
                    return Ok(Some(Tag {
                        tag_type,
                        timestamp_ms,
                        body,
                    }));
                }
            }
        }
    }

    /// Collects a field of `N` bytes; `None` while it is not complete.
    fn field<const N: usize>(&mut self, input: &mut &[u8]) -> Option<[u8; N]> {
        let missing = N.saturating_sub(self.field.len());
        let (taken, rest) = input.split_at_checked(missing).unwrap_or((input, &[]));
        self.field.extend_from_slice(taken);
        *input = rest;
        let field = self.field.first_chunk::<N>().copied()?;
        self.field.clear();
        Some(field)
    }

    fn start_file(&mut self, head: [u8; FILE_HEAD_LEN]) -> Result<(), FlvError> {
        let [b'F', b'L', b'V', _version, flags, o3, o2, o1, o0] = head else {
            return Err(FlvError::NotFlv);
        };
        let data_offset = u32::from_be_bytes([o3, o2, o1, o0]);
        if data_offset > MAX_DATA_OFFSET {
            return Err(FlvError::NotFlv);
        }
        self.flags = Some(flags);
        let more = (data_offset as usize)
            .checked_sub(FILE_HEAD_LEN)
            .ok_or(FlvError::NotFlv)?;
        self.state = State::Skip(more + TAIL_LEN);
        Ok(())
    }

    fn start_tag(&mut self, head: [u8; HEAD_LEN]) -> Result<(), FlvError> {
        let [kind, l2, l1, l0, t2, t1, t0, t3, ..] = head;
        let length = u32::from_be_bytes([0, l2, l1, l0]);
        if length > self.max_body_len {
            return Err(FlvError::TagTooLarge {
                length,
                limit: self.max_body_len,
            });
        }
        let timestamp_ms = u32::from_be_bytes([t3, t2, t1, t0]);
        let length = length as usize;
        self.state = match TagType::from_byte(kind) {
            Some(tag_type) => {
                self.body.reserve_exact(length.min(FIRST_RESERVE));
                State::Body {
                    tag_type,
                    timestamp_ms,
                    length,
                }
            }
            None => State::Skip(length + TAIL_LEN),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::{file_header, from_body};
    use proptest::prelude::*;

    fn clip() -> Vec<u8> {
        let mut file = file_header(true, true).to_vec();
        file.extend_from_slice(&from_body(&[2, 0, 1, b'x'], TagType::Script, 0));
        let mut amf3 = from_body(&[0; 5], TagType::Script, 0).to_vec();
        amf3[0] = 15;
        file.extend_from_slice(&amf3);
        file.extend_from_slice(&from_body(&[0x17, 0, 0, 0, 0], TagType::Video, 0x8000_0001));
        file.extend_from_slice(&from_body(&[], TagType::Audio, 20));
        file.extend_from_slice(&from_body(&[0x27, 1, 0, 0, 0, 9], TagType::Video, 40));
        file
    }

    fn read_all(reader: &mut TagReader, mut input: &[u8], tags: &mut Vec<Tag>) {
        while let Some(tag) = reader.read(&mut input).unwrap() {
            tags.push(tag);
        }
        assert!(input.is_empty());
    }

    fn whole() -> Vec<Tag> {
        let mut tags = Vec::new();
        read_all(&mut TagReader::new(MAX_BODY_LEN), &clip(), &mut tags);
        tags
    }

    #[test]
    fn a_clip_is_read_and_unknown_tags_are_skipped() {
        let tags = whole();
        let kinds: Vec<_> = tags
            .iter()
            .map(|tag| (tag.tag_type, tag.timestamp_ms, tag.body.len()))
            .collect();
        assert_eq!(
            kinds,
            [
                (TagType::Script, 0, 4),
                (TagType::Video, 0x8000_0001, 5),
                (TagType::Audio, 20, 0),
                (TagType::Video, 40, 6)
            ]
        );
    }

    #[test]
    fn split_at_every_byte() {
        let (clip, whole) = (clip(), whole());
        for at in 0..=clip.len() {
            let (mut reader, mut tags) = (TagReader::new(100), Vec::new());
            read_all(&mut reader, &clip[..at], &mut tags);
            read_all(&mut reader, &clip[at..], &mut tags);
            assert_eq!(tags, whole, "split at {at}");
        }
        let (mut reader, mut tags) = (TagReader::new(100), Vec::new());
        for byte in &clip {
            read_all(&mut reader, std::slice::from_ref(byte), &mut tags);
        }
        assert_eq!(tags, whole);
        assert_eq!(reader.flags(), Some((true, true)));
    }

    #[test]
    fn a_longer_file_header_is_skipped() {
        let mut file = clip();
        file[8] = 12;
        file.splice(9..9, [7, 7, 7]);
        let mut tags = Vec::new();
        read_all(&mut TagReader::new(100), &file, &mut tags);
        assert_eq!(tags, whole());
    }

    #[test]
    fn bad_files_are_refused() {
        let read = |file: &[u8]| TagReader::new(5).read(&mut &file[..]);
        assert_eq!(read(b"GIF89a..."), Err(FlvError::NotFlv));
        assert_eq!(read(b"FLV\x01\x05\0\0\0\x08"), Err(FlvError::NotFlv));
        assert_eq!(read(b"FLV\x01\x05\xFF\0\0\x09"), Err(FlvError::NotFlv));
        let mut file = file_header(true, true).to_vec();
        file.extend_from_slice(&from_body(&[0; 6], TagType::Video, 0));
        assert_eq!(read(&file), Err(FlvError::TagTooLarge { length: 6, limit: 5 }));
    }

    #[test]
    fn a_declared_length_allocates_little() {
        let mut file = file_header(true, true).to_vec();
        file.extend_from_slice(&[9, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0]);
        let mut reader = TagReader::new(MAX_BODY_LEN);
        assert_eq!(reader.read(&mut &file[..]), Ok(None));
        assert!(reader.body.capacity() <= FIRST_RESERVE);
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(data: Vec<u8>, headed: bool) {
            let mut file = if headed { file_header(true, true).to_vec() } else { Vec::new() };
            file.extend_from_slice(&data);
            let mut input = &file[..];
            let mut reader = TagReader::new(1000);
            while let Ok(Some(_)) = reader.read(&mut input) {}
        }

        #[test]
        fn tags_round_trip(bodies in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..6), cut: prop::sample::Index) {
            let mut file = file_header(true, false).to_vec();
            for (time, body) in &bodies {
                file.extend_from_slice(&from_body(body, TagType::Audio, *time));
            }
            let (mut reader, mut tags) = (TagReader::new(200), Vec::new());
            let at = cut.index(file.len());
            read_all(&mut reader, &file[..at], &mut tags);
            read_all(&mut reader, &file[at..], &mut tags);
            let read: Vec<_> = tags.into_iter().map(|tag| (tag.timestamp_ms, tag.body.to_vec())).collect();
            prop_assert_eq!(read, bodies);
        }
    }
}
