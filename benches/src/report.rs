//! Results: as a table for people, as JSON for programs.

use crate::meter::{Meter, Times};
use crate::options::Options;
use crate::player::Protocol;
use crate::publisher::PublisherMeter;
use crate::server::Sample;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Bits in a gigabit.
const GIGABIT: f64 = 1e9;
/// Above this share of its core the load tool itself makes frames late.
const SATURATED: f64 = 0.85;

/// Everything one run found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Name of the run.
    pub label: String,
    /// Length of the measured window, in seconds.
    pub window_s: f64,
    /// Publishers' side.
    pub publishers: PublisherReport,
    /// Players' side, by protocol.
    pub players: BTreeMap<String, PlayerReport>,
    /// The server, if its process is known.
    pub server: Option<ServerReport>,
    /// CPU time of this tool over the window, as a share of one core.
    pub load_core_share: f64,
}

/// What publishers did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PublisherReport {
    /// Publishers the server accepted.
    pub publishing: u64,
    /// Frames written in the window.
    pub frames: u64,
    /// Bytes written in the window.
    pub bytes: u64,
    /// Frames given up because the server did not read.
    pub dropped: u64,
    /// How late frames were written.
    pub lateness_ms: Option<Quantiles>,
    /// Why publishers were lost.
    pub losses: BTreeMap<String, u64>,
}

/// Times in milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Quantiles {
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 99 of 100 are shorter.
    pub p99: f64,
    /// 999 of 1,000 are shorter.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// What the players of one protocol saw. Counts of damage are over the whole run, rates over the window.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlayerReport {
    /// Players asked for.
    pub players: u64,
    /// Players that received a frame.
    pub played: u64,
    /// Players that heard nothing for the last two seconds.
    pub silent: u64,
    /// Why players were lost.
    pub losses: BTreeMap<String, u64>,
    /// Frames received in the window.
    pub frames: u64,
    /// Bytes received in the window.
    pub bytes: u64,
    /// Bytes received per second.
    pub bytes_per_s: f64,
    /// Frames sent in the window that were received by a second after it, against those published
    /// times players.
    pub delivered_share: Option<f64>,
    /// Bytes taken from the socket per read.
    pub bytes_per_read: f64,
    /// One-way delay of frames.
    pub delay_ms: Option<Quantiles>,
    /// Deviation of arrival from media time between neighbouring frames of a track.
    pub jitter_ms: Option<Quantiles>,
    /// The same against the times of sending.
    pub jitter_added_ms: Option<Quantiles>,
    /// From connect to the first frame.
    pub first_frame_ms: Option<Quantiles>,
    /// From connect to the first key frame.
    pub first_key_ms: Option<Quantiles>,
    /// Holes in the sequence of frames.
    pub gaps: u64,
    /// Frames missing.
    pub missing: u64,
    /// Frames that came twice or late.
    pub repeated: u64,
    /// Decoding times that went back.
    pub dts_back: u64,
    /// Frames or segments altered.
    pub altered: u64,
    /// Frames without a stamp.
    pub unstamped: u64,
    /// HLS only.
    pub hls: Option<HlsReport>,
}

/// What HLS players saw besides.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HlsReport {
    /// From a playlist's being due to its being there.
    pub playlist_ms: Option<Quantiles>,
    /// The same for segments.
    pub segment_ms: Option<Quantiles>,
    /// Age of the last frame of a segment when the segment is there.
    pub edge_age_ms: Option<Quantiles>,
    /// Answers by kind and status.
    pub statuses: BTreeMap<String, u64>,
    /// Listed segments that answered anything but 200.
    pub listed_not_served: u64,
    /// Connections made.
    pub connections: u64,
}

