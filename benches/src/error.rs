//! What can go wrong in the load tool.

use std::io;
use thiserror::Error;

/// Why a run could not be made, or a player gave up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A socket, file or process did not do as asked.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A URL this tool cannot use.
    #[error("URL {url:?}: {reason}")]
    Url {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Options that do not go together.
    #[error("{0}")]
    Options(String),
    /// The peer broke the protocol, or this tool does not know what it said.
    #[error("protocol: {0}")]
    Protocol(&'static str),
    /// The peer closed the connection.
    #[error("closed by the server")]
    Closed,
    /// The server refused the stream.
    #[error("refused: {0}")]
    Refused(String),
    /// The server was not there in time.
    #[error("the server did not accept connections on {0} in time")]
    NotListening(String),
    /// An RTMP publisher's session failed.
    #[error("publisher: {0}")]
    Session(#[from] spillway_rtmp::session::SessionError),
    /// A clip that is no FLV file.
    #[error("clip: {0}")]
    Clip(String),
}

impl LoadError {
    /// Wraps what the system answered, for use with `map_err`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            what: what.into(),
            source,
        }
    }

    /// The same for system calls made through rustix.
    pub fn errno(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |source| Self::Io {
            what: what.into(),
            source: source.into(),
        }
    }
}
