//! [`Outbox`]: what is to be written, as slices of the stream's own buffers.

use std::io::IoSlice;
use std::sync::Arc;

use spillway_flv::ws;
use spillway_hub::Frame;

/// Media frames per write: two slices each.
const FRAMES_PER_WRITE: usize = 32;
/// The slices of one write: control bytes and the frames.
pub(super) const MAX_SLICES: usize = 2 * FRAMES_PER_WRITE + 1;
/// Control bytes that may wait; further pongs are left out, as RFC 6455 §5.5.3 allows.
const MAX_CONTROL_BYTES: usize = 1024;

/// Control frames and a batch of media frames on their way out. A control frame goes between two media
/// frames, before those that have not begun.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    control: Vec<u8>,
    control_at: usize,
    /// The frames to send; filled by the viewer while the outbox is empty.
    pub(super) batch: Vec<Arc<Frame>>,
    next: usize,
    /// Bytes of the next frame, head and tag, that are written already.
    offset: usize,
}

impl Outbox {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.next >= self.batch.len()
    }

    /// Goes on with a frame of which `written` bytes, head and tag, are out already. The outbox must be empty.
    pub(super) fn resume(&mut self, frame: Arc<Frame>, written: usize) {
        self.batch = vec![frame];
        self.next = 0;
        self.offset = written;
    }

    /// Puts the FLV file header as a binary message.
    pub(super) fn flv_header(&mut self, header: &[u8]) {
        let (head, length) = ws::frame_head(header.len());
        self.control.extend(head.iter().take(length));
        self.control.extend(header);
    }

    /// Answers a ping.
    pub(super) fn pong(&mut self, payload: &[u8]) {
        if self.control.len() + payload.len() <= MAX_CONTROL_BYTES {
            self.control_frame(0x8A, payload);
        }
    }

    /// Puts a close frame and drops the media that has not begun.
    pub(super) fn close(&mut self, code: u16, text: &str) {
        self.batch.truncate(self.next + usize::from(self.offset > 0));
        let payload = [&code.to_be_bytes(), text.as_bytes()].concat();
        self.control_frame(0x88, &payload);
    }

    fn control_frame(&mut self, first: u8, payload: &[u8]) {
        let payload = payload.get(..125).unwrap_or(payload);
        self.control.extend([first, payload.len() as u8]);
        self.control.extend(payload);
    }

    /// Lists what to write next; returns how many slices there are.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let mut free = slices.iter_mut();
        let mut used = 0;
        let mut put = |bytes: &'a [u8]| {
            if bytes.is_empty() {
                return;
            }
            if let Some(slice) = free.next() {
                *slice = IoSlice::new(bytes);
                used += 1;
            }
        };
        let control = self.control.get(self.control_at..).unwrap_or_default();
        let frames = self.batch.get(self.next..).unwrap_or_default();
        let mut frames = frames.iter().take(FRAMES_PER_WRITE);
        if self.offset > 0
            && let Some(frame) = frames.next()
        {
            let (head, tag) = (frame.ws_head(), frame.tag());
            let into_tag = self.offset.saturating_sub(head.len());
            put(head.get(self.offset..).unwrap_or_default());
            put(tag.get(into_tag..).unwrap_or_default());
        }
        put(control);
        for frame in frames {
            put(frame.ws_head());
            put(frame.tag());
        }
        used
    }

    /// Takes note of `written` bytes, in the order of [`Outbox::slices`].
    pub(super) fn advance(&mut self, mut written: usize) {
        if self.offset > 0 {
            written = self.advance_frame(written);
        }
        let control = written.min(self.control.len() - self.control_at);
        self.control_at += control;
        written -= control;
        if self.control_at == self.control.len() {
            self.control.clear();
            self.control_at = 0;
        }
        while written > 0 {
            written = self.advance_frame(written);
        }
    }

    /// Returns the bytes that belong to what comes after this frame.
    fn advance_frame(&mut self, written: usize) -> usize {
        let Some(frame) = self.batch.get(self.next) else {
            return 0;
        };
        let left = (frame.ws_head().len() + frame.tag().len()).saturating_sub(self.offset);
        if written < left {
            self.offset += written;
            return 0;
        }
        self.offset = 0;
        self.next += 1;
        if self.next == self.batch.len() {
            self.batch.clear();
            self.next = 0;
        }
        written - left
    }
}