/// What the server cost over the window.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerReport {
    /// CPU time in user mode, in seconds.
    pub user_s: f64,
    /// CPU time in the kernel, in seconds.
    pub system_s: f64,
    /// Share of one core.
    pub core_share: f64,
    /// Share of the server's core that was not idle, whoever used it.
    pub core_busy_share: Option<f64>,
    /// Bits in and out, in gigabits.
    pub gigabits: f64,
    /// CPU time per gigabit, in and out.
    pub cpu_s_per_gigabit: f64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
    /// Of that, not of files, in bytes.
    pub rss_anon_bytes: u64,
    /// Memory not of files that came with the players, for each, in bytes.
    pub anon_bytes_per_player: Option<f64>,
    /// Memory not of files that came with the publishers, for each, in bytes.
    pub anon_bytes_per_publisher: Option<f64>,
    /// Threads at the end.
    pub threads: u64,
    /// Voluntary context switches per second.
    pub voluntary_switches_per_s: f64,
    /// Involuntary context switches per second.
    pub involuntary_switches_per_s: f64,
    /// Periods in which its control group ran into its quota.
    pub throttled_periods: Option<u64>,
    /// Time its control group was kept from running, in seconds.
    pub throttled_s: Option<f64>,
    /// From exec to listening, in milliseconds.
    pub listening_after_ms: Option<f64>,
    /// System calls for each delivered frame, by name, if they were counted.
    pub calls: Option<BTreeMap<String, f64>>,
}

/// The server's counters at the turning points of a run.
#[derive(Debug, Clone, Copy)]
pub struct ServerSamples {
    /// Before the first publisher.
    pub idle: Sample,
    /// With all publishers, before the first player.
    pub published: Sample,
    /// At the beginning of the window.
    pub start: Sample,
    /// At the end of the window.
    pub end: Sample,
}

impl Report {
    /// Bytes in and out of the server in the window; in from the nominal rate if other processes published.
    pub fn bytes(&self, options: &Options) -> u64 {
        let published = match options.play_only {
            true => (f64::from(options.publishers) * options.bitrate as f64 / 8.0 * self.window_s) as u64,
            false => self.publishers.bytes,
        };
        published + self.players.values().map(|players| players.bytes).sum::<u64>()
    }
}

impl Quantiles {
    fn of(times: &Times) -> Option<Self> {
        (times.count() > 0).then(|| Self {
            count: times.count(),
            p50: times.quantile_ms(0.5),
            p99: times.quantile_ms(0.99),
            p999: times.quantile_ms(0.999),
            max: times.max_ms(),
        })
    }
}

impl PublisherReport {
    /// The report of `meter`.
    pub fn new(meter: PublisherMeter, publishing: u64) -> Self {
        Self {
            publishing,
            frames: meter.frames,
            bytes: meter.bytes,
            dropped: meter.dropped,
            lateness_ms: Quantiles::of(&meter.lateness),
            losses: meter.losses,
        }
    }
}

impl PlayerReport {
    /// The report of `meter`; `expected` frames of one player in the window, if known.
    pub fn new(protocol: Protocol, meter: Meter, window_s: f64, expected: Option<f64>) -> Self {
        let is_hls = protocol == Protocol::Hls;
        let expected = expected
            .filter(|_| !is_hls)
            .map(|frames| frames * meter.players as f64);
        let hls = is_hls.then(|| HlsReport::new(&meter));
        let steady = |times: &Times| Quantiles::of(times).filter(|_| !is_hls);
        Self {
            players: meter.players,
            played: meter.played,
            silent: meter.silent,
            frames: meter.frames,
            bytes: meter.bytes,
            bytes_per_s: meter.bytes as f64 / window_s,
            delivered_share: expected.map(|expected| meter.delivered as f64 / expected.max(1.0)),
            bytes_per_read: meter.bytes as f64 / meter.reads.max(1) as f64,
            delay_ms: Quantiles::of(&meter.delay),
            jitter_ms: steady(&meter.jitter),
            jitter_added_ms: steady(&meter.jitter_added),
            first_frame_ms: Quantiles::of(&meter.first_frame),
            first_key_ms: steady(&meter.first_key),
            gaps: meter.gaps,
            missing: meter.missing,
            repeated: meter.repeated,
            dts_back: meter.dts_back,
            altered: meter.altered,
            unstamped: meter.plain,
            losses: meter.losses,
            hls,
        }
    }
}

