//! How late this process's tasks run, and a word in the log when its CPU quota or a busy machine is why.
//!
//! A viewer does not see processor time but jitter: a container that has used up its quota stands still for the rest
//! of the period, which is up to 100 ms, many times a second.

use std::time::Duration;

use spillway_web::{CpuGroup, SchedulerDelay};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::cgroup;

/// The time between probes: rare enough to cost nothing, and with no common divisor with a quota's period of 100 ms,
/// so that every part of a period is seen.
const PROBE_INTERVAL: Duration = Duration::from_millis(73);
/// The time that is judged as one.
const WINDOW: Duration = Duration::from_secs(10);
/// So many bad windows in a row are no accident.
const WINDOWS_TO_WARN: u32 = 3;
/// The least time between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(600);
/// A probe this late is felt by viewers.
const LATE: Duration = Duration::from_millis(20);
/// The share of late probes, or of throttled periods, that makes a window bad: one in twenty.
const BAD_SHARE: f64 = 0.05;
/// With fewer periods than this a process hardly ran: the share of throttled ones says nothing.
const MIN_PERIODS: u64 = 10;

/// Measures how late a timer wakes this task until `stop`, and warns when it stays bad.
pub(crate) async fn probe(delay: SchedulerDelay, stop: CancellationToken) {
    let mut judge = Judge::new(Instant::now(), cgroup::cpu());
    loop {
        let due = Instant::now() + PROBE_INTERVAL;
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep_until(due) => {}
        }
        let now = Instant::now();
        let late = now.saturating_duration_since(due);
        delay.observe(late);
        if let Some(warning) = judge.observe(now, late, cgroup::cpu) {
            tracing::warn!("{warning}");
        }
    }
}

/// Decides when delays or throttling deserve a word.
#[derive(Debug)]
struct Judge {
    began: Instant,
    group: CpuGroup,
    probes: u32,
    late: u32,
    worst: Duration,
    bad_windows: u32,
    warned: Option<Instant>,
}

impl Judge {
    fn new(now: Instant, group: CpuGroup) -> Self {
        Self {
            began: now,
            group,
            probes: 0,
            late: 0,
            worst: Duration::ZERO,
            bad_windows: 0,
            warned: None,
        }
    }

    /// Takes a probe that came `late` at `now`; `group` asks for the counters at the end of a window. With enough
    /// bad windows in a row comes the text of a warning.
    fn observe(&mut self, now: Instant, late: Duration, group: impl Fn() -> CpuGroup) -> Option<String> {
        self.probes += 1;
        self.late += u32::from(late >= LATE);
        self.worst = self.worst.max(late);
        if now.duration_since(self.began) < WINDOW {
            return None;
        }
        let window = std::mem::replace(self, Self::new(now, group()));
        let throttled = throttled_share(&window.group, &self.group);
        let late = f64::from(window.late) / f64::from(window.probes);
        let bad = throttled >= BAD_SHARE || late >= BAD_SHARE;
        self.bad_windows = if bad { window.bad_windows + 1 } else { 0 };
        self.warned = window.warned;
        let may_warn = self.warned.is_none_or(|at| now.duration_since(at) >= WARN_EVERY);
        if self.bad_windows < WINDOWS_TO_WARN || !may_warn {
            return None;
        }
        self.warned = Some(now);
        Some(warning(self.group.quota_cores, throttled, late, window.worst))
    }
}

/// The share of the periods between two readings in which the group was stopped.
fn throttled_share(from: &CpuGroup, to: &CpuGroup) -> f64 {
    let Some((from, to)) = from.throttling.zip(to.throttling) else {
        return 0.0;
    };
    let periods = to.periods.saturating_sub(from.periods);
    if periods < MIN_PERIODS {
        return 0.0;
    }
    to.throttled_periods.saturating_sub(from.throttled_periods) as f64 / periods as f64
}

