//! The packager task: reads a stream's ring, fills its window.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spillway_flv::tag::TagType;
use spillway_hls::Segment;
use spillway_media::sample::{Sample, TrackKind};
use tokio::time::Instant;

use super::entry::{Entry, Output, millis};
use crate::frame::{Frame, Role};
use crate::hub::WeakHub;
use crate::options::{HlsMode, HlsOptions};
use crate::reader::{Reader, ReaderEvent};
use crate::stream::{Phase, Stream};

/// How often a packager looks whether anybody still watches.
const IDLE_CHECK: Duration = Duration::from_millis(250);

/// A running packager.
struct Task {
    entry: Arc<Entry>,
    stream: Arc<Stream>,
    output: Box<Output>,
    /// The window begins a new list with the next segment.
    restart: bool,
    /// The backlog is read; each segment is shown as it is finished.
    caught_up: bool,
    epoch: Option<u64>,
}

/// Packages `stream` until it ends, or until nobody has asked for `options.idle_stop`.
pub(super) async fn run(
    hub: WeakHub,
    entry: Arc<Entry>,
    stream: Arc<Stream>,
    output: Box<Output>,
    options: HlsOptions,
) {
    let mut reader = reader(&stream, &options);
    let mut task = Task::new(entry, stream, output);
    let mut batch = Vec::new();
    let mut idle = tokio::time::interval(IDLE_CHECK);
    idle.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let entry = task.entry.clone();
    loop {
        tokio::select! {
            event = reader.next(&mut batch) => match event {
                ReaderEvent::Frames => {
                    task.frames(&batch);
                    // A long backlog must not hold up the other tasks of this worker.
                    tokio::task::yield_now().await;
                }
                ReaderEvent::Overrun => task.end_timeline(),
                ReaderEvent::Phase(phase) => {
                    if task.phase(phase) {
                        let Some(next) = successor(&hub, &task.stream) else {
                            return task.end(&hub);
                        };
                        reader = self::reader(&next, &options);
                        task.go_on_with(next);
                    }
                }
            },
            () = entry.hurry.notified() => task.hurry(),
            _ = idle.tick() => {
                let unwatched = entry.last_request().elapsed() >= options.idle_stop;
                if options.mode == HlsMode::OnDemand && unwatched {
                    return task.rest(&hub);
                }
            }
        }
    }
}

/// Reads as far back as the window reaches; segments are no shorter than the GOPs they are made of.
fn reader(stream: &Arc<Stream>, options: &HlsOptions) -> Reader {
    let segment_ms = u64::from(millis(options.segment_duration)).max(stream.gop_ms());
    let history_ms = segment_ms.saturating_mul(options.window as u64);
    Reader::new(stream.clone(), i64::try_from(history_ms).unwrap_or(i64::MAX))
}

/// The stream that its key has now that this one is over, if somebody published it anew at once.
pub(super) fn successor(hub: &WeakHub, stream: &Arc<Stream>) -> Option<Arc<Stream>> {
    let next = hub.upgrade()?.stream(stream.key())?;
    let published = matches!(next.phase(), Phase::Live | Phase::Away);
    (published && !Arc::ptr_eq(&next, stream)).then_some(next)
}

impl Task {
    fn new(entry: Arc<Entry>, stream: Arc<Stream>, mut output: Box<Output>) -> Self {
        let restart = output.window.listed() > 0;
        output.packager.unlimit();
        let same = output
            .read
            .as_ref()
            .is_some_and(|(read, _)| std::ptr::eq(read.as_ptr(), Arc::as_ptr(&stream)));
        if !same {
            output.read = None;
        }
        entry.revive();
        Self {
            entry,
            stream,
            output,
            restart,
            caught_up: false,
            epoch: None,
        }
    }

    fn frames(&mut self, batch: &[Arc<Frame>]) {
        let read = self.output.read.as_ref().map(|(_, seq)| *seq);
        for frame in batch
            .iter()
            .filter(|frame| read.is_none_or(|read| frame.seq() > read))
        {
            if self
                .epoch
                .replace(frame.epoch())
                .is_some_and(|epoch| epoch != frame.epoch())
            {
                self.end_timeline();
            }
            self.frame(frame);
        }
        if let Some(last) = batch.last() {
            let newest = read.map_or(last.seq(), |read| read.max(last.seq()));
            self.output.read = Some((Arc::downgrade(&self.stream), newest));
        }
        let bytes = self.output.window.bytes() + self.output.packager.open_bytes();
        self.entry.bytes.store(bytes, Ordering::Relaxed);
        self.report_omitted();
    }

