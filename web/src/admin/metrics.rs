//! `/metrics`: hot paths own plain atomics, and one collector reads them when someone asks.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TextEncoder};
use spillway_access::{Action, Reason};
use spillway_hooks::HookMetrics;
use spillway_hub::{DropReason, EndReason, HlsMode, Hub, Limit, Phase, Protocol, StreamSnapshot};
use spillway_net::Door;

use super::AdminState;
use super::doors;
use super::families::{Families, Series};
use super::guard::Guard;
use super::process::ProcessState;
use crate::access::AccessCounters;
use crate::serve::{ServeCounters, ServeSnapshot};

/// The label of the streams beyond `max_streams`, summed.
const OTHER: &str = "_other";
const RTMP: &str = "rtmp";

/// The process's metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
}

impl Metrics {
    pub(super) fn new(state: AdminState, guard: Arc<Guard>) -> Self {
        let registry = Registry::new();
        let delay = state.process.scheduler_delay.histogram();
        let hooks = state
            .hooks
            .as_ref()
            .map(HookMetrics::collectors)
            .unwrap_or_default();
        let collectors: [Option<Box<dyn Collector>>; 3] = [
            Some(Box::new(HubCollector::new(state, guard))),
            Some(Box::new(ProcessCollector::for_self())),
            delay.map(|histogram| Box::new(histogram) as Box<dyn Collector>),
        ];
        for collector in collectors.into_iter().flatten().chain(hooks) {
            if let Err(error) = registry.register(collector) {
                tracing::error!(%error, "a metrics collector was refused; its metrics are missing");
            }
        }
        Self { registry }
    }

    pub(super) fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

struct HubCollector {
    hub: Hub,
    listeners: Vec<(&'static str, Arc<ServeCounters>)>,
    access: Arc<AccessCounters>,
    guard: Arc<Guard>,
    doors: Vec<Door>,
    max_streams: usize,
    version: &'static str,
    process: ProcessState,
    desc: Vec<Desc>,
}

impl HubCollector {
    fn new(state: AdminState, guard: Arc<Guard>) -> Self {
        let AdminState {
            hub,
            listeners,
            access,
            doors,
            max_streams,
            version,
            process,
            ..
        } = state;
        let desc = Desc::new(
            "spillway_build_info".to_owned(),
            "The version that runs".to_owned(),
            vec!["version".to_owned()],
            [].into(),
        );
        Self {
            hub,
            listeners,
            access,
            guard,
            doors,
            max_streams,
            version,
            process,
            desc: desc.into_iter().collect(),
        }
    }
}

impl Collector for HubCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.desc.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut out = Families::default();
        out.gauge(
            "spillway_build_info",
            "The version that runs",
            &["version"],
            [(vec![self.version], 1.0)],
        );
        let snapshots: Vec<_> = self
            .hub
            .streams()
            .iter()
            .map(|stream| stream.snapshot())
            .collect();
        self.now(&mut out, &snapshots);
        self.media(&mut out);
        self.sessions(&mut out);
        self.connections(&mut out);
        authorisation(&mut out, &self.access);
        out.counter(
            "spillway_admin_refusals_total",
            "Requests to the admin listener that were refused, by why",
            &["reason"],
            self.guard
                .refusals()
                .map(|(reason, count)| (vec![reason], count as f64)),
        );
        self.process.collect(&mut out);
        doors::collect(&self.doors, &mut out);
        let (own, other) = capped(&snapshots, self.max_streams);
        stream_totals(&mut out, &PerStream::new(&own, other));
        stream_gauges(&mut out, &own);
        out.finish().unwrap_or_else(|error| {
            tracing::error!(%error, "metrics could not be collected");
            Vec::new()
        })
    }
}

