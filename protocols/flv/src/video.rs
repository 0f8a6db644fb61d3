//! Video message headers: legacy (FLV 10.1 annex E.4.3) and enhanced (E-RTMP v2).

use bytes::Bytes;
use spillway_media::Codec;

use crate::enhanced::{Cursor, Layout, ModEx, TrackPart, TrackParts, read_mod_ex};
use crate::error::FlvError;

/// Enhanced packet type of a multitrack message.
const MULTITRACK: u8 = 6;
/// Enhanced packet type of metadata.
const METADATA: u8 = 4;
/// Enhanced packet type of a frame without composition time.
const CODED_FRAMES_X: u8 = 3;
/// Frame type of a frame that nothing refers to.
const FRAME_TYPE_DISPOSABLE: u8 = 3;
/// Frame type of a command.
const FRAME_TYPE_COMMAND: u8 = 5;
/// Bytes of the legacy AVC header: codec, packet type, composition time.
pub const AVC_HEAD_LEN: usize = 5;

/// What a video message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VideoPacket {
    /// The decoder configuration. May be empty (interop case 86).
    SequenceStart,
    /// A coded frame.
    Frame,
    /// The end of a sequence; the stream may go on (interop cases 96, 115).
    SequenceEnd,
    /// Enhanced metadata such as HDR (interop case 114).
    Metadata,
    /// A seek marker or other command, no picture (interop case 95).
    Command,
    /// AV1's MPEG-2 TS descriptor in place of a sequence start.
    Mpeg2TsSequenceStart,
    /// A packet type that is reserved.
    Other(u8),
}

/// What a video body says in front of its codec data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoHeader {
    /// The codec, `None` when unknown and for commands.
    pub codec: Option<Codec>,
    /// The FourCC of an enhanced message, known or not.
    pub fourcc: Option<[u8; 4]>,
    /// A frame that the sender flags as a key frame. The codec data may tell otherwise (interop
    /// case 92). Never set for packets that are no frames.
    pub key: bool,
    /// What it is.
    pub packet: VideoPacket,
    /// Composition time in milliseconds, signed (interop case 80).
    pub cts_ms: i32,
    /// Where the codec data begins in the body.
    pub data_at: usize,
    /// Where it ends; the body's length but for several tracks in one message.
    pub data_end: usize,
    /// The track, 0 without multitrack.
    pub track_id: u8,
    /// The enhanced header form was used.
    pub enhanced: bool,
    /// It came in a multitrack message.
    pub multitrack: bool,
    /// ModEx prefixes were there.
    pub mod_ex: bool,
    /// Nanoseconds to add to the timestamp, from ModEx; 0 to 999,999.
    pub nano_offset: u32,
    /// A frame that nothing refers to; may be dropped.
    pub disposable: bool,
}

impl VideoHeader {
    /// Reads the header of a video body. Of a message with several tracks it describes track 0,
    /// or the first one when that is not there; [`tracks`] gives all.
    ///
    /// # Errors
    /// [`FlvError::EmptyBody`]; [`FlvError::Truncated`] when the body ends inside a header or a
    /// track's size; the multitrack errors. An unknown codec or packet type is no error.
    pub fn parse(body: &[u8]) -> Result<Self, FlvError> {
        let mut chosen = None;
        for header in tracks(body)? {
            let header = header?;
            if header.track_id == 0 {
                return Ok(header);
            }
            chosen.get_or_insert(header);
        }
        chosen.ok_or(FlvError::EmptyBody)
    }

    /// The codec data, a slice of `body`, without a copy. Empty when the header is of another body.
    pub fn data(&self, body: &Bytes) -> Bytes {
        if self.data_at <= self.data_end && self.data_end <= body.len() {
            body.slice(self.data_at..self.data_end)
        } else {
            Bytes::new()
        }
    }

    /// [`Self::data`] as a plain slice.
    pub fn data_of<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        body.get(self.data_at..self.data_end).unwrap_or_default()
    }
}

