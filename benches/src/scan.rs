//! Looking into media bodies as they stream by, without keeping them.

use crate::stamp::{STAMP_LEN, Stamped, checksum_of_fields};

/// What the generator puts before the stamp in a video body: FLV head, NAL length, NAL head.
pub const VIDEO_STAMP_AT: usize = 11;
/// What the generator puts before the stamp in an audio body: the FLV head.
pub const AUDIO_STAMP_AT: usize = 2;
/// As much of a body's front as has to be kept: the head and the stamp.
const FRONT_LEN: usize = VIDEO_STAMP_AT + STAMP_LEN;

/// The track of a media message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    /// Audio, message and tag type 8.
    Audio,
    /// Video, message and tag type 9.
    Video,
}

impl Track {
    /// The track of messages or tags of type `type_id`.
    pub fn from_type(type_id: u8) -> Option<Self> {
        match type_id {
            8 => Some(Self::Audio),
            9 => Some(Self::Video),
            _ => None,
        }
    }

    fn stamp_at(self) -> usize {
        match self {
            Self::Audio => AUDIO_STAMP_AT,
            Self::Video => VIDEO_STAMP_AT,
        }
    }
}

/// What a complete body turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A codec's set-up, not a frame.
    SequenceHeader,
    /// A frame with a stamp.
    Stamped {
        /// The stamp.
        stamped: Stamped,
        /// Whether the checksum is right.
        intact: bool,
    },
    /// A frame without a stamp; `key` by the FLV head.
    Plain {
        /// A video key frame.
        key: bool,
    },
}

/// Reads one body after another, each in pieces of any size.
#[derive(Debug, Default)]
pub struct BodyScan {
    front: Vec<u8>,
    rest: Option<(Stamped, crc32fast::Hasher)>,
}

impl BodyScan {
    /// Looks at a body that is there in one piece. Cheaper than feeding it.
    pub fn whole(track: Track, body: &[u8]) -> Finding {
        let payload = body.get(track.stamp_at()..).unwrap_or_default();
        match Stamped::read(payload) {
            Some(stamped) => {
                let mut checksum = checksum_of_fields(payload);
                checksum.update(payload.get(STAMP_LEN..).unwrap_or_default());
                Finding::Stamped {
                    stamped,
                    intact: checksum.finalize() == stamped.checksum,
                }
            }
            None => plain(track, body),
        }
    }

    /// Takes the next piece of a body.
    pub fn feed(&mut self, track: Track, piece: &[u8]) {
        let missing = FRONT_LEN.saturating_sub(self.front.len());
        if missing == 0 {
            if let Some((_, checksum)) = &mut self.rest {
                checksum.update(piece);
            }
            return;
        }
        let (front, rest) = piece.split_at(missing.min(piece.len()));
        self.front.extend_from_slice(front);
        if self.front.len() < FRONT_LEN {
            return;
        }
        let payload = self.front.get(track.stamp_at()..).unwrap_or_default();
        self.rest = Stamped::read(payload).map(|stamped| {
            let mut checksum = checksum_of_fields(payload);
            checksum.update(payload.get(STAMP_LEN..).unwrap_or_default());
            checksum.update(rest);
            (stamped, checksum)
        });
    }

    /// Ends the body that was fed, and is ready for the next.
    pub fn finish(&mut self, track: Track) -> Finding {
        let finding = match self.rest.take() {
            Some((stamped, checksum)) => Finding::Stamped {
                stamped,
                intact: checksum.finalize() == stamped.checksum,
            },
            None if self.front.len() < FRONT_LEN => Self::whole(track, &self.front),
            None => plain(track, &self.front),
        };
        self.front.clear();
        finding
    }
}

/// What a body without a stamp is, by its FLV head.
fn plain(track: Track, body: &[u8]) -> Finding {
    let first = body.first().copied().unwrap_or_default();
    let packet = body.get(1).copied().unwrap_or(1);
    let sequence_header = match track {
        Track::Audio if first >> 4 == 9 => first & 0x0F == 0,
        Track::Audio => first >> 4 == 10 && packet == 0,
        Track::Video if first & 0x80 != 0 => first & 0x0F == 0,
        Track::Video => matches!(first & 0x0F, 7 | 12 | 13) && packet == 0,
    };
    if sequence_header {
        return Finding::SequenceHeader;
    }
    Finding::Plain {
        key: track == Track::Video && first >> 4 & 0x07 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    fn body(track: Track, len: usize) -> Vec<u8> {
        let mut body = vec![0x91; len];
        let stamp = Stamp {
            stream: 1,
            sequence: 2,
            dts_ms: 3,
            sent_ns: 4,
            key: false,
        };
        stamp.write(body.get_mut(track.stamp_at()..).unwrap_or_default());
        body
    }

    fn fed(track: Track, body: &[u8], at: usize) -> Finding {
        let mut scan = BodyScan::default();
        let (front, rest) = body.split_at(at);
        scan.feed(track, front);
        scan.feed(track, rest);
        scan.finish(track)
    }

    #[test]
    fn any_split_gives_the_finding_of_the_whole() {
        for track in [Track::Audio, Track::Video] {
            for len in [1, 20, track.stamp_at() + STAMP_LEN, 47, 48, 200] {
                let body = body(track, len);
                let whole = BodyScan::whole(track, &body);
                for at in 0..=body.len() {
                    assert_eq!(fed(track, &body, at), whole, "{track:?} {len} split at {at}");
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_anywhere_behind_the_head_is_noticed() {
        let body = body(Track::Video, 200);
        for at in VIDEO_STAMP_AT..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 1;
            let intact = matches!(
                BodyScan::whole(Track::Video, &changed),
                Finding::Stamped { intact: true, .. }
            );
            assert!(!intact, "byte {at}");
        }
    }

    #[test]
    fn sequence_headers_are_told_from_frames() {
        assert_eq!(
            BodyScan::whole(Track::Video, &[0x17, 0, 0, 0, 0, 1]),
            Finding::SequenceHeader
        );
        assert_eq!(
            BodyScan::whole(Track::Audio, &[0xAF, 0, 0x12, 0x10]),
            Finding::SequenceHeader
        );
        assert_eq!(
            BodyScan::whole(Track::Video, &[0x17, 1, 0, 0, 0, 1]),
            Finding::Plain { key: true }
        );
    }
}
