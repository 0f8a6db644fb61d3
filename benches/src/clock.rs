//! The monotonic clock, which publishers and players in different processes share.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};
use std::time::Duration;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND_NS: u64 = 1_000_000;

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * SECOND_NS + now.tv_nsec.unsigned_abs()
}

/// `duration` in nanoseconds, at most what 64 bits hold.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Sleeps until the clock shows `deadline_ns`; returns at once if it is past.
pub fn sleep_until(deadline_ns: u64) {
    let deadline = timespec(deadline_ns);
    while now_ns() < deadline_ns {
        // An interrupted sleep is taken up again by the loop.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &deadline);
    }
}

/// Sleeps for `duration`.
pub fn sleep(duration: Duration) {
    sleep_until(now_ns().saturating_add(nanoseconds(duration)));
}

/// `nanoseconds` in the kernel's form.
pub fn timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(nanoseconds / SECOND_NS).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanoseconds % SECOND_NS).unwrap_or_default(),
    }
}
