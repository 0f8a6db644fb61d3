//! How many worker threads: as many as the processors this process may really use.
//!
//! A container with half a processor on a machine of 64 should not run 64 workers: they would use up the quota of a
//! period in its first moments and then all stand still until the next, which viewers see as jitter. So both the CPU
//! affinity and the quota of the control groups (version 1 and 2) count. A quota is rounded up: with 1.5 processors the
//! second worker is worth having.

use std::fmt;
use std::num::NonZeroUsize;

use crate::cgroup;

/// The number of workers for `configured` (`runtime.workers`), where 0 asks the system.
pub(crate) fn count(configured: u32) -> usize {
    let processors = Processors::detect();
    let workers = processors.workers(configured);
    tracing::debug!(%processors, configured, workers, "counted the workers");
    workers
}

/// The processors this process may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Processors {
    /// Those it is allowed to run on.
    pub(crate) affinity: usize,
    /// How many of them its control groups let it use at a time; `None` for all.
    pub(crate) quota: Option<f64>,
}

impl Processors {
    /// Asks the system.
    pub(crate) fn detect() -> Self {
        Self {
            affinity: affinity(),
            quota: cgroup::cpu().quota_cores,
        }
    }

    /// The number of workers: `configured` (`runtime.workers`), or with 0 as many as there are processors to use, at
    /// least 1.
    pub(crate) fn workers(self, configured: u32) -> usize {
        match usize::try_from(configured) {
            Ok(configured) if configured > 0 => configured,
            _ => {
                let affinity = self.affinity.max(1);
                // Saturates, and a quota above the affinity does not count.
                let quota = self.quota.map_or(affinity, |quota| quota.ceil() as usize);
                quota.clamp(1, affinity)
            }
        }
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota {
            Some(quota) => write!(f, "{} processors, a quota of {quota:.2}", self.affinity),
            None => write!(f, "{} processors", self.affinity),
        }
    }
}

/// The number of processors in the CPU affinity mask.
fn affinity() -> usize {
    let counted = rustix::thread::sched_getaffinity(None)
        .map(|set| set.count() as usize)
        .unwrap_or_default();
    // The mask asked for holds 1,024 processors; a larger machine refuses it.
    if counted > 0 {
        counted
    } else {
        std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(affinity: usize, quota: Option<f64>, configured: u32) -> usize {
        Processors { affinity, quota }.workers(configured)
    }

    #[test]
    fn a_quota_is_rounded_up_and_never_leaves_nothing() {
        assert_eq!(workers(64, None, 0), 64);
        assert_eq!(workers(64, Some(0.5), 0), 1);
        assert_eq!(workers(64, Some(1.5), 0), 2);
        assert_eq!(workers(64, Some(2.0), 0), 2);
        assert_eq!(workers(2, Some(8.0), 0), 2);
        assert_eq!(workers(0, None, 0), 1);
        assert_eq!(workers(4, Some(f64::MAX), 0), 4);
    }

    #[test]
    fn a_configured_number_holds_whatever_the_machine_is() {
        assert_eq!(workers(64, Some(0.5), 3), 3);
        assert_eq!(workers(1, None, 16), 16);
    }

    #[test]
    fn this_machine_has_a_processor() {
        let processors = Processors::detect();
        assert!(processors.affinity >= 1);
        assert!(processors.workers(0) >= 1);
        assert!(processors.workers(0) <= processors.affinity);
    }
}
