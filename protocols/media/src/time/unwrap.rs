//! From the wire's wrapping milliseconds to 64 bits.

/// Half of the 32-bit range: where FFmpeg, SRS and FLV readers wrap (interop case 73).
const WRAP_31: u32 = 1 << 31;

/// How far from a 31-bit wrap a step may land to be taken for one. A restart at zero after 24.8
/// days less or more a minute is the price.
const WRAP_31_WINDOW_MS: i64 = 60_000;

/// The step from one 32-bit millisecond timestamp to the next, wraps undone.
///
/// A step over 2^32 is plain wrapping arithmetic, so the result lies within ±2^31. A step from
/// just under 2^31 to just over zero (or back) is the 31-bit wrap of senders that mask the top bit.
pub const fn wrapped_delta_ms(from: u32, to: u32) -> i64 {
    if from < WRAP_31 && to < WRAP_31 {
        let plain = to as i64 - from as i64;
        let folded = if plain < 0 {
            plain + WRAP_31 as i64
        } else {
            plain - WRAP_31 as i64
        };
        if -WRAP_31_WINDOW_MS <= folded && folded <= WRAP_31_WINDOW_MS {
            return folded;
        }
        return plain;
    }
    to.wrapping_sub(from) as i32 as i64
}

/// Unwraps one track's 32-bit millisecond counter. The first value is kept as it is.
#[derive(Debug, Clone, Default)]
pub struct Unwrap32 {
    last: Option<(u32, i64)>,
}

impl Unwrap32 {
    /// A counter that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The timestamp on a line without wraps. Steps of any size are passed on as they are.
    pub fn unwrap_ms(&mut self, timestamp_ms: u32) -> i64 {
        let unwrapped = match self.last {
            Some((from, at)) => at.saturating_add(wrapped_delta_ms(from, timestamp_ms)),
            None => i64::from(timestamp_ms),
        };
        self.last = Some((timestamp_ms, unwrapped));
        unwrapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_wraps_are_undone() {
        assert_eq!(wrapped_delta_ms(u32::MAX, 9), 10);
        assert_eq!(wrapped_delta_ms(9, u32::MAX), -10);
        assert_eq!(wrapped_delta_ms(WRAP_31 - 1, 9), 10);
        assert_eq!(wrapped_delta_ms(9, WRAP_31 - 1), -10);
    }

    #[test]
    fn a_32_bit_sender_passes_the_middle_without_a_wrap() {
        assert_eq!(wrapped_delta_ms(WRAP_31 - 1, WRAP_31 + 9), 10);
        assert_eq!(wrapped_delta_ms(WRAP_31 + 9, WRAP_31 - 1), -10);
    }

    #[test]
    fn other_jumps_are_passed_on() {
        assert_eq!(wrapped_delta_ms(20_000_000, 0), -20_000_000);
        assert_eq!(wrapped_delta_ms(0, 20_000_000), 20_000_000);
        assert_eq!(wrapped_delta_ms(2_000_000_000, 0), -2_000_000_000);
        assert_eq!(wrapped_delta_ms(5, 5), 0);
    }

    #[test]
    fn negative_deltas_written_as_large_ones() {
        // Case 74: GStreamer adds 0xFFFFFFF0 to 1000, which the chunk reader wraps to 984.
        let mut line = Unwrap32::new();
        assert_eq!(line.unwrap_ms(1000), 1000);
        assert_eq!(line.unwrap_ms(1000u32.wrapping_add(0xFFFF_FFF0)), 984);
        // Below zero it stays a small step.
        assert_eq!(line.unwrap_ms(0xFFFF_FFFF), -1);
    }

    #[test]
    fn runs_on_over_many_wraps() {
        let mut line = Unwrap32::new();
        let (mut wire, mut expected) = (0u32, 0i64);
        for _ in 0..20 {
            assert_eq!(line.unwrap_ms(wire), expected);
            wire = wire.wrapping_add(1_000_000_000);
            expected += 1_000_000_000;
        }
        assert!(expected > i64::from(u32::MAX) * 4);
    }

    proptest! {
        #[test]
        fn steps_of_a_day_survive(start: u32, steps in proptest::collection::vec(-86_400_000i64..86_400_000, 0..50)) {
            // Starts in the upper half are 32-bit senders for sure, as are their neighbours.
            let mut at = i64::from(start | WRAP_31);
            let mut line = Unwrap32::new();
            let first = line.unwrap_ms(at as u32);
            let offset = at - first;
            for step in steps {
                let (from, to) = (at as u32, (at + step) as u32);
                prop_assume!(!(from < WRAP_31 && to < WRAP_31 && wrapped_delta_ms(from, to) != step));
                at += step;
                prop_assert_eq!(line.unwrap_ms(at as u32) + offset, at);
            }
        }

        #[test]
        fn never_overflows(from: u32, to: u32) {
            let delta = wrapped_delta_ms(from, to);
            prop_assert!(delta.abs() <= 1 << 31);
        }
    }
}
