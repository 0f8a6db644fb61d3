//! [`Hub`]: the registry of streams, and the way in for publishers and viewers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::time::Instant;

use crate::alone::alone;
use crate::error::{AttachError, PublishError};
use crate::hls::HlsStore;
use crate::key::StreamKey;
use crate::options::HubOptions;
use crate::per_ip::{self, PerIp, Place};
use crate::publisher::Publisher;
use crate::session::SessionInfo;
use crate::stats::{Limit, Stats};
use crate::stream::{Phase, Stream};
use crate::terms::lower;
use crate::viewer::Viewer;

/// How often streams are looked at: the exactness of `publish.linger`.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);
/// How many sweeps a bit rate is measured over.
const SWEEPS_PER_BITRATE: u32 = 8;
/// How many measurements in a row above the limit make a publisher too fast: about six seconds, longer than the burst
/// that an encoder sends after a stall.
const MEASUREMENTS_TOO_FAST: u32 = 3;

/// All streams of a process. Cloning is cheap. Lives in a tokio runtime.
#[derive(Debug, Clone)]
pub struct Hub {
    inner: Arc<HubInner>,
}

/// A hub that may be gone: for tasks that must not keep it alive.
#[derive(Debug, Clone)]
pub(crate) struct WeakHub(Weak<HubInner>);

impl WeakHub {
    pub(crate) fn upgrade(&self) -> Option<Hub> {
        self.0.upgrade().map(|inner| Hub { inner })
    }
}

#[derive(Debug)]
struct HubInner {
    options: Arc<HubOptions>,
    streams: DashMap<StreamKey, Arc<Stream>>,
    /// How many of them have had a publisher, and how many viewers only wait for. Counted apart, so that
    /// viewers of nothing never keep a publisher out.
    published: AtomicUsize,
    waiting: AtomicUsize,
    /// Viewers of all streams.
    viewers: AtomicUsize,
    per_ip: PerIp,
    /// Bytes of media in memory at the last sweep.
    memory: AtomicU64,
    stats: Arc<Stats>,
    hls: HlsStore,
    closed: AtomicBool,
}

/// What a stream is looked up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Publish,
    Wait,
}

/// Why there is no stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoStream {
    Closed,
    Full,
    Memory,
}

/// Counts an attaching viewer as waiting for as long as it does.
struct Waiting<'a> {
    hub: &'a Hub,
    stream: Arc<Stream>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.stream.waiters.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.hub.remove_if(self.stream.key(), Phase::Ended, |stream| {
                stream.phase() == Phase::Waiting && stream.waiters.load(Ordering::Acquire) == 0
            });
        }
    }
}

impl Hub {
    /// Starts a hub; it must be called inside a tokio runtime.
    pub fn new(options: HubOptions) -> Self {
        let options = Arc::new(options);
        let inner = Arc::new_cyclic(|weak: &Weak<HubInner>| HubInner {
            hls: HlsStore::new(WeakHub(weak.clone()), options.hls.clone()),
            per_ip: PerIp::new(options.max_streams_per_ip),
            viewers: AtomicUsize::new(0),
            memory: AtomicU64::new(0),
            options,
            streams: DashMap::new(),
            published: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            stats: Arc::default(),
            closed: AtomicBool::new(false),
        });
        tokio::spawn(keep_sweeping(
            WeakHub(Arc::downgrade(&inner)),
            inner.stats.clone(),
        ));
        Self { inner }
    }

    /// The options it runs with.
    pub fn options(&self) -> &HubOptions {
        &self.inner.options
    }

    /// The process-wide counters.
    pub fn stats(&self) -> &Stats {
        &self.inner.stats
    }

    /// The HLS outputs.
    pub fn hls(&self) -> &HlsStore {
        &self.inner.hls
    }

    /// The stream of this key, if there is one.
    pub fn stream(&self, key: &StreamKey) -> Option<Arc<Stream>> {
        self.inner.streams.get(key).map(|s| s.value().clone())
    }

