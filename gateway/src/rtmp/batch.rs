//! [`RtmpBatch`]: frames on their way to one player, as slices of the shared buffers.

use std::io::IoSlice;
use std::sync::Arc;

use spillway_hub::{Frame, MESSAGE_STREAM_ID};
use spillway_rtmp::chunk::head::{ChunkHead, OUT_CHUNK_SIZE};

/// The slices of one vectored write: Linux takes 1024, more than 64 gains nothing.
const MAX_SLICES: usize = 64;

/// A batch and how far it is written. Holds no bytes of its own: heads and bodies are the frames'.
#[derive(Debug, Default)]
pub(crate) struct RtmpBatch {
    frames: Vec<Arc<Frame>>,
    /// Heads for a player on another message stream than [`MESSAGE_STREAM_ID`]; empty otherwise.
    heads: Vec<ChunkHead>,
    /// The frame being written, and how many of its bytes are.
    at: usize,
    written: usize,
}

impl RtmpBatch {
    /// Everything was written.
    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.frames.len()
    }

    /// No message is half written: something else may go between.
    pub(crate) fn at_message_start(&self) -> bool {
        self.written == 0
    }

    /// The vector to fill with the next frames, once this batch is done; call [`RtmpBatch::begin`] afterwards.
    pub(crate) fn refill(&mut self) -> &mut Vec<Arc<Frame>> {
        self.at = 0;
        self.written = 0;
        self.heads.clear();
        &mut self.frames
    }

    /// Prepares the frames just filled in for a player on this message stream.
    pub(crate) fn begin(&mut self, message_stream_id: u32) {
        if message_stream_id != MESSAGE_STREAM_ID {
            self.heads.extend(
                self.frames
                    .iter()
                    .map(|f| f.chunk_head().with_message_stream(message_stream_id)),
            );
        }
    }

    /// Drops the messages that are not begun and match; one that is half written must be finished.
    pub(crate) fn drop_unsent(&mut self, matches: impl Fn(&Frame) -> bool) {
        let keep = self.at + usize::from(self.written > 0);
        let mut index = 0;
        let heads_follow = !self.heads.is_empty();
        let mut kept = Vec::with_capacity(self.heads.len());
        let heads = &self.heads;
        self.frames.retain(|frame| {
            let retain = index < keep || !matches(frame);
            if retain && heads_follow {
                kept.extend(heads.get(index).copied());
            }
            index += 1;
            retain
        });
        self.heads = kept;
    }

    /// Writes with `write` (one vectored write that says how much it took) and moves on by as much.
    pub(crate) fn write_with(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        let mut skip = self.written;
        'frames: for (frame, head) in self.pending() {
            for piece in pieces(frame, head) {
                if skip >= piece.len() {
                    skip -= piece.len();
                    continue;
                }
                let Some(slot) = slices.get_mut(count) else {
                    break 'frames;
                };
                *slot = IoSlice::new(piece.get(skip..).unwrap_or_default());
                skip = 0;
                count += 1;
            }
        }
        let taken = write(slices.get(..count).unwrap_or_default())?;
        self.advance(taken);
        Ok(taken)
    }

    fn advance(&mut self, taken: usize) {
        self.written += taken;
        loop {
            let next = self
                .pending()
                .next()
                .map(|(frame, head)| encoded_len(frame, head));
            let Some(length) = next else { return };
            if self.written < length {
                return;
            }
            self.written -= length;
            self.at += 1;
        }
    }

    fn pending(&self) -> impl Iterator<Item = (&Frame, &ChunkHead)> {
        self.frames
            .iter()
            .enumerate()
            .skip(self.at)
            .map(|(index, frame)| {
                let head = self.heads.get(index).unwrap_or_else(|| frame.chunk_head());
                (&**frame, head)
            })
    }
}

/// A message as chunks of [`OUT_CHUNK_SIZE`]: head, data, continuation head, data, …
fn pieces<'a>(frame: &'a Frame, head: &'a ChunkHead) -> impl Iterator<Item = &'a [u8]> {
    let chunks = frame.body().chunks(OUT_CHUNK_SIZE as usize).enumerate();
    let empty = frame.body().is_empty().then(|| head.head());
    empty.into_iter().chain(
        chunks.flat_map(move |(n, data)| [if n == 0 { head.head() } else { head.continuation() }, data]),
    )
}

fn encoded_len(frame: &Frame, head: &ChunkHead) -> usize {
    let body = frame.body().len();
    let continuations = body.div_ceil(OUT_CHUNK_SIZE as usize).saturating_sub(1);
    head.head().len() + body + continuations * head.continuation().len()
}
