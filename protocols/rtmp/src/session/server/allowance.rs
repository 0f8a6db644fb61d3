//! What a client's messages may cost, by what it has been allowed to do so far.

use super::ServerOptions;
use crate::error::ChunkError;
use crate::limits::ReaderLimits;
use crate::session::SessionError;

/// The longest message taken from a client that does not publish. Anybody can be that client, and
/// it sends commands: four times what the longest of them may have leaves room for a frame that is
/// still on its way when a publish ends.
const IDLE_MAX_MESSAGE_BYTES: u32 = 256 << 10;
/// Memory for incomplete messages of a client that does not publish: one of the longest, and a
/// command of the longest between its chunks.
const IDLE_MAX_PARTIAL_BYTES: usize = (256 + 64) << 10;

/// How far a publish is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowance {
    /// Nothing is published; whether the client plays makes no difference.
    Idle,
    /// A publish waits for its acceptance.
    Pending,
    /// A publish is accepted.
    Publishing,
}

impl Allowance {
    /// The limits for the client's chunk stream; never more than the options allow.
    pub(super) fn limits(self, options: &ServerOptions) -> ReaderLimits {
        let most = options.limits;
        let (message_bytes, partial_bytes) = match self {
            Self::Idle => (IDLE_MAX_MESSAGE_BYTES, IDLE_MAX_PARTIAL_BYTES),
            // A longer message could not be held.
            Self::Pending => (
                u32::try_from(options.held_media_bytes)
                    .unwrap_or(u32::MAX)
                    .max(IDLE_MAX_MESSAGE_BYTES),
                options.held_media_bytes.saturating_add(IDLE_MAX_PARTIAL_BYTES),
            ),
            Self::Publishing => return most,
        };
        ReaderLimits {
            max_message_bytes: most.max_message_bytes.min(message_bytes),
            max_partial_bytes: most.max_partial_bytes.min(partial_bytes),
            ..most
        }
    }

    /// Names the allowance in an error that the options alone would not have caused.
    pub(super) fn explain(self, error: SessionError, options: &ServerOptions) -> SessionError {
        let most = options.limits;
        match error {
            SessionError::Chunk(ChunkError::MessageTooLong { length, limit })
                if self != Self::Publishing && length <= u64::from(most.max_message_bytes) =>
            {
                SessionError::PeerTooMuchWithoutPublish {
                    bytes: length,
                    limit_bytes: u64::from(limit),
                }
            }
            SessionError::Chunk(ChunkError::PeerTooMuchPartial { bytes, limit })
                if self != Self::Publishing && bytes <= most.max_partial_bytes =>
            {
                SessionError::PeerTooMuchWithoutPublish {
                    bytes: bytes as u64,
                    limit_bytes: limit as u64,
                }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_allowance_is_more_than_the_options_allow() {
        let mut options = ServerOptions::default();
        options.limits.max_message_bytes = 1_000;
        options.limits.max_partial_bytes = 2_000;
        for allowance in [Allowance::Idle, Allowance::Pending, Allowance::Publishing] {
            assert_eq!(allowance.limits(&options), options.limits);
        }
    }

    #[test]
    fn a_peer_over_the_configured_limits_is_told_of_those() {
        let options = ServerOptions::default();
        let error = SessionError::Chunk(ChunkError::PeerTooMuchPartial {
            bytes: options.limits.max_partial_bytes + 1,
            limit: options.limits.max_partial_bytes,
        });
        assert_eq!(Allowance::Idle.explain(error.clone(), &options), error);
    }
}
