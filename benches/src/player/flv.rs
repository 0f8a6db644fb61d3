//! An FLV byte stream read without keeping media.

use super::carry::{Carry, take};
use crate::error::LoadError;
use crate::meter::{Moment, Watch};
use crate::scan::{BodyScan, Finding, Track};
use spillway_flv::tag::{FILE_HEADER_LEN, HEAD_LEN, TAIL_LEN};

#[derive(Debug, Clone, Copy)]
enum State {
    FileHeader,
    TagHead,
    Body {
        track: Option<Track>,
        timestamp_ms: u32,
        missing: usize,
        begun: bool,
    },
    Tail,
}

/// Reads the tags of one connection.
#[derive(Debug)]
pub(crate) struct FlvScan {
    state: State,
    field: Carry<FILE_HEADER_LEN>,
    scan: BodyScan,
}

impl Default for FlvScan {
    fn default() -> Self {
        Self {
            state: State::FileHeader,
            field: Carry::default(),
            scan: BodyScan::default(),
        }
    }
}

impl FlvScan {
    /// Reads all of `input`.
    pub(crate) fn read(
        &mut self,
        mut input: &[u8],
        moment: &mut Moment<'_>,
        watch: &mut Watch,
    ) -> Result<(), LoadError> {
        loop {
            match self.state {
                State::FileHeader => {
                    if !self.field.fill(&mut input, FILE_HEADER_LEN) {
                        return Ok(());
                    }
                    if !self.field.bytes().starts_with(b"FLV") {
                        return Err(LoadError::Protocol("the body is no FLV"));
                    }
                    self.field.clear();
                    self.state = State::TagHead;
                }
                State::TagHead => {
                    if !self.field.fill(&mut input, HEAD_LEN) {
                        return Ok(());
                    }
                    self.tag_head();
                }
                State::Body {
                    track,
                    timestamp_ms,
                    missing,
                    begun,
                } => {
                    if input.is_empty() && missing > 0 {
                        return Ok(());
                    }
                    let piece = take(&mut input, missing);
                    let missing = missing - piece.len();
                    self.state = match missing {
                        0 => State::Tail,
                        _ => State::Body {
                            track,
                            timestamp_ms,
                            missing,
                            begun: true,
                        },
                    };
                    let finding = track.and_then(|track| self.piece(track, piece, !begun, missing == 0));
                    if let (Some(track), Some(finding)) = (track, finding) {
                        watch.body(moment, track, timestamp_ms, &finding);
                    }
                }
                State::Tail => {
                    if !self.field.fill(&mut input, TAIL_LEN) {
                        return Ok(());
                    }
                    self.field.clear();
                    self.state = State::TagHead;
                }
            }
        }
    }

    /// Takes a piece of a body; the finding if it is the last.
    fn piece(&mut self, track: Track, piece: &[u8], is_first: bool, is_last: bool) -> Option<Finding> {
        if is_first && is_last {
            return Some(BodyScan::whole(track, piece));
        }
        self.scan.feed(track, piece);
        is_last.then(|| self.scan.finish(track))
    }

    fn tag_head(&mut self) {
        let mut head = [0; HEAD_LEN];
        for (to, from) in head.iter_mut().zip(self.field.bytes()) {
            *to = *from;
        }
        let [tag_type, l0, l1, l2, t0, t1, t2, t_high, ..] = head;
        self.field.clear();
        self.state = State::Body {
            track: Track::from_type(tag_type & 0x1F),
            timestamp_ms: u32::from_be_bytes([t_high, t0, t1, t2]),
            missing: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            begun: false,
        };
    }
}
