//! Stamps on the transport stream: offset, reordering shift, clock reference.

use crate::pes::STAMP_MASK;

/// 90 kHz ticks in a millisecond.
pub const TICKS_PER_MS: i64 = 90;

/// Added to every time, so that a stream that starts at 0 has no stamp at or below zero, the clock reference
/// included: 1 s.
pub(crate) const OFFSET_TICKS: i64 = 90_000;

/// How far the clock reference is ahead of the decoding time it is sent with: 0.5 s of decoder buffer.
pub(crate) const PCR_LEAD_TICKS: i64 = 45_000;

/// How far decoding times are moved back for negative composition times. Less than the lead, so that the
/// clock reference stays at least 0.1 s below them.
const MAX_SHIFT_TICKS: i64 = 36_000;

/// Composition times beyond this are an encoder's mistake: 10 s.
const MAX_COMPOSITION_TICKS: i64 = 900_000;

/// The 33-bit form of a time; never 0, which some players take for "no time yet".
pub(crate) fn stamp(ticks: i64) -> u64 {
    (ticks.saturating_add(OFFSET_TICKS) as u64 & STAMP_MASK).max(1)
}

/// The media time in ticks of a time in milliseconds.
pub fn ticks_of_ms(ms: i64) -> i64 {
    ms.saturating_mul(TICKS_PER_MS)
}

/// Gives video its decoding and presentation times.
///
/// A negative composition time moves decoding times back instead of presentation times forward, so that
/// pictures stay in step with the sound.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VideoTimes {
    shift: i64,
    last_dts: Option<i64>,
}

impl VideoTimes {
    /// Presentation and decoding time in media ticks: decoding times strictly rise, PTS ≥ DTS.
    pub(crate) fn next(&mut self, dts_ms: i64, cts_ms: i32) -> (i64, i64) {
        let composition = ticks_of_ms(i64::from(cts_ms)).clamp(-MAX_COMPOSITION_TICKS, MAX_COMPOSITION_TICKS);
        self.shift = self.shift.max((-composition).min(MAX_SHIFT_TICKS));
        let due = ticks_of_ms(dts_ms);
        let pts = due.saturating_add(composition);
        let floor = self.last_dts.map_or(i64::MIN, |last| last.saturating_add(1));
        let dts = due.saturating_sub(self.shift).max(floor);
        self.last_dts = Some(dts);
        (pts.max(dts), dts)
    }

    /// A new timeline: no relation to what was before.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positive_composition_times_are_kept() {
        let mut times = VideoTimes::default();
        assert_eq!(times.next(0, 80), (7200, 0));
        assert_eq!(times.next(40, 0), (3600, 3600));
    }

    #[test]
    fn a_negative_one_moves_decoding_back_not_the_picture() {
        let mut times = VideoTimes::default();
        times.next(0, 0);
        let (pts, dts) = times.next(40, -20);
        assert_eq!((pts, dts), (20 * 90, 20 * 90));
        assert_eq!(times.next(80, 40), (120 * 90, 60 * 90));
    }

    #[test]
    fn no_stamp_is_zero_and_stamps_wrap() {
        assert_eq!(stamp(-OFFSET_TICKS), 1);
        assert_eq!(stamp(0), 90_000);
        assert_eq!(stamp((1 << 33) - OFFSET_TICKS + 5), 5);
    }

    proptest! {
        #[test]
        fn decoding_times_rise_and_never_pass_presentation(
            frames in prop::collection::vec((0i64..200, -9_000_000i32..9_000_000), 1..100)
        ) {
            let mut times = VideoTimes::default();
            let (mut clock, mut last) = (0, i64::MIN);
            for (step, cts) in frames {
                clock += step;
                let (pts, dts) = times.next(clock, cts);
                prop_assert!(dts > last && pts >= dts);
                prop_assert!(dts >= clock * 90 - MAX_SHIFT_TICKS);
                last = dts;
            }
        }
    }
}