fn warning(quota: Option<f64>, throttled: f64, late: f64, worst: Duration) -> String {
    let (throttled_percent, late_percent) = (throttled * 100.0, late * 100.0);
    let late_text = format!(
        "{late_percent:.0} % of its tasks woke {} ms late or more, the worst {} ms",
        LATE.as_millis(),
        worst.as_millis()
    );
    match quota {
        Some(quota) if throttled >= BAD_SHARE => format!(
            "the CPU quota of {quota:.2} processors stopped this process in {throttled_percent:.0} % of its periods \
             ({late_text}); viewers see that as jitter. Give it whole processors in place of a quota: cpuset in a compose \
             file, docker run --cpuset-cpus, AllowedCPUs= in a systemd unit, or the static CPU manager with a whole number \
             of CPUs in Kubernetes; or a larger quota"
        ),
        _ => format!(
            "the processors are too busy: {late_text}; viewers see that as jitter. Give this process more processors, or \
             processors of its own (cpuset), or fewer viewers"
        ),
    }
}

#[cfg(test)]
mod tests {
    use spillway_web::Throttling;

    use super::*;

    fn group(windows: u64, throttled_per_window: u64) -> CpuGroup {
        CpuGroup {
            quota_cores: Some(0.5),
            throttling: Some(Throttling {
                periods: windows * 100,
                throttled_periods: windows * throttled_per_window,
                throttled_seconds: 0.0,
            }),
        }
    }

    /// Runs windows of 100 probes, of which `late` in each come 40 ms late; gives the windows (from 1) that warned.
    fn warnings(windows: u64, late: u64, throttled: u64) -> Vec<(u64, String)> {
        let start = Instant::now();
        let mut judge = Judge::new(start, group(0, throttled));
        let mut warnings = Vec::new();
        for probe in 1..=windows * 100 {
            let now = start + WINDOW * u32::try_from(probe).unwrap() / 100;
            let delay = Duration::from_millis(if probe % 100 < late { 40 } else { 1 });
            let window = probe.div_ceil(100);
            if let Some(text) = judge.observe(now, delay, || group(window, throttled)) {
                warnings.push((window, text));
            }
        }
        warnings
    }

    #[test]
    fn a_quota_that_throttles_is_spoken_of_with_what_to_do() {
        let warnings = warnings(5, 0, 30);
        assert_eq!(warnings.len(), 1);
        let (window, text) = &warnings[0];
        assert_eq!(*window, 3);
        for words in ["quota of 0.50 processors", "30 % of its periods", "cpuset"] {
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn late_tasks_are_spoken_of_and_a_quota_that_does_not_throttle_is_not_blamed() {
        let warnings = warnings(3, 10, 0);
        assert_eq!(warnings.len(), 1);
        let text = &warnings[0].1;
        assert!(
            text.contains("10 % of its tasks woke 20 ms late or more, the worst 40 ms"),
            "{text}"
        );
        assert!(!text.contains("quota"), "{text}");
    }

    #[test]
    fn a_bad_moment_is_no_reason_and_a_lasting_one_is_repeated_rarely() {
        assert_eq!(warnings(2, 50, 50), []);
        assert_eq!(warnings(200, 3, 4), []);
        let at: Vec<u64> = warnings(130, 50, 50)
            .into_iter()
            .map(|(window, _)| window)
            .collect();
        assert_eq!(at, [3, 63, 123]);
    }

    #[test]
    fn a_group_that_hardly_ran_says_nothing() {
        let few = |periods, throttled_periods| CpuGroup {
            quota_cores: None,
            throttling: Some(Throttling {
                periods,
                throttled_periods,
                throttled_seconds: 0.0,
            }),
        };
        assert_eq!(throttled_share(&few(0, 0), &few(9, 9)), 0.0);
        assert_eq!(throttled_share(&few(0, 0), &few(10, 5)), 0.5);
        assert_eq!(throttled_share(&few(20, 9), &few(0, 0)), 0.0);
        assert_eq!(throttled_share(&CpuGroup::default(), &few(100, 90)), 0.0);
    }

    #[tokio::test]
    async fn the_probe_ends_with_the_process() {
        let stop = CancellationToken::new();
        let probe = tokio::spawn(probe(SchedulerDelay::new(), stop.clone()));
        stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), probe)
            .await
            .expect("the probe ends when it is told to")
            .unwrap();
    }
}
