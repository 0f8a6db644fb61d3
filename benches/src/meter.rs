//! What players measure.

use crate::clock::MILLISECOND_NS;
use crate::scan::{Finding, Track};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Longest time a histogram holds, in microseconds; longer ones count as this.
const LONGEST_US: u64 = 120_000_000;
/// Significant decimal digits of the histograms.
const DIGITS: u8 = 3;
/// A player whose last frame is older than this at the end of the window counts as silent.
pub const SILENCE_NS: u64 = 2_000 * MILLISECOND_NS;

/// What publishers, players and the measuring thread share.
#[derive(Debug)]
pub struct Shared {
    start_ns: AtomicU64,
    end_ns: AtomicU64,
    stopped: AtomicBool,
    /// Players whose connection stands.
    pub connected: AtomicU64,
    /// Players that received a frame.
    pub playing: AtomicU64,
    /// Players that failed or were cut off.
    pub lost: AtomicU64,
    /// Publishers that the server accepted.
    pub publishing: AtomicU64,
    /// Publishers that failed.
    pub unpublished: AtomicU64,
    /// Frames received so far, in the window or not.
    pub frames: AtomicU64,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            start_ns: AtomicU64::new(u64::MAX),
            end_ns: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
            connected: AtomicU64::new(0),
            playing: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            publishing: AtomicU64::new(0),
            unpublished: AtomicU64::new(0),
            frames: AtomicU64::new(0),
        }
    }
}

impl Shared {
    /// Sets the measured window.
    pub fn open_window(&self, start_ns: u64, end_ns: u64) {
        self.end_ns.store(end_ns, Ordering::Relaxed);
        self.start_ns.store(start_ns, Ordering::Relaxed);
    }

    /// The measured window; empty until it is open.
    pub fn window(&self) -> Window {
        Window {
            start_ns: self.start_ns.load(Ordering::Relaxed),
            end_ns: self.end_ns.load(Ordering::Relaxed),
        }
    }

    /// Whether `now_ns` lies in the measured window.
    pub fn in_window(&self, now_ns: u64) -> bool {
        self.window().contains(now_ns)
    }

    /// Tells all threads to end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether all threads are to end.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Adds one to `counter`.
    pub fn count(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The time in which is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first nanosecond.
    pub start_ns: u64,
    /// The first nanosecond behind it.
    pub end_ns: u64,
}

impl Window {
    /// Whether `at_ns` lies in it.
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }
}

/// A histogram of times in microseconds that never fails to record.
#[derive(Debug, Clone)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST_US, DIGITS).expect("the bounds are constants and valid"))
    }
}

impl Times {
    /// Records `nanoseconds`.
    pub fn record_ns(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds / 1_000);
    }

    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time below which `share` (0 to 1) of all lie, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1_000.0
    }

    /// The longest time, in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.0.max() as f64 / 1_000.0
    }

    /// Takes in what `other` recorded.
    pub fn add(&mut self, other: &Self) {
        // Equal bounds: it cannot fail.
        let _ = self.0.add(&other.0);
    }
}

/// What the players of one protocol saw.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    /// From a frame's being written by the publisher to its being read, in the window.
    pub delay: Times,
    /// Difference between two frames' distance in arrival and in media time, same track and player.
    pub jitter: Times,
    /// The same against the times of sending: what the server added.
    pub jitter_added: Times,
    /// From connect to the first frame.
    pub first_frame: Times,
    /// From connect to the first video key frame.
    pub first_key: Times,
    /// HLS: time of a playlist, from when it was due.
    pub playlist: Times,
    /// HLS: time of a segment, from when it was due.
    pub segment: Times,
    /// HLS: age of a segment's last frame when the segment is there.
    pub edge_age: Times,
    /// HLS: answers by status code, playlists and segments apart.
    pub statuses: BTreeMap<(&'static str, u16), u64>,
    /// HLS: connections made.
    pub connections: u64,
    /// HLS: segments listed that answered anything but 200.
    pub listed_not_served: u64,
    /// Players asked for.
    pub players: u64,
    /// Players that received a frame.
    pub played: u64,
    /// Players without a frame in the last seconds of the window.
    pub silent: u64,
    /// Frames received in the window.
    pub frames: u64,
    /// Frames sent in the window and received, then or later. Without stamps: received in the window.
    pub delivered: u64,
    /// Frames received in the whole run.
    pub frames_ever: u64,
    /// Bytes read from sockets in the window.
    pub bytes: u64,
    /// Reads from sockets in the window.
    pub reads: u64,
    /// Holes in the sequence of frames, in the whole run.
    pub gaps: u64,
    /// Frames missing in those holes.
    pub missing: u64,
    /// Frames that came twice or late.
    pub repeated: u64,
    /// Frames whose decoding time lies before the last one's.
    pub dts_back: u64,
    /// Frames whose checksum is wrong, or HLS segments that differ between players.
    pub altered: u64,
    /// Frames without a stamp.
    pub plain: u64,
    /// Why players were lost.
    pub losses: BTreeMap<String, u64>,
}

