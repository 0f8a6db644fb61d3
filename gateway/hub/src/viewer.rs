//! [`Viewer`]: a player's place in a stream, and what becomes of it when the player is too slow.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::cursor::{Cursor, CursorRead};
use crate::egress::{Format, Left, Seat, Sink};
use crate::frame::{Frame, Role};
use crate::hub::Hub;
use crate::ring::Slot;
use crate::session::{EndReason, SessionInfo};
use crate::stats::DropReason;
use crate::stream::{Phase, Stream};

/// Which tracks a stream has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracks {
    /// There is video.
    pub has_video: bool,
    /// There is audio.
    pub has_audio: bool,
}

/// The sequence numbers of the headers the player has.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Sent {
    metadata: Option<u64>,
    video: Option<u64>,
    audio: Option<u64>,
}

impl Sent {
    /// Whether the player needs this frame; remembers that it gets it.
    pub(crate) fn take(&mut self, frame: &Frame) -> bool {
        let last = match (frame.role(), frame.kind()) {
            (Role::Metadata, _) => &mut self.metadata,
            (Role::Header, spillway_flv::tag::TagType::Video) => &mut self.video,
            (Role::Header, _) => &mut self.audio,
            _ => return true,
        };
        let news = last.is_none_or(|seq| seq < frame.seq());
        if news {
            *last = Some(frame.seq());
        }
        news
    }

    /// Adds what someone else sent to the player.
    pub(crate) fn merge(&mut self, other: &Sent) {
        self.metadata = self.metadata.max(other.metadata);
        self.video = self.video.max(other.video);
        self.audio = self.audio.max(other.audio);
    }
}

/// One player of a stream: a cursor, never a queue.
///
/// It starts at the newest key frame with the headers that belong to it. When it lags past
/// `play.max_lag` and there is a newer key frame, or when the ring no longer holds its place, it goes on at
/// the newest key frame; headers it already has are not repeated.
#[derive(Debug)]
pub struct Viewer {
    hub: Hub,
    stream: Arc<Stream>,
    info: SessionInfo,
    wake: watch::Receiver<()>,
    cursor: Option<Cursor>,
    sent: Sent,
    /// After an overrun: the first join point good enough to go on from.
    resume_from: u64,
    /// Where an overrun began that is not counted yet.
    lost_from: Option<u64>,
    started: Instant,
    bytes: u64,
    dropped: u64,
    ended: bool,
}

impl Viewer {
    /// The stream must already count this viewer.
    pub(crate) fn new(hub: Hub, stream: Arc<Stream>, info: SessionInfo) -> Self {
        stream.plan_flush();
        tracing::info!(session = %info.id, peer = %info.peer, protocol = info.protocol.label(), stream = %stream.key(), "viewer started");
        Self {
            wake: stream.subscribe(),
            hub,
            stream,
            info,
            cursor: None,
            sent: Sent::default(),
            resume_from: 0,
            lost_from: None,
            started: Instant::now(),
            bytes: 0,
            dropped: 0,
            ended: false,
        }
    }

    /// The stream it watches.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The session it belongs to.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// The tracks there are: what an FLV header must say.
    pub fn tracks(&self) -> Tracks {
        let init = self.stream.init();
        Tracks {
            has_video: init.video.is_some(),
            has_audio: init.audio.is_some(),
        }
    }

    /// Waits for the next frames and puts them into `batch`, which is emptied first: metadata and sequence
    /// headers before the first media frame, then everything from the newest key frame on. A batch is at
    /// most 64 frames or 256 KiB and one frame. Cancelling the wait loses nothing.
    ///
    /// # Errors
    /// The reason why there will be no more frames.
    pub async fn next(&mut self, batch: &mut Vec<Arc<Frame>>) -> Result<(), EndReason> {
        loop {
            if self.poll(batch)? {
                return Ok(());
            }
            if self.wake.changed().await.is_err() {
                return Err(EndReason::StreamEnded);
            }
        }
    }

