//! Where a segment may end.

use spillway_ts::TICKS_PER_MS;

/// No shorter segment is listed, except before a discontinuity or the end: 100 ms.
pub(crate) const MIN_SEGMENT_TICKS: i64 = 100 * TICKS_PER_MS;

/// The duration bounds of the stream's segments, in 90 kHz ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Boundary {
    target: i64,
    longest: i64,
    max_bytes: u64,
}

/// What there is to know when a picture arrives.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtPicture {
    /// Since the segment's start.
    pub(crate) elapsed: i64,
    /// Usual distance of two pictures.
    pub(crate) frame_ticks: i64,
    /// Decoding can start here without anything before.
    pub(crate) refresh: bool,
    /// The container calls it a key frame.
    pub(crate) key: bool,
    /// Distance of the last two key frames, 0 if unknown.
    pub(crate) gop_ticks: i64,
    /// No refresh for so long that a mere key frame must do.
    pub(crate) refreshless: bool,
    /// A key frame ends this segment as soon as it may (first segment, split one, change waiting…).
    pub(crate) eager: Eager,
    /// Bytes of the segment with this picture.
    pub(crate) bytes: u64,
}

/// How much a segment wants the next key frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eager {
    /// Not before the target.
    No,
    /// From half the target on: the first segment should be there soon.
    Soon,
    /// At the first one.
    Now,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The picture belongs to the open segment.
    No,
    /// The open segment ends where the picture begins.
    Here,
    /// The picture comes so late that no honest duration bridges it: a new timeline.
    Break,
}

impl Boundary {
    pub(crate) fn new(target_ms: u32, longest_ms: u32, max_bytes: u64) -> Self {
        let target = i64::from(target_ms.max(1)) * TICKS_PER_MS;
        Self {
            target,
            longest: (i64::from(longest_ms) * TICKS_PER_MS).max(target),
            max_bytes: max_bytes.max(1),
        }
    }

    /// Bounds durations so that each rounds to at most `seconds`.
    pub(crate) fn limit_to(&mut self, seconds: u32) {
        self.longest = (i64::from(seconds.max(1)) * 1000 + 499) * TICKS_PER_MS;
    }

    pub(crate) fn target(&self) -> i64 {
        self.target
    }

    pub(crate) fn longest(&self) -> i64 {
        self.longest
    }

    /// From here on a key frame ends a segment: the target less a twentieth, since encoders' clocks jitter and
    /// a key frame missed by a millisecond would cost a whole GOP.
    pub(crate) fn due(&self) -> i64 {
        self.target - self.target / 20
    }

    /// The longest segment that GOPs of this length lead to.
    pub(crate) fn predicted(&self, gop_ticks: i64) -> i64 {
        if gop_ticks <= 0 {
            return self.target;
        }
        let gops = (self.due() + gop_ticks - 1) / gop_ticks;
        gop_ticks.saturating_mul(gops.max(1))
    }

    pub(crate) fn at_picture(&self, at: &AtPicture) -> Cut {
        if at.elapsed > self.longest {
            return Cut::Break;
        }
        if at.elapsed < MIN_SEGMENT_TICKS {
            let overfull = at.bytes > self.max_bytes && at.elapsed > 0;
            return if overfull { Cut::Here } else { Cut::No };
        }
        let due = match at.eager {
            Eager::No => self.due(),
            Eager::Soon => self.target / 2,
            Eager::Now => MIN_SEGMENT_TICKS,
        };
        // The next key frame would come too late for the promised target duration: take this one.
        let last_chance = at.elapsed.saturating_add(at.gop_ticks) > self.longest;
        let usable = at.refresh || (at.key && at.refreshless);
        let split = at.elapsed.saturating_add(at.frame_ticks) > self.longest || at.bytes > self.max_bytes;
        if split || (usable && (at.elapsed >= due || last_chance)) {
            Cut::Here
        } else {
            Cut::No
        }
    }

    /// Audio alone: at the first frame at or after the target, or where the bounds say.
    pub(crate) fn at_audio(&self, elapsed: i64, frame_ticks: i64, bytes: u64) -> Cut {
        if elapsed > self.longest {
            return Cut::Break;
        }
        let split = elapsed.saturating_add(frame_ticks) > self.longest || bytes > self.max_bytes;
        if elapsed >= self.target || (split && elapsed > 0) {
            Cut::Here
        } else {
            Cut::No
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 90_000;

    fn picture(elapsed: i64, refresh: bool) -> AtPicture {
        AtPicture {
            elapsed,
            frame_ticks: 3600,
            refresh,
            key: refresh,
            gop_ticks: S,
            refreshless: false,
            eager: Eager::No,
            bytes: 1,
        }
    }

    #[test]
    fn key_frames_end_segments_from_the_target_on() {
        let boundary = Boundary::new(2000, 12_000, u64::MAX);
        assert_eq!(boundary.at_picture(&picture(S, true)), Cut::No);
        assert_eq!(boundary.at_picture(&picture(2 * S - 90, true)), Cut::Here);
        assert_eq!(boundary.at_picture(&picture(2 * S, false)), Cut::No);
        assert_eq!(boundary.at_picture(&picture(7 * S, true)), Cut::Here);
    }

    #[test]
    fn the_promised_target_duration_splits() {
        let mut boundary = Boundary::new(2000, 12_000, u64::MAX);
        boundary.limit_to(2);
        assert_eq!(boundary.at_picture(&picture(2 * S, false)), Cut::No);
        assert_eq!(boundary.at_picture(&picture(223_200, false)), Cut::Here);
        assert_eq!(boundary.at_picture(&picture(3 * S, false)), Cut::Break);
        // GOPs of 1.5 s: waiting for the second would exceed it.
        let early = AtPicture {
            gop_ticks: 3 * S / 2,
            ..picture(3 * S / 2, true)
        };
        assert_eq!(boundary.at_picture(&early), Cut::Here);
    }

    #[test]
    fn predictions_are_whole_gops() {
        let boundary = Boundary::new(2000, 12_000, u64::MAX);
        for (gop, predicted) in [
            (0, 2 * S),
            (S, 2 * S),
            (S / 2, 2 * S),
            (3 * S / 2, 3 * S),
            (7 * S, 7 * S),
        ] {
            assert_eq!(boundary.predicted(gop), predicted);
        }
    }

    #[test]
    fn bytes_split_too() {
        let boundary = Boundary::new(2000, 12_000, 1000);
        assert_eq!(
            boundary.at_picture(&AtPicture {
                bytes: 1001,
                ..picture(S, false)
            }),
            Cut::Here
        );
        assert_eq!(boundary.at_audio(S, 2000, 1001), Cut::Here);
    }
}
