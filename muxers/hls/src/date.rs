//! ISO 8601 dates from Unix time, without a clock or a time-zone database.

use std::fmt;

/// Unix milliseconds, shown as `2026-12-01T15:04:05.678Z`.
pub(crate) struct IsoDate(pub(crate) u64);

const MS_PER_DAY: u64 = 86_400_000;

impl fmt::Display for IsoDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0 / MS_PER_DAY);
        let ms = self.0 % MS_PER_DAY;
        let (seconds, ms) = (ms / 1000, ms % 1000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z"
        )
    }
}

/// Year, month and day of a day number since 1970-01-01 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    // Count from 0000-03-01, so that the leap day is the last of its year and 400 years repeat.
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_796_137_445_678, "2026-12-01T15:04:05.678Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(IsoDate(unix_ms).to_string(), text);
        }
    }
}
