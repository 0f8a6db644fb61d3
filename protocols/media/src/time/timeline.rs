//! The stream's timestamp repair (interop §1.7).

use super::unwrap::wrapped_delta_ms;
use crate::sample::TrackKind;

/// Frame duration assumed until a track has shown its own.
pub const DEFAULT_FRAME_MS: i64 = 33;

/// A step between inputs up to this is a frame duration; a longer one is a gap.
pub const MAX_FRAME_MS: i64 = 100;

/// When a publisher's clock counts as jumped. The defaults are good for live streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineOptions {
    /// A step back over this is a jump; a smaller one is closed up millisecond by millisecond.
    pub max_backward_ms: i64,
    /// A step ahead over this is a jump; a smaller one is a gap and stays one.
    pub max_forward_ms: i64,
    /// How far behind its expected place a frame may land for its track to follow the other
    /// track's new base. It covers interleaving: the tracks meet a jump at different times.
    pub adopt_behind_ms: i64,
    /// How far apart the tracks of a new publisher may start and still be on one base. Beyond it
    /// each keeps a base of its own (interop case 77).
    pub max_track_distance_ms: i64,
    /// Messages of one track without a new highest timestamp after which its clock counts as
    /// stuck and is replaced (interop case 78). More than the slices of one picture.
    pub stuck_after: u32,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self {
            max_backward_ms: 1_000,
            max_forward_ms: 10_000,
            adopt_behind_ms: 1_000,
            max_track_distance_ms: 5_000,
            stuck_after: 64,
        }
    }
}

/// Where a frame lies on the stream's timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped {
    /// Decoding time in milliseconds from the stream's first frame. Strictly rising per track,
    /// never negative.
    pub dts_ms: i64,
    /// The track's clock jumped and no known base fits: a new one was made, contiguous with what
    /// came before. Reported by the first track that meets the jump, not by one that follows it,
    /// and not for a new epoch, which the caller knows of.
    pub discontinuity: bool,
    /// The track runs on a base of its own, as of this frame: its clock is far from the other
    /// track's, or stuck. Worth a log line, for lip sync is now by arrival.
    pub resynced: bool,
}

/// Maps a publisher's 32-bit timestamps to one timeline per stream, over wraps, jumps and changes
/// of publisher.
///
/// One instance serves both tracks of a stream. Feed it coded frames in arrival order, and them
/// only: sequence headers, metadata and end-of-sequence messages often carry 0 or nonsense
/// (interop cases 76, 96, 115) and take [`Self::now`].
#[derive(Debug, Clone)]
pub struct Timeline {
    options: TimelineOptions,
    video: Track,
    audio: Track,
    started: bool,
}

#[derive(Debug, Clone)]
struct Track {
    clock: Option<Clock>,
    last_output: Option<i64>,
    frame_ms: i64,
}

/// A track's input clock within the epoch.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// The last input.
    input: u32,
    /// Where the base puts the last input; the output may be later, to rise.
    position: i64,
    /// The highest position since the base was made.
    highest: i64,
    /// Inputs since `highest` rose.
    idle: u32,
}

impl Clock {
    fn new(input: u32, position: i64) -> Self {
        Self {
            input,
            position,
            highest: position,
            idle: 0,
        }
    }

    /// What is added to an input, modulo 2^32.
    fn base(&self) -> u32 {
        (self.position as u32).wrapping_sub(self.input)
    }
}

/// What a frame's timestamp turned out to be.
struct Placed {
    position: i64,
    discontinuity: bool,
    resynced: bool,
}

impl Placed {
    fn plain(position: i64) -> Self {
        Self {
            position,
            discontinuity: false,
            resynced: false,
        }
    }
}

impl Track {
    fn new() -> Self {
        Self {
            clock: None,
            last_output: None,
            frame_ms: DEFAULT_FRAME_MS,
        }
    }

    /// Where a contiguous next frame belongs.
    fn expected(&self) -> i64 {
        self.last_output.map_or(0, |last| last + self.frame_ms)
    }
}

impl Timeline {
    /// A timeline that has seen nothing.
    pub fn new(options: TimelineOptions) -> Self {
        Self {
            options,
            video: Track::new(),
            audio: Track::new(),
            started: false,
        }
    }

    /// A new publisher: input clocks are forgotten, the output goes on where it is.
    pub fn start_epoch(&mut self) {
        self.video.clock = None;
        self.audio.clock = None;
    }

    /// The last output of any track, 0 before the first: the time for messages without one of
    /// their own.
    pub fn now(&self) -> i64 {
        self.video.last_output.max(self.audio.last_output).unwrap_or(0)
    }

    /// Places one coded frame. Call once per frame, in arrival order.
    ///
    /// No arithmetic here can overflow: one call moves the timeline by less than 2^33 ms, so it
    /// takes 2^30 calls that all do so to leave 64 bits.
    pub fn map(&mut self, kind: TrackKind, timestamp_ms: u32) -> Mapped {
        let placed = match self.track(kind).clock {
            None => self.place_first(kind, timestamp_ms),
            Some(clock) => self.place_next(kind, clock, timestamp_ms),
        };
        self.started = true;
        let track = self.track_mut(kind);
        let floor = track.last_output.map_or(0, |last| last + 1);
        let dts_ms = placed.position.max(floor);
        track.last_output = Some(dts_ms);
        Mapped {
            dts_ms,
            discontinuity: placed.discontinuity,
            resynced: placed.resynced,
        }
    }

    fn track(&self, kind: TrackKind) -> &Track {
        match kind {
            TrackKind::Video => &self.video,
            TrackKind::Audio => &self.audio,
        }
    }

