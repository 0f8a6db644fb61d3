//! [`Packager`]: samples in, finished segments out.

mod open;
mod progress;

use std::sync::Arc;

use spillway_media::codec::CodecConfig;
use spillway_media::sample::{Sample, TrackKind};
use spillway_ts::es::AccessUnit;
use spillway_ts::{ClockSource, TICKS_PER_MS, TsMuxer, ticks_of_ms};

use crate::boundary::{AtPicture, Boundary, Cut, Eager, MIN_SEGMENT_TICKS};
use crate::segment::Segment;
use crate::tracks::Tracks;
use open::{Open, WallClock};
use progress::Progress;

pub use crate::tracks::Skipped;

/// Video that has not come for this much audio time stands still: 1 s. Less would take an encoder's
/// interleaving for a pause.
const STALL_TICKS: i64 = 1000 * TICKS_PER_MS;

/// A track silent for this long is no longer declared: 10 s.
const GONE_TICKS: i64 = 10_000 * TICKS_PER_MS;

/// The bounds of a packager.
#[derive(Debug, Clone, Copy)]
pub struct PackagerOptions {
    /// Segments end at the first key frame at or after this duration.
    pub target_ms: u32,
    /// The longest segment while no target duration is promised yet.
    pub max_segment_ms: u32,
    /// The bytes after which a segment is ended wherever it is.
    pub max_segment_bytes: u64,
}

impl Default for PackagerOptions {
    fn default() -> Self {
        Self {
            target_ms: 2000,
            max_segment_ms: 12_000,
            max_segment_bytes: 16 << 20,
        }
    }
}

/// Cuts one stream into MPEG-TS segments.
///
/// Give it configurations before the samples they apply to, and samples in the order they came. Segments start
/// with a key frame unless a bound forces a cut elsewhere; those say so by [`Segment::independent`].
#[derive(Debug)]
pub struct Packager {
    options: PackagerOptions,
    boundary: Boundary,
    muxer: TsMuxer,
    tracks: Tracks,
    progress: Progress,
    open: Option<Open>,
    wall: Option<WallClock>,
    last_wall_unix_ms: u64,
    discontinuity_next: bool,
    emitted: u64,
    longest_gop: i64,
    last_gop: i64,
    declared_audio: bool,
    silent_ticks: i64,
    audio_seen: bool,
    refused: u64,
    /// End of the last segment in this timeline: the next one starts there.
    last_end: Option<i64>,
}

impl Packager {
    /// A packager without tracks.
    pub fn new(options: PackagerOptions) -> Self {
        Self {
            boundary: Boundary::new(
                options.target_ms,
                options.max_segment_ms,
                options.max_segment_bytes,
            ),
            options,
            muxer: TsMuxer::new(),
            tracks: Tracks::default(),
            progress: Progress::new(),
            open: None,
            wall: None,
            last_wall_unix_ms: 0,
            discontinuity_next: false,
            emitted: 0,
            longest_gop: 0,
            last_gop: 0,
            declared_audio: false,
            silent_ticks: 0,
            audio_seen: false,
            refused: 0,
            last_end: None,
        }
    }

    /// Sets a track's configuration for the samples that follow. The same one again changes nothing; another
    /// one ends the segment at the track's next key frame, and the next begins with a discontinuity.
    pub fn set_config(&mut self, kind: TrackKind, config: Option<Arc<CodecConfig>>) {
        self.tracks.set(kind, config);
    }

    /// The tracks that are published but cannot be carried.
    pub fn skipped_tracks(&self) -> impl Iterator<Item = &Skipped> {
        self.tracks.skipped()
    }

    /// Samples dropped because they were damaged, late or beyond the byte bound.
    pub fn refused_samples(&self) -> u64 {
        self.refused
    }

