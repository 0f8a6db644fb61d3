//! [`HubOptions`]: the bounds of streams, viewers and HLS windows.

use std::time::Duration;

/// When a stream's frames are flushed to its viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// At once while few watch; the interval grows with the number of viewers up to `max`.
    Auto {
        /// The longest interval.
        max: Duration,
    },
    /// Always at this interval; zero flushes every frame at once.
    Fixed(Duration),
}

/// How HLS packagers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HlsMode {
    /// A packager starts with the first request and stops when nobody asks any more.
    OnDemand,
    /// A packager runs as long as the stream does.
    Always,
    /// HLS is not served.
    Off,
}

/// The HLS options (`[hls]`).
#[derive(Debug, Clone)]
pub struct HlsOptions {
    /// When packagers run.
    pub mode: HlsMode,
    /// The segment duration aimed at; segments end at the first key frame at or after it.
    pub segment_duration: Duration,
    /// How many segments a playlist lists; as many again stay downloadable afterwards.
    pub window: usize,
    /// How long after the last request an on-demand packager stops.
    pub idle_stop: Duration,
    /// How long a first request is held until there is something to play.
    pub first_wait: Duration,
    /// The longest segment before it is cut without a key frame.
    pub max_segment_duration: Duration,
    /// The bytes one stream's segments may take.
    pub max_bytes: usize,
    /// How long the playlist of an ended stream is still served.
    pub end_retain: Duration,
}

impl Default for HlsOptions {
    fn default() -> Self {
        Self {
            mode: HlsMode::OnDemand,
            segment_duration: Duration::from_secs(2),
            window: 6,
            idle_stop: Duration::from_secs(60),
            first_wait: Duration::from_secs(8),
            max_segment_duration: Duration::from_secs(12),
            max_bytes: 64 << 20,
            end_retain: Duration::from_secs(60),
        }
    }
}

/// The options of a [`Hub`](crate::Hub).
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// The frames one ring holds at most (rounded up to a power of two).
    pub ring_slots: usize,
    /// The bytes of media one ring holds at most.
    pub ring_max_bytes: usize,
    /// The media time one ring holds at most.
    pub ring_max_duration: Duration,
    /// How long a stream waits for its publisher to come back.
    pub linger: Duration,
    /// How long a viewer waits for a publisher.
    pub play_wait: Duration,
    /// How far a viewer may fall behind before it skips to the newest key frame.
    pub max_lag: Duration,
    /// When frames are flushed to viewers.
    pub flush: Flush,
    /// The streams there may be at once, waiting ones included.
    pub max_streams: usize,
    /// The streams that may be published from one address at once; zero: no limit.
    pub max_streams_per_ip: usize,
    /// The viewers there may be at once, of all streams (HLS not counted); zero: no limit.
    pub max_viewers: usize,
    /// The bits a second a publisher may send for long; zero: no limit.
    pub publish_bitrate: u64,
    /// The bytes of media beyond which no new publishers and viewers are let in.
    pub memory: u64,
    /// The viewers one stream may have (HLS not counted); zero: no limit.
    pub max_viewers_per_stream: usize,
    /// The runtime's worker threads: what `Flush::Auto` may count on.
    pub workers: usize,
    /// HLS.
    pub hls: HlsOptions,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            ring_slots: 4096,
            ring_max_bytes: 16 << 20,
            ring_max_duration: Duration::from_secs(30),
            linger: Duration::from_secs(15),
            play_wait: Duration::from_secs(15),
            max_lag: Duration::from_secs(3),
            flush: Flush::Auto {
                max: Duration::from_millis(300),
            },
            max_streams: 1000,
            max_streams_per_ip: 0,
            max_viewers: 0,
            publish_bitrate: 0,
            memory: u64::MAX,
            max_viewers_per_stream: 0,
            workers: 1,
            hls: HlsOptions::default(),
        }
    }
}

/// A viewer that lags by `max_lag` finds its place still there when it next looks.
const LAG_MARGIN: Duration = Duration::from_secs(1);

/// What a stream's readers can need of its past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct History {
    /// Of every viewer: how far it may lag.
    lag_ms: u64,
    /// Of an HLS packager that begins with the first request: its segments, and the time of each.
    segments: u64,
    segment_ms: u64,
}

impl History {
    /// In milliseconds for a stream whose key frames are `gop_ms` apart: segments are no shorter than the GOPs
    /// they are made of.
    pub(crate) fn needed_ms(self, gop_ms: u64) -> i64 {
        let window_ms = self.segments.saturating_mul(self.segment_ms.max(gop_ms));
        i64::try_from(self.lag_ms.max(window_ms)).unwrap_or(i64::MAX)
    }
}

impl HubOptions {
    /// What its streams' readers can need of the past.
    pub(crate) fn history(&self) -> History {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        History {
            lag_ms: millis(self.max_lag.saturating_add(LAG_MARGIN)),
            segments: match self.hls.mode {
                HlsMode::OnDemand => self.hls.window as u64,
                HlsMode::Always | HlsMode::Off => 0,
            },
            segment_ms: millis(self.hls.segment_duration),
        }
    }
}
