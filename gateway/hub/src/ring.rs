//! The frame ring: a single writer's bounded history that any number of readers walk with cursors.
//!
//! The ring is also the GOP cache: it remembers the newest join point (a key frame, or an audio frame of
//! a stream without video). Nothing a reader does keeps an entry alive in the ring: the writer evicts by
//! slots, bytes and media time, whichever bound is met first, and a reader that was too slow finds its
//! entry gone. Within the bounds it keeps what readers can need and no more: what is older than a join
//! point that is old enough goes too.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use crate::sync::{AtomicI64, AtomicU64, Ordering, SlotLock};

/// Entries that are no longer needed go at most this many with a new one: a long GOP all at once would hold up
/// the frame that makes it go.
const SURPLUS_AT_ONCE: usize = 2;

/// The bounds of a ring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingLimits {
    pub(crate) slots: usize,
    pub(crate) max_bytes: usize,
    pub(crate) max_duration_ms: i64,
}

/// What the writer says of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) dts_ms: i64,
    pub(crate) bytes: usize,
    /// Decoding may start here.
    pub(crate) join: bool,
}

/// What a reader finds at a position.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Slot<T> {
    Entry(T),
    /// Evicted: the reader was too slow.
    Gone,
    /// Not written yet.
    Future,
}

/// Where an entry is kept, with the sequence number it is for.
type Place<T> = SlotLock<Option<(u64, T)>>;

/// The readers' side.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// Made at the first write: a stream that viewers only wait for costs little.
    slots: OnceLock<Box<[Place<T>]>>,
    mask: u64,
    /// The next sequence number to be written.
    head: AtomicU64,
    /// The oldest sequence number still held.
    tail: AtomicU64,
    /// The newest join point plus one; zero: there is none.
    join: AtomicU64,
    newest_dts_ms: AtomicI64,
    bytes: AtomicU64,
}

impl<T: Clone> Ring<T> {
    /// The next sequence number to be written; everything below is written.
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// The oldest sequence number still held.
    pub(crate) fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// The newest join point still held.
    pub(crate) fn join_point(&self) -> Option<u64> {
        let seq = self.join.load(Ordering::Acquire).checked_sub(1)?;
        (seq >= self.tail()).then_some(seq)
    }

    /// The decode time of the newest entry.
    pub(crate) fn newest_dts_ms(&self) -> i64 {
        self.newest_dts_ms.load(Ordering::Relaxed)
    }

    /// The bytes the ring holds.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The entry at `seq`.
    pub(crate) fn get(&self, seq: u64) -> Slot<T> {
        if seq >= self.head() {
            return Slot::Future;
        }
        match self.slot(seq).map(SlotLock::get) {
            Some(Some((found, value))) if found == seq => Slot::Entry(value),
            _ => Slot::Gone,
        }
    }

    fn slot(&self, seq: u64) -> Option<&Place<T>> {
        self.slots.get()?.get(usize::try_from(seq & self.mask).ok()?)
    }
}

/// The writer's side: there is one.
#[derive(Debug)]
pub(crate) struct RingWriter<T> {
    ring: Arc<Ring<T>>,
    limits: RingLimits,
    held: VecDeque<Meta>,
    bytes: usize,
    /// How much history readers can need.
    needed_ms: i64,
    /// Sequence number and time of the join points after the tail.
    joins: VecDeque<(u64, i64)>,
}

impl<T: Clone> RingWriter<T> {
    pub(crate) fn new(limits: RingLimits) -> Self {
        let slots = limits.slots.max(2).next_power_of_two();
        let ring = Ring {
            slots: OnceLock::new(),
            mask: slots as u64 - 1,
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            join: AtomicU64::new(0),
            newest_dts_ms: AtomicI64::new(0),
            bytes: AtomicU64::new(0),
        };
        Self {
            ring: Arc::new(ring),
            limits: RingLimits { slots, ..limits },
            held: VecDeque::new(),
            bytes: 0,
            needed_ms: i64::MAX,
            joins: VecDeque::new(),
        }
    }

    /// From here on readers need the newest `ms` of media, and what comes before it from a join point on.
    pub(crate) fn need(&mut self, ms: i64) {
        self.needed_ms = ms;
    }

    pub(crate) fn ring(&self) -> &Arc<Ring<T>> {
        &self.ring
    }

