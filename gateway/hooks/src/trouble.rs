//! [`Trouble`]: an endpoint that fails gets a line in the log, and not one for each call.

use std::time::Duration;

use crate::failure::Failure;

/// The time from one line to the next.
const BETWEEN_LINES: Duration = Duration::from_secs(10);

/// What is to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// A call failed; so many others did since the last line.
    Failing {
        /// Failures without a line of their own.
        left_out: u64,
    },
    /// The endpoint works again.
    Working,
}

/// Remembers whether the endpoint works.
#[derive(Debug, Default)]
pub struct Trouble {
    line_at: Option<Duration>,
    left_out: u64,
    failing: bool,
}

impl Trouble {
    /// Notes a call that ended at `now`, a time since some fixed moment; says what to log of it.
    pub fn note(&mut self, failure: Option<Failure>, now: Duration) -> Option<Line> {
        let quiet = self.line_at.is_some_and(|at| now < at + BETWEEN_LINES);
        match failure {
            None => std::mem::take(&mut self.failing).then_some(Line::Working),
            Some(_) if quiet => {
                self.left_out += 1;
                None
            }
            Some(_) => {
                self.line_at = Some(now);
                self.failing = true;
                Some(Line::Failing {
                    left_out: std::mem::take(&mut self.left_out),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_its_start_now_and_then_and_at_its_end() {
        let mut trouble = Trouble::default();
        let failed = Some(Failure::Timeout);
        let lines: Vec<_> = [
            (None, 0),
            (failed, 1),
            (failed, 2),
            (failed, 3),
            (failed, 11),
            (None, 12),
            (None, 13),
            (failed, 14),
            (None, 15),
        ]
        .into_iter()
        .filter_map(|(failure, second)| {
            let line = trouble.note(failure, Duration::from_secs(second));
            line.map(|line| (second, line))
        })
        .collect();
        let failing = |left_out| Line::Failing { left_out };
        assert_eq!(lines, [(1, failing(0)), (11, failing(2)), (12, Line::Working)]);
    }
}
