//! Aggregate messages: FLV-like tags packed into one message (RTMP 1.0 §7.1.6).

use super::type_id;

/// Type (1), size (3), timestamp (3 + 1) and stream id (3) of a sub-message.
const SUB_HEAD_LEN: usize = 11;
/// The size of a sub-message repeated after it.
const BACK_POINTER_LEN: usize = 4;

/// One message found inside an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubMessage<'a> {
    /// Audio (8), video (9), data (18) or any other type the sender put there; never an aggregate.
    pub type_id: u8,
    /// Absolute time in milliseconds, wrapping at 2^32.
    pub timestamp_ms: u32,
    /// The sub-message's payload.
    pub body: &'a [u8],
}

/// Walks the sub-messages of an aggregate message.
///
/// Times inside an aggregate are relative to its first sub-message, which plays at the time of
/// the message itself. A sub-message that runs past the end of the aggregate ends the walk, and
/// an aggregate inside an aggregate is passed over, so the work is bounded by the body's length.
#[derive(Debug, Clone)]
pub struct Aggregate {
    body: Vec<u8>,
    at: usize,
    message_timestamp_ms: u32,
    first_timestamp_ms: Option<u32>,
}

impl Aggregate {
    /// A walk over `body` from `start` on; `message_timestamp_ms` is the aggregate's own time.
    pub fn new(body: Vec<u8>, start: usize, message_timestamp_ms: u32) -> Self {
        Self {
            body,
            at: start,
            message_timestamp_ms,
            first_timestamp_ms: None,
        }
    }

    /// The next sub-message, or `None` at the end (a truncated sub-message is an end).
    pub fn next_message(&mut self) -> Option<SubMessage<'_>> {
        loop {
            let head = self.body.get(self.at..)?.first_chunk::<SUB_HEAD_LEN>()?;
            let [
                sub_type,
                size_a,
                size_b,
                size_c,
                time_a,
                time_b,
                time_c,
                time_high,
                ..,
            ] = *head;
            let size = u32::from_be_bytes([0, size_a, size_b, size_c]) as usize;
            let sub_time_ms = u32::from_be_bytes([time_high, time_a, time_b, time_c]);
            let start = self.at.checked_add(SUB_HEAD_LEN)?;
            let end = start.checked_add(size)?;
            if end > self.body.len() {
                self.at = self.body.len();
                return None;
            }
            self.at = end.saturating_add(BACK_POINTER_LEN);
            let first = *self.first_timestamp_ms.get_or_insert(sub_time_ms);
            if sub_type == type_id::AGGREGATE {
                continue;
            }
            let timestamp_ms = self
                .message_timestamp_ms
                .wrapping_add(sub_time_ms.wrapping_sub(first));
            let body = self.body.get(start..end)?;
            return Some(SubMessage {
                type_id: sub_type,
                timestamp_ms,
                body,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sub(type_id: u8, timestamp_ms: u32, body: &[u8]) -> Vec<u8> {
        let mut out = vec![type_id];
        out.extend_from_slice(&(body.len() as u32).to_be_bytes()[1..]);
        let [high, a, b, c] = timestamp_ms.to_be_bytes();
        out.extend_from_slice(&[a, b, c, high, 0, 0, 0]);
        out.extend_from_slice(body);
        out.extend_from_slice(&(body.len() as u32 + 11).to_be_bytes());
        out
    }

    fn walk(body: Vec<u8>, time: u32) -> Vec<(u8, u32, Vec<u8>)> {
        let mut aggregate = Aggregate::new(body, 0, time);
        let mut found = Vec::new();
        while let Some(message) = aggregate.next_message() {
            found.push((message.type_id, message.timestamp_ms, message.body.to_vec()));
        }
        found
    }

    #[test]
    fn times_are_relative_to_the_first_sub_message() {
        let body = [sub(8, 5_000, b"a"), sub(9, 5_023, b"vv")].concat();
        assert_eq!(
            walk(body, 100),
            [(8, 100, b"a".to_vec()), (9, 123, b"vv".to_vec())]
        );
    }

    #[test]
    fn the_last_back_pointer_may_be_missing() {
        let mut body = sub(8, 0, b"abc");
        body.truncate(body.len() - 4);
        assert_eq!(walk(body, 0), [(8, 0, b"abc".to_vec())]);
    }

    #[test]
    fn a_sub_message_that_runs_past_the_end_is_left_out() {
        let mut body = [sub(8, 0, b"a"), sub(9, 1, b"bbbb")].concat();
        body.truncate(body.len() - 6);
        assert_eq!(walk(body, 0), [(8, 0, b"a".to_vec())]);
    }

    #[test]
    fn an_aggregate_inside_an_aggregate_is_passed_over() {
        let inner = sub(9, 0, b"x");
        let body = [sub(22, 0, &inner), sub(8, 10, b"a")].concat();
        assert_eq!(walk(body, 50), [(8, 60, b"a".to_vec())]);
    }

    proptest! {
        #[test]
        fn any_bytes_end(body in proptest::collection::vec(any::<u8>(), 0..512), time in any::<u32>()) {
            let limit = body.len() / SUB_HEAD_LEN + 1;
            prop_assert!(walk(body, time).len() <= limit);
        }
    }
}