    fn track_mut(&mut self, kind: TrackKind) -> &mut Track {
        match kind {
            TrackKind::Video => &mut self.video,
            TrackKind::Audio => &mut self.audio,
        }
    }

    fn other(&self, kind: TrackKind) -> &Track {
        match kind {
            TrackKind::Video => &self.audio,
            TrackKind::Audio => &self.video,
        }
    }

    /// The track's first frame of the epoch.
    fn place_first(&mut self, kind: TrackKind, input: u32) -> Placed {
        let placed = match self.other(kind).clock {
            None if self.started => Placed::plain(self.now() + self.track(kind).frame_ms),
            None => Placed::plain(0),
            Some(other) => {
                let now = self.other(kind).last_output.unwrap_or(0);
                let landing = landing(input, other.base(), now);
                if (landing - now).abs() <= self.options.max_track_distance_ms {
                    Placed::plain(landing)
                } else {
                    Placed {
                        position: now.max(self.track(kind).expected()),
                        discontinuity: false,
                        resynced: true,
                    }
                }
            }
        };
        self.track_mut(kind).clock = Some(Clock::new(input, placed.position));
        placed
    }

    fn place_next(&mut self, kind: TrackKind, mut clock: Clock, input: u32) -> Placed {
        let delta = wrapped_delta_ms(clock.input, input);
        if delta < -self.options.max_backward_ms || delta > self.options.max_forward_ms {
            return self.place_jump(kind, clock, input);
        }
        clock.input = input;
        clock.position += delta;
        if clock.position > clock.highest {
            clock.highest = clock.position;
            clock.idle = 0;
        } else {
            clock.idle = clock.idle.saturating_add(1);
        }
        if clock.idle > self.options.stuck_after {
            return self.place_stuck(kind, clock);
        }
        let track = self.track_mut(kind);
        track.clock = Some(clock);
        if (1..=MAX_FRAME_MS).contains(&delta) {
            track.frame_ms = delta;
        }
        Placed::plain(clock.position)
    }

    /// The track's clock jumped: follow the other track if that fits, else make a new base.
    fn place_jump(&mut self, kind: TrackKind, clock: Clock, input: u32) -> Placed {
        let expected = self.track(kind).expected();
        let followed = self
            .other(kind)
            .clock
            .and_then(|other| self.follow(kind, clock, other, input));
        let placed = match followed {
            Some(position) => Placed::plain(position),
            None => {
                // Not behind the other track, which may have gone on without this one.
                let position = expected.max(
                    self.other(kind)
                        .clock
                        .and(self.other(kind).last_output)
                        .unwrap_or(0),
                );
                Placed {
                    position,
                    discontinuity: true,
                    resynced: false,
                }
            }
        };
        self.track_mut(kind).clock = Some(Clock::new(input, placed.position));
        placed
    }

    /// Where the other track's base puts a frame after a jump, if the frame can belong there.
    fn follow(&mut self, kind: TrackKind, own: Clock, other: Clock, input: u32) -> Option<i64> {
        let expected = self.track(kind).expected();
        let landing = landing(input, other.base(), expected);
        let ahead = landing - expected;
        let behind_ms = self.options.adopt_behind_ms;
        if (own.base() ^ other.base()) << 1 == 0 {
            // Both are still on one base (a 31-bit wrap apart at most). The jump is news, unless this track was merely silent
            // while the other went on (interop case 109).
            let distance = landing - self.other(kind).last_output.unwrap_or(0);
            let silent = ahead >= -behind_ms && distance.abs() <= self.options.max_track_distance_ms;
            return silent.then_some(landing);
        }
        if (-behind_ms..=self.options.max_forward_ms).contains(&ahead) {
            return Some(landing);
        }
        if (-self.options.max_forward_ms..-behind_ms).contains(&ahead) {
            // The other track met the jump long before this one ran out: move both ahead, so that
            // neither steps back and they stay in step.
            self.shift_other(kind, -ahead);
            return Some(expected);
        }
        None
    }

    /// Moves the base of the track that is not `kind` ahead.
    fn shift_other(&mut self, kind: TrackKind, by_ms: i64) {
        let track = match kind {
            TrackKind::Video => &mut self.audio,
            TrackKind::Audio => &mut self.video,
        };
        if let Some(clock) = &mut track.clock {
            clock.position += by_ms;
            clock.highest += by_ms;
        }
    }

    /// The track's clock has not advanced for long: the other track's time, if that runs, else
    /// frame by frame.
    fn place_stuck(&mut self, kind: TrackKind, clock: Clock) -> Placed {
        let running = self
            .other(kind)
            .clock
            .is_some_and(|other| other.idle <= self.options.stuck_after);
        let position = match self.other(kind).last_output {
            Some(now) if running => now.max(self.track(kind).last_output.map_or(0, |last| last + 1)),
            _ => self.track(kind).expected(),
        };
        let resynced = clock.idle == self.options.stuck_after + 1;
        self.track_mut(kind).clock = Some(Clock {
            position,
            highest: position,
            ..clock
        });
        Placed {
            position,
            discontinuity: false,
            resynced,
        }
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new(TimelineOptions::default())
    }
}

/// The time nearest to `near` that is `input` plus `base` modulo 2^31: one track may be past a
/// 31-bit wrap that the other has yet to meet.
fn landing(input: u32, base: u32, near: i64) -> i64 {
    let distance = input.wrapping_add(base).wrapping_sub(near as u32);
    near + i64::from((distance << 1) as i32 >> 1)
}

#[cfg(test)]
mod tests;
