//! [`LogBudget`]: how many log lines strangers may cause.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// Lines a second for what happens before anyone may publish or play: enough to see what goes on, too few to
/// fill a disk.
const LINES_PER_SECOND: u64 = 10;

/// A number of lines for each second, shared by all listeners of a process.
#[derive(Debug)]
pub struct LogBudget {
    start: Instant,
    /// The second in the upper half, the lines it has had in the lower.
    window: AtomicU64,
    left_out: AtomicU64,
}

impl LogBudget {
    /// A full budget.
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            window: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// Asks for a line. With leave comes the number of lines that got none since the last one of a second
    /// before.
    pub fn take(&self) -> Option<u64> {
        let second = self.start.elapsed().as_secs() << 32;
        let spend = |window: u64| {
            let used = if window & !0xFFFF_FFFF == second {
                window & 0xFFFF_FFFF
            } else {
                0
            };
            (used < LINES_PER_SECOND).then_some(second | (used + 1))
        };
        match self
            .window
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, spend)
        {
            Ok(_) => Some(self.left_out.swap(0, Ordering::AcqRel)),
            Err(_) => {
                self.left_out.fetch_add(1, Ordering::AcqRel);
                None
            }
        }
    }
}

impl Default for LogBudget {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_gets_a_few_lines_a_second_and_its_number_is_told() {
        let budget = LogBudget::new();
        let lines = (0..1000).filter_map(|_| budget.take()).count();
        assert_eq!(lines as u64, LINES_PER_SECOND);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(budget.take(), Some(990));
        assert_eq!(budget.take(), Some(0));
    }
}
