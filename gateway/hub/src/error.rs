//! Why a publisher or a viewer gets no stream.

use thiserror::Error;

/// Why a publisher gets no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// `limits.max_streams` are there already.
    #[error("the server carries as many streams as limits.max_streams allows; try again later")]
    TooManyStreams,
    /// `limits.max_streams_per_ip` are published from this address already.
    #[error(
        "this address publishes as many streams as limits.max_streams_per_ip allows; end one of them first"
    )]
    TooManyFromAddress,
    /// There is more media in memory than `limits.memory`.
    #[error("the server is short of memory (limits.memory) and takes no further stream; try again later")]
    ShortOfMemory,
    /// The process is going away.
    #[error("the server is shutting down; connect again in a moment")]
    ShuttingDown,
}

/// Why a viewer gets no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No publisher came within `play.wait`.
    #[error("nobody publishes this stream")]
    NotFound,
    /// `limits.max_streams` are there already, waiting ones included.
    #[error("the server carries as many streams as limits.max_streams allows; try again later")]
    TooManyStreams,
    /// `limits.max_viewers_per_stream` watch already.
    #[error(
        "the stream has as many viewers as limits.max_viewers_per_stream, or the hook, allows; try again later"
    )]
    TooManyViewers,
    /// `limits.max_viewers` watch already, over all streams.
    #[error("the server has as many viewers as limits.max_viewers allows; try again later")]
    TooManyViewersInAll,
    /// There is more media in memory than `limits.memory`.
    #[error("the server is short of memory (limits.memory) and takes no further viewer; try again later")]
    ShortOfMemory,
    /// The process is going away.
    #[error("the server is shutting down; connect again in a moment")]
    ShuttingDown,
}