    /// Appends an entry made for its sequence number, evicting what no longer fits. The newest entry is
    /// always held, whatever its size.
    pub(crate) fn push(&mut self, meta: Meta, make: impl FnOnce(u64) -> T) -> T {
        let seq = self.ring.head.load(Ordering::Relaxed);
        while self.must_evict(meta) {
            self.evict();
        }
        for _ in 0..SURPLUS_AT_ONCE {
            if self.has_surplus(meta) {
                self.evict();
            }
        }
        self.held.push_back(meta);
        if meta.join {
            self.joins.push_back((seq, meta.dts_ms));
        }
        self.bytes += meta.bytes;
        self.ring.bytes.store(self.bytes as u64, Ordering::Relaxed);
        let value = make(seq);
        self.ring
            .slots
            .get_or_init(|| (0..self.limits.slots).map(|_| SlotLock::new(None)).collect());
        if let Some(slot) = self.ring.slot(seq) {
            slot.replace(Some((seq, value.clone())));
        }
        self.ring.newest_dts_ms.store(meta.dts_ms, Ordering::Relaxed);
        self.ring.head.store(seq + 1, Ordering::Release);
        if meta.join {
            self.ring.join.store(seq + 1, Ordering::Release);
        }
        value
    }

    fn must_evict(&self, next: Meta) -> bool {
        self.held.front().is_some_and(|oldest| {
            self.held.len() >= self.limits.slots
                || self.bytes + next.bytes > self.limits.max_bytes
                || next.dts_ms - oldest.dts_ms > self.limits.max_duration_ms
        })
    }

    /// Whether a join point after the oldest entry is old enough to be the oldest.
    fn has_surplus(&mut self, next: Meta) -> bool {
        let tail = self.ring.tail.load(Ordering::Relaxed);
        while self.joins.front().is_some_and(|(seq, _)| *seq <= tail) {
            self.joins.pop_front();
        }
        self.joins
            .front()
            .is_some_and(|(_, dts_ms)| next.dts_ms.saturating_sub(*dts_ms) >= self.needed_ms)
    }