/// The header of each track in a video body; one for all but multitrack messages.
///
/// # Errors
/// As [`VideoHeader::parse`], for what comes before the tracks; an item is an error when that
/// track cannot be read, and then the last.
pub fn tracks(body: &[u8]) -> Result<VideoTracks<'_>, FlvError> {
    let first = *body.first().ok_or(FlvError::EmptyBody)?;
    if first & 0x80 == 0 {
        return legacy(body, first).map(|header| VideoTracks {
            body,
            kind: Kind::Single(Some(header)),
        });
    }
    let mut cursor = Cursor::new(body, 1);
    let mod_ex = read_mod_ex(&mut cursor, first & 0x0F)?;
    let mut shared = Shared {
        frame_type: first >> 4 & 7,
        packet_type: mod_ex.packet_type,
        mod_ex,
        multitrack: false,
    };
    if shared.frame_type == FRAME_TYPE_COMMAND && shared.packet_type != METADATA {
        cursor.byte("video command")?;
        let header = shared.header(VideoPacket::Command, cursor.at() - 1, cursor.at());
        return Ok(VideoTracks {
            body,
            kind: Kind::Single(Some(header)),
        });
    }
    let mut layout = Layout::Plain;
    if shared.packet_type == MULTITRACK {
        (layout, shared.packet_type) = Layout::read(&mut cursor, MULTITRACK)?;
        shared.multitrack = true;
    }
    let parts = TrackParts::start(cursor, layout)?;
    Ok(VideoTracks {
        body,
        kind: Kind::Parts(parts, shared),
    })
}

/// The headers of a body's tracks, in order.
#[derive(Debug, Clone)]
pub struct VideoTracks<'a> {
    body: &'a [u8],
    kind: Kind<'a>,
}

#[derive(Debug, Clone)]
enum Kind<'a> {
    Single(Option<VideoHeader>),
    Parts(TrackParts<'a>, Shared),
}

impl Iterator for VideoTracks<'_> {
    type Item = Result<VideoHeader, FlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.kind {
            Kind::Single(header) => header.take().map(Ok),
            Kind::Parts(parts, shared) => {
                let header = parts.next()?.and_then(|part| shared.track(self.body, part));
                if header.is_err() {
                    self.kind = Kind::Single(None);
                }
                Some(header)
            }
        }
    }
}

/// What the tracks of an enhanced message have in common.
#[derive(Debug, Clone, Copy)]
struct Shared {
    frame_type: u8,
    packet_type: u8,
    mod_ex: ModEx,
    multitrack: bool,
}

impl Shared {
    fn header(&self, packet: VideoPacket, data_at: usize, data_end: usize) -> VideoHeader {
        let frame = packet == VideoPacket::Frame;
        VideoHeader {
            codec: None,
            fourcc: None,
            key: frame && is_key(self.frame_type),
            packet,
            cts_ms: 0,
            data_at,
            data_end,
            track_id: 0,
            enhanced: true,
            multitrack: self.multitrack,
            mod_ex: self.mod_ex.present,
            nano_offset: self.mod_ex.nano_offset,
            disposable: frame && self.frame_type == FRAME_TYPE_DISPOSABLE,
        }
    }

    fn track(&self, body: &[u8], part: TrackPart) -> Result<VideoHeader, FlvError> {
        let packet = match self.packet_type {
            0 => VideoPacket::SequenceStart,
            1 | CODED_FRAMES_X => VideoPacket::Frame,
            2 => VideoPacket::SequenceEnd,
            METADATA => VideoPacket::Metadata,
            5 => VideoPacket::Mpeg2TsSequenceStart,
            other => VideoPacket::Other(other),
        };
        let mut header = self.header(packet, part.start, part.end);
        header.fourcc = Some(part.fourcc);
        header.codec = Codec::from_video_fourcc(part.fourcc);
        header.track_id = part.track_id;
        let timed = header.codec.is_some_and(Codec::has_composition_time);
        if timed && packet == VideoPacket::Frame && self.packet_type != CODED_FRAMES_X {
            let have = part.end;
            let need = part.start.saturating_add(3);
            let truncated = FlvError::Truncated {
                what: "composition time",
                need,
                have,
            };
            let time = body
                .get(part.start..part.end)
                .and_then(|data| data.first_chunk::<3>())
                .ok_or(truncated)?;
            header.cts_ms = signed_24(*time);
            header.data_at = need;
        }
        Ok(header)
    }
}

