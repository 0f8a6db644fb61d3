//! [`Frame`]: one media message, framed once for every output.

use std::sync::Arc;

use bytes::Bytes;
use spillway_flv::tag::{HEAD_LEN, TAIL_LEN, TagType};
use spillway_flv::ws;
use spillway_media::codec::CodecConfig;
use spillway_rtmp::chunk::head::ChunkHead;

use crate::init::Init;

/// The RTMP message stream a player's media goes out on: `createStream` answers 1 first.
pub const MESSAGE_STREAM_ID: u32 = 1;

const AUDIO_CHUNK_STREAM: u8 = 4;
const SCRIPT_CHUNK_STREAM: u8 = 5;
const VIDEO_CHUNK_STREAM: u8 = 6;

/// What a frame is to the viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Coded media that anyone can use.
    Media,
    /// A sequence header.
    Header,
    /// `onMetaData`.
    Metadata,
    /// Other script data (captions, cue points).
    Script,
    /// Enhanced RTMP side information: further tracks, colour metadata. Only for players that announced
    /// Enhanced RTMP.
    SideInfo,
}

/// One media message in its finished forms, shared by everything that sends it.
///
/// There is one buffer: the FLV tag as HTTP-FLV sends it. RTMP sends a view of its body between the
/// chunk heads rendered here; WebSocket sends the whole behind [`Frame::ws_head`].
#[derive(Debug)]
pub struct Frame {
    pub(crate) seq: u64,
    info: FrameInfo,
    tag: Bytes,
    chunk_head: ChunkHead,
    ws_head: ([u8; 10], usize),
    transfer_head: ([u8; 10], usize),
}

/// What the writer knows of a message.
#[derive(Debug)]
pub(crate) struct FrameInfo {
    pub(crate) epoch: u64,
    pub(crate) kind: TagType,
    pub(crate) role: Role,
    pub(crate) key: bool,
    pub(crate) dts_ms: i64,
    pub(crate) cts_ms: i32,
    pub(crate) data_at: usize,
    pub(crate) arrived_unix_ms: u64,
    pub(crate) config: Option<Arc<CodecConfig>>,
    /// The headers that a decoder starting here needs: on join points only.
    pub(crate) init: Option<Arc<Init>>,
}

impl FrameInfo {
    /// Frames the message in `buf` (room for the tag's head, then the body): writes the tag's head and tail in
    /// place and renders the heads that other outputs put before it.
    pub(crate) fn finish(self, seq: u64, buf: Vec<u8>) -> Frame {
        // libavformat takes metadata at another time than 0 for a subtitle track.
        let timestamp_ms = if self.role == Role::Metadata {
            0
        } else {
            wire_timestamp(self.dts_ms)
        };
        let tag = spillway_flv::tag::finish(buf, self.kind, timestamp_ms);
        let chunk_stream = match self.kind {
            TagType::Audio => AUDIO_CHUNK_STREAM,
            TagType::Video => VIDEO_CHUNK_STREAM,
            TagType::Script => SCRIPT_CHUNK_STREAM,
        };
        let body_len = tag.len().saturating_sub(HEAD_LEN + TAIL_LEN);
        let length = u32::try_from(body_len).unwrap_or(u32::MAX);
        let chunk_head = ChunkHead::render(
            chunk_stream,
            timestamp_ms,
            self.kind as u8,
            MESSAGE_STREAM_ID,
            length,
        );
        Frame {
            seq,
            ws_head: ws::frame_head(tag.len()),
            transfer_head: transfer_head(tag.len()),
            tag,
            chunk_head,
            info: self,
        }
    }
}

/// The 32 bits of a decode time that RTMP and FLV carry.
fn wire_timestamp(dts_ms: i64) -> u32 {
    (dts_ms & 0xFFFF_FFFF) as u32
}

impl Frame {
    /// The position in the stream: rises by one per frame, across publishers.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Which publisher's presence the frame belongs to.
    pub fn epoch(&self) -> u64 {
        self.info.epoch
    }

    /// Audio, video or script.
    pub fn kind(&self) -> TagType {
        self.info.kind
    }

    /// What the frame is to the viewers.
    pub fn role(&self) -> Role {
        self.info.role
    }

    /// Whether this is a coded video frame that decoding can start at.
    pub fn key(&self) -> bool {
        self.info.key
    }

    /// The decode time on the stream's own timeline, in milliseconds: strictly rising per track.
    pub fn dts_ms(&self) -> i64 {
        self.info.dts_ms
    }

    /// The composition time offset in milliseconds.
    pub fn cts_ms(&self) -> i32 {
        self.info.cts_ms
    }

    /// The wall clock at the frame's arrival, in Unix milliseconds.
    pub fn arrived_unix_ms(&self) -> u64 {
        self.info.arrived_unix_ms
    }

    /// The complete FLV tag: head, body and PreviousTagSize.
    pub fn tag(&self) -> &Bytes {
        &self.tag
    }

    /// The RTMP message body, which is also the FLV tag's.
    pub fn body(&self) -> &[u8] {
        self.tag
            .get(HEAD_LEN..self.tag.len().saturating_sub(TAIL_LEN))
            .unwrap_or_default()
    }

    /// The codec's payload inside the body (access unit in AVCC form, raw audio frame), sharing the buffer.
    pub fn data(&self) -> Bytes {
        let end = self.tag.len().saturating_sub(TAIL_LEN);
        let start = HEAD_LEN.saturating_add(self.info.data_at).min(end);
        self.tag.slice(start..end)
    }

    /// The parameter sets of the frame's track as of this frame: on media and header frames. The same
    /// `Arc` stands on every frame until they change.
    pub fn config(&self) -> Option<&Arc<CodecConfig>> {
        self.info.config.as_ref()
    }

    /// The RTMP chunk heads for [`MESSAGE_STREAM_ID`].
    pub fn chunk_head(&self) -> &ChunkHead {
        &self.chunk_head
    }

    /// The WebSocket frame head for [`Frame::tag`].
    pub fn ws_head(&self) -> &[u8] {
        let (bytes, len) = &self.ws_head;
        bytes.get(..*len).unwrap_or_default()
    }

    /// The chunk head of the chunked transfer coding for [`Frame::tag`]; the chunk ends with CRLF.
    pub fn transfer_head(&self) -> &[u8] {
        let (bytes, len) = &self.transfer_head;
        bytes.get(..*len).unwrap_or_default()
    }

    /// The headers that a decoder starting at this frame needs: set on join points.
    pub fn init(&self) -> Option<&Arc<Init>> {
        self.info.init.as_ref()
    }
}

/// The size of a chunk in hexadecimal and CRLF (RFC 9112 §7.1). Eight digits are more than a message has.
fn transfer_head(size: usize) -> ([u8; 10], usize) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut head = [0; 10];
    // Eight digits are always enough: a tag is at most 16 MiB and 15 bytes long.
    let digits = ((usize::BITS - size.leading_zeros()).div_ceil(4) as usize).clamp(1, 8);
    for (at, place) in head.iter_mut().take(digits).enumerate() {
        *place = DIGITS[size >> (4 * (digits - 1 - at)) & 15];
    }
    head[digits] = b'\r';
    head[digits + 1] = b'\n';
    (head, digits + 2)
}
