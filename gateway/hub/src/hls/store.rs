//! [`HlsStore`]: the HLS outputs of all streams, and the answers to requests for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::entry::{Entry, Numbers, Output};
use super::task;
use super::view::{PlaylistBody, SegmentBody, View};
use crate::alone::alone;
use crate::hub::{Hub, WeakHub};
use crate::key::StreamKey;
use crate::options::{HlsMode, HlsOptions};
use crate::stats::Limit;
use crate::stream::{Phase, Stream, unix_ms};

/// How long a request waits for the segment that it had cut in a hurry.
const HURRY_GRACE: Duration = Duration::from_millis(500);

/// When a player should ask again for what is not ready.
const RETRY_AFTER_S: u32 = 1;

/// When a player should ask again for what there is no memory for.
const SHORT_RETRY_AFTER_S: u32 = 5;

/// Places for each stream there may be: one that is live and one that has ended and is still served.
const ENTRIES_PER_STREAM: usize = 2;

/// Why a playlist cannot be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HlsError {
    /// There is no such stream: 404.
    #[error("no such stream: publish it first")]
    NotFound,
    /// There is more media in memory than `limits.memory`, and nobody watches this stream yet: 503.
    #[error(
        "the server is short of memory (limits.memory) and packages no further stream: ask again in {retry_after_s} s"
    )]
    ShortOfMemory {
        /// When to ask again, in seconds.
        retry_after_s: u32,
    },
    /// The stream is there but nothing of it can be played yet: 503.
    #[error("nothing to play yet: ask again in {retry_after_s} s")]
    NotReady {
        /// When to ask again, in seconds.
        retry_after_s: u32,
    },
}

/// The HLS outputs of all streams.
#[derive(Debug)]
pub struct HlsStore {
    hub: WeakHub,
    options: HlsOptions,
    entries: DashMap<StreamKey, Arc<Entry>>,
    /// Begins every name this process gives.
    process: String,
    entries_made: AtomicU64,
    /// Above every sequence number of entries that are gone.
    floor: Mutex<Numbers>,
    /// Is told of each publisher that comes.
    started: watch::Sender<u64>,
}

/// An entry, and its output unless a packager has it.
type Taken = (Arc<Entry>, Option<Box<Output>>);
type Pick = fn(&View) -> &Arc<PlaylistBody>;

impl HlsStore {
    pub(crate) fn new(hub: WeakHub, options: HlsOptions) -> Self {
        Self {
            hub,
            options,
            entries: DashMap::new(),
            process: base36(unix_ms()),
            entries_made: AtomicU64::new(0),
            floor: Mutex::new(Numbers { msn: 0, dsn: 0 }),
            started: watch::Sender::new(0),
        }
    }

    /// The multivariant playlist for `APP/NAME/index.m3u8`. Starts the stream's packager if need be, and waits up
    /// to `hls.first_wait` for a publisher and for something to play.
    ///
    /// # Errors
    /// [`HlsError`] when there is none by then.
    pub async fn multivariant(&self, key: &StreamKey) -> Result<Arc<PlaylistBody>, HlsError> {
        self.playlist(key, |view| &view.multivariant).await
    }

    /// The same for `APP/NAME.m3u8`, from where the media playlist is a folder deeper.
    ///
    /// # Errors
    /// As [`multivariant`](Self::multivariant).
    pub async fn multivariant_outer(&self, key: &StreamKey) -> Result<Arc<PlaylistBody>, HlsError> {
        self.playlist(key, |view| &view.multivariant_outer).await
    }

    /// The media playlist for `APP/NAME/media.m3u8`.
    ///
    /// # Errors
    /// As [`multivariant`](Self::multivariant).
    pub async fn media(&self, key: &StreamKey) -> Result<Arc<PlaylistBody>, HlsError> {
        self.playlist(key, |view| &view.media).await
    }

