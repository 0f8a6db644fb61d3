//! [`Exit`]: why a connection's loop ends.

use std::io::{self, ErrorKind};

use spillway_hub::{EndReason, Limit};
use spillway_rtmp::error::ChunkError;
use spillway_rtmp::session::SessionError;

/// Why the connection's loop ends.
pub(super) enum Exit {
    /// The peer closed.
    Closed,
    /// We are done with it.
    Done,
    /// Something went wrong, in words for the log.
    Failed(EndReason, String),
}

impl From<SessionError> for Exit {
    fn from(error: SessionError) -> Self {
        Exit::Failed(EndReason::Protocol, error.to_string())
    }
}

impl From<io::Error> for Exit {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Exit::Closed,
            ErrorKind::TimedOut => {
                Exit::Failed(EndReason::Io, "the peer no longer answers (TCP time-out)".into())
            }
            _ => Exit::Failed(EndReason::Io, error.to_string()),
        }
    }
}

/// The limit that a session failed by, if it was one.
pub(super) fn limit_of(error: &SessionError) -> Option<Limit> {
    match error {
        SessionError::Chunk(ChunkError::MessageTooLong { .. }) | SessionError::PeerCommandTooLong { .. } => {
            Some(Limit::MessageSize)
        }
        SessionError::PeerCommandTooComplex { .. } => Some(Limit::Amf),
        SessionError::Chunk(ChunkError::PeerTooManyChunkStreams { .. }) => Some(Limit::ChunkStreams),
        SessionError::Chunk(ChunkError::PeerTooMuchPartial { .. })
        | SessionError::PeerTooMuchWithoutPublish { .. } => Some(Limit::PartialMessages),
        _ => None,
    }
}
