//! User control events (RTMP 1.0 §6.2 and §7.1.7).

/// One user control event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserControl {
    /// A message stream became usable (event 0). Carries the message stream id.
    StreamBegin(u32),
    /// Playback of a message stream is over (event 1). Carries the message stream id.
    StreamEof(u32),
    /// No more data for now (event 2). Carries the message stream id.
    StreamDry(u32),
    /// How much the client buffers (event 3).
    SetBufferLength {
        /// The message stream it concerns.
        message_stream_id: u32,
        /// Buffer length in milliseconds.
        buffer_ms: u32,
    },
    /// The message stream is a recorded one (event 4). Carries the message stream id.
    StreamIsRecorded(u32),
    /// A ping that wants an answer (event 6). Carries the sender's time in milliseconds.
    PingRequest(u32),
    /// The answer to a ping (event 7). Carries the time of the request.
    PingResponse(u32),
}

impl UserControl {
    /// Reads a user control message's body. `None` for events this crate has no use for (buffer
    /// empty, SWF verification, …) and for bodies too short to carry their value: neither is a
    /// reason to end a session.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let (event, rest) = body.split_first_chunk::<2>()?;
        let value = super::leading_u32(rest)?;
        Some(match u16::from_be_bytes(*event) {
            0 => Self::StreamBegin(value),
            1 => Self::StreamEof(value),
            2 => Self::StreamDry(value),
            3 => Self::SetBufferLength {
                message_stream_id: value,
                buffer_ms: rest.get(4..).and_then(super::leading_u32)?,
            },
            4 => Self::StreamIsRecorded(value),
            6 => Self::PingRequest(value),
            7 => Self::PingResponse(value),
            _ => return None,
        })
    }

    /// The message's body: event type and event data.
    pub fn to_body(self) -> Vec<u8> {
        let (event, value, more) = match self {
            Self::StreamBegin(id) => (0u16, id, None),
            Self::StreamEof(id) => (1, id, None),
            Self::StreamDry(id) => (2, id, None),
            Self::SetBufferLength {
                message_stream_id,
                buffer_ms,
            } => (3, message_stream_id, Some(buffer_ms)),
            Self::StreamIsRecorded(id) => (4, id, None),
            Self::PingRequest(time_ms) => (6, time_ms, None),
            Self::PingResponse(time_ms) => (7, time_ms, None),
        };
        let mut body = Vec::with_capacity(10);
        body.extend_from_slice(&event.to_be_bytes());
        body.extend_from_slice(&value.to_be_bytes());
        if let Some(more) = more {
            body.extend_from_slice(&more.to_be_bytes());
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_a_round_trip() {
        for event in [
            UserControl::StreamBegin(1),
            UserControl::StreamEof(2),
            UserControl::StreamDry(3),
            UserControl::SetBufferLength {
                message_stream_id: 1,
                buffer_ms: 36_000_000,
            },
            UserControl::StreamIsRecorded(4),
            UserControl::PingRequest(u32::MAX),
            UserControl::PingResponse(77),
        ] {
            assert_eq!(UserControl::parse(&event.to_body()), Some(event));
        }
    }

    #[test]
    fn unknown_events_and_short_bodies_are_passed_over() {
        assert_eq!(UserControl::parse(&[]), None);
        assert_eq!(UserControl::parse(&[0, 6, 0, 0, 1]), None);
        assert_eq!(UserControl::parse(&[0, 3, 0, 0, 0, 1]), None);
        assert_eq!(UserControl::parse(&[0, 31, 0, 0, 0, 1]), None);
        assert_eq!(UserControl::parse(&[0, 26, 0, 0, 0, 1]), None);
    }

    #[test]
    fn a_ping_longer_than_needed_is_still_a_ping() {
        assert_eq!(
            UserControl::parse(&[0, 6, 0, 0, 0, 9, 1, 1]),
            Some(UserControl::PingRequest(9))
        );
    }
}
