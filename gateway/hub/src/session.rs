//! Who a session is and how it ended, in words that logs and metrics share.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a viewer or publisher is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// RTMP publish or play.
    Rtmp,
    /// HTTP-FLV.
    Flv,
    /// FLV over WebSocket.
    Ws,
    /// HLS.
    Hls,
}

impl Protocol {
    /// All of them, in the order of [`Protocol::index`].
    pub const ALL: [Protocol; 4] = [Protocol::Rtmp, Protocol::Flv, Protocol::Ws, Protocol::Hls];

    /// The label used in logs, metrics and the API.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rtmp => "rtmp",
            Self::Flv => "flv",
            Self::Ws => "ws",
            Self::Hls => "hls",
        }
    }

    /// The position in [`Protocol::ALL`], for counters kept in arrays.
    pub fn index(self) -> usize {
        match self {
            Self::Rtmp => 0,
            Self::Flv => 1,
            Self::Ws => 2,
            Self::Hls => 3,
        }
    }
}

/// Why a session ended. The label is the metric's and the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndReason {
    /// The peer left.
    Client,
    /// No byte could be written for `play.stall_timeout`.
    Stalled,
    /// The publisher left and did not come back within `publish.linger`.
    StreamEnded,
    /// The process is shutting down.
    Shutdown,
    /// A newer publisher took the name over.
    Replaced,
    /// The publisher sent nothing for `publish.idle_timeout`.
    Idle,
    /// No publisher came within `play.wait`.
    NotFound,
    /// Authorisation or a limit said no.
    Refused,
    /// The time that authorisation granted is over.
    Expired,
    /// The publisher sent more than `limits.publish_bitrate`.
    TooFast,
    /// The peer broke the protocol.
    Protocol,
    /// A deadline of the handshake or of the first command passed.
    Timeout,
    /// The connection failed.
    Io,
    /// The session's own task failed.
    Internal,
}

impl EndReason {
    /// All of them, in the order of [`EndReason::index`].
    pub const ALL: [EndReason; 14] = [
        Self::Client,
        Self::Stalled,
        Self::StreamEnded,
        Self::Shutdown,
        Self::Replaced,
        Self::Idle,
        Self::NotFound,
        Self::Refused,
        Self::Expired,
        Self::TooFast,
        Self::Protocol,
        Self::Timeout,
        Self::Io,
        Self::Internal,
    ];

    /// Why a session ends whose end nobody gave a reason for: its task panicked, or was dropped with its connection.
    pub fn of_drop() -> Self {
        if std::thread::panicking() {
            Self::Internal
        } else {
            Self::Client
        }
    }

    /// The label used in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Stalled => "stalled",
            Self::StreamEnded => "stream_ended",
            Self::Shutdown => "shutdown",
            Self::Replaced => "replaced",
            Self::Idle => "idle",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::TooFast => "too_fast",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::Io => "io",
            Self::Internal => "internal",
        }
    }

    /// The position in [`EndReason::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|r| *r == self).unwrap_or(0)
    }
}

/// A session's number, unique within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(u64);

static NEXT_SESSION: AtomicU64 = AtomicU64::new(1);

impl SessionId {
    /// The next unused number.
    pub fn next() -> Self {
        Self(NEXT_SESSION.fetch_add(1, Ordering::Relaxed))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// Who is publishing or watching.
#[derive(Debug, Clone, Copy)]
pub struct SessionInfo {
    /// How it is connected.
    pub protocol: Protocol,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Its number.
    pub id: SessionId,
    /// Whether it understands Enhanced RTMP side information (further tracks, colour metadata); FLV and
    /// legacy RTMP players do not and never get it.
    pub enhanced: bool,
}

impl SessionInfo {
    /// A new session with the next number.
    pub fn new(protocol: Protocol, peer: SocketAddr) -> Self {
        Self {
            protocol,
            peer,
            id: SessionId::next(),
            enhanced: false,
        }
    }
}
