//! [`Stream`]: what is published under one key, with everyone who watches it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use spillway_flv::tag::{HEAD_LEN, TagType};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::egress::{Format, Lanes, Seat, Sink};
use crate::frame::Frame;
use crate::init::Init;
use crate::key::StreamKey;
use crate::options::{Flush, HubOptions};
use crate::per_ip::Place;
use crate::ring::{Ring, RingLimits};
use crate::session::{EndReason, Protocol, SessionInfo};
use crate::stats::{Stats, StreamStats};
use crate::terms::PublishTerms;
use crate::viewer::Sent;
use crate::writer::{Arrival, Outcome, Writer};

/// The CPU time that waking one viewer and writing to it costs, about: what [`Flush::Auto`] plans with.
const DELIVERY_COST: Duration = Duration::from_micros(9);
/// The part of the workers' time that [`Flush::Auto`] lets one stream's deliveries take: a quarter.
const DUTY_DIVISOR: u32 = 4;
/// The part of an automatic interval by which a flush may come early or late to fall on a picture: a sixth. So 36 ms meet
/// the pictures of 24, 25, 30, 50 and 60 a second, which then wait for nothing.
const BEAT_DIVISOR: u32 = 6;
/// An automatic interval below this is no interval: a timer is no more exact.
const MIN_AUTO_FLUSH: Duration = Duration::from_millis(2);

/// Where a stream is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Viewers wait for a first publisher.
    Waiting,
    /// Someone publishes.
    Live,
    /// The publisher left and may come back.
    Away,
    /// Over: no publisher came back in time.
    Ended,
    /// Over: the process shuts down.
    Shutdown,
}

impl Phase {
    fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Waiting,
            1 => Self::Live,
            2 => Self::Away,
            3 => Self::Ended,
            _ => Self::Shutdown,
        }
    }

    /// Whether viewers still hope for frames.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Live | Self::Away)
    }
}

/// The publisher in possession, and since when the phase holds.
#[derive(Debug)]
struct Life {
    epoch: u64,
    since: Instant,
    owner: Option<Owner>,
}

#[derive(Debug)]
struct Owner {
    info: SessionInfo,
    replaced: CancellationToken,
    /// Counts the stream for the publisher's address.
    _place: Place,
}

/// What is published under one key.
#[derive(Debug)]
pub struct Stream {
    key: StreamKey,
    options: Arc<HubOptions>,
    ring: Arc<Ring<Arc<Frame>>>,
    writer: Mutex<Writer>,
    init: ArcSwap<Init>,
    life: Mutex<Life>,
    phase: AtomicU8,
    ready: AtomicBool,
    /// The sequence number up to which viewers may read: frames beyond it wait for the next flush.
    flushed: AtomicU64,
    /// Is bumped after each flush that somebody waits for, and after each change of phase.
    wake: watch::Sender<()>,
    flush_us: AtomicU64,
    flush_armed: AtomicBool,
    last_flush: Mutex<Instant>,
    made: Instant,
    /// See [`Stream::age_ms`]; zero: none came yet.
    last_media_ms: AtomicU64,
    /// See [`Stream::age_ms`]; zero: none came yet.
    last_key_ms: AtomicU64,
    gop_ms: AtomicU64,
    pub(crate) bitrate_bps: AtomicU64,
    pub(crate) waiters: AtomicUsize,
    pub(crate) omitted: Mutex<Vec<String>>,
    /// Those of its publisher.
    pub(crate) terms: Mutex<PublishTerms>,
    stats: StreamStats,
    process_stats: Arc<Stats>,
    lanes: Lanes,
}

