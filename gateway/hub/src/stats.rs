//! Plain atomics that hot paths bump and a scrape reads: per stream and for the process.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::{EndReason, Protocol};

/// Why a viewer missed frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It lagged past `play.max_lag` and was moved to the newest key frame.
    Lag,
    /// It was so slow that the ring no longer held its place.
    Overrun,
}

impl DropReason {
    /// All of them, in the order of their counters.
    pub const ALL: [DropReason; 2] = [DropReason::Lag, DropReason::Overrun];

    /// The label used in metrics and the API.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lag => "lag",
            Self::Overrun => "overrun",
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Lag => 0,
            Self::Overrun => 1,
        }
    }
}

/// A counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts `n` more where no other thread counts at the same time: without a locked instruction.
    pub(crate) fn add_alone(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes away (for gauges).
    pub fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Sets (for gauges).
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one stream.
#[derive(Debug, Default)]
pub struct StreamStats {
    /// Bytes of media messages received.
    pub bytes_in: Counter,
    /// Media messages received.
    pub messages_in: Counter,
    /// Bytes sent, by [`Protocol::index`].
    pub bytes_out: [Counter; 4],
    /// Viewers now, by [`Protocol::index`].
    pub viewers: [Counter; 4],
    /// Messages that were not understood and left out.
    pub malformed: Counter,
    /// Timestamp jumps that were repaired.
    pub discontinuities: Counter,
    drops: [Counter; 2],
}

impl StreamStats {
    /// Counts frames a viewer did not get.
    pub fn dropped(&self, reason: DropReason, frames: u64) {
        self.drops[reason.index()].add(frames);
    }

    /// The frames viewers did not get, for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()].get()
    }

    /// Viewers now, over all protocols.
    pub fn viewers_now(&self) -> u64 {
        self.viewers.iter().map(Counter::get).sum()
    }
}

/// Why something was refused, by the limit that said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `limits.max_connections`.
    Connections,
    /// `limits.max_connections_per_ip`.
    ConnectionsPerIp,
    /// `limits.max_streams`.
    Streams,
    /// `limits.max_streams_per_ip`.
    StreamsPerIp,
    /// `limits.publish_bitrate`.
    PublishBitrate,
    /// `limits.max_viewers`.
    AllViewers,
    /// `limits.max_viewers_per_stream`.
    Viewers,
    /// `limits.memory`.
    Memory,
    /// `[auth]`.
    Auth,
    /// The handshake or first-command deadline.
    HandshakeTimeout,
    /// `limits.max_message`.
    MessageSize,
    /// `limits.chunk_streams`.
    ChunkStreams,
    /// `limits.partial_messages`, or the less that holds without an accepted publish.
    PartialMessages,
    /// The depth or number of AMF values in one command (`spillway_amf::limits`).
    Amf,
    /// `limits.http_header`.
    HttpHeader,
}

impl Limit {
    /// All of them, in the order of their counters.
    pub const ALL: [Limit; 15] = [
        Self::Connections,
        Self::ConnectionsPerIp,
        Self::Streams,
        Self::StreamsPerIp,
        Self::PublishBitrate,
        Self::AllViewers,
        Self::Viewers,
        Self::Memory,
        Self::Auth,
        Self::HandshakeTimeout,
        Self::MessageSize,
        Self::ChunkStreams,
        Self::PartialMessages,
        Self::Amf,
        Self::HttpHeader,
    ];

    /// The label used in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerIp => "connections_per_ip",
            Self::Streams => "streams",
            Self::StreamsPerIp => "streams_per_ip",
            Self::PublishBitrate => "publish_bitrate",
            Self::AllViewers => "all_viewers",
            Self::Viewers => "viewers",
            Self::Memory => "memory",
            Self::Auth => "auth",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::MessageSize => "message_size",
            Self::ChunkStreams => "chunk_streams",
            Self::PartialMessages => "partial_messages",
            Self::Amf => "amf",
            Self::HttpHeader => "http_header",
        }
    }

    fn index(self) -> usize {
        Self::ALL.iter().position(|l| *l == self).unwrap_or(0)
    }
}

/// The counters of the process.
#[derive(Debug, Default)]
pub struct Stats {
    /// Open RTMP connections.
    pub rtmp_connections: Counter,
    /// RTMP connections accepted since the start.
    pub connections_total: Counter,
    /// Failures of the RTMP listener's `accept` (out of descriptors, aborted connections).
    pub accept_errors: Counter,
    /// RTMP publishers accepted since the start.
    pub publishes_total: Counter,
    /// Media messages of RTMP peers that belonged to no stream, or came too early and were too many to hold.
    pub unplaced_messages: Counter,
    /// Bytes of messages of RTMP peers that are not complete, and of media that waits for its publish to be accepted.
    pub incoming_bytes: Counter,
    /// Session tasks that panicked; each ended alone.
    pub panics: Counter,
    /// Bytes of media received since the start.
    pub bytes_in: Counter,
    /// Bytes of media sent since the start, by [`Protocol::index`].
    pub bytes_out: [Counter; 4],
    ends: [[Counter; EndReason::ALL.len()]; 4],
    publisher_ends: [Counter; EndReason::ALL.len()],
    connection_failures: [Counter; EndReason::ALL.len()],
    refusals: [Counter; Limit::ALL.len()],
    drops: [Counter; 2],
}

impl Stats {
    /// Counts a viewer's end.
    pub fn viewer_ended(&self, protocol: Protocol, reason: EndReason) {
        self.ends[protocol.index()][reason.index()].add(1);
    }

    /// Viewers that ended so.
    pub fn viewer_ends(&self, protocol: Protocol, reason: EndReason) -> u64 {
        self.ends[protocol.index()][reason.index()].get()
    }

    /// Counts a publisher's end.
    pub fn publisher_ended(&self, reason: EndReason) {
        self.publisher_ends[reason.index()].add(1);
    }

    /// Publishers that ended so.
    pub fn publisher_ends(&self, reason: EndReason) -> u64 {
        self.publisher_ends[reason.index()].get()
    }

    /// Counts an RTMP connection that failed before it published or played.
    pub fn connection_failed(&self, reason: EndReason) {
        self.connection_failures[reason.index()].add(1);
    }

    /// RTMP connections that failed so.
    pub fn connection_failures(&self, reason: EndReason) -> u64 {
        self.connection_failures[reason.index()].get()
    }

    /// Counts a refusal.
    pub fn refused(&self, limit: Limit) {
        self.refusals[limit.index()].add(1);
    }

    /// Refusals by this limit.
    pub fn refusals(&self, limit: Limit) -> u64 {
        self.refusals[limit.index()].get()
    }

    /// Counts frames a viewer did not get.
    pub fn dropped(&self, reason: DropReason, frames: u64) {
        self.drops[reason.index()].add(frames);
    }

    /// Frames viewers did not get, for this reason, over all streams since the start.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason.index()].get()
    }
}
