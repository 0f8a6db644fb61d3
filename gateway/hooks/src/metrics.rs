//! [`HookMetrics`]: what `/metrics` says of the hook.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use crate::event::EventKind;
use crate::failure::Failure;

/// Upper bounds of the durations told apart, in seconds: from an endpoint on the same machine to the longest time-out
/// that makes sense.
const BUCKETS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The endpoint allowed.
    Allow,
    /// The endpoint refused.
    Refuse,
    /// It failed, and failures let in.
    FailOpen,
    /// It failed, and failures keep out.
    FailClosed,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Allow, Self::Refuse, Self::FailOpen, Self::FailClosed];

    fn label(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse => "refuse",
            Self::FailOpen => "fail_open",
            Self::FailClosed => "fail_closed",
        }
    }
}

/// Why an event will never be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drop {
    /// Every attempt failed.
    GaveUp,
    /// The endpoint gave an answer that says that no attempt will do.
    NotTaken,
    /// As many sessions are known to the endpoint as may be.
    NoRoom,
    /// It would have been the end of what the endpoint never heard of.
    NoStart,
}

impl Drop {
    const ALL: [Self; 4] = [Self::GaveUp, Self::NotTaken, Self::NoRoom, Self::NoStart];

    fn label(self) -> &'static str {
        match self {
            Self::GaveUp => "gave_up",
            Self::NotTaken => "not_taken",
            Self::NoRoom => "no_room",
            Self::NoStart => "no_start",
        }
    }
}

/// Why a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody waits for the answer.
    Ask,
    /// Nobody waits.
    Tell,
}

impl Purpose {
    fn label(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Tell => "tell",
        }
    }
}

/// What is counted. Cloning shares it.
#[derive(Debug, Clone)]
pub struct HookMetrics {
    seconds: HistogramVec,
    decisions: IntCounterVec,
    cached: IntCounter,
    failures: IntCounterVec,
    in_flight: IntGaugeVec,
    sessions: IntGauge,
    queued: IntGauge,
    delivered: IntCounterVec,
    dropped: IntCounterVec,
}

impl HookMetrics {
    /// With everything at 0.
    ///
    /// # Errors
    /// When a name or label is none.
    pub fn new() -> prometheus::Result<Self> {
        let counter =
            |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels);
        let seconds = HistogramOpts::new(
            "spillway_hook_seconds",
            "How long calls of the hook's endpoint took, each attempt alone, whatever came of it",
        );
        let metrics = Self {
            seconds: HistogramVec::new(seconds.buckets(BUCKETS.to_vec()), &["event"])?,
            decisions: counter(
                "spillway_hook_decisions_total",
                "Questions to the hook, by what came of them; the answers kept by hooks.cache among them",
                &["event", "outcome"],
            )?,
            cached: IntCounter::new(
                "spillway_hook_cached_decisions_total",
                "Questions answered from hooks.cache, without a call",
            )?,
            failures: counter(
                "spillway_hook_failures_total",
                "Calls of the hook's endpoint, or attempts at one, that failed",
                &["failure"],
            )?,
            in_flight: IntGaugeVec::new(
                Opts::new(
                    "spillway_hook_calls_in_flight",
                    "Calls of the hook's endpoint that wait for their answer: ask (a session waits too), tell (nobody does)",
                ),
                &["purpose"],
            )?,
            sessions: IntGauge::new(
                "spillway_hook_sessions",
                "Sessions that the hook's endpoint knows of, with those whose end it has not been told yet (hooks.max_sessions)",
            )?,
            queued: IntGauge::new(
                "spillway_hook_queued_events",
                "Events that are not delivered yet, or again, and for which nobody waits",
            )?,
            delivered: counter(
                "spillway_hook_delivered_events_total",
                "Events for which nobody waits that were delivered",
                &["event"],
            )?,
            dropped: counter(
                "spillway_hook_dropped_events_total",
                "Events that are never delivered: gave_up (after hooks.retries), not_taken (the endpoint says that no \
                 attempt will do), no_room (hooks.max_sessions), no_start (the end of what the endpoint never heard of)",
                &["reason"],
            )?,
        };
        metrics.show_zeros();
        Ok(metrics)
    }

    /// A series that is not there cannot be seen to rise from 0.
    fn show_zeros(&self) {
        for kind in EventKind::ALL {
            self.seconds.with_label_values(&[kind.label()]);
            if matches!(kind, EventKind::Connect | EventKind::Publish | EventKind::Play) {
                for outcome in Outcome::ALL {
                    self.decisions.with_label_values(&[kind.label(), outcome.label()]);
                }
            }
            if kind != EventKind::Connect {
                self.delivered.with_label_values(&[kind.label()]);
            }
        }
        for failure in Failure::ALL {
            self.failures.with_label_values(&[failure.label()]);
        }
        for purpose in [Purpose::Ask, Purpose::Tell] {
            self.in_flight.with_label_values(&[purpose.label()]);
        }
        for drop in Drop::ALL {
            self.dropped.with_label_values(&[drop.label()]);
        }
    }

    /// For a registry.
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.seconds.clone()),
            Box::new(self.decisions.clone()),
            Box::new(self.cached.clone()),
            Box::new(self.failures.clone()),
            Box::new(self.in_flight.clone()),
            Box::new(self.sessions.clone()),
            Box::new(self.queued.clone()),
            Box::new(self.delivered.clone()),
            Box::new(self.dropped.clone()),
        ]
    }

    pub(crate) fn decided(&self, kind: EventKind, outcome: Outcome) {
        self.decisions
            .with_label_values(&[kind.label(), outcome.label()])
            .inc();
    }

    pub(crate) fn cached(&self) {
        self.cached.inc();
    }

    pub(crate) fn failed(&self, failure: Failure) {
        self.failures.with_label_values(&[failure.label()]).inc();
    }

    pub(crate) fn took(&self, kind: EventKind, time: Duration) {
        self.seconds
            .with_label_values(&[kind.label()])
            .observe(time.as_secs_f64());
    }

    pub(crate) fn delivered(&self, kind: EventKind) {
        self.delivered.with_label_values(&[kind.label()]).inc();
    }

    pub(crate) fn dropped(&self, drop: Drop) {
        self.dropped.with_label_values(&[drop.label()]).inc();
    }

    /// One more call in flight, until the guard is dropped.
    pub(crate) fn calling(&self, purpose: Purpose) -> Held {
        Held::new(self.in_flight.with_label_values(&[purpose.label()]))
    }

    /// One more session, until the guard is dropped.
    pub(crate) fn session(&self) -> Held {
        Held::new(self.sessions.clone())
    }

    /// One more event to deliver, until the guard is dropped.
    pub(crate) fn queued(&self) -> Held {
        Held::new(self.queued.clone())
    }
}

/// One more in a gauge.
#[derive(Debug)]
pub(crate) struct Held(IntGauge);

impl Held {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl std::ops::Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}
