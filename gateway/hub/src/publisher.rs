//! [`Publisher`]: the handle a publishing session pushes its messages through.

use std::sync::Arc;

use spillway_flv::tag::{HEAD_LEN, TagType};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hub::Hub;
use crate::session::{EndReason, SessionInfo};
use crate::stream::Stream;
use crate::terms::PublishTerms;
use crate::writer::{Arrival, Outcome};

/// The right to write to a stream until someone newer takes it. Dropping it lets the stream linger.
#[derive(Debug)]
pub struct Publisher {
    hub: Hub,
    stream: Arc<Stream>,
    epoch: u64,
    replaced: CancellationToken,
    info: SessionInfo,
    started: Arrival,
    bytes: u64,
    malformed: u64,
    last_media: Option<Instant>,
    ended: bool,
}

impl Publisher {
    pub(crate) fn new(
        hub: Hub,
        stream: Arc<Stream>,
        epoch: u64,
        replaced: CancellationToken,
        info: SessionInfo,
    ) -> Self {
        hub.stats().publishes_total.add(1);
        tracing::info!(session = %info.id, peer = %info.peer, stream = %stream.key(), epoch, "publisher started");
        Self {
            hub,
            stream,
            epoch,
            replaced,
            info,
            started: Arrival::now(),
            bytes: 0,
            malformed: 0,
            last_media: None,
            ended: false,
        }
    }

    /// The stream it writes to.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Sets what its stream may have, until somebody else publishes it.
    pub fn set_terms(&self, terms: PublishTerms) {
        *self.stream.terms.lock() = terms;
    }

    /// Fires when the stream is no longer this publisher's; [`Publisher::loss_reason`] says why.
    pub fn lost(&self) -> CancellationToken {
        self.replaced.clone()
    }

    /// Why the stream was lost.
    pub fn loss_reason(&self) -> EndReason {
        self.stream.loss_reason()
    }

    /// Writes one message: `buf` is [`HEAD_LEN`](spillway_flv::tag::HEAD_LEN) bytes of room and then the
    /// message's body; it becomes the one buffer that everyone shares. The timestamp is the publisher's own
    /// 32-bit clock in milliseconds.
    ///
    /// # Errors
    /// The reason why the stream is no longer this publisher's.
    pub fn push(&mut self, kind: TagType, timestamp_ms: u32, buf: Vec<u8>) -> Result<(), EndReason> {
        let bytes = buf.len().saturating_sub(HEAD_LEN) as u64;
        let now = self.started.later();
        let outcome = self.stream.push(self.epoch, kind, timestamp_ms, buf, now)?;
        self.bytes += bytes;
        if kind != TagType::Script && outcome != Outcome::Malformed {
            self.last_media = Some(now.at);
        }
        if outcome == Outcome::Malformed {
            self.malformed += 1;
            if self.malformed.is_power_of_two() {
                tracing::warn!(
                    session = %self.info.id, stream = %self.stream.key(), kind = ?kind, count = self.malformed,
                    "publisher sent a message that is no valid FLV audio or video; it was left out"
                );
            }
        }
        Ok(())
    }

    /// When it last wrote audio or video.
    pub fn last_media(&self) -> Option<Instant> {
        self.last_media
    }

    /// Ends the session with the reason that its log line and metric carry.
    pub fn end(mut self, reason: EndReason) {
        self.finish(reason);
    }

    fn finish(&mut self, reason: EndReason) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.stream.release(self.epoch);
        self.hub.stats().publisher_ended(reason);
        tracing::info!(
            session = %self.info.id, peer = %self.info.peer, stream = %self.stream.key(),
            reason = reason.label(), bytes = self.bytes, seconds = self.started.at.elapsed().as_secs_f64(),
            "publisher ended"
        );
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.finish(EndReason::of_drop());
    }
}