    /// The longest segment that the key frames seen so far lead to, in milliseconds.
    ///
    /// While a stream with video has shown just one, it may be as far to the next as the longest segment goes.
    pub fn predicted_ms(&self) -> u32 {
        let one_key = self.longest_gop == 0 && self.open.as_ref().is_some_and(|open| open.video);
        let longest = self.boundary.longest();
        let ticks = if one_key {
            longest
        } else {
            self.boundary.predicted(self.longest_gop).min(longest)
        };
        u32::try_from(ticks / TICKS_PER_MS).unwrap_or(u32::MAX)
    }

    /// Promises that no further segment's duration rounds to more than `seconds`.
    pub fn limit_to(&mut self, seconds: u32) {
        self.boundary.limit_to(seconds);
    }

    /// Takes the promise of [`limit_to`](Self::limit_to) back: for a new playlist.
    pub fn unlimit(&mut self) {
        let options = &self.options;
        self.boundary = Boundary::new(
            options.target_ms,
            options.max_segment_ms,
            options.max_segment_bytes,
        );
        self.longest_gop = self.last_gop;
    }

    /// Bytes of the open segment.
    pub fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |_| self.muxer.segment_bytes())
    }

    /// Takes one sample that arrived at `arrived_unix_ms`; returns the segment that it ended, if any.
    pub fn push(&mut self, sample: &Sample, arrived_unix_ms: u64) -> Option<Segment> {
        let ticks = ticks_of_ms(sample.dts_ms);
        let jumps = match sample.kind {
            TrackKind::Video => self.progress.video_jumps(ticks),
            TrackKind::Audio => self.progress.audio_jumps(ticks),
        };
        let counts = self.muxer.carries(sample.kind) || self.tracks.waiting(sample.kind);
        let ended = if jumps && counts { self.finish() } else { None };
        if self.open.is_none() {
            self.apply_waiting();
        }
        if self.overfull(sample) {
            self.refused += 1;
            return ended;
        }
        let cut = match sample.kind {
            TrackKind::Video => match self.progress.video.filter(|last| ticks <= *last) {
                // A small step back: as close behind the picture before as milliseconds allow.
                Some(last) => {
                    let dts_ms = last / TICKS_PER_MS + 1;
                    let clamped = Sample {
                        dts_ms,
                        ..sample.clone()
                    };
                    self.push_video(&clamped, ticks_of_ms(dts_ms), arrived_unix_ms)
                }
                None => self.push_video(sample, ticks, arrived_unix_ms),
            },
            TrackKind::Audio => self.push_audio(sample, ticks, arrived_unix_ms),
        };
        ended.or(cut)
    }

    /// Ends the open segment and the timeline: the publisher left, or its times start anew. What follows begins
    /// with a discontinuity at a key frame.
    pub fn finish(&mut self) -> Option<Segment> {
        let segment = self.open.as_ref().and_then(|open| {
            let least = open.start.saturating_add(self.progress.frame);
            let most = open.start.saturating_add(self.boundary.longest());
            Some(self.progress.end(open.video)?.max(least).min(most))
        });
        let segment = segment.and_then(|end| self.close(end));
        self.open = None;
        self.wall = None;
        self.last_end = None;
        self.progress = Progress::new();
        self.muxer.discontinuity();
        self.discontinuity_next = self.emitted > 0;
        segment
    }

    /// Ends the open segment at once without a new timeline: somebody has waited long enough. The segment after
    /// it starts without a key frame. `None` if there is hardly anything to end.
    pub fn force_cut(&mut self) -> Option<Segment> {
        let open = self.open.as_ref().filter(|open| !open.is_empty())?;
        let end = self
            .progress
            .end(open.video)?
            .min(open.start.saturating_add(self.boundary.longest()));
        if end.saturating_sub(open.start) < MIN_SEGMENT_TICKS {
            return None;
        }
        let (video, source) = (open.video, open.source);
        let segment = self.close(end);
        self.begin(end, video, source, 0);
        segment
    }

    fn overfull(&self, sample: &Sample) -> bool {
        let limit = self.options.max_segment_bytes.saturating_mul(2);
        self.open_bytes().saturating_add(sample.data.len() as u64) > limit
    }

    fn apply_waiting(&mut self) {
        for kind in [TrackKind::Video, TrackKind::Audio] {
            if self.tracks.waiting(kind) {
                // A first configuration shows as a changed program; another one needs saying.
                self.discontinuity_next |= self.tracks.configured(kind) && self.emitted > 0;
                self.tracks.apply(kind, &mut self.muxer);
            }
        }
    }

    fn push_video(&mut self, sample: &Sample, ticks: i64, arrived_unix_ms: u64) -> Option<Segment> {
        let mut ended = None;
        if self.open.is_some() && sample.key && self.tracks.waiting(TrackKind::Video) {
            self.drop_prelude(ticks);
            ended = self.close_honestly(ticks);
            self.apply_waiting();
        }
        if !self.muxer.carries(TrackKind::Video) {
            return ended;
        }
        let Ok(unit) = self.muxer.read_video(sample) else {
            self.refused += 1;
            return ended;
        };
        if unit.has_picture() {
            let cut = self.place_picture(sample, &unit, ticks, arrived_unix_ms);
            ended = ended.or(cut);
        } else {
            // Parameter sets or SEI on their own: the muxer holds them for the next picture.
            let _ = self.muxer.push_video(&unit, sample);
        }
        ended
    }

    fn place_picture(
        &mut self,
        sample: &Sample,
        unit: &AccessUnit<'_>,
        ticks: i64,
        arrived_unix_ms: u64,
    ) -> Option<Segment> {
        let refresh = unit.is_refresh();
        let refreshless = self.progress.without_refresh(ticks) >= 2 * self.boundary.target();
        let ended = match self.cut_at_picture(sample, refresh, refreshless, ticks) {
            Cut::No => None,
            Cut::Here => self.close_honestly(ticks),
            Cut::Break => self.finish(),
        };
        if let Some(gop) = self
            .progress
            .picture(ticks, sample.key, refresh)
            .filter(|gop| *gop > 0)
        {
            self.last_gop = gop;
            self.longest_gop = self.longest_gop.max(gop);
        }
        let starts =
            refresh || (sample.key && refreshless) || ended.as_ref().is_some_and(|_| self.wall.is_some());
        if self.open.is_none() && starts {
            if refresh && !self.tracks.waiting(TrackKind::Video) {
                self.apply_waiting();
            }
            self.begin(ticks, true, ClockSource::Video, arrived_unix_ms);
        }
        let late = self.muxer.is_late(ticks);
        match self.open.as_mut().filter(|open| open.video) {
            Some(open) if !late => {
                if open.pictures == 0 {
                    open.refreshed = refresh;
                }
                open.pictures += 1;
                let _ = self.muxer.push_video(unit, sample);
            }
            Some(_) => self.refused += 1,
            None => {}
        }
        ended
    }

    fn cut_at_picture(&self, sample: &Sample, refresh: bool, refreshless: bool, ticks: i64) -> Cut {
        let Some(open) = &self.open else { return Cut::No };
        if self.muxer.is_late(ticks) {
            return if refresh { Cut::Break } else { Cut::No };
        }
        if !open.video {
            return if refresh { Cut::Here } else { Cut::No };
        }
        let change = self.tracks.waiting(TrackKind::Video)
            || (self.tracks.waiting(TrackKind::Audio) && self.tracks.configured(TrackKind::Audio));
        let eager = if change || open.stalled() || !open.independent() {
            Eager::Now
        } else if self.emitted == 0 {
            Eager::Soon
        } else {
            Eager::No
        };
        self.boundary.at_picture(&AtPicture {
            elapsed: ticks.saturating_sub(open.start),
            frame_ticks: self.progress.frame,
            refresh,
            key: sample.key,
            gop_ticks: self.last_gop,
            refreshless,
            eager,
            bytes: self
                .muxer
                .segment_bytes()
                .saturating_add(sample.data.len() as u64),
        })
    }

    fn push_audio(&mut self, sample: &Sample, stamp: i64, arrived_unix_ms: u64) -> Option<Segment> {
        let mut ended = self.change_audio(stamp);
        if !self.muxer.carries(TrackKind::Audio) {
            self.audio_seen |= self.tracks.waiting(TrackKind::Audio);
            return ended;
        }
        let ticks = self.muxer.audio_ticks(sample);
        let cut = match &self.open {
            Some(open) if self.tracks.waiting(TrackKind::Audio) && open.video => return ended,
            Some(open) if open.video => self.cut_standing_video(ticks),
            Some(open) => {
                let elapsed = ticks.saturating_sub(open.start);
                match self
                    .boundary
                    .at_audio(elapsed, self.progress.sound, self.muxer.segment_bytes())
                {
                    Cut::No => None,
                    Cut::Here => self.close_and_begin_audio(ticks, arrived_unix_ms),
                    Cut::Break => self.finish(),
                }
            }
            None => None,
        };
        ended = ended.or(cut);
        // Counted anew if the cut was a new timeline.
        let ticks = self.muxer.audio_ticks(sample);
        self.progress.sound(stamp, ticks);
        self.audio_seen = true;
        if self.open.is_none() && self.audio_may_start(ticks) {
            if self.muxer.is_late(ticks) {
                // Pictures that are gone drove the clock past this sound.
                self.muxer.discontinuity();
                self.discontinuity_next = self.emitted > 0;
            }
            self.begin(ticks, false, ClockSource::Audio, arrived_unix_ms);
        }
        self.write_sound(sample, ticks);
        ended
    }

    fn write_sound(&mut self, sample: &Sample, ticks: i64) {
        let sound = self.progress.sound;
        // What was over before the first picture would only make the start of the timeline earlier.
        let wanted =
            |open: &&mut Open| open.audio && !(open.first && ticks.saturating_add(sound) < open.start);
        let Some(open) = self.open.as_mut().filter(wanted) else {
            return;
        };
        match self.muxer.push_audio(sample) {
            Ok(_) => open.sounds += 1,
            Err(_) => self.refused += 1,
        }
    }

    /// Puts a waiting audio configuration into force where that needs no key frame.
    fn change_audio(&mut self, stamp: i64) -> Option<Segment> {
        let open = self
            .open
            .as_ref()
            .filter(|_| self.tracks.waiting(TrackKind::Audio))?;
        if !self.tracks.configured(TrackKind::Audio) {
            if open.first {
                self.tracks.apply(TrackKind::Audio, &mut self.muxer);
            }
            return None;
        }
        if open.video {
            return None;
        }
        let ended = self.close_honestly(stamp);
        self.apply_waiting();
        ended
    }

    /// Whether audio begins a segment of its own: there is no video, or it has not come for long.
    fn audio_may_start(&self, ticks: i64) -> bool {
        !self.muxer.carries(TrackKind::Video)
            || self.progress.audio_since_video(ticks) >= 2 * self.boundary.target()
    }

    /// Ends a segment by audio time when video stands still.
    fn cut_standing_video(&mut self, ticks: i64) -> Option<Segment> {
        let open = self.open.as_ref()?;
        let since = self.progress.audio_since_video(ticks);
        let last = self.progress.video.unwrap_or(open.start);
        let now = last.saturating_add(since);
        let elapsed = now.saturating_sub(open.start);
        let due = if open.stalled() {
            self.boundary.target()
        } else {
            2 * self.boundary.target()
        };
        let full = elapsed.saturating_add(self.progress.sound) > self.boundary.longest();
        let heavy = self.muxer.segment_bytes() > self.options.max_segment_bytes;
        if elapsed < MIN_SEGMENT_TICKS || !((since >= STALL_TICKS && (elapsed >= due || full)) || heavy) {
            return None;
        }
        let end = now.min(open.start.saturating_add(self.boundary.longest()));
        let ahead = self
            .progress
            .audio_at_video
            .map_or(0, |at| at.saturating_sub(last));
        let ended = self.close(end);
        if since >= GONE_TICKS {
            self.begin(end, false, ClockSource::Audio, 0);
        } else {
            self.begin(
                end,
                true,
                ClockSource::StalledVideo {
                    audio_ahead_ticks: ahead,
                },
                0,
            );
        }
        ended
    }

    fn close_and_begin_audio(&mut self, ticks: i64, arrived_unix_ms: u64) -> Option<Segment> {
        let ended = self.close(ticks);
        self.begin(ticks, false, ClockSource::Audio, arrived_unix_ms);
        ended
    }

    /// Throws away the moment of sound before the first picture of a stream: a playlist that began with it would
    /// make players set up for audio alone.
    fn drop_prelude(&mut self, ticks: i64) {
        let prelude = self.open.as_ref().is_some_and(|open| {
            !open.video && self.emitted == 0 && ticks.saturating_sub(open.start) < self.boundary.target()
        });
        if prelude {
            self.muxer.end_segment(false, true);
            self.muxer.discontinuity();
            self.open = None;
            self.wall = None;
        }
    }

    /// Closes at `end` if the duration up to there may be told, else ends the timeline.
    fn close_honestly(&mut self, end: i64) -> Option<Segment> {
        let open = self.open.as_ref()?;
        let elapsed = end.saturating_sub(open.start);
        if (1..=self.boundary.longest()).contains(&elapsed) {
            self.close(end)
        } else {
            self.finish()
        }
    }

    /// Ends the open segment at `end`. An empty one vanishes.
    fn close(&mut self, end: i64) -> Option<Segment> {
        let open = self.open.take()?;
        if open.is_empty() {
            self.discontinuity_next |= open.discontinuity;
            self.wall = self.wall.filter(|_| self.last_end.is_some());
            return None;
        }
        let duration = end.saturating_sub(open.start).max(1);
        self.silent_ticks = if open.sounds > 0 {
            0
        } else {
            self.silent_ticks.saturating_add(duration)
        };
        self.declared_audio =
            open.sounds > 0 || (self.declared_audio && !open.first && self.silent_ticks < GONE_TICKS);
        let ts = self.muxer.end_segment(open.video, self.declared_audio);
        let end = open.start.saturating_add(duration);
        self.last_end = Some(end);
        self.last_wall_unix_ms = self.wall.map_or(self.last_wall_unix_ms, |wall| wall.at(end));
        let discontinuity = open.discontinuity || (ts.program_changed && self.emitted > 0);
        self.emitted += 1;
        Some(Segment {
            duration_ticks_90k: duration.unsigned_abs(),
            discontinuity,
            independent: open.independent(),
            program_date_time_unix_ms: open.program_date_time_unix_ms,
            parts: ts.parts.into(),
            bytes: ts.bytes,
            tracks: self.tracks.summary(open.video, self.declared_audio),
        })
    }

    /// Opens a segment at `start`. Waiting configurations take effect where decoding starts afresh; a track's
    /// first one does at any border.
    fn begin(&mut self, start: i64, video: bool, source: ClockSource, arrived_unix_ms: u64) {
        if self.tracks.waiting(TrackKind::Audio) && !self.tracks.configured(TrackKind::Audio) {
            self.tracks.apply(TrackKind::Audio, &mut self.muxer);
        }
        if source == ClockSource::Audio {
            self.apply_waiting();
        }
        let first = self.wall.is_none();
        let start = match self.last_end {
            Some(end) if !first && !self.discontinuity_next => end,
            Some(end) if !first && end != start => {
                // What was left out before the discontinuity is no media time.
                self.wall = None;
                start
            }
            _ => start,
        };
        let wall = *self.wall.get_or_insert_with(|| WallClock {
            anchor_unix_ms: arrived_unix_ms.max(self.last_wall_unix_ms),
            anchor_ticks: start,
        });
        let audio_seen = std::mem::take(&mut self.audio_seen);
        let audio = first || !video || self.declared_audio || audio_seen;
        self.muxer.begin_segment(source);
        self.open = Some(Open {
            start,
            source,
            video,
            audio,
            first,
            discontinuity: std::mem::take(&mut self.discontinuity_next),
            pictures: 0,
            refreshed: false,
            sounds: 0,
            program_date_time_unix_ms: wall.at(start),
        });
    }
}