impl HlsReport {
    fn new(meter: &Meter) -> Self {
        let statuses = meter
            .statuses
            .iter()
            .map(|((kind, status), count)| (format!("{kind} {status}"), *count));
        Self {
            playlist_ms: Quantiles::of(&meter.playlist),
            segment_ms: Quantiles::of(&meter.segment),
            edge_age_ms: Quantiles::of(&meter.edge_age),
            statuses: statuses.collect(),
            listed_not_served: meter.listed_not_served,
            connections: meter.connections,
        }
    }
}

impl ServerReport {
    /// The report of `samples` for `bytes` in and out.
    pub fn new(
        samples: &ServerSamples,
        bytes: u64,
        counts: (u64, u64),
        listening_after_ms: Option<f64>,
    ) -> Self {
        let ServerSamples {
            idle,
            published,
            start,
            end,
        } = samples;
        let window_s = (end.at_ns - start.at_ns) as f64 / 1e9;
        let cpu_s = end.cpu_s() - start.cpu_s();
        let gigabits = bytes as f64 * 8.0 / GIGABIT;
        let each = |from: &Sample, to: &Sample, count: u64| {
            (count > 0).then(|| (to.rss_anon_bytes as f64 - from.rss_anon_bytes as f64) / count as f64)
        };
        let (publishers, players) = counts;
        let throttling = start.throttling.zip(end.throttling);
        Self {
            user_s: end.user_s - start.user_s,
            system_s: end.system_s - start.system_s,
            core_share: cpu_s / window_s,
            core_busy_share: (end.core_busy_s > 0.0)
                .then(|| (end.core_busy_s - start.core_busy_s) / window_s),
            gigabits,
            cpu_s_per_gigabit: cpu_s / gigabits.max(f64::MIN_POSITIVE),
            rss_bytes: end.rss_bytes,
            rss_anon_bytes: end.rss_anon_bytes,
            anon_bytes_per_player: each(published, end, players),
            anon_bytes_per_publisher: each(idle, published, publishers),
            threads: end.threads,
            voluntary_switches_per_s: end.voluntary_switches.saturating_sub(start.voluntary_switches) as f64
                / window_s,
            involuntary_switches_per_s: end
                .involuntary_switches
                .saturating_sub(start.involuntary_switches) as f64
                / window_s,
            throttled_periods: throttling.map(|(from, to)| to.periods.saturating_sub(from.periods)),
            throttled_s: throttling.map(|(from, to)| to.seconds - from.seconds),
            listening_after_ms,
            calls: None,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "== {} ({:.1} s measured)", self.label, self.window_s)?;
        write!(f, "{}", self.publishers)?;
        for (protocol, players) in &self.players {
            writeln!(
                f,
                "{protocol} players: {} of {} played, {} silent",
                players.played, players.players, players.silent
            )?;
            write!(f, "{players}")?;
        }
        if let Some(server) = &self.server {
            write!(f, "{server}")?;
        }
        write!(f, "load tool: {:.0} % of a core", self.load_core_share * 100.0)?;
        if self.load_core_share > SATURATED {
            write!(
                f,
                " - SATURATED: delay and jitter are the tool's own, use more cores or fewer players"
            )?;
        }
        writeln!(f)
    }
}

impl Display for PublisherReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            publishing,
            frames,
            dropped,
            ..
        } = self;
        writeln!(
            f,
            "publishers: {publishing}, {frames} frames, {} MB, {dropped} dropped",
            self.bytes / 1_000_000
        )?;
        line(f, "lateness", self.lateness_ms.as_ref())?;
        losses(f, &self.losses)
    }
}

