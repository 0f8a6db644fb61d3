//! [`Batch`]: frames on their way to one viewer, as slices of the shared buffers.

use std::io::{self, IoSlice};
use std::sync::Arc;

use spillway_rtmp::chunk::head::ChunkHead;

use super::format::Format;
use crate::frame::{Frame, MESSAGE_STREAM_ID};

/// The slices of one vectored write: Linux takes 1024, more than 64 gains nothing.
const MAX_SLICES: usize = 64;

/// A batch and how far it is written. It holds no bytes of its own: heads and bodies are the frames'.
#[derive(Debug)]
pub struct Batch {
    format: Format,
    frames: Vec<Arc<Frame>>,
    /// Heads for a player on another message stream than [`MESSAGE_STREAM_ID`]; empty otherwise.
    heads: Vec<ChunkHead>,
    /// The frame being written, and how many of its bytes are.
    at: usize,
    written: usize,
}

impl Batch {
    /// An empty batch for connections of this kind.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            frames: Vec::new(),
            heads: Vec::new(),
            at: 0,
            written: 0,
        }
    }

    /// Everything was written.
    pub fn is_done(&self) -> bool {
        self.at >= self.frames.len()
    }

    /// No message is half written: something else may go between.
    pub fn at_message_start(&self) -> bool {
        self.written == 0
    }

    /// The vector to fill with the next frames, once this batch is done; call [`Batch::begin`] afterwards.
    pub fn refill(&mut self) -> &mut Vec<Arc<Frame>> {
        self.at = 0;
        self.written = 0;
        self.heads.clear();
        &mut self.frames
    }

    /// Prepares the frames just filled in for an RTMP player on this message stream.
    pub fn begin(&mut self, message_stream_id: u32) {
        if message_stream_id != MESSAGE_STREAM_ID {
            self.heads.extend(
                self.frames
                    .iter()
                    .map(|f| f.chunk_head().with_message_stream(message_stream_id)),
            );
        }
    }

    /// Goes on with a frame of which `written` bytes are out already. The batch must be done.
    pub fn resume(&mut self, frame: Arc<Frame>, written: usize) {
        let frames = self.refill();
        frames.clear();
        frames.push(frame);
        self.written = written;
    }

    /// Drops the messages that are not begun and match; one that is half written must be finished.
    pub fn drop_unsent(&mut self, matches: impl Fn(&Frame) -> bool) {
        let begun = self.at + usize::from(self.written > 0);
        let keep: Vec<bool> = self
            .frames
            .iter()
            .enumerate()
            .map(|(index, frame)| index < begun || !matches(frame))
            .collect();
        let mut frame_keep = keep.iter().copied();
        self.frames.retain(|_| frame_keep.next().unwrap_or(true));
        let mut head_keep = keep.iter().copied();
        self.heads.retain(|_| head_keep.next().unwrap_or(true));
    }

    /// Writes with `write` (one vectored write that says how much it took) and moves on by as much.
    ///
    /// # Errors
    /// What `write` answers.
    pub fn write_with(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        let mut skip = self.written;
        for (frame, head) in self.pending() {
            self.format.pieces(frame, head, |piece| {
                if skip >= piece.len() {
                    skip -= piece.len();
                } else if let Some(slot) = slices.get_mut(count) {
                    *slot = IoSlice::new(piece.get(skip..).unwrap_or_default());
                    skip = 0;
                    count += 1;
                }
            });
            if count == MAX_SLICES {
                break;
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
                .map(|(frame, head)| self.format.encoded_len(frame, head));
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