    /// The segment of this file name, listed or retained.
    pub fn segment(&self, key: &StreamKey, file: &str) -> Option<SegmentBody> {
        let entry = self.entry(key)?;
        let segment = entry.view.load().as_ref()?.segment(file);
        if segment.is_some() {
            entry.touch();
        }
        segment
    }

    /// The bytes of all segments, open ones included.
    pub fn bytes(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| entry.bytes.load(Ordering::Relaxed))
            .sum()
    }

    fn entry(&self, key: &StreamKey) -> Option<Arc<Entry>> {
        self.entries.get(key).map(|entry| entry.value().clone())
    }

    async fn playlist(&self, key: &StreamKey, pick: Pick) -> Result<Arc<PlaylistBody>, HlsError> {
        if self.options.mode == HlsMode::Off {
            return Err(HlsError::NotFound);
        }
        let deadline = task::deadline(&self.options);
        let entry = self.wait_for_stream(key, deadline).await?;
        let mut changed = entry.changed.subscribe();
        let mut hurried = false;
        let mut until = deadline;
        loop {
            changed.borrow_and_update();
            entry.touch();
            if let Some(view) = entry.current() {
                return Ok(pick(&view).clone());
            }
            if tokio::time::timeout_at(until, changed.changed()).await.is_ok() {
                if entry.current().is_none() && entry.ended_at().is_some() {
                    return Err(HlsError::NotFound);
                }
                continue;
            }
            if hurried {
                break;
            }
            hurried = true;
            until = Instant::now() + HURRY_GRACE;
            entry.hurry.notify_one();
        }
        // Better an old playlist than an error while the stream is known.
        let old = entry.view.load_full();
        old.map(|view| pick(&view).clone()).ok_or(HlsError::NotReady {
            retry_after_s: RETRY_AFTER_S,
        })
    }

    /// The entry of a stream that is there, its packager running; waits for a publisher to come.
    async fn wait_for_stream(&self, key: &StreamKey, deadline: Instant) -> Result<Arc<Entry>, HlsError> {
        let mut started = self.started.subscribe();
        loop {
            started.borrow_and_update();
            let hub = self.hub.upgrade().ok_or(HlsError::NotFound)?;
            match hub
                .stream(key)
                .filter(|stream| matches!(stream.phase(), Phase::Live | Phase::Away))
            {
                Some(stream) => return self.start(&hub, &stream),
                None => {
                    let ended = self.entry(key).filter(|entry| entry.view.load().is_some());
                    if let Some(entry) = ended {
                        return Ok(entry);
                    }
                }
            }
            if hub.is_closed() {
                return Err(HlsError::NotFound);
            }
            drop(hub);
            match tokio::time::timeout_at(deadline, started.changed()).await {
                Ok(Ok(())) => {}
                _ => return Err(HlsError::NotFound),
            }
        }
    }

    /// Starts the packager of a stream, unless it runs already. However many ask, one starts.
    fn start(&self, hub: &Hub, stream: &Arc<Stream>) -> Result<Arc<Entry>, HlsError> {
        let (entry, output) = self.take(hub, stream.key())?;
        if let Some(output) = output {
            entry.touch();
            let stale = entry.view.load().is_some();
            entry.stale.store(stale, Ordering::Release);
            let (weak, options, stats) = (self.hub.clone(), self.options.clone(), stream.process_stats());
            let (entry, stream) = (entry.clone(), stream.clone());
            tokio::spawn(async move {
                let packager = task::run(weak.clone(), entry.clone(), stream, output, options);
                if alone(&stats, "hls", packager).await.is_none()
                    && let Some(hub) = weak.upgrade()
                {
                    hub.hls().abandon(&entry);
                }
            });
        }
        Ok(entry)
    }

    /// The packager of this entry is gone without giving its output back: the next request makes a new entry, whose
    /// numbers are higher.
    fn abandon(&self, entry: &Arc<Entry>) {
        self.entries.remove_if(&entry.key, |_, found| {
            let is_this = Arc::ptr_eq(found, entry);
            if is_this {
                let mut floor = self.floor.lock();
                *floor = floor.max(entry.next_numbers());
            }
            is_this
        });
    }

    /// The entry of a stream, made if need be, and its output unless a packager runs. It is taken while the entry
    /// cannot be forgotten, and afterwards a running packager keeps it.
    fn take(&self, hub: &Hub, key: &StreamKey) -> Result<Taken, HlsError> {
        let known = self.entry(key);
        if known.as_ref().is_none_or(|entry| entry.is_resting()) && hub.is_short_of_memory() {
            hub.stats().refused(Limit::Memory);
            return Err(HlsError::ShortOfMemory {
                retry_after_s: SHORT_RETRY_AFTER_S,
            });
        }
        if let Some(entry) = self.entries.get(key) {
            return Ok((entry.clone(), entry.take()));
        }
        let most = hub.options().max_streams.saturating_mul(ENTRIES_PER_STREAM);
        if self.entries.len() >= most && !self.forget_oldest() {
            return Err(HlsError::NotReady {
                retry_after_s: RETRY_AFTER_S,
            });
        }
        let entry = self
            .entries
            .entry(key.clone())
            .or_insert_with(|| Arc::new(self.make_entry(key.clone())));
        Ok((entry.clone(), entry.take()))
    }

    fn make_entry(&self, key: StreamKey) -> Entry {
        let number = self.entries_made.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("{}-{}-", self.process, base36(number));
        let first = Numbers::at(unix_ms()).max(*self.floor.lock());
        Entry::new(key, prefix, first, &self.options)
    }

    /// Makes room by the stream that ended longest ago; `false` if none has.
    fn forget_oldest(&self) -> bool {
        let oldest = self
            .entries
            .iter()
            .filter_map(|entry| entry.ended_at().map(|at| (at, entry.key().clone())))
            .min_by_key(|(at, _)| *at);
        oldest.is_some_and(|(_, key)| self.forget(&key))
    }

    /// Frees an ended entry; its numbers are never used again.
    fn forget(&self, key: &StreamKey) -> bool {
        let removed = self.entries.remove_if(key, |_, entry| {
            let over = entry.is_resting() && entry.ended_at().is_some();
            if over {
                // Before another entry of this key can be made.
                let mut floor = self.floor.lock();
                *floor = floor.max(entry.next_numbers());
            }
            over
        });
        removed.is_some()
    }

    /// A publisher took the stream (called on each start and take-over).
    pub(crate) fn stream_started(&self, stream: &Arc<Stream>) {
        self.started.send_modify(|count| *count += 1);
        if self.options.mode == HlsMode::Always
            && let Some(hub) = self.hub.upgrade()
            && let Err(error) = self.start(&hub, stream)
        {
            tracing::warn!(stream = %stream.key(), %error, "no HLS for this stream");
        }
    }

    /// The stream is over and out of the registry. A running packager sees that itself; a resting one's playlist
    /// is ended here, unless the stream's key is published anew already. Nothing ends with a stream that only had
    /// viewers waiting.
    pub(crate) fn stream_ended(&self, stream: &Arc<Stream>) {
        if stream.epoch() == 0 {
            return;
        }
        self.started.send_modify(|count| *count += 1);
        if let Some(entry) = self.entry(stream.key())
            && task::successor(&self.hub, stream).is_none()
        {
            entry.end_resting();
        }
    }

    /// Called four times a second: frees what ended long enough ago.
    pub(crate) fn sweep(&self) {
        let retain = self.options.end_retain;
        let over: Vec<StreamKey> = self
            .entries
            .iter()
            .filter(|entry| {
                let nothing = entry.view.load().is_none();
                entry
                    .ended_at()
                    .is_some_and(|at| nothing || at.elapsed() >= retain)
            })
            .map(|entry| entry.key().clone())
            .collect();
        for key in over {
            self.forget(&key);
        }
        if self.hub.upgrade().is_none_or(|hub| hub.is_closed()) {
            self.started.send_modify(|count| *count += 1);
        }
    }
}

/// A number in as few lower-case letters and digits as can be.
fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests;
