//! Why a session cannot go on.

use spillway_amf::AmfError;

use crate::error::{ChunkError, HandshakeError};

/// Why a session ended. After any of these the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The chunk stream could not be read or written.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The peer causes answers faster than it takes them.
    #[error(
        "{pending_bytes} bytes of answers are waiting and the limit is {limit_bytes}; the peer sends commands but does not read the replies"
    )]
    PeerNotReading {
        /// What would wait with the answer that was to be added.
        pending_bytes: usize,
        /// The limit of the session's options.
        limit_bytes: usize,
    },
    /// The peer sent a command of absurd length.
    #[error("command message of {length} bytes; no client needs more than {limit}")]
    PeerCommandTooLong {
        /// Length of the message in bytes.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The peer sent a command of absurdly many or deeply nested values.
    #[error("the peer's command message is over a limit that no client comes near: {error}")]
    PeerCommandTooComplex {
        /// The limit, and where in the message.
        error: AmfError,
    },
    /// The peer sent more than a client may that has no accepted publish.
    #[error(
        "peer sent {bytes} bytes in messages while no publish of it is accepted, the limit is {limit_bytes} until then; an encoder must publish and wait for the answer before it sends media, and a player has nothing to send"
    )]
    PeerTooMuchWithoutPublish {
        /// Length of the message, or memory for all incomplete messages, in bytes.
        bytes: u64,
        /// The limit in force without an accepted publish.
        limit_bytes: u64,
    },
    /// The peer wants to publish or play and has not said which application.
    #[error("peer sent {command} before connect; it must connect first")]
    PeerNotConnected {
        /// The command that came too early.
        command: &'static str,
    },
    /// The peer connected a second time on one connection.
    #[error("peer sent a second connect on the same connection; it must open a new one")]
    PeerConnectedTwice,
    /// The caller wrote media that the session is not ready for.
    #[error("media was written before the server accepted the publish, or after it ended")]
    LocalNotPublishing,
    /// The caller wrote media faster than it sent it.
    #[error(
        "{pending_bytes} bytes are waiting to be sent and the limit is {limit_bytes}; the server is too slow"
    )]
    LocalOutputFull {
        /// What would wait with the message that was to be added.
        pending_bytes: usize,
        /// The limit of the session's options.
        limit_bytes: usize,
    },
}

impl SessionError {
    /// A short fixed label for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Handshake(_) => "handshake",
            Self::Chunk(_) => "chunk",
            Self::PeerNotReading { .. } | Self::LocalOutputFull { .. } => "not_reading",
            Self::PeerCommandTooLong { .. } => "command_too_long",
            Self::PeerCommandTooComplex { .. } => "command_too_complex",
            Self::PeerTooMuchWithoutPublish { .. } => "too_much_without_publish",
            Self::PeerNotConnected { .. } | Self::PeerConnectedTwice => "command_order",
            Self::LocalNotPublishing => "not_publishing",
        }
    }
}