impl HubCollector {
    fn now(&self, out: &mut Families, snapshots: &[StreamSnapshot]) {
        let phases = [
            ("live", Phase::Live),
            ("away", Phase::Away),
            ("waiting", Phase::Waiting),
        ];
        out.gauge(
            "spillway_streams",
            "Streams by phase: live, away (the publisher left and may return), waiting (viewers only)",
            &["phase"],
            phases.map(|(label, phase)| {
                (
                    vec![label],
                    snapshots.iter().filter(|s| s.phase == phase).count() as f64,
                )
            }),
        );
        out.gauge(
            "spillway_viewers",
            "Viewers now",
            &["protocol"],
            Protocol::ALL.map(|p| (vec![p.label()], sum(snapshots, |s| s.viewers[p.index()]))),
        );
        out.gauge(
            "spillway_ring_bytes",
            "Bytes of media held in frame rings",
            &[],
            [(vec![], sum(snapshots, |s| s.ring_bytes))],
        );
        out.gauge(
            "spillway_hls_window_bytes",
            "Bytes of segments held for HLS",
            &[],
            [(vec![], self.hub.hls().bytes() as f64)],
        );
        let hls = &self.hub.options().hls;
        let aimed_at = (hls.mode != HlsMode::Off).then_some(hls.segment_duration.as_secs_f64());
        out.gauge(
            "spillway_hls_segment_duration_seconds",
            "The segment duration aimed at (hls.segment_duration); absent when HLS is off",
            &[],
            aimed_at.map(|seconds| (vec![], seconds)),
        );
        out.gauge(
            "spillway_incoming_bytes",
            "Bytes of RTMP messages that are not complete yet, to within 16 KiB for each connection",
            &[],
            [(vec![], self.hub.stats().incoming_bytes.get() as f64)],
        );
        out.gauge(
            "spillway_memory_bytes",
            "Bytes of media in memory: rings, HLS segments and incoming messages, as weighed against limits.memory",
            &[],
            [(vec![], self.hub.memory_bytes() as f64)],
        );
        out.gauge(
            "spillway_memory_limit_bytes",
            "Bytes of media beyond which new publishers and viewers are refused (limits.memory)",
            &[],
            [(vec![], self.hub.options().memory as f64)],
        );
    }

    fn media(&self, out: &mut Families) {
        let stats = self.hub.stats();
        out.counter(
            "spillway_received_bytes_total",
            "Bytes of media received from publishers",
            &[],
            [(vec![], stats.bytes_in.get() as f64)],
        );
        out.counter(
            "spillway_sent_bytes_total",
            "Bytes of media sent to viewers",
            &["protocol"],
            Protocol::ALL.map(|p| (vec![p.label()], stats.bytes_out[p.index()].get() as f64)),
        );
        out.counter(
            "spillway_dropped_frames_total",
            "Frames that viewers did not get because they were too slow",
            &["reason"],
            DropReason::ALL.map(|r| (vec![r.label()], stats.drops(r) as f64)),
        );
        out.counter(
            "spillway_unplaced_messages_total",
            "Media messages of RTMP peers that belonged to no stream or came before it was accepted",
            &[],
            [(vec![], stats.unplaced_messages.get() as f64)],
        );
        out.counter(
            "spillway_task_panics_total",
            "Tasks that panicked, each alone",
            &[],
            [(
                vec![],
                (stats.panics.get() + self.listener_sum(|l| l.panics)) as f64,
            )],
        );
    }

    fn sessions(&self, out: &mut Families) {
        let stats = self.hub.stats();
        out.counter(
            "spillway_publishes_total",
            "Publishers accepted since the start",
            &[],
            [(vec![], stats.publishes_total.get() as f64)],
        );
        let ends = Protocol::ALL
            .iter()
            .flat_map(|p| EndReason::ALL.iter().map(move |r| (*p, *r)));
        let ends = ends.map(|(p, r)| (vec![p.label(), r.label()], stats.viewer_ends(p, r) as f64));
        out.counter(
            "spillway_viewer_sessions_ended_total",
            "Viewers' sessions that ended",
            &["protocol", "reason"],
            ends.filter(|(_, count)| *count > 0.0),
        );
        out.counter(
            "spillway_publisher_sessions_ended_total",
            "Publishers' sessions that ended",
            &["reason"],
            EndReason::ALL.map(|r| (vec![r.label()], stats.publisher_ends(r) as f64)),
        );
        out.counter(
            "spillway_connection_failures_total",
            "RTMP connections that failed before they published or played",
            &["reason"],
            EndReason::ALL.map(|r| (vec![r.label()], stats.connection_failures(r) as f64)),
        );
        out.counter(
            "spillway_refusals_total",
            "Connections, publishers and viewers refused, by the limit that said no",
            &["limit"],
            Limit::ALL.map(|limit| {
                let by_listeners = match limit {
                    Limit::Connections => self.listener_sum(|l| l.refused),
                    Limit::ConnectionsPerIp => self.listener_sum(|l| l.refused_per_ip),
                    Limit::HttpHeader => self.listener_sum(|l| l.heads_too_large),
                    _ => 0,
                };
                (vec![limit.label()], (stats.refusals(limit) + by_listeners) as f64)
            }),
        );
    }

