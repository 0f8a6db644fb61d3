//! Audio message headers: legacy (FLV 10.1 annex E.4.2) and enhanced (E-RTMP v2).

use bytes::Bytes;
use spillway_media::Codec;

use crate::enhanced::{Cursor, Layout, ModEx, TrackPart, TrackParts, read_mod_ex};
use crate::error::FlvError;

/// Sound format that announces the enhanced header.
const EX_HEADER: u8 = 9;
/// Enhanced packet type of a multitrack message. It is 5 here and 6 in video.
const MULTITRACK: u8 = 5;
/// Bytes of the legacy AAC header.
pub const AAC_HEAD_LEN: usize = 2;

/// What an audio message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AudioPacket {
    /// The decoder configuration. May be empty (interop cases 102, 119).
    SequenceStart,
    /// Coded sound.
    Frame,
    /// The end of a sequence.
    SequenceEnd,
    /// Speaker layout: side information on the same track (interop case 118).
    MultichannelConfig,
    /// A packet type that is reserved.
    Other(u8),
}

/// What an audio body says in front of its codec data. The legacy rate, size and channel bits are
/// left out: they are wrong by design (interop case 101).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AudioHeader {
    /// The codec, `None` when unknown.
    pub codec: Option<Codec>,
    /// The FourCC of an enhanced message, known or not.
    pub fourcc: Option<[u8; 4]>,
    /// What it is.
    pub packet: AudioPacket,
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
}

impl AudioHeader {
    /// Reads the header of an audio body. Of a message with several tracks it describes track 0,
    /// or the first one when that is not there; [`tracks`] gives all.
    ///
    /// # Errors
    /// [`FlvError::EmptyBody`], which E-RTMP v2 defines as silence; [`FlvError::Truncated`] when
    /// the body ends inside a header or a track's size; the multitrack errors. An unknown codec
    /// or packet type is no error.
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

/// The header of each track in an audio body; one for all but multitrack messages.
///
/// # Errors
/// As [`AudioHeader::parse`], for what comes before the tracks; an item is an error when that
/// track cannot be read, and then the last.
pub fn tracks(body: &[u8]) -> Result<AudioTracks<'_>, FlvError> {
    let first = *body.first().ok_or(FlvError::EmptyBody)?;
    if first >> 4 != EX_HEADER {
        return legacy(body, first >> 4).map(|header| AudioTracks {
            kind: Kind::Single(Some(header)),
        });
    }
    let mut cursor = Cursor::new(body, 1);
    let mod_ex = read_mod_ex(&mut cursor, first & 0x0F)?;
    let mut shared = Shared {
        packet_type: mod_ex.packet_type,
        mod_ex,
        multitrack: false,
    };
    let mut layout = Layout::Plain;
    if shared.packet_type == MULTITRACK {
        (layout, shared.packet_type) = Layout::read(&mut cursor, MULTITRACK)?;
        shared.multitrack = true;
    }
    let parts = TrackParts::start(cursor, layout)?;
    Ok(AudioTracks {
        kind: Kind::Parts(parts, shared),
    })
}

/// The headers of a body's tracks, in order.
#[derive(Debug, Clone)]
pub struct AudioTracks<'a> {
    kind: Kind<'a>,
}

#[derive(Debug, Clone)]
enum Kind<'a> {
    Single(Option<AudioHeader>),
    Parts(TrackParts<'a>, Shared),
}

impl Iterator for AudioTracks<'_> {
    type Item = Result<AudioHeader, FlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.kind {
            Kind::Single(header) => header.take().map(Ok),
            Kind::Parts(parts, shared) => Some(parts.next()?.map(|part| shared.track(part))),
        }
    }
}

/// What the tracks of an enhanced message have in common.
#[derive(Debug, Clone, Copy)]
struct Shared {
    packet_type: u8,
    mod_ex: ModEx,
    multitrack: bool,
}

impl Shared {
    fn track(&self, part: TrackPart) -> AudioHeader {
        let packet = match self.packet_type {
            0 => AudioPacket::SequenceStart,
            1 => AudioPacket::Frame,
            2 => AudioPacket::SequenceEnd,
            4 => AudioPacket::MultichannelConfig,
            other => AudioPacket::Other(other),
        };
        AudioHeader {
            codec: Codec::from_audio_fourcc(part.fourcc),
            fourcc: Some(part.fourcc),
            packet,
            data_at: part.start,
            data_end: part.end,
            track_id: part.track_id,
            enhanced: true,
            multitrack: self.multitrack,
            mod_ex: self.mod_ex.present,
            nano_offset: self.mod_ex.nano_offset,
        }
    }
}

/// Reads the header of a legacy body.
fn legacy(body: &[u8], sound_format: u8) -> Result<AudioHeader, FlvError> {
    let codec = legacy_codec(sound_format);
    let (mut packet, mut data_at) = (AudioPacket::Frame, 1);
    if codec == Some(Codec::Aac) {
        let truncated = FlvError::Truncated {
            what: "AAC packet type",
            need: AAC_HEAD_LEN,
            have: body.len(),
        };
        packet = match body.get(1).ok_or(truncated)? {
            0 => AudioPacket::SequenceStart,
            1 => AudioPacket::Frame,
            other => AudioPacket::Other(*other),
        };
        data_at = AAC_HEAD_LEN;
    }
    Ok(AudioHeader {
        codec,
        fourcc: None,
        packet,
        data_at,
        data_end: body.len(),
        track_id: 0,
        enhanced: false,
        multitrack: false,
        mod_ex: false,
        nano_offset: 0,
    })
}

/// Sound formats of the FLV specification, and the 13 of private practice (interop case 97).
const fn legacy_codec(sound_format: u8) -> Option<Codec> {
    Some(match sound_format {
        0 | 3 => Codec::Pcm,
        1 => Codec::Adpcm,
        2 | 14 => Codec::Mp3,
        4..=6 => Codec::Nellymoser,
        7 => Codec::G711A,
        8 => Codec::G711U,
        10 => Codec::Aac,
        11 => Codec::Speex,
        13 => Codec::Opus,
        _ => return None,
    })
}

/// The legacy sound format of a codec.
pub const fn legacy_sound_format(codec: Codec) -> Option<u8> {
    Some(match codec {
        Codec::Adpcm => 1,
        Codec::Mp3 => 2,
        Codec::Pcm => 3,
        Codec::Nellymoser => 6,
        Codec::G711A => 7,
        Codec::G711U => 8,
        Codec::Aac => 10,
        Codec::Speex => 11,
        _ => return None,
    })
}

/// The two bytes in front of legacy AAC data, for messages that are made here or normalised from
/// `mp4a`. All but a sequence start are written as frames.
pub const fn aac_head(packet: AudioPacket) -> [u8; AAC_HEAD_LEN] {
    [
        0xAF,
        if matches!(packet, AudioPacket::SequenceStart) {
            0
        } else {
            1
        },
    ]
}

#[cfg(test)]
mod tests;
