//! [`RetrySchedule`]: when to try again, and when to give up.

use std::time::Duration;

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySchedule {
    /// Attempts after the first.
    pub retries: u32,
    /// The pause before the second attempt, doubled before each further one.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl RetrySchedule {
    /// The pause after `failed` failed attempts (at least one), or `None` to give up. `random` spreads those who
    /// failed together over the second half of the pause.
    pub fn pause(&self, failed: u32, random: u64) -> Option<Duration> {
        if failed > self.retries {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(31);
        let whole = self.first.saturating_mul(1 << doublings).min(self.longest);
        let half = whole / 2;
        let spread = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        Some(half + Duration::from_nanos(random % spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_then_it_gives_up() {
        let schedule = RetrySchedule {
            retries: 4,
            first: Duration::from_millis(200),
            longest: Duration::from_millis(500),
        };
        let pauses: Vec<_> = (1..=5).map(|failed| schedule.pause(failed, 0)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [ms(100), ms(200), ms(250), ms(250), None]);
    }

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_whole(
            failed in 1_u32..100, random in any::<u64>(), first in 1_u64..10_000, longest in 1_u64..100_000,
        ) {
            let schedule = RetrySchedule {
                retries: 60,
                first: Duration::from_millis(first),
                longest: Duration::from_millis(longest),
            };
            match schedule.pause(failed, random) {
                None => prop_assert!(failed > 60),
                Some(pause) => {
                    let whole = schedule.first.saturating_mul(1 << (failed - 1).min(31)).min(schedule.longest);
                    prop_assert!(failed <= 60 && pause >= whole / 2 && pause <= whole);
                }
            }
        }
    }
}