    fn connections(&self, out: &mut Families) {
        let stats = self.hub.stats();
        let listeners: Vec<_> = self
            .listeners
            .iter()
            .map(|(name, c)| (*name, c.snapshot()))
            .collect();
        let each = |value: fn(&ServeSnapshot) -> u64| {
            listeners
                .iter()
                .map(move |(name, l)| (vec![*name], value(l) as f64))
                .collect::<Vec<Series<'_>>>()
        };
        let rtmp = (vec![RTMP], stats.rtmp_connections.get() as f64);
        out.gauge(
            "spillway_connections",
            "Connections open now",
            &["listener"],
            each(|l| l.open).into_iter().chain([rtmp]),
        );
        let rtmp = (vec![RTMP], stats.connections_total.get() as f64);
        out.counter(
            "spillway_connections_total",
            "Connections accepted",
            &["listener"],
            each(|l| l.accepted).into_iter().chain([rtmp]),
        );
        let rtmp = (vec![RTMP], stats.accept_errors.get() as f64);
        out.counter(
            "spillway_accept_errors_total",
            "Failures to accept a connection, for example for want of file descriptors",
            &["listener"],
            each(|l| l.accept_errors).into_iter().chain([rtmp]),
        );
        out.counter(
            "spillway_stalled_connections_total",
            "HTTP connections closed because their peer took no byte for play.stall_timeout",
            &["listener"],
            each(|l| l.stalled),
        );
    }

    fn listener_sum(&self, value: impl Fn(&ServeSnapshot) -> u64) -> u64 {
        self.listeners
            .iter()
            .map(|(_, counters)| value(&counters.snapshot()))
            .sum()
    }
}

fn authorisation(out: &mut Families, access: &AccessCounters) {
    let granted = Action::ALL.map(|action| (vec![action.label(), "granted"], access.granted(action) as f64));
    let refused = Action::ALL.iter().flat_map(|action| {
        let labels = move |reason: &Reason| vec![action.label(), reason.label()];
        Reason::ALL
            .iter()
            .map(move |reason| (labels(reason), access.refused(*action, *reason) as f64))
    });
    out.counter(
        "spillway_authorisations_total",
        "Requests to publish or play that were decided on: granted, or why not. Playing is counted unless it is open to all",
        &["action", "outcome"],
        granted.into_iter().chain(refused),
    );
    let (read, failed) = access.key_set_reads();
    out.counter(
        "spillway_jwks_reads_total",
        "Readings of auth.jwt.jwks",
        &["outcome"],
        [(vec!["ok"], read as f64), (vec!["failed"], failed as f64)],
    );
    out.gauge(
        "spillway_jwks_keys",
        "Keys of auth.jwt.jwks in force",
        &[],
        [(vec![], access.key_set_size() as f64)],
    );
}

fn sum<'a>(
    snapshots: impl IntoIterator<Item = &'a StreamSnapshot>,
    value: impl Fn(&StreamSnapshot) -> u64,
) -> f64 {
    snapshots.into_iter().map(value).sum::<u64>() as f64
}

/// Takes one number out of the totals.
type Total = fn(&Totals) -> u64;

/// The totals of streams that have no series of their own.
#[derive(Default)]
struct Totals {
    bytes_in: u64,
    messages_in: u64,
    malformed: u64,
    discontinuities: u64,
    publishes: u64,
    ring_bytes: u64,
    bytes_out: [u64; 4],
    viewers: [u64; 4],
    drops: [u64; 2],
}

impl Totals {
    fn add(&mut self, stream: &StreamSnapshot) {
        self.bytes_in += stream.bytes_in;
        self.messages_in += stream.messages_in;
        self.malformed += stream.malformed;
        self.discontinuities += stream.discontinuities;
        self.publishes += stream.epoch;
        self.ring_bytes += stream.ring_bytes;
        add_each(&mut self.bytes_out, &stream.bytes_out);
        add_each(&mut self.viewers, &stream.viewers);
        add_each(&mut self.drops, &stream.drops);
    }

    fn of(stream: &StreamSnapshot) -> Self {
        let mut totals = Self::default();
        totals.add(stream);
        totals
    }
}

fn add_each<const N: usize>(sums: &mut [u64; N], values: &[u64; N]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += value;
    }
}

/// Splits the streams that were ever published into those with series of their own and the sum of the rest.
/// Names that only viewers asked for never become labels.
fn capped(snapshots: &[StreamSnapshot], max: usize) -> (Vec<&StreamSnapshot>, Option<Totals>) {
    let mut published: Vec<_> = snapshots.iter().filter(|s| s.epoch > 0).collect();
    let rest = published.split_off(max.min(published.len()));
    let other = (!rest.is_empty()).then(|| {
        rest.into_iter().fold(Totals::default(), |mut totals, stream| {
            totals.add(stream);
            totals
        })
    });
    (published, other)
}