    /// All streams, by key; those that only have viewers waiting included.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        let mut streams: Vec<_> = self.inner.streams.iter().map(|s| s.value().clone()).collect();
        streams.sort_by(|a, b| a.key().cmp(b.key()));
        streams
    }

    /// Gives the stream of this key to a publisher; whoever published it before loses it at once.
    ///
    /// # Errors
    /// [`PublishError`] when a limit is reached or the process is going away.
    pub fn publish(&self, key: StreamKey, info: SessionInfo) -> Result<Publisher, PublishError> {
        let place = self.place_for(&key, &info)?;
        let (stream, (epoch, lost)) = self
            .with_stream(key, Purpose::Publish, |stream| stream.take_over(info, place))
            .map_err(|no| match no {
                NoStream::Closed => PublishError::ShuttingDown,
                NoStream::Full => PublishError::TooManyStreams,
                NoStream::Memory => PublishError::ShortOfMemory,
            })?;
        self.inner.hls.stream_started(&stream);
        Ok(Publisher::new(self.clone(), stream, epoch, lost, info))
    }

    /// Counts a stream for the publisher's address. Who takes over from its own address gives a place back.
    fn place_for(&self, key: &StreamKey, info: &SessionInfo) -> Result<Place, PublishError> {
        let ip = info.peer.ip();
        let owner = self.stream(key).and_then(|stream| stream.publisher());
        let takes_over = owner.is_some_and(|owner| per_ip::is_same(owner.peer.ip(), ip));
        let place = self.inner.per_ip.take_beyond(ip, usize::from(takes_over));
        place.ok_or_else(|| {
            self.stats().refused(Limit::StreamsPerIp);
            PublishError::TooManyFromAddress
        })
    }

    /// Finds the stream for a viewer, waiting up to `play.wait` for a publisher and its tracks.
    ///
    /// # Errors
    /// [`AttachError`] when there is none, a limit is reached or the process is going away.
    pub async fn attach(&self, key: &StreamKey, info: SessionInfo) -> Result<Viewer, AttachError> {
        if self.is_short_of_memory() {
            self.stats().refused(Limit::Memory);
            return Err(AttachError::ShortOfMemory);
        }
        let deadline = Instant::now() + self.options().play_wait;
        loop {
            let waiting = self.wait_in_line(key)?;
            if wait_ready(&waiting.stream, deadline).await? {
                return self.admit(&waiting.stream, info);
            }
        }
    }

    /// Counts a viewer that is about to wait, in the stream of this key or a new, waiting one.
    fn wait_in_line(&self, key: &StreamKey) -> Result<Waiting<'_>, AttachError> {
        let (stream, _) = self
            .with_stream(key.clone(), Purpose::Wait, |stream| {
                stream.waiters.fetch_add(1, Ordering::AcqRel)
            })
            .map_err(|no| match no {
                NoStream::Closed => AttachError::ShuttingDown,
                NoStream::Full => AttachError::TooManyStreams,
                NoStream::Memory => AttachError::ShortOfMemory,
            })?;
        Ok(Waiting { hub: self, stream })
    }

    fn admit(&self, stream: &Arc<Stream>, info: SessionInfo) -> Result<Viewer, AttachError> {
        let own = stream.terms.lock().max_viewers;
        let limit = lower(self.options().max_viewers_per_stream, own);
        let counter = &stream.stats().viewers[info.protocol.index()];
        counter.add(1);
        if limit > 0 && stream.stats().viewers_now() > limit as u64 {
            counter.sub(1);
            self.stats().refused(Limit::Viewers);
            return Err(AttachError::TooManyViewers);
        }
        let most = self.options().max_viewers;
        if self.inner.viewers.fetch_add(1, Ordering::AcqRel) >= most && most > 0 {
            self.viewer_left();
            counter.sub(1);
            self.stats().refused(Limit::AllViewers);
            return Err(AttachError::TooManyViewersInAll);
        }
        Ok(Viewer::new(self.clone(), stream.clone(), info))
    }

    /// Uncounts a viewer that [`Self::admit`] has let in.
    pub(crate) fn viewer_left(&self) {
        self.inner.viewers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Bytes of media in memory: frame rings, HLS segments and messages that are still coming in. Up to 250 ms old.
    pub fn memory_bytes(&self) -> u64 {
        self.inner.memory.load(Ordering::Relaxed)
    }

    /// Whether there is so much media in memory that nobody new is let in.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        self.memory_bytes() > self.options().memory
    }

    /// Runs `then` on the stream of this key, made if need be, while it cannot be removed.
    fn with_stream<T>(
        &self,
        key: StreamKey,
        purpose: Purpose,
        then: impl FnOnce(&Stream) -> T,
    ) -> Result<(Arc<Stream>, T), NoStream> {
        let entry = self.inner.streams.entry(key);
        // Under the entry's guard: who comes later than `shutdown` sees it here, who comes earlier is closed by it.
        if self.is_closed() {
            return Err(NoStream::Closed);
        }
        let waiting = matches!(&entry, Entry::Occupied(entry) if entry.get().epoch() == 0);
        let is_new = matches!(entry, Entry::Vacant(_));
        let (counter, counts) = match purpose {
            Purpose::Publish => (&self.inner.published, is_new || waiting),
            Purpose::Wait => (&self.inner.waiting, is_new),
        };
        // Who comes back to a stream brings no more than it had.
        if purpose == Purpose::Publish && counts && self.is_short_of_memory() {
            self.stats().refused(Limit::Memory);
            return Err(NoStream::Memory);
        }
        if counts && counter.fetch_add(1, Ordering::AcqRel) >= self.options().max_streams {
            counter.fetch_sub(1, Ordering::AcqRel);
            self.stats().refused(Limit::Streams);
            return Err(NoStream::Full);
        }
        if purpose == Purpose::Publish && waiting {
            self.inner.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(match entry {
            Entry::Occupied(entry) => {
                let stream = entry.get().clone();
                let result = then(&stream);
                (stream, result)
            }
            Entry::Vacant(entry) => {
                let stream = Arc::new(self.new_stream(entry.key().clone()));
                let result = then(&stream);
                entry.insert(stream.clone());
                (stream, result)
            }
        })
    }

    fn new_stream(&self, key: StreamKey) -> Stream {
        Stream::new(key, self.inner.options.clone(), self.inner.stats.clone())
    }

    /// Takes a stream out of the registry and closes it, if `condition` holds while nobody can join it.
    fn remove_if(&self, key: &StreamKey, phase: Phase, condition: impl Fn(&Stream) -> bool) {
        let removed = self.inner.streams.remove_if(key, |_, stream| {
            let remove = condition(stream);
            if remove {
                stream.close(phase);
            }
            remove
        });
        if let Some((_, stream)) = removed {
            let counter = if stream.epoch() > 0 {
                &self.inner.published
            } else {
                &self.inner.waiting
            };
            counter.fetch_sub(1, Ordering::AcqRel);
            if stream.epoch() > 0 && phase == Phase::Ended {
                tracing::info!(stream = %key, "stream ended: its publisher did not come back");
            }
            self.inner.hls.stream_ended(&stream);
        }
    }

    /// Ends everything: publishers lose their streams, viewers get
    /// [`EndReason::Shutdown`](crate::EndReason::Shutdown), HLS playlists their ENDLIST. Nothing new is let in.
    pub fn shutdown(&self) {
        self.inner.closed.store(true, Ordering::Release);
        for stream in self.streams() {
            self.remove_if(stream.key(), Phase::Shutdown, |_| true);
        }
    }

    /// Whether [`Hub::shutdown`] was called.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }
}

