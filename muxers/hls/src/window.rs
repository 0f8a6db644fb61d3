//! [`Window`]: which segments a playlist lists, which are still served, and their numbers.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::segment::Segment;

/// Room for a key frame that comes a little later than the ones before, when the target duration is promised.
const PREDICTION_MARGIN_MS: u64 = 100;

/// The least time a playlist covers before a segment is taken off it, in target durations
/// (RFC 8216 §6.2.2).
const MIN_LISTED_TARGETS: u64 = 3;

/// However short the segments, no more than this many times the configured number is listed.
const MAX_LISTED_FACTOR: usize = 3;

/// The bounds of a window.
#[derive(Debug, Clone)]
pub struct WindowOptions {
    /// Segments listed.
    pub listed: usize,
    /// Segments still served after they left the list.
    pub retained: usize,
    /// Bytes of all of them. Beyond it the oldest go first, listed ones at last; one always stays.
    pub max_bytes: u64,
    /// The first media sequence number. Unix seconds, so that it rises over restarts of the process.
    pub first_msn: u64,
    /// The first discontinuity sequence number.
    pub first_dsn: u64,
    /// Begins every segment's name; unique for this process and window.
    pub name_prefix: String,
    /// The configured segment duration: the target duration is never below it.
    pub target_ms: u32,
}

/// A segment with its place in the stream.
#[derive(Debug)]
pub struct ListedSegment {
    /// Its media sequence number.
    pub msn: u64,
    /// Its file name, never used again.
    pub name: String,
    /// The segment.
    pub segment: Segment,
}

/// The segments of one stream.
#[derive(Debug)]
pub struct Window {
    options: WindowOptions,
    segments: VecDeque<Arc<ListedSegment>>,
    /// How many at the front are retained, not listed.
    retained: usize,
    bytes: u64,
    next_msn: u64,
    dsn: u64,
    target_duration_s: Option<u32>,
    ended: bool,
}

impl Window {
    /// An empty window.
    pub fn new(options: WindowOptions) -> Self {
        Self {
            next_msn: options.first_msn,
            dsn: options.first_dsn,
            options,
            segments: VecDeque::new(),
            retained: 0,
            bytes: 0,
            target_duration_s: None,
            ended: false,
        }
    }

    /// Lists a segment, takes what no longer fits off the list and drops what is no longer served.
    pub fn push(&mut self, segment: Segment) {
        let msn = self.next_msn;
        self.next_msn += 1;
        self.bytes += segment.bytes;
        let name = format!("{}{msn}.ts", self.options.name_prefix);
        self.segments
            .push_back(Arc::new(ListedSegment { msn, name, segment }));
        self.ended = false;
        while self.overlong() {
            self.unlist();
        }
        while self.retained > self.options.retained {
            self.drop_oldest();
        }
        while self.bytes > self.options.max_bytes && self.segments.len() > 1 {
            if self.retained == 0 {
                self.unlist();
            }
            self.drop_oldest();
        }
    }

    fn overlong(&self) -> bool {
        let listed = self.listed();
        if listed <= self.options.listed.max(1) {
            return false;
        }
        let target = u64::from(self.target_duration_s.unwrap_or_else(|| self.least_target_s()));
        let rest: u64 = self
            .segments
            .iter()
            .skip(self.retained + 1)
            .map(|listed| listed.segment.duration_ticks_90k)
            .sum();
        let covered = rest >= MIN_LISTED_TARGETS * target * 90_000;
        covered || listed > self.options.listed.max(1).saturating_mul(MAX_LISTED_FACTOR)
    }