/// The totals with the `stream` label they go under.
struct PerStream<'a>(Vec<(&'a str, Totals)>);

impl<'a> PerStream<'a> {
    fn new(own: &[&'a StreamSnapshot], other: Option<Totals>) -> Self {
        let own = own.iter().map(|s| (s.key.as_str(), Totals::of(s)));
        Self(own.chain(other.map(|totals| (OTHER, totals))).collect())
    }

    fn series(&self, value: Total) -> Vec<Series<'a>> {
        let series = self
            .0
            .iter()
            .map(|(name, totals)| (vec![*name], value(totals) as f64));
        series.collect()
    }

    /// With a second label, whose values are `labels`.
    fn series_by<const N: usize>(
        &self,
        labels: [&'static str; N],
        values: fn(&Totals) -> &[u64; N],
    ) -> Vec<Series<'a>> {
        let series = self.0.iter().flat_map(|(name, totals)| {
            let values = labels.into_iter().zip(values(totals));
            values.map(|(label, value)| (vec![*name, label], *value as f64))
        });
        series.collect()
    }
}

fn stream_totals(out: &mut Families, streams: &PerStream<'_>) {
    let counters: [(&str, &str, Total); 5] = [
        (
            "spillway_stream_received_bytes_total",
            "Bytes of media received",
            |t| t.bytes_in,
        ),
        (
            "spillway_stream_received_messages_total",
            "Media messages received",
            |t| t.messages_in,
        ),
        (
            "spillway_stream_malformed_messages_total",
            "Messages left out as not understood",
            |t| t.malformed,
        ),
        (
            "spillway_stream_discontinuities_total",
            "Timestamp jumps repaired",
            |t| t.discontinuities,
        ),
        (
            "spillway_stream_publishes_total",
            "Times the stream was published",
            |t| t.publishes,
        ),
    ];
    for (name, help, value) in counters {
        out.counter(name, help, &["stream"], streams.series(value));
    }
    let ring = streams.series(|t| t.ring_bytes);
    out.gauge(
        "spillway_stream_ring_bytes",
        "Bytes in the frame ring",
        &["stream"],
        ring,
    );
    let protocols = Protocol::ALL.map(Protocol::label);
    let labels = ["stream", "protocol"];
    let sent = streams.series_by(protocols, |t| &t.bytes_out);
    out.counter("spillway_stream_sent_bytes_total", "Bytes sent", &labels, sent);
    let viewers = streams.series_by(protocols, |t| &t.viewers);
    out.gauge("spillway_stream_viewers", "Viewers now", &labels, viewers);
    out.counter(
        "spillway_stream_dropped_frames_total",
        "Frames that viewers did not get because they were too slow",
        &["stream", "reason"],
        streams.series_by(DropReason::ALL.map(DropReason::label), |t| &t.drops),
    );
}

/// Values that cannot be summed: only for streams with series of their own.
fn stream_gauges(out: &mut Families, own: &[&StreamSnapshot]) {
    let each = |value: fn(&StreamSnapshot) -> Option<f64>| {
        let series = own
            .iter()
            .filter_map(move |s| Some((vec![s.key.as_str()], value(s)?)));
        series.collect::<Vec<Series<'_>>>()
    };
    let labels = ["stream"];
    out.gauge(
        "spillway_stream_live",
        "1 while someone publishes, 0 while the publisher is away",
        &labels,
        each(|s| Some(f64::from(u8::from(s.phase == Phase::Live)))),
    );
    out.gauge(
        "spillway_stream_received_bytes_per_second",
        "Bytes a second from the publisher over the last seconds",
        &labels,
        each(|s| Some(s.bitrate_in_bps as f64 / 8.0)),
    );
    out.gauge(
        "spillway_stream_flush_interval_seconds",
        "The interval at which frames are flushed to viewers; 0 is at once",
        &labels,
        each(|s| Some(s.flush_interval.as_secs_f64())),
    );
    out.gauge(
        "spillway_stream_gop_seconds",
        "Media time between the newest key frames",
        &labels,
        each(|s| (s.gop_ms > 0).then_some(s.gop_ms as f64 / 1000.0)),
    );
    out.gauge(
        "spillway_stream_key_frame_age_seconds",
        "Time since the newest key frame, or since the publisher began if it sent none; absent without video",
        &labels,
        each(|s| s.key_frame_age.map(|age| age.as_secs_f64())),
    );
    out.gauge(
        "spillway_stream_last_media_age_seconds",
        "Time since the newest media message",
        &labels,
        each(|s| s.last_media_age.map(|age| age.as_secs_f64())),
    );
}
