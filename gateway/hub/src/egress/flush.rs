//! [`Flush`]: frames rendered once for everyone who sits in a lane.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use super::format::Format;
use crate::frame::{Frame, Role};

/// Pieces below this are copied together, once per flush: to the kernel many small slices cost more, for each
/// viewer, than one. Larger ones are shared as they are.
const JOIN_BELOW: usize = 4096;

/// A flush's bytes: small pieces joined in one buffer, large ones where they are.
#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    joined: Vec<u8>,
    spans: Vec<Span<'a>>,
    frames: Vec<Rendered<'a>>,
    bytes: usize,
    headers: bool,
}

#[derive(Debug)]
enum Span<'a> {
    Joined(Range<usize>),
    Shared(&'a [u8]),
}

/// One frame of the flush.
#[derive(Debug)]
struct Rendered<'a> {
    frame: &'a Arc<Frame>,
    /// The bytes of the flush before it.
    start: usize,
}

impl<'a> Layout<'a> {
    pub(super) fn of(format: Format, frames: impl Iterator<Item = &'a Arc<Frame>>) -> Self {
        let mut layout = Self::default();
        for frame in frames {
            layout.headers |= matches!(frame.role(), Role::Header | Role::Metadata);
            layout.frames.push(Rendered {
                frame,
                start: layout.bytes,
            });
            format.pieces(frame, frame.chunk_head(), |piece| layout.add(piece));
        }
        layout
    }

    fn add(&mut self, piece: &'a [u8]) {
        self.bytes += piece.len();
        if piece.len() >= JOIN_BELOW {
            self.spans.push(Span::Shared(piece));
            return;
        }
        let start = self.joined.len();
        self.joined.extend_from_slice(piece);
        match self.spans.last_mut() {
            Some(Span::Joined(range)) => range.end = self.joined.len(),
            _ => self.spans.push(Span::Joined(start..self.joined.len())),
        }
    }
}

/// The slices of one write, for every seat the same, and what they are made of.
#[derive(Debug)]
pub(super) struct Flush<'a> {
    layout: &'a Layout<'a>,
    slices: Vec<IoSlice<'a>>,
}

impl<'a> Flush<'a> {
    pub(super) fn new(layout: &'a Layout<'a>) -> Self {
        let slices = layout.spans.iter().map(|span| match span {
            Span::Joined(range) => IoSlice::new(layout.joined.get(range.clone()).unwrap_or_default()),
            Span::Shared(piece) => IoSlice::new(piece),
        });
        Self {
            slices: slices.collect(),
            layout,
        }
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> usize {
        self.layout.bytes
    }

    /// Where the bytes begin that a seat needs whose next frame is `seq`.
    pub(super) fn start_of(&self, seq: u64) -> usize {
        let frames = &self.layout.frames;
        let from = frames.partition_point(|rendered| rendered.frame.seq() < seq);
        frames
            .get(from)
            .map_or(self.layout.bytes, |rendered| rendered.start)
    }

    /// Shows the slices from byte `start` on to `write`.
    pub(super) fn write_from<T>(&self, start: usize, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        if start == 0 {
            return write(&self.slices);
        }
        let mut skip = start;
        let mut rest = Vec::with_capacity(self.slices.len());
        for slice in &self.slices {
            if let Some(bytes) = slice.get(skip..).filter(|bytes| !bytes.is_empty()) {
                rest.push(IoSlice::new(bytes));
            }
            skip = skip.saturating_sub(slice.len());
        }
        write(&rest)
    }

    /// The frame that byte `at` falls into, and how many of its bytes come before.
    pub(super) fn frame_at(&self, at: usize) -> Option<(&Arc<Frame>, usize)> {
        let frames = &self.layout.frames;
        let reached = frames.partition_point(|rendered| rendered.start <= at);
        let current = frames.get(reached.checked_sub(1)?)?;
        Some((current.frame, at - current.start))
    }

    /// The metadata and sequence headers below `seq`.
    pub(super) fn headers_below(&self, seq: u64) -> impl Iterator<Item = &Arc<Frame>> {
        let frames = self.layout.frames.iter().filter(|_| self.layout.headers);
        frames
            .map(|rendered| rendered.frame)
            .take_while(move |frame| frame.seq() < seq)
    }
}
