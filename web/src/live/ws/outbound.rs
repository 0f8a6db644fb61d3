//! [`Outbox`]: what is to be written, control frames among the media.

use std::io::{self, IoSlice};

use bytes::{Buf, BytesMut};
use spillway_flv::ws;
use spillway_hub::{Batch, Format};

/// Control bytes that may wait; further pongs are left out, as RFC 6455 §5.5.3 allows.
const MAX_CONTROL_BYTES: usize = 1024;
/// RFC 6455 §5.5.
const MAX_CONTROL_PAYLOAD_BYTES: usize = 125;

/// Control frames and a batch of media frames on their way out. A control frame goes between two media
/// frames, before those that have not begun.
#[derive(Debug)]
pub(super) struct Outbox {
    control: BytesMut,
    /// The frames to send; filled while the outbox is empty.
    pub(super) media: Batch,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            control: BytesMut::new(),
            media: Batch::new(Format::Ws),
        }
    }

    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.control.is_empty() && self.media.is_done()
    }

    /// Puts the FLV file header as a binary message.
    pub(super) fn flv_header(&mut self, header: &[u8]) {
        let (head, length) = ws::frame_head(header.len());
        self.control.extend(head.iter().take(length));
        self.control.extend_from_slice(header);
    }

    /// Answers a ping.
    pub(super) fn pong(&mut self, payload: &[u8]) {
        if self.control.len() + payload.len() <= MAX_CONTROL_BYTES {
            self.control_frame(0x8A, payload);
        }
    }

    /// Puts a close frame and drops the media that has not begun.
    pub(super) fn close(&mut self, code: u16, text: &str) {
        self.media.drop_unsent(|_| true);
        let payload = [&code.to_be_bytes(), text.as_bytes()].concat();
        self.control_frame(0x88, &payload);
    }

    fn control_frame(&mut self, first: u8, payload: &[u8]) {
        let payload = payload.get(..MAX_CONTROL_PAYLOAD_BYTES).unwrap_or(payload);
        self.control.extend([first, payload.len() as u8]);
        self.control.extend_from_slice(payload);
    }

    /// Writes with `write` (one vectored write that says how much it took); returns the media bytes among what
    /// was taken.
    ///
    /// # Errors
    /// What `write` answers.
    pub(super) fn write_with(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<u64> {
        if self.control.is_empty() {
            return self.media.write_with(write).map(|count| count as u64);
        }
        if !self.media.at_message_start() {
            // No slice has more than one message in it: this goes no further than the end of the one begun.
            let written = self
                .media
                .write_with(|slices| write(slices.get(..1).unwrap_or(slices)));
            return written.map(|count| count as u64);
        }
        let count = write(&[IoSlice::new(&self.control)])?;
        self.control.advance(count.min(self.control.len()));
        Ok(0)
    }
}