impl Stream {
    pub(crate) fn new(key: StreamKey, options: Arc<HubOptions>, process_stats: Arc<Stats>) -> Self {
        let now = Instant::now();
        let limits = RingLimits {
            slots: options.ring_slots,
            max_bytes: options.ring_max_bytes,
            max_duration_ms: i64::try_from(options.ring_max_duration.as_millis()).unwrap_or(i64::MAX),
        };
        let writer = Writer::new(limits, options.history());
        let stream = Self {
            key,
            ring: writer.ring().ring().clone(),
            init: ArcSwap::new(writer.init().clone()),
            writer: Mutex::new(writer),
            life: Mutex::new(Life {
                epoch: 0,
                since: now,
                owner: None,
            }),
            phase: AtomicU8::new(Phase::Waiting as u8),
            ready: AtomicBool::new(false),
            flushed: AtomicU64::new(0),
            wake: watch::Sender::new(()),
            flush_us: AtomicU64::new(0),
            flush_armed: AtomicBool::new(false),
            last_flush: Mutex::new(now),
            made: now,
            last_media_ms: AtomicU64::new(0),
            last_key_ms: AtomicU64::new(0),
            gop_ms: AtomicU64::new(0),
            bitrate_bps: AtomicU64::new(0),
            waiters: AtomicUsize::new(0),
            omitted: Mutex::new(Vec::new()),
            terms: Mutex::default(),
            stats: StreamStats::default(),
            process_stats,
            lanes: Lanes::default(),
            options,
        };
        stream.plan_flush();
        stream
    }

    /// The stream's name.
    pub fn key(&self) -> &StreamKey {
        &self.key
    }

    /// Where it is in its life.
    pub fn phase(&self) -> Phase {
        Phase::from_u8(self.phase.load(Ordering::Acquire))
    }

    /// Whether its tracks are known: viewers can start.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The newest metadata and sequence headers.
    pub fn init(&self) -> Arc<Init> {
        self.init.load_full()
    }

    /// Its counters.
    pub fn stats(&self) -> &StreamStats {
        &self.stats
    }

    /// The hub's options.
    pub fn options(&self) -> &HubOptions {
        &self.options
    }

    /// How long the phase has held.
    pub fn phase_age(&self) -> Duration {
        self.life.lock().since.elapsed()
    }

    /// How many publishers it has had.
    pub fn epoch(&self) -> u64 {
        self.life.lock().epoch
    }

    /// The session that publishes now.
    pub fn publisher(&self) -> Option<SessionInfo> {
        self.life.lock().owner.as_ref().map(|o| o.info)
    }

    /// How long ago the newest media message came.
    pub fn last_media_age(&self) -> Option<Duration> {
        self.since(&self.last_media_ms)
    }

    /// How long its publisher has sent no key frame: since the newest, or since it began. `None` while nobody publishes
    /// video.
    pub fn key_frame_age(&self) -> Option<Duration> {
        if self.phase() != Phase::Live || self.init().video.is_none() {
            return None;
        }
        let began = self.phase_age();
        Some(self.since(&self.last_key_ms).map_or(began, |age| age.min(began)))
    }

    fn since(&self, at_ms: &AtomicU64) -> Option<Duration> {
        let at_ms = at_ms.load(Ordering::Relaxed);
        let age_ms = self.age_ms(Instant::now()).saturating_sub(at_ms);
        (at_ms > 0).then(|| Duration::from_millis(age_ms))
    }