    /// The same without waiting: `false` when there is nothing to send yet.
    ///
    /// # Errors
    /// The reason why there will be no more frames.
    pub fn poll(&mut self, batch: &mut Vec<Arc<Frame>>) -> Result<bool, EndReason> {
        batch.clear();
        // First, so that a change of phase after this is a wake-up.
        self.wake.borrow_and_update();
        let phase = self.stream.phase();
        let flushed = self.stream.flushed();
        if phase == Phase::Shutdown {
            return Err(EndReason::Shutdown);
        }
        while self.fill(flushed, batch) {
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        if phase.is_open() {
            Ok(false)
        } else {
            Err(EndReason::StreamEnded)
        }
    }

    /// One step: `false` when there is nothing up to `flushed`.
    fn fill(&mut self, flushed: u64, batch: &mut Vec<Arc<Frame>>) -> bool {
        let Some(mut cursor) = self.cursor else {
            return self.join(batch);
        };
        if let Some(skipped) = self.lagging(cursor) {
            self.skip_ahead();
            self.dropped(DropReason::Lag, skipped);
            return true;
        }
        let read = cursor.read(self.stream.ring(), flushed, batch);
        self.cursor = Some(cursor);
        match read {
            CursorRead::Empty => false,
            CursorRead::Frames => {
                let enhanced = self.info.enhanced;
                batch.retain(|frame| (enhanced || frame.role() != Role::SideInfo) && self.sent.take(frame));
                true
            }
            CursorRead::Overrun => {
                self.skip_ahead();
                self.lost_from = Some(cursor.next);
                true
            }
        }
    }

    /// Goes to the newest join point, with the headers the player does not have yet.
    fn join(&mut self, batch: &mut Vec<Arc<Frame>>) -> bool {
        let ring = self.stream.ring();
        let Some(seq) = ring.join_point().filter(|seq| *seq >= self.resume_from) else {
            return false;
        };
        let Slot::Entry(frame) = ring.get(seq) else {
            return false;
        };
        let newest = self.stream.init();
        if let Some(metadata) = newest.metadata.as_ref().filter(|m| self.sent.take(m)) {
            batch.push(metadata.clone());
        }
        let headers = frame.init().map_or(&newest, |init| init);
        batch.extend(headers.headers().filter(|h| self.sent.take(h)).cloned());
        self.cursor = Some(Cursor { next: seq });
        if let Some(from) = self.lost_from.take() {
            self.dropped(DropReason::Overrun, seq.saturating_sub(from));
        }
        true
    }

    /// How many frames a jump to the newest key frame would skip, if the player lags too far and there is
    /// one to jump to.
    fn lagging(&self, cursor: Cursor) -> Option<u64> {
        let ring = self.stream.ring();
        let join = ring.join_point().filter(|seq| *seq > cursor.next)?;
        let Slot::Entry(frame) = ring.get(cursor.next) else {
            return None;
        };
        let lag_ms = ring.newest_dts_ms().saturating_sub(frame.dts_ms());
        let max_ms = i64::try_from(self.stream.options().max_lag.as_millis()).unwrap_or(i64::MAX);
        (lag_ms > max_ms).then_some(join - cursor.next)
    }

    fn dropped(&mut self, reason: DropReason, frames: u64) {
        self.dropped += frames;
        self.stream.stats().dropped(reason, frames);
        self.hub.stats().dropped(reason, frames);
        tracing::debug!(
            session = %self.info.id, stream = %self.stream.key(), reason = reason.label(), frames,
            "viewer is too slow and goes on at the newest key frame"
        );
    }

    /// Skips to a key frame that the player has not had yet: for one that was paused.
    pub fn skip_ahead(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            self.resume_from = cursor.next;
        }
    }

    /// Takes a seat in a lane of the stream, which from now on writes to `sink` in this viewer's place; `None`
    /// when the viewer is not up to date (its own task must bring it there first) or the stream is over. Everything handed out by
    /// [`Viewer::next`] must have been written.
    pub fn sit(&mut self, format: Format, sink: &Arc<impl Sink + 'static>) -> Option<Seat> {
        let flushed = self.stream.flushed();
        let cursor = self
            .cursor
            .filter(|cursor| cursor.next >= flushed && self.stream.phase().is_open())?;
        self.cursor = None;
        let sink = sink.clone();
        Some(
            self.stream
                .seat((format, self.info.enhanced), sink, cursor.next, self.sent),
        )
    }

    /// Leaves the seat; what [`Left`] says is half written must be finished before anything else.
    pub fn stand(&mut self, seat: Seat) -> Left {
        let left = seat.leave();
        self.cursor = Some(Cursor { next: left.next });
        self.sent.merge(&left.sent);
        self.bytes += left.bytes;
        left
    }

    /// Counts bytes that the viewer's own task wrote to the player.
    pub fn sent(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.stream.count_sent(self.info.protocol, bytes);
    }

    /// Ends the session with the reason that its log line and metric carry.
    pub fn end(mut self, reason: EndReason) {
        self.finish(reason);
    }

    fn finish(&mut self, reason: EndReason) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.stream.stats().viewers[self.info.protocol.index()].sub(1);
        self.hub.viewer_left();
        self.stream.plan_flush();
        self.hub.stats().viewer_ended(self.info.protocol, reason);
        tracing::info!(
            session = %self.info.id, peer = %self.info.peer, protocol = self.info.protocol.label(),
            stream = %self.stream.key(), reason = reason.label(), bytes = self.bytes,
            dropped_frames = self.dropped, seconds = self.started.elapsed().as_secs_f64(),
            "viewer ended"
        );
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.finish(EndReason::of_drop());
    }
}
