//! The values each key may take.

use serde_json::Value as Json;

use crate::units::{BitRate, ByteSize, Period};

/// Smallest and largest value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Range {
    /// Of a duration.
    Period(Period, Period),
    /// Of a size.
    Size(ByteSize, ByteSize),
    /// Of a number.
    Count(u32, u32),
    /// Of a bit rate.
    Rate(BitRate, BitRate),
}

const fn millis(least: u64, most: u64) -> Range {
    Range::Period(Period::from_millis(least), Period::from_millis(most))
}

const fn secs(least: u64, most: u64) -> Range {
    Range::Period(Period::from_secs(least), Period::from_secs(most))
}

const fn size(least: u64, most: u64) -> Range {
    Range::Size(ByteSize::from_bytes(least), ByteSize::from_bytes(most))
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The range of each key that has one. The upper ends are far beyond sense and below harm: they catch slips such as
/// `"2h"` for `"2s"`.
pub const RANGES: &[(&str, Range)] = &[
    ("publish.linger", secs(0, 3_600)),
    ("publish.idle_timeout", millis(100, 3_600_000)),
    ("publish.first_media_timeout", millis(100, 3_600_000)),
    ("play.wait", secs(0, 300)),
    ("play.max_lag", millis(100, 300_000)),
    ("play.stall_timeout", millis(100, 3_600_000)),
    ("play.flush", millis(0, 2_000)),
    ("play.flush_max", millis(1, 2_000)),
    ("ring.max_bytes", size(MIB, 4 * GIB)),
    ("ring.max_duration", millis(500, 600_000)),
    ("ring.slots", Range::Count(64, 1 << 20)),
    // RFC 8216 §4.3.3.1 counts target durations in whole seconds, so shorter segments gain nothing.
    ("hls.segment_duration", millis(1_000, 30_000)),
    ("hls.max_segment_duration", millis(1_000, 60_000)),
    // RFC 8216 §6.2.2: a live playlist spans at least three target durations.
    ("hls.window", Range::Count(3, 100)),
    ("hls.idle_stop", millis(1_000, 86_400_000)),
    ("hls.first_wait", secs(0, 60)),
    ("hls.max_bytes", size(MIB, 16 * GIB)),
    ("hls.end_retain", secs(0, 86_400)),
    ("hooks.timeout", millis(100, 60_000)),
    ("hooks.retries", Range::Count(0, 100)),
    ("hooks.cache", secs(0, 3_600)),
    ("hooks.max_in_flight", Range::Count(1, 10_000)),
    ("hooks.max_sessions", Range::Count(1, 10_000_000)),
    ("auth.session_lifetime", secs(1, 7 * 86_400)),
    ("auth.free_failures", Range::Count(1, 1_000_000)),
    ("auth.jwt.jwks_refresh", secs(10, 86_400)),
    ("metrics.max_streams", Range::Count(0, 10_000)),
    ("shutdown.grace", secs(0, 600)),
    ("runtime.workers", Range::Count(0, 1_024)),
    ("limits.max_connections", Range::Count(1, 10_000_000)),
    ("limits.max_connections_per_ip", Range::Count(0, 10_000_000)),
    ("limits.max_streams", Range::Count(1, 100_000)),
    ("limits.max_streams_per_ip", Range::Count(0, 100_000)),
    (
        "limits.publish_bitrate",
        Range::Rate(
            BitRate::from_bits_per_second(0),
            BitRate::from_bits_per_second(100_000_000_000),
        ),
    ),
    ("limits.max_viewers", Range::Count(0, 10_000_000)),
    ("limits.max_viewers_per_stream", Range::Count(0, 10_000_000)),
    ("limits.handshake_timeout", millis(100, 300_000)),
    ("limits.max_message", size(64 * KIB, 16 * MIB)),
    ("limits.memory", size(MIB, 4_096 * GIB)),
    ("limits.partial_messages", size(64 * KIB, 256 * MIB)),
    // hyper takes no less, and no more in one buffer.
    ("limits.http_header", size(8 * KIB, 256 * KIB)),
    // Encoders use the ids 2 to 8 side by side.
    ("limits.chunk_streams", Range::Count(8, 65_598)),
];

impl Range {
    /// Whether the serialized `value` of a key lies inside. A value of another form, such as `"auto"`, does.
    pub(crate) fn contains(self, value: &Json) -> bool {
        let text = value.as_str();
        match self {
            Self::Period(least, most) => text
                .and_then(|text| text.parse().ok())
                .is_none_or(|period| (least..=most).contains(&period)),
            Self::Size(least, most) => text
                .and_then(|text| text.parse().ok())
                .is_none_or(|size| (least..=most).contains(&size)),
            Self::Rate(least, most) => text
                .and_then(|text| text.parse().ok())
                .is_none_or(|rate| (least..=most).contains(&rate)),
            Self::Count(least, most) => value
                .as_u64()
                .is_none_or(|number| (u64::from(least)..=u64::from(most)).contains(&number)),
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Period(least, most) => write!(f, "{least} to {most}"),
            Self::Size(least, most) => write!(f, "{least} to {most}"),
            Self::Count(least, most) => write!(f, "{least} to {most}"),
            Self::Rate(least, most) => write!(f, "{least} to {most}"),
        }
    }
}
