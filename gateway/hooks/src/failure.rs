//! [`Failure`]: why the endpoint gave no answer that counts.

use thiserror::Error;

/// Why the endpoint gave no answer that counts. The label is the metric's and the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection: name, network or certificate.
    #[error("the endpoint cannot be reached")]
    Connect,
    /// The connection broke before the answer was there.
    #[error("the endpoint closed the connection before it had answered")]
    Closed,
    /// No answer in time.
    #[error("the endpoint did not answer within hooks.timeout")]
    Timeout,
    /// A status that says that the endpoint failed, or is busy.
    #[error("the endpoint answered that it failed (5xx, 408, 425 or 429)")]
    ServerError,
    /// A redirect, which is never followed.
    #[error(
        "the endpoint answered with a redirect, which is not followed: set hooks.url to the final address"
    )]
    Redirect,
    /// A status that answers nothing.
    #[error("the endpoint answered with a status that decides nothing: is hooks.url right?")]
    Status,
    /// A body beyond the bound.
    #[error("the endpoint's answer is too long")]
    TooLarge,
    /// A body that cannot be understood.
    #[error("the endpoint's answer is not understood")]
    BadAnswer,
    /// As many calls are in flight as may be.
    #[error("as many calls are in flight as hooks.max_in_flight allows")]
    Busy,
    /// As many sessions are known to the endpoint as may be.
    #[error("as many sessions are open as hooks.max_sessions allows")]
    TooManySessions,
}

impl Failure {
    /// All of them, in the order of [`Failure::index`].
    pub const ALL: [Failure; 10] = [
        Self::Connect,
        Self::Closed,
        Self::Timeout,
        Self::ServerError,
        Self::Redirect,
        Self::Status,
        Self::TooLarge,
        Self::BadAnswer,
        Self::Busy,
        Self::TooManySessions,
    ];

    /// The label used in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Closed => "closed",
            Self::Timeout => "timeout",
            Self::ServerError => "server_error",
            Self::Redirect => "redirect",
            Self::Status => "status",
            Self::TooLarge => "too_large",
            Self::BadAnswer => "bad_answer",
            Self::Busy => "busy",
            Self::TooManySessions => "too_many_sessions",
        }
    }

    /// The position in [`Failure::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|failure| *failure == self).unwrap_or(0)
    }

    /// Whether another attempt may go better.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Connect | Self::Closed | Self::Timeout | Self::ServerError
        )
    }

    /// Whether the endpoint may have had the event all the same.
    pub fn may_have_arrived(self) -> bool {
        !matches!(self, Self::Connect | Self::Busy | Self::TooManySessions)
    }
}
