//! FLV as a viewer reads it: a strict reader that panics on a byte out of place, and a pump from HTTP.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::{Buf as _, Bytes, BytesMut};

use crate::http::{self, Request};
use crate::slow;

/// One tag.
#[derive(Clone, Debug)]
pub struct Tag {
    /// 8 audio, 9 video, 18 script.
    pub kind: u8,
    /// Milliseconds.
    pub timestamp_ms: u32,
    /// Tag body.
    pub body: Bytes,
}

impl Tag {
    /// A video key frame (or its sequence header).
    #[must_use]
    pub fn is_key(&self) -> bool {
        self.kind == 9 && self.body.first().is_some_and(|byte| (byte >> 4) & 7 == 1)
    }

    /// A sequence header of H.264 or AAC.
    #[must_use]
    pub fn is_header(&self) -> bool {
        match (self.kind, self.body.first(), self.body.get(1)) {
            (9, Some(first), Some(packet)) => first & 0x8f == 0x07 && *packet == 0,
            (8, Some(first), Some(packet)) => first >> 4 == 10 && *packet == 0,
            _ => false,
        }
    }
}

/// Parses the bytes of an FLV stream in any split.
#[derive(Default)]
pub struct Reader {
    buffer: BytesMut,
    flags: Option<u8>,
    previous: u32,
    tags: VecDeque<Tag>,
    complete_bytes: u64,
}

impl Reader {
    /// Takes the next bytes.
    ///
    /// # Panics
    /// When they are not FLV to the letter: signature, version, back pointers, stream id 0.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if self.flags.is_none() {
            if self.buffer.len() < 9 {
                return;
            }
            assert_eq!(&self.buffer[..4], b"FLV\x01", "FLV signature and version");
            assert_eq!(&self.buffer[5..9], &[0, 0, 0, 9], "FLV header size");
            self.flags = Some(self.buffer[4]);
            self.buffer.advance(9);
            self.complete_bytes += 9;
        }
        while self.read_tag() {}
    }

    fn read_tag(&mut self) -> bool {
        let Some(head) = self.buffer.get(..15) else {
            return false;
        };
        let back_pointer = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        assert_eq!(back_pointer, self.previous, "PreviousTagSize");
        let length = usize::from(head[5]) << 16 | usize::from(head[6]) << 8 | usize::from(head[7]);
        let timestamp_ms = u32::from_be_bytes([head[11], head[8], head[9], head[10]]);
        assert_eq!(&head[12..15], &[0, 0, 0], "FLV stream id");
        let kind = head[4];
        assert!(matches!(kind, 8 | 9 | 18), "FLV tag type {kind}");
        if self.buffer.len() < 15 + length {
            return false;
        }
        self.buffer.advance(15);
        let body = self.buffer.split_to(length).freeze();
        self.previous = u32::try_from(11 + length).unwrap_or(u32::MAX);
        self.complete_bytes += 15 + length as u64;
        self.tags.push_back(Tag {
            kind,
            timestamp_ms,
            body,
        });
        true
    }

    /// The next whole tag.
    pub fn next_tag(&mut self) -> Option<Tag> {
        self.tags.pop_front()
    }

    /// Whether the header announces audio and video; `None` before it came.
    #[must_use]
    pub fn announces(&self) -> Option<(bool, bool)> {
        self.flags.map(|flags| (flags & 4 != 0, flags & 1 != 0))
    }

    /// Bytes of the header and the whole tags so far, where a file may be cut without a torn tag.
    #[must_use]
    pub const fn complete_bytes(&self) -> u64 {
        self.complete_bytes
    }
}

/// An HTTP-FLV viewer that reads tags.
pub struct Viewer {
    stream: http::Stream,
    reader: Reader,
}

impl Viewer {
    /// Opens `/key.flv`.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn open(to: SocketAddr, key: &str) -> Self {
        Self::request(to, key, Request::get(&format!("/{key}.flv"))).await
    }

    /// Opens `/key.flv` with a small receive buffer, for a viewer that takes little.
    ///
    /// # Panics
    /// When the answer is not 200.
    pub async fn open_narrow(to: SocketAddr, key: &str) -> Self {
        Self::request(
            to,
            key,
            Request::get(&format!("/{key}.flv")).receive_buffer(slow::SMALL_BUFFER),
        )
        .await
    }

    async fn request(to: SocketAddr, key: &str, request: Request) -> Self {
        let stream = http::open(to, request).await;
        Self::of(stream.unwrap_or_else(|error| panic!("{key}.flv: {error}")))
    }

    /// Reads an answer that is FLV.
    ///
    /// # Panics
    /// When it is not 200.
    #[must_use]
    pub fn of(stream: http::Stream) -> Self {
        assert_eq!(stream.head.status, 200, "HTTP-FLV");
        Self {
            stream,
            reader: Reader::default(),
        }
    }

    /// The next tag; `None` when the stream ended.
    pub async fn next_tag(&mut self) -> Option<Tag> {
        loop {
            if let Some(tag) = self.reader.next_tag() {
                return Some(tag);
            }
            let piece = self.stream.next().await.ok()??;
            self.reader.push(&piece);
        }
    }

    /// Whether the body ended as chunked coding says.
    #[must_use]
    pub const fn ended_cleanly(&self) -> bool {
        self.stream.ended_cleanly()
    }

    /// Status and headers.
    #[must_use]
    pub const fn head(&self) -> &http::Head {
        &self.stream.head
    }

    /// Whether the header announces audio and video.
    #[must_use]
    pub fn announces(&self) -> Option<(bool, bool)> {
        self.reader.announces()
    }
}

/// The tags of an FLV file.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn tags_of(path: &std::path::Path) -> Vec<Tag> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = Reader::default();
    reader.push(&bytes);
    std::iter::from_fn(|| reader.next_tag()).collect()
}

/// Writes tags as an FLV file.
#[must_use]
pub fn file_of(tags: &[Tag]) -> Vec<u8> {
    let has = |kind: u8| tags.iter().any(|tag| tag.kind == kind);
    let flags = u8::from(has(8)) * 4 + u8::from(has(9));
    let mut file = vec![b'F', b'L', b'V', 1, flags, 0, 0, 0, 9, 0, 0, 0, 0];
    for tag in tags {
        let length = u32::try_from(tag.body.len()).unwrap_or(u32::MAX).to_be_bytes();
        let time = tag.timestamp_ms.to_be_bytes();
        file.push(tag.kind);
        file.extend_from_slice(&length[1..]);
        file.extend_from_slice(&[time[1], time[2], time[3], time[0], 0, 0, 0]);
        file.extend_from_slice(&tag.body);
        file.extend_from_slice(&(u32::from_be_bytes(length) + 11).to_be_bytes());
    }
    file
}
