//! What the enhanced audio and video headers share: ModEx prefixes and multitrack layouts
//! (E-RTMP v2, "ExVideoTagHeader" and "ExAudioTagHeader").

use crate::error::FlvError;

/// ModEx packet type, in audio and video.
pub(crate) const MOD_EX: u8 = 7;
/// ModEx type of a nanosecond offset.
const MOD_EX_NANO_OFFSET: u8 = 0;
/// Largest offset that is one; more would be a whole millisecond.
const MAX_NANO_OFFSET: u32 = 999_999;

/// A FourCC.
pub(crate) type FourCc = [u8; 4];

/// Reads a body from the front, each read checked.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(body: &'a [u8], at: usize) -> Self {
        Self { body, at }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.body.len()
    }

    /// The next `len` bytes.
    fn take(&mut self, what: &'static str, len: usize) -> Result<&'a [u8], FlvError> {
        let have = self.body.len();
        let need = self.at.saturating_add(len);
        let taken = self
            .body
            .get(self.at..need)
            .ok_or(FlvError::Truncated { what, need, have })?;
        self.at = need;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], FlvError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N)?);
        Ok(array)
    }

    /// The next byte.
    pub(crate) fn byte(&mut self, what: &'static str) -> Result<u8, FlvError> {
        self.array::<1>(what).map(|[byte]| byte)
    }
}

/// What the ModEx prefixes of a message said.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ModEx {
    pub(crate) present: bool,
    pub(crate) nano_offset: u32,
    /// The packet type behind the prefixes.
    pub(crate) packet_type: u8,
}

/// Reads any number of ModEx prefixes; each takes at least three bytes, so the body bounds them.
/// Unknown ones are skipped by their size.
pub(crate) fn read_mod_ex(cursor: &mut Cursor<'_>, packet_type: u8) -> Result<ModEx, FlvError> {
    let mut found = ModEx {
        packet_type,
        ..ModEx::default()
    };
    while found.packet_type == MOD_EX {
        found.present = true;
        let mut size = usize::from(cursor.byte("ModEx size")?) + 1;
        if size == 256 {
            size = usize::from(u16::from_be_bytes(cursor.array("ModEx 16-bit size")?)) + 1;
        }
        let data = cursor.take("ModEx data", size)?;
        let next = cursor.byte("packet type after ModEx")?;
        if let (MOD_EX_NANO_OFFSET, Some([n2, n1, n0])) = (next >> 4, data.first_chunk::<3>()) {
            found.nano_offset = u32::from_be_bytes([0, *n2, *n1, *n0]).min(MAX_NANO_OFFSET);
        }
        found.packet_type = next & 0x0F;
    }
    Ok(found)
}

/// How the tracks of a message are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One track, no track id: everything that is not multitrack.
    Plain,
    /// One track with its id.
    OneTrack,
    /// Several tracks of one codec.
    ManyTracks,
    /// Several tracks, each with its codec.
    ManyTracksManyCodecs,
}

impl Layout {
    /// Reads the multitrack byte: the layout and the packet type of the tracks. `multitrack` is
    /// the multitrack packet type itself (6 in video, 5 in audio), which may not come again.
    pub(crate) fn read(cursor: &mut Cursor<'_>, multitrack: u8) -> Result<(Self, u8), FlvError> {
        let byte = cursor.byte("multitrack type")?;
        let layout = match byte >> 4 {
            0 => Self::OneTrack,
            1 => Self::ManyTracks,
            2 => Self::ManyTracksManyCodecs,
            value => return Err(FlvError::MultitrackType { value }),
        };
        let packet_type = byte & 0x0F;
        if packet_type == multitrack || packet_type == MOD_EX {
            return Err(FlvError::MultitrackPacket { value: packet_type });
        }
        Ok((layout, packet_type))
    }
}

/// One track's share of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrackPart {
    pub(crate) fourcc: FourCc,
    pub(crate) track_id: u8,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The tracks of a message, in order; ends after an error. Every size is held against the body.
#[derive(Debug, Clone)]
pub(crate) struct TrackParts<'a> {
    cursor: Cursor<'a>,
    layout: Layout,
    fourcc: FourCc,
    done: bool,
}

impl<'a> TrackParts<'a> {
    /// Starts behind the packet type (and the multitrack byte): reads the common FourCC where
    /// there is one.
    pub(crate) fn start(mut cursor: Cursor<'a>, layout: Layout) -> Result<Self, FlvError> {
        let fourcc = match layout {
            Layout::ManyTracksManyCodecs => [0; 4],
            _ => cursor.array("FourCC")?,
        };
        Ok(Self {
            cursor,
            layout,
            fourcc,
            done: false,
        })
    }

    fn read(&mut self) -> Result<TrackPart, FlvError> {
        let cursor = &mut self.cursor;
        if self.layout == Layout::ManyTracksManyCodecs {
            self.fourcc = cursor.array("track FourCC")?;
        }
        let track_id = if self.layout == Layout::Plain {
            0
        } else {
            cursor.byte("track id")?
        };
        let body_len = cursor.body.len();
        let size = match self.layout {
            Layout::Plain | Layout::OneTrack => body_len.saturating_sub(cursor.at),
            Layout::ManyTracks | Layout::ManyTracksManyCodecs => {
                let [s2, s1, s0] = cursor.array("track size")?;
                u32::from_be_bytes([0, s2, s1, s0]) as usize
            }
        };
        let start = cursor.at;
        cursor.take("track data", size)?;
        Ok(TrackPart {
            fourcc: self.fourcc,
            track_id,
            start,
            end: cursor.at,
        })
    }
}

impl Iterator for TrackParts<'_> {
    type Item = Result<TrackPart, FlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let part = self.read();
        let single = matches!(self.layout, Layout::Plain | Layout::OneTrack);
        self.done = part.is_err() || single || self.cursor.is_at_end();
        Some(part)
    }
}