/// Reads the header of a legacy body.
fn legacy(body: &[u8], first: u8) -> Result<VideoHeader, FlvError> {
    let (frame_type, codec_id) = (first >> 4, first & 0x0F);
    let codec = if frame_type == FRAME_TYPE_COMMAND {
        None
    } else {
        legacy_codec(codec_id)
    };
    let mut header = VideoHeader {
        codec,
        fourcc: None,
        key: false,
        packet: VideoPacket::Frame,
        cts_ms: 0,
        data_at: 1,
        data_end: body.len(),
        track_id: 0,
        enhanced: false,
        multitrack: false,
        mod_ex: false,
        nano_offset: 0,
        disposable: false,
    };
    if frame_type == FRAME_TYPE_COMMAND {
        header.packet = VideoPacket::Command;
    } else if matches!(codec, Some(Codec::Avc | Codec::Hevc | Codec::Av1)) {
        let packet_type = *body.get(1).ok_or(FlvError::Truncated {
            what: "packet type",
            need: 2,
            have: body.len(),
        })?;
        header.packet = match packet_type {
            0 => VideoPacket::SequenceStart,
            1 => VideoPacket::Frame,
            2 => VideoPacket::SequenceEnd,
            other => VideoPacket::Other(other),
        };
        header.data_at = AVC_HEAD_LEN.min(body.len());
        match body.get(2..).and_then(|rest| rest.first_chunk::<3>()) {
            Some(time) => header.cts_ms = signed_24(*time),
            // Only a frame needs the field; encoders cut it from the others.
            None if header.packet == VideoPacket::Frame => {
                let have = body.len();
                return Err(FlvError::Truncated {
                    what: "composition time",
                    need: AVC_HEAD_LEN,
                    have,
                });
            }
            None => {}
        }
    }
    let frame = header.packet == VideoPacket::Frame;
    header.key = frame && is_key(frame_type);
    header.disposable = frame && frame_type == FRAME_TYPE_DISPOSABLE;
    Ok(header)
}

/// Frame types 1 (key frame) and 4 (generated key frame).
const fn is_key(frame_type: u8) -> bool {
    matches!(frame_type, 1 | 4)
}

/// Codec ids of the FLV specification, and the 12 and 13 of private practice (interop case 97).
const fn legacy_codec(codec_id: u8) -> Option<Codec> {
    Some(match codec_id {
        2 => Codec::Sorenson,
        3 => Codec::ScreenVideo,
        4 => Codec::Vp6,
        5 => Codec::Vp6Alpha,
        6 => Codec::ScreenVideo2,
        7 => Codec::Avc,
        12 => Codec::Hevc,
        13 => Codec::Av1,
        _ => return None,
    })
}

/// The legacy codec id of a codec, private practice included.
pub const fn legacy_codec_id(codec: Codec) -> Option<u8> {
    Some(match codec {
        Codec::Sorenson => 2,
        Codec::ScreenVideo => 3,
        Codec::Vp6 => 4,
        Codec::Vp6Alpha => 5,
        Codec::ScreenVideo2 => 6,
        Codec::Avc => 7,
        Codec::Hevc => 12,
        Codec::Av1 => 13,
        _ => return None,
    })
}

/// Sign-extends a 24-bit number.
fn signed_24([high, middle, low]: [u8; 3]) -> i32 {
    i32::from_be_bytes([high, middle, low, 0]) >> 8
}

/// The five bytes in front of legacy H.264 data, for messages that are made here or normalised
/// from `avc1` (interop case 113). Packets other than start and end are written as frames; of
/// `cts_ms` the low 24 bits are written.
pub const fn avc_head(packet: VideoPacket, key: bool, cts_ms: i32) -> [u8; AVC_HEAD_LEN] {
    let packet_type = match packet {
        VideoPacket::SequenceStart => 0,
        VideoPacket::SequenceEnd => 2,
        _ => 1,
    };
    let [_, high, middle, low] = cts_ms.to_be_bytes();
    [if key { 0x17 } else { 0x27 }, packet_type, high, middle, low]
}

#[cfg(test)]
mod tests;
