//! [`Cursor`]: one reader's place in a ring.

use std::sync::Arc;

use crate::frame::Frame;
use crate::ring::{Ring, Slot};

/// The frames of one batch, at most: what one vectored write can take.
pub(crate) const BATCH_FRAMES: usize = 64;
/// The bytes of one batch, at most (and one frame): what a reader that stops keeps alive.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CursorRead {
    /// Nothing new up to the limit.
    Empty,
    /// Frames were appended.
    Frames,
    /// The ring no longer holds the cursor's place.
    Overrun,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) next: u64,
}

impl Cursor {
    /// Appends frames below sequence number `limit` until the batch is full.
    pub(crate) fn read(
        &mut self,
        ring: &Ring<Arc<Frame>>,
        limit: u64,
        batch: &mut Vec<Arc<Frame>>,
    ) -> CursorRead {
        let mut bytes = 0;
        let before = batch.len();
        while self.next < limit && batch.len() < BATCH_FRAMES && bytes < BATCH_BYTES {
            match ring.get(self.next) {
                Slot::Entry(frame) => {
                    bytes += frame.tag().len();
                    batch.push(frame);
                    self.next += 1;
                }
                Slot::Gone if batch.len() == before => return CursorRead::Overrun,
                Slot::Gone | Slot::Future => break,
            }
        }
        if batch.len() == before {
            CursorRead::Empty
        } else {
            CursorRead::Frames
        }
    }
}
