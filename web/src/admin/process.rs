//! What the scheduler does to the process: its quota, how often it was stopped, how late its tasks run.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts};

use super::families::Families;

/// Upper bounds of the delays that are told apart, in seconds: from the timer's own granularity to a player's
/// patience.
const DELAY_BUCKETS: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
];

/// How often a control group ran into its CPU quota, since the group was made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throttling {
    /// Periods of the quota in which the group ran.
    pub periods: u64,
    /// Those of them in which it was stopped because the quota was used up.
    pub throttled_periods: u64,
    /// For how long its threads were stopped, summed over processors.
    pub throttled_seconds: f64,
}

/// Takes one number out of the counters.
type Count = fn(&Throttling) -> f64;

/// The control group of a process, as far as it concerns processors.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuGroup {
    /// How many processors it may use at a time; `None` for all.
    pub quota_cores: Option<f64>,
    /// What the kernel counted; `None` where it counts nothing.
    pub throttling: Option<Throttling>,
}

/// How late a probe task was woken, as a histogram. Cloning shares it.
#[derive(Debug, Clone)]
pub struct SchedulerDelay(Option<Histogram>);

impl SchedulerDelay {
    /// With nothing observed yet.
    pub fn new() -> Self {
        let help = "How late a probe task was woken by its timer, about 14 times a second. The timer's own granularity is \
                    1 ms, so that up to 2 ms are no delay of the scheduler's";
        let options = HistogramOpts::new("spillway_scheduler_delay_seconds", help);
        let histogram = Histogram::with_opts(options.buckets(DELAY_BUCKETS.to_vec()));
        Self(
            histogram
                .inspect_err(|error| tracing::error!(%error, "the scheduler's delay is not measured"))
                .ok(),
        )
    }

    /// Counts one delay.
    pub fn observe(&self, delay: Duration) {
        if let Some(histogram) = &self.0 {
            histogram.observe(delay.as_secs_f64());
        }
    }

    pub(super) fn histogram(&self) -> Option<Histogram> {
        self.0.clone()
    }
}

impl Default for SchedulerDelay {
    fn default() -> Self {
        Self::new()
    }
}

/// What `/metrics` shows of the process beside its streams.
#[derive(Debug, Clone)]
pub struct ProcessState {
    /// The runtime's worker threads.
    pub workers: usize,
    /// What the probe task measures.
    pub scheduler_delay: SchedulerDelay,
    /// Asks the system; called at each scrape.
    pub cpu_group: fn() -> CpuGroup,
    /// Log lines lost so far, by reason.
    pub lost_log_lines: fn() -> [(&'static str, u64); 2],
}

impl Default for ProcessState {
    /// One worker and no control group.
    fn default() -> Self {
        Self {
            workers: 1,
            scheduler_delay: SchedulerDelay::new(),
            cpu_group: CpuGroup::default,
            lost_log_lines: || [("queue", 0), ("write", 0)],
        }
    }
}

impl ProcessState {
    pub(super) fn collect(&self, out: &mut Families) {
        let CpuGroup {
            quota_cores,
            throttling,
        } = (self.cpu_group)();
        out.gauge(
            "spillway_workers",
            "Worker threads",
            &[],
            [(vec![], self.workers as f64)],
        );
        out.counter(
            "spillway_log_lines_lost_total",
            "Log lines that nobody took in time (queue) or that could not be written, for example to a full disk (write)",
            &["reason"],
            (self.lost_log_lines)().map(|(reason, lines)| (vec![reason], lines as f64)),
        );
        out.gauge(
            "spillway_cgroup_cpu_quota_cores",
            "Processors the control group may use at a time; absent without a quota",
            &[],
            quota_cores.map(|cores| (vec![], cores)),
        );
        let counters: [(&str, &str, Count); 3] = [
            (
                "spillway_cgroup_cpu_periods_total",
                "Periods of its CPU quota in which the control group ran, since the group was made",
                |t| t.periods as f64,
            ),
            (
                "spillway_cgroup_cpu_throttled_periods_total",
                "Periods in which the control group was stopped because its CPU quota was used up",
                |t| t.throttled_periods as f64,
            ),
            (
                "spillway_cgroup_cpu_throttled_seconds_total",
                "Time the control group was stopped for its CPU quota, summed over processors",
                |t| t.throttled_seconds,
            ),
        ];
        for (name, help, value) in counters {
            out.counter(name, help, &[], throttling.as_ref().map(|t| (vec![], value(t))));
        }
    }
}
