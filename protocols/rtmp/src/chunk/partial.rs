//! A message whose chunks have not all arrived.

use super::{Message, MessageHeader};

/// What is reserved for a message at once while the connection's larger reservations are not used up.
const FIRST_RESERVE_BYTES: usize = 64 << 10;

/// What is reserved for a message when they are.
const SMALL_RESERVE_BYTES: usize = 4 << 10;

/// How much may be reserved ahead of received bytes on a connection that has delivered no large message yet.
const SPECULATION_BYTES: usize = 256 << 10;

/// The memory of one connection's incomplete messages.
#[derive(Debug)]
pub(super) struct Budget {
    /// Most that may be held.
    pub(super) limit: usize,
    /// What is held: the capacity of all buffers.
    pub(super) held: usize,
    /// Body length of the largest message completed.
    pub(super) largest: usize,
}

impl Budget {
    /// How much of a message's body to reserve before any of it has arrived.
    ///
    /// The whole of it where it is no longer than what is usual on the connection; lengths that are only claimed get
    /// little, so that memory follows the bytes received.
    fn first_reserve(&self, length: usize) -> usize {
        let usual = length.min(self.largest.max(FIRST_RESERVE_BYTES));
        let speculation = SPECULATION_BYTES.max(self.largest.saturating_mul(2));
        if self.held.saturating_add(usual) <= speculation {
            usual
        } else {
            length.min(SMALL_RESERVE_BYTES)
        }
    }
}

/// A message whose chunks have not all arrived.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) header: MessageHeader,
    buf: Vec<u8>,
    head_room: usize,
    /// Length of the buffer when the message is complete.
    end: usize,
    tail_room: usize,
}

impl Partial {
    /// Begins a message, with as much memory as the budget thinks right. `None` when the budget is exhausted; it then
    /// carries in `held` what was asked for.
    pub(super) fn begin(
        header: MessageHeader,
        head_room: usize,
        tail_room: usize,
        budget: &mut Budget,
    ) -> Option<Partial> {
        let length = header.length as usize;
        let mut buf = Vec::with_capacity(head_room + budget.first_reserve(length) + tail_room);
        buf.resize(head_room, 0);
        budget.held += buf.capacity();
        (budget.held <= budget.limit).then_some(Partial {
            header,
            buf,
            head_room,
            end: head_room + length,
            tail_room,
        })
    }

    /// Bytes of the body still missing.
    pub(super) fn missing(&self) -> usize {
        self.end.saturating_sub(self.buf.len())
    }

    /// The memory it takes to complete the message.
    pub(super) fn needed(&self) -> usize {
        self.buf.capacity().max(self.end.saturating_add(self.tail_room))
    }

    /// Appends received bytes, of which there are at most [`missing`](Partial::missing). `false` when the budget is
    /// exhausted.
    pub(super) fn append(&mut self, bytes: &[u8], budget: &mut Budget) -> bool {
        let needed = self.buf.len() + bytes.len();
        if needed > self.buf.capacity() {
            self.grow(needed, budget);
        }
        self.buf.extend_from_slice(bytes);
        budget.held <= budget.limit
    }

    /// Doubles the buffer, up to what the message needs; less when the budget would not bear it.
    fn grow(&mut self, needed: usize, budget: &mut Budget) {
        let before = self.buf.capacity();
        let free = budget.limit.saturating_sub(budget.held);
        let wanted = before
            .saturating_mul(2)
            .max(needed + self.tail_room)
            .min(self.end + self.tail_room);
        let target = wanted.min(before.saturating_add(free));
        self.buf.reserve_exact(target.max(needed) - self.buf.len());
        budget.held += self.buf.capacity() - before;
    }

    /// Gives the memory back to the budget.
    pub(super) fn release(&self, budget: &mut Budget) {
        budget.held = budget.held.saturating_sub(self.buf.capacity());
    }

    /// The complete message, whose memory is no longer the budget's.
    pub(super) fn finish(self, budget: &mut Budget) -> Message {
        self.release(budget);
        budget.largest = budget.largest.max(self.header.length as usize);
        Message {
            header: self.header,
            buf: self.buf,
            head_room: self.head_room,
        }
    }
}