    fn evict(&mut self) {
        let Some(oldest) = self.held.pop_front() else {
            return;
        };
        self.bytes -= oldest.bytes;
        let tail = self.ring.tail.load(Ordering::Relaxed);
        self.ring.tail.store(tail + 1, Ordering::Release);
        if let Some(slot) = self.ring.slot(tail) {
            slot.replace(None);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn writer(slots: usize, max_bytes: usize, max_duration_ms: i64) -> RingWriter<u64> {
        RingWriter::new(RingLimits {
            slots,
            max_bytes,
            max_duration_ms,
        })
    }

    fn entry(dts_ms: i64, bytes: usize, join: bool) -> Meta {
        Meta { dts_ms, bytes, join }
    }

    #[test]
    fn a_reader_finds_what_was_written_and_no_more() {
        let mut writer = writer(4, 100, 1000);
        let ring = writer.ring().clone();
        assert_eq!(ring.get(0), Slot::Future);
        writer.push(entry(0, 1, true), |seq| seq + 100);
        assert_eq!(ring.get(0), Slot::Entry(100));
        assert_eq!(ring.get(1), Slot::Future);
    }

    #[test]
    fn each_bound_evicts_the_oldest() {
        let mut by_slots = writer(4, 1000, 1000);
        let mut by_bytes = writer(64, 40, 1000);
        let mut by_time = writer(64, 1000, 3);
        for n in 0..10 {
            for writer in [&mut by_slots, &mut by_bytes, &mut by_time] {
                writer.push(entry(n, 10, false), |seq| seq);
            }
        }
        for writer in [by_slots, by_bytes, by_time] {
            assert_eq!(writer.ring().tail(), 6);
            assert_eq!(writer.ring().get(5), Slot::Gone);
            assert_eq!(writer.ring().get(6), Slot::Entry(6));
        }
    }

    #[test]
    fn an_entry_larger_than_the_bound_is_still_the_newest() {
        let mut writer = writer(8, 10, 1000);
        writer.push(entry(0, 5, true), |seq| seq);
        writer.push(entry(1, 500, true), |seq| seq);
        assert_eq!((writer.ring().tail(), writer.ring().head()), (1, 2));
        writer.push(entry(2, 1, false), |seq| seq);
        assert_eq!(writer.ring().tail(), 2);
    }

    #[test]
    fn a_join_point_that_was_evicted_is_none() {
        let mut writer = writer(2, 1000, 1000);
        writer.push(entry(0, 1, true), |seq| seq);
        assert_eq!(writer.ring().join_point(), Some(0));
        writer.push(entry(1, 1, false), |seq| seq);
        writer.push(entry(2, 1, false), |seq| seq);
        assert_eq!(writer.ring().join_point(), None);
    }

    #[test]
    fn what_no_reader_needs_goes_a_group_of_pictures_at_a_time() {
        let mut writer = writer(1024, usize::MAX / 2, i64::MAX / 2);
        writer.need(25);
        let ring = writer.ring().clone();
        // A join point every 10 ms.
        for n in 0..35 {
            writer.push(entry(n, 1, n % 10 == 0), |seq| seq);
        }
        assert_eq!(ring.tail(), 0, "the join point at 10 is not 25 ms old yet");
        for n in 35..40 {
            writer.push(entry(n, 1, false), |seq| seq);
        }
        assert_eq!(ring.tail(), 10, "from the join point at 10 on all is kept");
    }

    #[test]
    fn the_newest_join_point_is_needed_however_old_it_is() {
        let mut writer = writer(1024, usize::MAX / 2, i64::MAX / 2);
        writer.need(5);
        for n in 0..500 {
            writer.push(entry(n, 1, n == 3), |seq| seq);
        }
        assert_eq!((writer.ring().tail(), writer.ring().join_point()), (3, Some(3)));
    }

    proptest! {
        #[test]
        fn the_ring_is_the_newest_part_of_the_history(
            entries in prop::collection::vec((0i64..50, 0usize..30, any::<bool>()), 1..200),
        ) {
            let mut writer = writer(16, 200, 300);
            let ring = writer.ring().clone();
            let mut history: Vec<Meta> = Vec::new();
            let mut dts = 0;
            for (step, bytes, join) in entries {
                dts += step;
                history.push(entry(dts, bytes, join));
                writer.push(entry(dts, bytes, join), |seq| seq);
                let head = history.len() as u64;
                let tail = ring.tail();
                prop_assert_eq!(ring.head(), head);
                prop_assert!(tail < head && head - tail <= 16);
                let held = &history[usize::try_from(tail).unwrap()..];
                prop_assert_eq!(ring.bytes(), held.iter().map(|m| m.bytes as u64).sum::<u64>());
                prop_assert!(held.len() == 1 || ring.bytes() <= 200 && dts - held[0].dts_ms <= 300);
                let join = history.iter().rposition(|m| m.join).map(|p| p as u64).filter(|p| *p >= tail);
                prop_assert_eq!(ring.join_point(), join);
                for seq in 0..head + 2 {
                    let expected = if seq >= head { Slot::Future } else if seq < tail { Slot::Gone } else { Slot::Entry(seq) };
                    prop_assert_eq!(ring.get(seq), expected);
                }
            }
        }
    }
}

/// What the models look for: a reader that sees an entry which is not the one it asked for, an entry that
/// is below the published head but not there although it was never evicted, a join point that cannot be read.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    const LIMITS: RingLimits = RingLimits {
        slots: 2,
        max_bytes: 1000,
        max_duration_ms: 1000,
    };

    #[test]
    fn loom_a_reader_sees_its_entry_or_that_it_is_gone() {
        loom::model(|| {
            let mut writer = RingWriter::new(LIMITS);
            let ring = writer.ring().clone();
            let reader = loom::thread::spawn(move || {
                let mut next = 0;
                for _ in 0..4 {
                    match ring.get(next) {
                        Slot::Entry(value) => {
                            assert_eq!(value, next * 10);
                            next += 1;
                        }
                        Slot::Gone => {
                            assert!(ring.tail() > next, "an entry that was not evicted is gone");
                            next = ring.tail();
                        }
                        Slot::Future => {}
                    }
                }
            });
            for n in 0..3 {
                writer.push(
                    Meta {
                        dts_ms: n,
                        bytes: 1,
                        join: false,
                    },
                    |seq| seq * 10,
                );
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn loom_a_join_point_is_readable_or_evicted() {
        loom::model(|| {
            let mut writer = RingWriter::new(LIMITS);
            let ring = writer.ring().clone();
            let reader = loom::thread::spawn(move || {
                if let Some(seq) = ring.join_point() {
                    match ring.get(seq) {
                        Slot::Entry(value) => assert_eq!(value, seq),
                        Slot::Gone => assert!(ring.tail() > seq),
                        Slot::Future => panic!("a join point that is not written yet"),
                    }
                }
            });
            for n in 0..3 {
                writer.push(
                    Meta {
                        dts_ms: n,
                        bytes: 1,
                        join: n % 2 == 0,
                    },
                    |seq| seq,
                );
            }
            reader.join().unwrap();
        });
    }
}
