//! The segment being written.

use spillway_ts::ClockSource;

/// What is known of the open segment besides its bytes.
#[derive(Debug)]
pub(super) struct Open {
    /// Its start in media ticks.
    pub(super) start: i64,
    /// What drives its clock.
    pub(super) source: ClockSource,
    /// Whether video is part of the program.
    pub(super) video: bool,
    /// Whether audio may be written: decided at the start, so that a track never begins in mid-segment.
    pub(super) audio: bool,
    /// First of its timeline: tracks are still being found out.
    pub(super) first: bool,
    /// No relation to the segment before.
    pub(super) discontinuity: bool,
    /// Pictures written.
    pub(super) pictures: u64,
    /// Whether the first of them needs nothing before it.
    pub(super) refreshed: bool,
    /// Sounds written.
    pub(super) sounds: u64,
    /// Wall clock at the start in Unix milliseconds.
    pub(super) program_date_time_unix_ms: u64,
}

impl Open {
    pub(super) fn is_empty(&self) -> bool {
        self.pictures == 0 && self.sounds == 0
    }

    pub(super) fn independent(&self) -> bool {
        self.pictures == 0 || self.refreshed
    }

    pub(super) fn stalled(&self) -> bool {
        matches!(self.source, ClockSource::StalledVideo { .. })
    }
}

/// The wall clock of a timeline: anchored once, then advanced by media time.
#[derive(Debug, Clone, Copy)]
pub(super) struct WallClock {
    pub(super) anchor_unix_ms: u64,
    pub(super) anchor_ticks: i64,
}

impl WallClock {
    pub(super) fn at(&self, ticks: i64) -> u64 {
        let since = ticks.saturating_sub(self.anchor_ticks);
        // Rounded, so that two neighbours differ from the duration between them by at most 1 ms.
        self.anchor_unix_ms
            .saturating_add_signed((since.saturating_add(45)) / 90)
    }
}