impl Meter {
    /// Takes in what `other` saw.
    pub fn add(&mut self, other: &Self) {
        let times = [
            (&mut self.delay, &other.delay),
            (&mut self.jitter, &other.jitter),
            (&mut self.jitter_added, &other.jitter_added),
            (&mut self.first_frame, &other.first_frame),
            (&mut self.first_key, &other.first_key),
            (&mut self.playlist, &other.playlist),
            (&mut self.segment, &other.segment),
            (&mut self.edge_age, &other.edge_age),
        ];
        for (all, part) in times {
            all.add(part);
        }
        let counts = [
            (&mut self.connections, other.connections),
            (&mut self.listed_not_served, other.listed_not_served),
            (&mut self.players, other.players),
            (&mut self.played, other.played),
            (&mut self.silent, other.silent),
            (&mut self.frames, other.frames),
            (&mut self.delivered, other.delivered),
            (&mut self.frames_ever, other.frames_ever),
            (&mut self.bytes, other.bytes),
            (&mut self.reads, other.reads),
            (&mut self.gaps, other.gaps),
            (&mut self.missing, other.missing),
            (&mut self.repeated, other.repeated),
            (&mut self.dts_back, other.dts_back),
            (&mut self.altered, other.altered),
            (&mut self.plain, other.plain),
        ];
        for (all, part) in counts {
            *all += part;
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (reason, count) in &other.losses {
            *self.losses.entry(reason.clone()).or_default() += count;
        }
    }

    /// Counts a player lost for `reason`.
    pub fn lose(&mut self, reason: String) {
        *self.losses.entry(reason).or_default() += 1;
    }
}

/// Where and when a piece of a stream is being looked at.
pub struct Moment<'a> {
    /// When it was read.
    pub now_ns: u64,
    /// The measured window.
    pub window: Window,
    /// Where to record.
    pub meter: &'a mut Meter,
}

impl Moment<'_> {
    /// Whether it lies in the measured window.
    pub fn in_window(&self) -> bool {
        self.window.contains(self.now_ns)
    }
}

/// One player's memory of what it received.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// When the connection was begun.
    pub connect_ns: u64,
    /// When the last frame came; 0 if none did.
    pub last_frame_ns: u64,
    first_frame_ns: u64,
    key_seen: bool,
    audio: TrackWatch,
    video: TrackWatch,
}

#[derive(Debug, Clone, Default)]
struct TrackWatch {
    begun: bool,
    next_sequence: u32,
    timestamp_ms: u32,
    /// Arrival, media and sending time of the last frame that counts for jitter; 0 if none does.
    arrival_ns: u64,
    sent_ns: u64,
}

impl Watch {
    /// A watch for a player that begins to connect at `connect_ns`.
    pub fn new(connect_ns: u64) -> Self {
        Self {
            connect_ns,
            ..Self::default()
        }
    }

    /// Whether a frame has been received.
    pub fn playing(&self) -> bool {
        self.first_frame_ns != 0
    }

    /// Takes one complete body with its time.
    pub fn body(&mut self, moment: &mut Moment<'_>, track: Track, timestamp_ms: u32, finding: &Finding) {
        let (stamped, key) = match finding {
            Finding::SequenceHeader => return,
            Finding::Plain { key } => (None, *key),
            Finding::Stamped { stamped, intact } => {
                moment.meter.altered += u64::from(!intact);
                (intact.then_some(&stamped.stamp), stamped.stamp.key)
            }
        };
        self.first(moment, key);
        let in_window = moment.in_window();
        let delivered = stamped.map_or(in_window, |stamp| moment.window.contains(stamp.sent_ns));
        let meter = &mut *moment.meter;
        meter.delivered += u64::from(delivered);
        self.last_frame_ns = moment.now_ns;
        meter.plain += u64::from(matches!(finding, Finding::Plain { .. }));
        meter.frames_ever += 1;
        meter.frames += u64::from(in_window);

        let watch = match track {
            Track::Audio => &mut self.audio,
            Track::Video => &mut self.video,
        };
        if let Some(stamp) = stamped {
            watch.sequence(meter, stamp.sequence);
        }
        let media_step_ms = timestamp_ms.wrapping_sub(watch.timestamp_ms) as i32;
        if watch.begun && media_step_ms < 0 {
            meter.dts_back += 1;
        }
        watch.begun = true;
        watch.timestamp_ms = timestamp_ms;
        let sent_ns = stamped.map_or(0, |stamp| stamp.sent_ns);
        let caught_up = match stamped {
            // Frames from before the player joined come in a burst and say nothing of delay.
            Some(stamp) => stamp.sent_ns > self.first_frame_ns,
            None => moment.now_ns > self.first_frame_ns,
        };
        if !(in_window && caught_up) {
            watch.arrival_ns = 0;
            return;
        }
        if watch.arrival_ns != 0 {
            let arrival_step = moment.now_ns.saturating_sub(watch.arrival_ns) as i64;
            meter
                .jitter
                .record_ns((arrival_step - i64::from(media_step_ms) * 1_000_000).unsigned_abs());
            if stamped.is_some() {
                let sent_step = sent_ns.wrapping_sub(watch.sent_ns) as i64;
                meter
                    .jitter_added
                    .record_ns((arrival_step - sent_step).unsigned_abs());
            }
        }
        if stamped.is_some() {
            meter.delay.record_ns(moment.now_ns.saturating_sub(sent_ns));
        }
        watch.arrival_ns = moment.now_ns;
        watch.sent_ns = sent_ns;
    }