/// Waits until viewers can start: `false` when the stream was removed meanwhile.
async fn wait_ready(stream: &Stream, deadline: Instant) -> Result<bool, AttachError> {
    let mut wake = stream.subscribe();
    loop {
        wake.borrow_and_update();
        match stream.phase() {
            Phase::Live | Phase::Away if stream.is_ready() => return Ok(true),
            Phase::Ended => return Ok(false),
            Phase::Shutdown => return Err(AttachError::ShuttingDown),
            _ => {}
        }
        match tokio::time::timeout_at(deadline, wake.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(false),
            Err(_) => return Err(AttachError::NotFound),
        }
    }
}

/// Sweeps for as long as there is a hub, whatever one round comes upon.
async fn keep_sweeping(hub: WeakHub, stats: Arc<Stats>) {
    while alone(&stats, "sweep", sweep(hub.clone())).await.is_none() {
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}

/// Ends streams whose publisher stayed away, weighs what is in memory, and measures bit rates.
async fn sweep(hub: WeakHub) {
    let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut rates = Rates::default();
    for round in 0u32.. {
        ticks.tick().await;
        let Some(hub) = hub.upgrade() else { return };
        let linger = hub.options().linger;
        let mut memory = hub.hls().bytes() + hub.stats().incoming_bytes.get();
        for stream in hub.streams() {
            memory += stream.ring_bytes();
            if stream.phase() == Phase::Away && stream.phase_age() >= linger {
                hub.remove_if(stream.key(), Phase::Ended, |stream| {
                    stream.phase() == Phase::Away && stream.phase_age() >= linger
                });
            }
        }
        hub.inner.memory.store(memory, Ordering::Relaxed);
        if round % SWEEPS_PER_BITRATE == 0 {
            rates.measure(&hub);
        }
        hub.hls().sweep();
    }
}

/// What a stream had received when its rate was measured last.
struct Measured {
    bytes: u64,
    at: Instant,
    epoch: u64,
    /// How often in a row its publisher was above `limits.publish_bitrate`.
    over: u32,
}

/// The bit rates of all publishers.
#[derive(Default)]
struct Rates(HashMap<StreamKey, Measured>);

impl Rates {
    fn measure(&mut self, hub: &Hub) {
        let now = Instant::now();
        let streams = hub.streams();
        let seen = streams.iter().map(|stream| {
            let before = self.0.get(stream.key());
            (stream.key().clone(), measure(hub, stream, before, now))
        });
        self.0 = seen.collect();
    }
}

fn measure(hub: &Hub, stream: &Stream, before: Option<&Measured>, now: Instant) -> Measured {
    let (bytes, epoch) = (stream.stats().bytes_in.get(), stream.epoch());
    let mut measured = Measured {
        bytes,
        at: now,
        epoch,
        over: 0,
    };
    let Some(before) = before else { return measured };
    let seconds = now.duration_since(before.at).as_secs_f64();
    if seconds <= 0.0 || stream.phase() != Phase::Live {
        return measured;
    }
    let rate = (bytes.saturating_sub(before.bytes) as f64 * 8.0 / seconds) as u64;
    stream.bitrate_bps.store(rate, Ordering::Relaxed);
    let own = stream.terms.lock().bits_per_second;
    let most = lower(hub.options().publish_bitrate, own);
    if most > 0 && rate > most && before.epoch == epoch {
        measured.over = before.over + 1;
    }
    if measured.over >= MEASUREMENTS_TOO_FAST {
        tracing::warn!(
            stream = %stream.key(), bits_per_second = rate, limit = most,
            "publisher is above limits.publish_bitrate, or what the hook allows it; it is disconnected"
        );
        hub.stats().refused(Limit::PublishBitrate);
        stream.cut_off(epoch);
    }
    measured
}
