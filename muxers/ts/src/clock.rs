//! The audio clock: presentation times from a sample counter, not from rounded milliseconds.

/// How far the counted time may be off the publisher's before the counter is anchored anew: 100 ms. Smaller
/// bounds pass the milliseconds' rounding on as clicks, larger ones as lip-sync error.
pub const REANCHOR_TICKS: i64 = 9_000;

const TICKS_PER_SECOND: i64 = 90_000;

/// Counts samples from an anchor; every frame's time is exact to one 90 kHz tick.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AudioClock {
    counting: Option<Counting>,
}

#[derive(Debug, Clone, Copy)]
struct Counting {
    anchor_ticks: i64,
    samples: i64,
    sample_rate: i64,
    last_ticks: i64,
}

impl Counting {
    fn next_ticks(&self) -> i64 {
        let elapsed = self.samples.saturating_mul(TICKS_PER_SECOND) / self.sample_rate;
        self.anchor_ticks.saturating_add(elapsed)
    }

    /// The counted time if it applies to a frame stamped `stamped_ticks`.
    fn counted(&self, stamped_ticks: i64, sample_rate: u32) -> Option<i64> {
        let next = self.next_ticks();
        let near = next.saturating_sub(stamped_ticks).saturating_abs() <= REANCHOR_TICKS;
        (near && i64::from(sample_rate) == self.sample_rate).then_some(next)
    }
}

impl AudioClock {
    /// The time a frame stamped `stamped_ticks` by the publisher gets, without counting it.
    pub(crate) fn peek(&self, stamped_ticks: i64, sample_rate: u32) -> i64 {
        match &self.counting {
            None => stamped_ticks,
            Some(counting) => counting
                .counted(stamped_ticks, sample_rate)
                .unwrap_or_else(|| stamped_ticks.max(counting.last_ticks.saturating_add(1))),
        }
    }

    /// The time of the frame, which is then counted as `samples` long.
    pub(crate) fn advance(&mut self, stamped_ticks: i64, samples: u32, sample_rate: u32) -> i64 {
        let ticks = self.peek(stamped_ticks, sample_rate);
        let samples = i64::from(samples.max(1));
        match &mut self.counting {
            Some(counting) if counting.counted(stamped_ticks, sample_rate).is_some() => {
                counting.samples = counting.samples.saturating_add(samples);
                counting.last_ticks = ticks;
            }
            counting => {
                *counting = Some(Counting {
                    anchor_ticks: ticks,
                    samples,
                    sample_rate: i64::from(sample_rate.max(1)),
                    last_ticks: ticks,
                });
            }
        }
        ticks
    }

    /// Forgets everything: the next frame is the new anchor.
    pub(crate) fn reset(&mut self) {
        self.counting = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_hour_of_44100_hz_stays_exact() {
        let mut clock = AudioClock::default();
        let frames = 3600 * 44_100 / 1024;
        for frame in 0..frames {
            let exact = frame * 1024 * 90_000 / 44_100;
            let stamped_ms = frame * 1024 * 1000 / 44_100;
            assert_eq!(clock.advance(stamped_ms * 90, 1024, 44_100), exact);
        }
    }

    #[test]
    fn a_gap_over_the_bound_anchors_anew_and_a_small_one_does_not() {
        let mut clock = AudioClock::default();
        assert_eq!(clock.advance(900, 1024, 48_000), 900);
        assert_eq!(clock.advance(900 + 1920 + 9_000, 1024, 48_000), 2820);
        assert_eq!(clock.advance(900 + 3840 + 9_001, 1024, 48_000), 13_741);
        assert_eq!(clock.advance(13_741 + 1920, 1024, 48_000), 15_661);
    }

    #[test]
    fn another_rate_anchors_anew() {
        let mut clock = AudioClock::default();
        clock.advance(0, 1024, 48_000);
        assert_eq!(clock.advance(2_000, 1024, 44_100), 2_000);
    }

    proptest! {
        #[test]
        fn times_always_rise(stamps in prop::collection::vec((-200_000i64..200_000, 1u32..2048, 1u32..96_000), 1..200)) {
            let mut clock = AudioClock::default();
            let mut last = None;
            for (stamp, samples, rate) in stamps {
                let peeked = clock.peek(stamp, rate);
                let ticks = clock.advance(stamp, samples, rate);
                prop_assert_eq!(peeked, ticks);
                // A frame of one sample at a high rate may last less than one tick.
                prop_assert!(last.is_none_or(|last| ticks >= last));
                last = Some(ticks);
            }
        }
    }
}
