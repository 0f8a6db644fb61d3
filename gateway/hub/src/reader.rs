//! [`Reader`]: a cursor without a player's policy, for packagers, recorders and analysers.

use std::sync::Arc;

use tokio::sync::watch;

use crate::cursor::{Cursor, CursorRead};
use crate::frame::Frame;
use crate::ring::Slot;
use crate::stream::{Phase, Stream};

/// What a reader got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderEvent {
    /// Frames are in the batch.
    Frames,
    /// The ring ran ahead of the reader: frames were lost; it goes on at the newest join point.
    Overrun,
    /// Everything written was read, and this is the stream's phase now: returned once per change of phase.
    Phase(Phase),
}

/// Reads every frame of a stream, headers included.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<Stream>,
    wake: watch::Receiver<()>,
    cursor: Option<Cursor>,
    reported: Option<Phase>,
}

impl Reader {
    /// Starts at the oldest join point whose decode time is at most `history_ms` behind the newest frame's;
    /// when there is none, at the next join point that comes.
    pub fn new(stream: Arc<Stream>, history_ms: i64) -> Self {
        let wake = stream.subscribe();
        let ring = stream.ring();
        let oldest_dts_ms = ring.newest_dts_ms().saturating_sub(history_ms);
        let start = (ring.tail()..ring.head()).find(|seq| {
            matches!(ring.get(*seq), Slot::Entry(f) if f.init().is_some() && f.dts_ms() >= oldest_dts_ms)
        });
        let cursor = start.or_else(|| ring.join_point()).map(|next| Cursor { next });
        Self {
            wake,
            cursor,
            reported: None,
            stream,
        }
    }

    /// The stream it reads.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Waits for frames (into `batch`, emptied first) or for a change of phase. Cancelling loses nothing.
    pub async fn next(&mut self, batch: &mut Vec<Arc<Frame>>) -> ReaderEvent {
        loop {
            batch.clear();
            // First, so that a change of phase after this is a wake-up.
            self.wake.borrow_and_update();
            let phase = self.stream.phase();
            if self.cursor.is_none() {
                self.cursor = self.stream.ring().join_point().map(|next| Cursor { next });
            }
            if let Some(cursor) = &mut self.cursor {
                // A packager has no use for merged writes: it reads up to the head, flushed or not.
                match cursor.read(self.stream.ring(), self.stream.ring().head(), batch) {
                    CursorRead::Frames => return ReaderEvent::Frames,
                    CursorRead::Overrun => {
                        self.cursor = None;
                        return ReaderEvent::Overrun;
                    }
                    CursorRead::Empty => {}
                }
            }
            if self.reported != Some(phase) {
                self.reported = Some(phase);
                return ReaderEvent::Phase(phase);
            }
            if self.wake.changed().await.is_err() {
                return ReaderEvent::Phase(Phase::Ended);
            }
        }
    }
}
