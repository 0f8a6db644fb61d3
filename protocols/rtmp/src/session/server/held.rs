//! Media that came before its publish was accepted.

use super::ServerEvent;
use crate::ertmp::is_configuration;
use crate::session::{HEAD_ROOM, MediaKind};
use std::collections::VecDeque;

/// What one message is counted with besides its bytes, so that empty ones are not free.
const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// A bounded queue. When it is full the frames in it are dropped, the configuration messages only
/// if they alone are still too many: a stream that starts late recovers at its next key frame,
/// one that lost its sequence header never does.
pub(super) struct HeldMedia {
    queue: VecDeque<(MediaKind, u32, Vec<u8>)>,
    bytes: usize,
    limit_bytes: usize,
    dropped_messages: u64,
}

impl HeldMedia {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            limit_bytes,
            dropped_messages: 0,
        }
    }

    pub(super) fn push(&mut self, kind: MediaKind, timestamp_ms: u32, buf: Vec<u8>) {
        let cost = cost(&buf);
        if self.bytes.saturating_add(cost) > self.limit_bytes {
            self.make_room();
        }
        if self.bytes.saturating_add(cost) > self.limit_bytes {
            self.dropped_messages = self.dropped_messages.saturating_add(1);
            return;
        }
        self.bytes = self.bytes.saturating_add(cost);
        self.queue.push_back((kind, timestamp_ms, buf));
    }

    fn make_room(&mut self) {
        let before = self.queue.len();
        self.queue
            .retain(|(kind, _, buf)| is_configuration(*kind, buf.get(HEAD_ROOM..).unwrap_or_default()));
        self.bytes = self.queue.iter().map(|(_, _, buf)| cost(buf)).sum();
        if self.bytes > self.limit_bytes / 2 {
            self.clear();
        }
        let dropped = before.saturating_sub(self.queue.len()) as u64;
        self.dropped_messages = self.dropped_messages.saturating_add(dropped);
    }

    pub(super) fn pop(&mut self) -> Option<ServerEvent> {
        let (kind, timestamp_ms, buf) = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(cost(&buf));
        Some(ServerEvent::Media {
            kind,
            timestamp_ms,
            buf,
        })
    }

    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.bytes = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn dropped_messages(&self) -> u64 {
        self.dropped_messages
    }
}

fn cost(buf: &Vec<u8>) -> usize {
    buf.capacity().saturating_add(MESSAGE_OVERHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8]) -> Vec<u8> {
        [&[0; HEAD_ROOM][..], body].concat()
    }

    #[test]
    fn a_full_queue_keeps_its_sequence_headers_and_the_newest_frame() {
        let mut held = HeldMedia::new(4_000);
        held.push(MediaKind::Video, 0, message(&[0x17, 0, 0, 0, 0, 1]));
        held.push(MediaKind::Audio, 0, message(&[0xAF, 0, 0x12, 0x10]));
        for time in 0..10 {
            held.push(
                MediaKind::Video,
                time,
                message(&[&[0x27, 1, 0, 0, 0][..], &[0; 1_000]].concat()),
            );
            assert!(held.bytes() <= 4_000);
        }
        let mut first_bytes = Vec::new();
        let mut last_time = 0;
        while let Some(ServerEvent::Media {
            timestamp_ms, buf, ..
        }) = held.pop()
        {
            first_bytes.push(buf[HEAD_ROOM]);
            last_time = timestamp_ms;
        }
        assert_eq!(first_bytes[..2], [0x17, 0xAF]);
        assert_eq!(last_time, 9);
        assert!(held.dropped_messages() > 0);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn a_flood_of_headers_is_bounded_too() {
        let mut held = HeldMedia::new(2_000);
        for time in 0..10_000 {
            held.push(MediaKind::Data, time, message(&[]));
            assert!(held.bytes() <= 2_000);
        }
    }

    #[test]
    fn a_message_larger_than_the_queue_is_dropped_alone() {
        let mut held = HeldMedia::new(1_000);
        held.push(MediaKind::Audio, 0, message(&[0xAF, 0]));
        held.push(MediaKind::Video, 0, message(&[0; 5_000]));
        assert_eq!(held.dropped_messages(), 1);
        assert!(matches!(
            held.pop(),
            Some(ServerEvent::Media {
                kind: MediaKind::Audio,
                ..
            })
        ));
    }
}
