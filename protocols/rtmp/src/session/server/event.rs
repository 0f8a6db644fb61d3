//! What a server session tells its caller.

use crate::command::status::code;
use crate::name::StreamPath;
use crate::session::MediaKind;

/// A publish or play that waits for the caller's decision. Never used twice in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub(super) u64);

/// What a client said of itself when it connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectInfo {
    /// The application, as sent; may carry slashes and a query. Empty if missing.
    pub app: String,
    /// The URL the client connected to. Empty if missing.
    pub tc_url: String,
    /// The client's name for itself. Empty if missing.
    pub flash_version: String,
    /// The client announced Enhanced RTMP (`fourCcList`, a FourCC map or `capsEx`). As a player
    /// it can be sent enhanced media.
    pub enhanced: bool,
    /// The client understands a reconnect request.
    pub reconnect: bool,
}

/// One event of a server session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// The handshake is done.
    HandshakeDone,
    /// The client connected and has been answered.
    Connected(ConnectInfo),
    /// The client wants to publish; answer with `accept_publish` or `refuse_publish`.
    PublishRequested {
        /// Names the request in the answer.
        request: RequestId,
        /// What it wants to publish.
        stream: StreamPath,
    },
    /// The client wants to play; answer with `accept_play` or `refuse_play`.
    PlayRequested {
        /// Names the request in the answer.
        request: RequestId,
        /// What it wants to play.
        stream: StreamPath,
    },
    /// A message of the accepted publish.
    Media {
        /// What it carries.
        kind: MediaKind,
        /// The message's time in milliseconds, wrapping at 2^32.
        timestamp_ms: u32,
        /// [`HEAD_ROOM`](crate::session::HEAD_ROOM) zero bytes, then the body, which may be empty.
        buf: Vec<u8>,
    },
    /// The client ended its publish, or withdrew the request. It may publish again.
    PublishEnded,
    /// The client stopped playing, or withdrew the request. It may play again.
    PlayEnded,
    /// The player paused (true): send no audio and video until it resumes (false).
    Paused(bool),
    /// Whether the player wants audio.
    ReceiveAudio(bool),
    /// Whether the player wants video.
    ReceiveVideo(bool),
}

/// Why a publish is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishRefusal {
    /// The client may not publish this stream.
    Denied,
    /// The name is not valid, or somebody else publishes it.
    BadName,
}

impl PublishRefusal {
    /// The status code sent for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Denied => code::PUBLISH_DENIED,
            Self::BadName => code::PUBLISH_BAD_NAME,
        }
    }
}

/// Why a play is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlayRefusal {
    /// Nobody publishes this stream.
    StreamNotFound,
    /// The client may not play it, or the server cannot serve it.
    Failed,
}

impl PlayRefusal {
    /// The status code sent for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::StreamNotFound => code::PLAY_STREAM_NOT_FOUND,
            Self::Failed => code::PLAY_FAILED,
        }
    }
}