    fn frame(&mut self, frame: &Frame) {
        let kind = match (frame.role(), frame.kind()) {
            (Role::Media, TagType::Video) => TrackKind::Video,
            (Role::Media, TagType::Audio) => TrackKind::Audio,
            _ => return,
        };
        let packager = &mut self.output.packager;
        if let Some(init) = frame.init() {
            packager.set_config(
                TrackKind::Video,
                init.video.as_ref().map(|track| track.config.clone()),
            );
            packager.set_config(
                TrackKind::Audio,
                init.audio.as_ref().map(|track| track.config.clone()),
            );
        }
        if let Some(config) = frame.config() {
            packager.set_config(kind, Some(config.clone()));
        }
        let sample = Sample {
            kind,
            dts_ms: frame.dts_ms(),
            cts_ms: frame.cts_ms(),
            key: frame.key() || kind == TrackKind::Audio,
            data: frame.data(),
        };
        let segment = packager.push(&sample, frame.arrived_unix_ms());
        self.list(segment);
    }

    /// Adds a finished segment to the window.
    fn list(&mut self, segment: Option<Segment>) {
        let Some(segment) = segment else { return };
        if std::mem::take(&mut self.restart) {
            self.output.window.restart();
            self.output.renderer.forget();
        }
        self.output.window.push(segment);
        if self.caught_up {
            self.entry.publish(&mut self.output);
        }
    }

    /// Times before and after have no relation: the open segment is finished and listed.
    fn end_timeline(&mut self) {
        let segment = self.output.packager.finish();
        self.list(segment);
    }

    /// Everything written is read and this is the stream's phase. Whether the task is over.
    fn phase(&mut self, phase: Phase) -> bool {
        if phase != Phase::Live {
            self.end_timeline();
        }
        if !std::mem::replace(&mut self.caught_up, true) && !self.restart {
            self.entry.publish(&mut self.output);
        }
        if phase != Phase::Live && self.restart {
            // Nothing new may come for long: what there was is still good.
            self.entry.freshen();
        }
        !phase.is_open()
    }

    /// Somebody has waited long enough for a first segment.
    fn hurry(&mut self) {
        if self.entry.current().is_none() {
            let segment = self.output.packager.force_cut();
            self.list(segment);
        }
    }

    fn report_omitted(&self) {
        for skipped in self.output.packager.skipped_tracks() {
            let (track, codec) = (skipped.kind.name(), skipped.codec.name());
            if self.stream.note_omitted(&format!("hls: {codec} {track}")) {
                tracing::warn!(
                    stream = %self.entry.key, track, codec, reason = %skipped.reason,
                    "HLS leaves a track out"
                );
            }
        }
    }

    /// The stream is over, but its key was published anew before this packager saw that: to players it is a
    /// publisher that came back.
    fn go_on_with(&mut self, next: Arc<Stream>) {
        self.stream = next;
        self.output.read = None;
        self.epoch = None;
    }

    /// The stream is over. Its key may be published anew only now, while this packager still seems to run.
    fn end(mut self, hub: &WeakHub) {
        self.entry.end(&mut self.output);
        self.entry.rest(self.output);
        if let Some(next) = successor(hub, &self.stream)
            && let Some(hub) = hub.upgrade()
        {
            hub.hls().stream_started(&next);
        }
    }

    /// Nobody watches: the window stays as it is until somebody does.
    fn rest(mut self, hub: &WeakHub) {
        self.end_timeline();
        tracing::debug!(stream = %self.entry.key, "HLS packager rests: nobody asked for its stream");
        self.entry
            .bytes
            .store(self.output.window.bytes(), Ordering::Relaxed);
        self.entry.rest(self.output);
        // The stream may have ended while it looked as if the packager would see that.
        if !self.stream.phase().is_open()
            && let Some(hub) = hub.upgrade()
        {
            hub.hls().stream_ended(&self.stream);
        }
    }
}

/// When a request that comes now gives up.
pub(super) fn deadline(options: &HlsOptions) -> Instant {
    Instant::now() + options.first_wait
}