    /// Something playable arrived, which is not looked into.
    pub fn arrived(&mut self, moment: &mut Moment<'_>) {
        self.first(moment, false);
        self.last_frame_ns = moment.now_ns;
    }

    fn first(&mut self, moment: &mut Moment<'_>, key: bool) {
        let since_connect = moment.now_ns.saturating_sub(self.connect_ns);
        if self.first_frame_ns == 0 {
            self.first_frame_ns = moment.now_ns;
            moment.meter.first_frame.record_ns(since_connect);
            moment.meter.played += 1;
        }
        if key && !self.key_seen {
            self.key_seen = true;
            moment.meter.first_key.record_ns(since_connect);
        }
    }
}

impl TrackWatch {
    fn sequence(&mut self, meter: &mut Meter, sequence: u32) {
        let ahead = sequence.wrapping_sub(self.next_sequence) as i32;
        if self.begun && ahead < 0 {
            meter.repeated += 1;
            return;
        }
        if self.begun && ahead > 0 {
            meter.gaps += 1;
            meter.missing += ahead.unsigned_abs() as u64;
        }
        self.next_sequence = sequence.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::{Stamp, Stamped};

    const WINDOW: Window = Window {
        start_ns: 0,
        end_ns: u64::MAX,
    };

    fn finding(sequence: u32, sent_ns: u64) -> Finding {
        let stamp = Stamp {
            stream: 0,
            sequence,
            dts_ms: 0,
            sent_ns,
            key: true,
        };
        Finding::Stamped {
            stamped: Stamped { stamp, checksum: 0 },
            intact: true,
        }
    }

    #[test]
    fn holes_repeats_and_times_going_back_are_counted() {
        let mut meter = Meter::default();
        let mut watch = Watch::new(1);
        for (sequence, timestamp_ms) in [(5, 100), (6, 140), (9, 260), (8, 220), (10, 300)] {
            let mut moment = Moment {
                now_ns: 10,
                window: WINDOW,
                meter: &mut meter,
            };
            watch.body(&mut moment, Track::Video, timestamp_ms, &finding(sequence, 2));
        }
        assert_eq!(
            (meter.gaps, meter.missing, meter.repeated, meter.dts_back),
            (1, 2, 1, 1)
        );
        assert_eq!((meter.played, meter.frames), (1, 5));
    }

    #[test]
    fn delay_and_jitter_start_with_the_frames_sent_after_joining() {
        let mut meter = Meter::default();
        let mut watch = Watch::new(MILLISECOND_NS);
        let frames = [(0, 0, 10, 1), (1, 40, 10, 2), (2, 80, 50, 48), (3, 120, 95, 88)];
        for (sequence, timestamp_ms, now_ms, sent_ms) in frames {
            let now_ns = now_ms * MILLISECOND_NS;
            let mut moment = Moment {
                now_ns,
                window: WINDOW,
                meter: &mut meter,
            };
            watch.body(
                &mut moment,
                Track::Video,
                timestamp_ms,
                &finding(sequence, sent_ms * MILLISECOND_NS),
            );
        }
        assert_eq!(meter.delay.count(), 2);
        assert!((meter.delay.max_ms() - 7.0).abs() < 0.1);
        assert_eq!(meter.jitter.count(), 1);
        assert!((meter.jitter.max_ms() - 5.0).abs() < 0.1);
        assert!((meter.jitter_added.max_ms() - 5.0).abs() < 0.1);
    }
}