    /// How long after the stream was made, in milliseconds from 1 on.
    fn age_ms(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.made).as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
    }

    /// The media time between the newest two key frames, in milliseconds; zero before there were two.
    pub fn gop_ms(&self) -> u64 {
        self.gop_ms.load(Ordering::Relaxed)
    }

    /// The interval frames are flushed to viewers at; zero: each at once.
    pub fn flush_interval(&self) -> Duration {
        Duration::from_micros(self.flush_us.load(Ordering::Relaxed))
    }

    /// The bytes of media its ring holds.
    pub fn ring_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// Remembers that an output leaves a track out, for the API; says whether that is news.
    pub fn note_omitted(&self, what: &str) -> bool {
        let mut omitted = self.omitted.lock();
        let news = omitted.len() < 16 && !omitted.iter().any(|o| o == what);
        if news {
            omitted.push(what.to_owned());
        }
        news
    }

    pub(crate) fn ring(&self) -> &Arc<Ring<Arc<Frame>>> {
        &self.ring
    }

    /// Is told of each flush and each change of phase.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }

    /// Hands the stream to a new publisher; the old one is told through its token.
    pub(crate) fn take_over(&self, info: SessionInfo, place: Place) -> (u64, CancellationToken) {
        let token = CancellationToken::new();
        let (epoch, old) = {
            let mut life = self.life.lock();
            life.epoch += 1;
            life.since = Instant::now();
            let old = life.owner.replace(Owner {
                info,
                replaced: token.clone(),
                _place: place,
            });
            self.set_phase(Phase::Live);
            self.writer.lock().start_epoch(life.epoch);
            self.omitted.lock().clear();
            *self.terms.lock() = PublishTerms::default();
            (life.epoch, old)
        };
        if let Some(old) = old {
            tracing::info!(stream = %self.key, old = %old.info.id, new = %info.id, "publisher replaced");
            old.replaced.cancel();
        }
        self.wake_all();
        (epoch, token)
    }

    /// Takes the stream from its publisher, if it still is this one's.
    pub(crate) fn release(&self, epoch: u64) {
        let mut life = self.life.lock();
        if life.epoch == epoch && self.phase() == Phase::Live {
            life.owner = None;
            life.since = Instant::now();
            self.set_phase(Phase::Away);
            self.bitrate_bps.store(0, Ordering::Relaxed);
            drop(life);
            self.wake_all();
        }
    }

    /// Takes the stream from a publisher that sends too much; it is told through its token and may come back.
    pub(crate) fn cut_off(&self, epoch: u64) {
        let mut life = self.life.lock();
        if life.epoch != epoch || self.phase() != Phase::Live {
            return;
        }
        let owner = life.owner.take();
        life.since = Instant::now();
        self.set_phase(Phase::Away);
        self.bitrate_bps.store(0, Ordering::Relaxed);
        drop(life);
        if let Some(owner) = owner {
            owner.replaced.cancel();
        }
        self.wake_all();
    }

    /// Closes the stream; the publisher, if any, is told through its token.
    pub(crate) fn close(&self, phase: Phase) {
        let owner = {
            let mut life = self.life.lock();
            life.since = Instant::now();
            self.set_phase(phase);
            life.owner.take()
        };
        if let Some(owner) = owner {
            owner.replaced.cancel();
        }
        self.wake_all();
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// The sequence number up to which viewers may read.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// Everything in the ring may be read now, and phases looked at.
    fn wake_all(&self) {
        self.flushed.fetch_max(self.ring.head(), Ordering::AcqRel);
        self.wake.send_replace(());
    }

    /// Everything in the ring may be read now. Who subscribes at this very moment is woken by the next flush
    /// at the latest.
    fn wake_viewers(&self) {
        self.flushed.fetch_max(self.ring.head(), Ordering::AcqRel);
        if self.wake.receiver_count() > 0 {
            self.wake.send_replace(());
        }
    }

    /// Takes one message of the publisher of `epoch`.
    ///
    /// # Errors
    /// [`EndReason`] when the stream is no longer this publisher's.
    pub(crate) fn push(
        self: &Arc<Self>,
        epoch: u64,
        kind: TagType,
        timestamp_ms: u32,
        buf: Vec<u8>,
        now: Arrival,
    ) -> Result<Outcome, EndReason> {
        let bytes = buf.len().saturating_sub(HEAD_LEN) as u64;
        let outcome = {
            let mut writer = self.writer.lock();
            if writer.epoch() != epoch || self.phase() != Phase::Live {
                return Err(self.loss_reason());
            }
            let outcome = writer.push(kind, timestamp_ms, buf, now);
            if let Some(init) = writer.take_new_init() {
                self.init.store(init);
            }
            self.gop_ms.store(writer.gop_ms(), Ordering::Relaxed);
            self.stats.discontinuities.set(writer.discontinuities());
            self.stats.messages_in.add_alone(1);
            self.stats.bytes_in.add_alone(bytes);
            if writer.decided() && !self.is_ready() {
                self.ready.store(true, Ordering::Release);
                self.wake_all();
            }
            outcome
        };
        self.process_stats.bytes_in.add(bytes);
        if kind != TagType::Script {
            self.last_media_ms.store(self.age_ms(now.at), Ordering::Relaxed);
        }
        match outcome {
            Outcome::Stored => self.flush(now.at, false, kind == TagType::Video),
            Outcome::Urgent => {
                self.last_key_ms.store(self.age_ms(now.at), Ordering::Relaxed);
                self.flush(now.at, true, true);
            }
            Outcome::Malformed => self.stats.malformed.add(1),
            Outcome::Ignored => {}
        }
        Ok(outcome)
    }

    /// Why a publisher can no longer push.
    pub(crate) fn loss_reason(&self) -> EndReason {
        match self.phase() {
            Phase::Shutdown => EndReason::Shutdown,
            Phase::Ended => EndReason::StreamEnded,
            // Whoever leaves by itself asks for no reason.
            Phase::Away => EndReason::TooFast,
            _ => EndReason::Replaced,
        }
    }

    /// Lets viewers have what is in the ring: now, or when the flush interval is over. An automatic interval is stretched or
    /// cut a little so that it ends with a picture.
    fn flush(self: &Arc<Self>, now: Instant, urgent: bool, picture: bool) {
        let interval = self.flush_interval();
        if interval.is_zero() {
            return self.wake_viewers();
        }
        let slack = interval / BEAT_DIVISOR;
        let (due, latest) = match self.options.flush {
            Flush::Auto { max } if self.gop_ms() > 0 => (interval - slack, max.min(interval + slack)),
            _ => (interval, interval),
        };
        let since = now.duration_since(*self.last_flush.lock());
        if urgent || since >= latest || (picture && since >= due) {
            *self.last_flush.lock() = now;
            self.wake_viewers();
        } else if !self.flush_armed.swap(true, Ordering::AcqRel) {
            tokio::spawn(flush_late(Arc::downgrade(self), latest));
        }
    }

    /// Seats a viewer in one of the stream's lanes.
    pub(crate) fn seat(
        self: &Arc<Self>,
        kind: (Format, bool),
        sink: Arc<dyn Sink>,
        next: u64,
        sent: Sent,
    ) -> Seat {
        self.lanes.sit(self, kind, self.options.workers, sink, next, sent)
    }

    /// The process-wide counters.
    pub(crate) fn process_stats(&self) -> Arc<Stats> {
        self.process_stats.clone()
    }

    /// Counts bytes written to viewers.
    pub(crate) fn count_sent(&self, protocol: Protocol, bytes: u64) {
        self.stats.bytes_out[protocol.index()].add(bytes);
        self.process_stats.bytes_out[protocol.index()].add(bytes);
    }

    /// Sets the flush interval for the viewers there are.
    pub(crate) fn plan_flush(&self) {
        let interval = match self.options.flush {
            Flush::Fixed(interval) => interval,
            Flush::Auto { max } => {
                let viewers = u32::try_from(self.stats.viewers_now()).unwrap_or(u32::MAX);
                let workers = u32::try_from(self.options.workers.max(1)).unwrap_or(1);
                let interval = DELIVERY_COST.saturating_mul(viewers).saturating_mul(DUTY_DIVISOR) / workers;
                if interval < MIN_AUTO_FLUSH {
                    Duration::ZERO
                } else {
                    interval.min(max)
                }
            }
        };
        self.flush_us.store(
            u64::try_from(interval.as_micros()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }
}

/// Flushes what no picture flushed within `latest` of the flush before.
async fn flush_late(stream: Weak<Stream>, latest: Duration) {
    loop {
        let Some(due) = stream.upgrade().map(|stream| *stream.last_flush.lock() + latest) else {
            return;
        };
        tokio::time::sleep_until(due).await;
        let Some(stream) = stream.upgrade() else { return };
        let mut last = stream.last_flush.lock();
        if *last + latest > due {
            continue; // a picture came first
        }
        *last = Instant::now();
        stream.flush_armed.store(false, Ordering::Release);
        drop(last);
        stream.wake_viewers();
        return;
    }
}

/// The wall clock in Unix milliseconds.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(0))
}