impl Display for PlayerReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {:.1} MB/s, {:.0} bytes per read",
            self.bytes_per_s / 1e6,
            self.bytes_per_read
        )?;
        if let Some(share) = self.delivered_share {
            write!(f, ", {:.2} % of the published frames", share * 100.0)?;
        }
        writeln!(f)?;
        line(f, "delay", self.delay_ms.as_ref())?;
        line(f, "jitter", self.jitter_ms.as_ref())?;
        line(f, "jitter added", self.jitter_added_ms.as_ref())?;
        line(f, "first frame", self.first_frame_ms.as_ref())?;
        line(f, "first key frame", self.first_key_ms.as_ref())?;
        let Self {
            gaps,
            missing,
            repeated,
            dts_back,
            altered,
            unstamped,
            ..
        } = self;
        write!(
            f,
            "  gaps {gaps}, missing {missing}, repeated {repeated}, DTS back {dts_back}, altered {altered}"
        )?;
        writeln!(f, ", unstamped {unstamped}")?;
        losses(f, &self.losses)?;
        self.hls.iter().try_for_each(|hls| write!(f, "{hls}"))
    }
}

impl Display for HlsReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        line(f, "playlist", self.playlist_ms.as_ref())?;
        line(f, "segment", self.segment_ms.as_ref())?;
        line(f, "edge age", self.edge_age_ms.as_ref())?;
        write!(
            f,
            "  {} connections, {} listed but not served",
            self.connections, self.listed_not_served
        )?;
        for (status, count) in &self.statuses {
            write!(f, ", {status}: {count}")?;
        }
        writeln!(f)
    }
}

impl Display for ServerReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            user_s,
            system_s,
            gigabits,
            threads,
            ..
        } = self;
        write!(
            f,
            "server: {:.4} CPU s per Gbit ({user_s:.2} user + {system_s:.2} system s, ",
            self.cpu_s_per_gigabit
        )?;
        write!(
            f,
            "{gigabits:.2} Gbit), {:.0} % of a core",
            self.core_share * 100.0
        )?;
        if let Some(busy) = self.core_busy_share {
            write!(f, " (core busy {:.0} %)", busy * 100.0)?;
        }
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "\n  RSS {:.1} MiB, anonymous {:.1} MiB",
            mib(self.rss_bytes),
            mib(self.rss_anon_bytes)
        )?;
        for (bytes, of) in [
            (self.anon_bytes_per_player, "player"),
            (self.anon_bytes_per_publisher, "publisher"),
        ] {
            if let Some(bytes) = bytes {
                write!(f, ", {:.1} KiB per {of}", bytes / 1024.0)?;
            }
        }
        write!(
            f,
            "\n  {threads} threads, context switches {:.0}/s ",
            self.voluntary_switches_per_s
        )?;
        write!(
            f,
            "voluntary, {:.0}/s involuntary",
            self.involuntary_switches_per_s
        )?;
        if let (Some(periods), Some(seconds)) = (self.throttled_periods, self.throttled_s) {
            write!(f, ", throttled {periods} periods, {seconds:.2} s")?;
        }
        if let Some(after) = self.listening_after_ms {
            write!(f, ", listening after {after:.1} ms")?;
        }
        writeln!(f)?;
        self.calls(f)
    }
}

impl ServerReport {
    fn calls(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(calls) = &self.calls else { return Ok(()) };
        write!(
            f,
            "  {:.4} system calls per delivered frame:",
            calls.values().sum::<f64>()
        )?;
        for (name, count) in calls.iter().filter(|(_, count)| **count >= 0.0001) {
            write!(f, " {name} {count:.4}")?;
        }
        writeln!(f)
    }
}

fn line(f: &mut Formatter<'_>, name: &str, quantiles: Option<&Quantiles>) -> fmt::Result {
    let Some(Quantiles {
        count,
        p50,
        p99,
        p999,
        max,
    }) = quantiles
    else {
        return Ok(());
    };
    write!(
        f,
        "  {name:<16} p50 {p50:>9.3}  p99 {p99:>9.3}  p99.9 {p999:>9.3}  max {max:>9.3} ms  "
    )?;
    writeln!(f, "({count})")
}

fn losses(f: &mut Formatter<'_>, losses: &BTreeMap<String, u64>) -> fmt::Result {
    losses
        .iter()
        .try_for_each(|(reason, count)| writeln!(f, "  lost {count}: {reason}"))
}