    /// Takes the oldest listed segment off the list.
    fn unlist(&mut self) {
        if let Some(oldest) = self.segments.get(self.retained) {
            self.dsn += u64::from(oldest.segment.discontinuity);
            self.retained += 1;
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(dropped) = self.segments.pop_front() {
            self.bytes -= dropped.segment.bytes;
            self.retained = self.retained.saturating_sub(1);
        }
    }

    /// The number of segments listed.
    pub fn listed(&self) -> usize {
        self.segments.len() - self.retained
    }

    /// The bytes held, listed and retained.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number the next segment gets.
    pub fn next_msn(&self) -> u64 {
        self.next_msn
    }

    /// A discontinuity sequence number above every one this window has shown.
    pub fn next_dsn(&self) -> u64 {
        let listed = self.segments.iter().skip(self.retained);
        self.dsn
            + listed
                .map(|listed| u64::from(listed.segment.discontinuity))
                .sum::<u64>()
            + 1
    }

    fn least_target_s(&self) -> u32 {
        self.options.target_ms.div_ceil(1000).max(1)
    }

    /// The target duration in seconds. The first call with a segment listed fixes it: the configured one, or
    /// the longest segment seen or `predicted_ms`, whichever rounds highest.
    pub fn target_duration_s(&mut self, predicted_ms: u32) -> Option<u32> {
        if self.target_duration_s.is_none() && self.listed() > 0 {
            let listed = self.segments.iter().skip(self.retained);
            let seen = listed.map(|listed| listed.segment.rounded_s()).max().unwrap_or(0);
            let predicted = (u64::from(predicted_ms) + PREDICTION_MARGIN_MS + 500) / 1000;
            let longest = u32::try_from(seen.max(predicted)).unwrap_or(u32::MAX);
            self.target_duration_s = Some(longest.max(self.least_target_s()));
        }
        self.target_duration_s
    }

    /// Nothing will be added: the playlist says so from now on.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Begins a new list: what was listed is only retained, numbers go on, the target duration is free again.
    /// For a stream that comes back after its end, or after nobody asked for long.
    pub fn restart(&mut self) {
        while self.retained < self.segments.len() {
            self.unlist();
        }
        while self.retained > self.options.retained {
            self.drop_oldest();
        }
        self.target_duration_s = None;
        self.ended = false;
    }

    /// The window as playlists and look-ups need it; `None` while nothing is listed or no target duration is
    /// fixed.
    pub fn snapshot(&self) -> Option<Snapshot> {
        let target_duration_s = self.target_duration_s.filter(|_| self.listed() > 0)?;
        Some(Snapshot {
            target_duration_s,
            discontinuity_sequence: self.dsn,
            segments: self.segments.iter().cloned().collect(),
            retained: self.retained,
            ended: self.ended,
        })
    }

    /// Every segment served, oldest first.
    pub fn served(&self) -> impl Iterator<Item = &Arc<ListedSegment>> {
        self.segments.iter()
    }
}

/// One state of a window.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// `EXT-X-TARGETDURATION`.
    pub target_duration_s: u32,
    /// `EXT-X-DISCONTINUITY-SEQUENCE`.
    pub discontinuity_sequence: u64,
    /// Every segment served, oldest first, their numbers without a hole.
    pub segments: Vec<Arc<ListedSegment>>,
    /// How many of them, from the front, are no longer listed.
    pub retained: usize,
    /// `EXT-X-ENDLIST`.
    pub ended: bool,
}

impl Snapshot {
    /// The listed segments, oldest first.
    pub fn listed(&self) -> &[Arc<ListedSegment>] {
        self.segments.get(self.retained..).unwrap_or_default()
    }

    /// Whether every listed segment can be decoded on its own.
    pub fn independent(&self) -> bool {
        self.listed().iter().all(|listed| listed.segment.independent)
    }

    /// The segment of this file name, listed or retained.
    pub fn find(&self, name: &str) -> Option<&Arc<ListedSegment>> {
        let digits = name.strip_suffix(".ts")?;
        let digits = digits.get(digits.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1)..)?;
        let msn: u64 = digits.parse().ok()?;
        let first = self.segments.first()?.msn;
        let index = usize::try_from(msn.checked_sub(first)?).ok()?;
        self.segments.get(index).filter(|segment| segment.name == name)
    }
}
