//! How far each track has come, and what is usual for it.

use spillway_ts::TICKS_PER_MS;

/// Distance of two pictures until two have been seen: 25 a second.
const DEFAULT_FRAME_TICKS: i64 = 40 * TICKS_PER_MS;

/// A longer distance is a pause and says nothing about the usual one: 1 s.
const MAX_FRAME_TICKS: i64 = 1000 * TICKS_PER_MS;

/// A track whose time steps back further starts a new timeline: 1 s.
const MAX_STEP_BACK_TICKS: i64 = 1000 * TICKS_PER_MS;

/// A sample further ahead of everything seen starts a new timeline: 10 s.
const MAX_STEP_AHEAD_TICKS: i64 = 10_000 * TICKS_PER_MS;

/// Progress inside one timeline, in media ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Decoding time of the last picture.
    pub(super) video: Option<i64>,
    /// Stamped time of the last sound.
    audio_stamp: Option<i64>,
    /// Counted time of the last sound.
    pub(super) audio: Option<i64>,
    /// Where audio was when the last picture came, or when audio began.
    pub(super) audio_at_video: Option<i64>,
    /// The usual distance of two pictures.
    pub(super) frame: i64,
    /// The usual distance of two sounds.
    pub(super) sound: i64,
    last_key: Option<i64>,
    last_refresh: Option<i64>,
    first_video: Option<i64>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            video: None,
            audio_stamp: None,
            audio: None,
            audio_at_video: None,
            frame: DEFAULT_FRAME_TICKS,
            sound: DEFAULT_FRAME_TICKS,
            last_key: None,
            last_refresh: None,
            first_video: None,
        }
    }

    /// Whether a video sample at `ticks` has no relation to this timeline.
    pub(super) fn video_jumps(&self, ticks: i64) -> bool {
        self.jumps(self.video, ticks)
    }

    /// Whether an audio sample stamped `ticks` has no relation to this timeline.
    pub(super) fn audio_jumps(&self, ticks: i64) -> bool {
        self.jumps(self.audio_stamp, ticks)
    }

    fn jumps(&self, own: Option<i64>, ticks: i64) -> bool {
        let back = own.is_some_and(|last| ticks < last.saturating_sub(MAX_STEP_BACK_TICKS));
        let newest = self.video.max(self.audio_stamp);
        back || newest.is_some_and(|newest| ticks > newest.saturating_add(MAX_STEP_AHEAD_TICKS))
    }

    /// Notes a picture; returns the distance from the key frame before it if this is one.
    pub(super) fn picture(&mut self, ticks: i64, key: bool, refresh: bool) -> Option<i64> {
        if let Some(last) = self.video {
            let step = ticks.saturating_sub(last);
            if (1..=MAX_FRAME_TICKS).contains(&step) {
                self.frame = step;
            }
        }
        self.video = Some(self.video.map_or(ticks, |last| last.max(ticks)));
        self.audio_at_video = self.audio.or(self.audio_at_video);
        self.first_video.get_or_insert(ticks);
        if refresh {
            self.last_refresh = Some(ticks);
        }
        if !(key || refresh) {
            return None;
        }
        self.last_key
            .replace(ticks)
            .map(|last| ticks.saturating_sub(last))
    }

    /// Notes a sound.
    pub(super) fn sound(&mut self, stamp: i64, ticks: i64) {
        if let Some(last) = self.audio {
            let step = ticks.saturating_sub(last);
            if (1..=MAX_FRAME_TICKS).contains(&step) {
                self.sound = step;
            }
        }
        self.audio_stamp = Some(stamp);
        self.audio = Some(ticks);
        self.audio_at_video.get_or_insert(ticks);
    }

    /// How far audio has come since the last picture.
    pub(super) fn audio_since_video(&self, ticks: i64) -> i64 {
        self.audio_at_video.map_or(0, |at| ticks.saturating_sub(at))
    }

    /// How long pictures have come without one that decoding can safely start at.
    pub(super) fn without_refresh(&self, ticks: i64) -> i64 {
        self.last_refresh
            .or(self.first_video)
            .map_or(0, |since| ticks.saturating_sub(since))
    }

    /// Where the media seen so far ends: by video, and by audio where `video` is out of the picture.
    pub(super) fn end(&self, video: bool) -> Option<i64> {
        let by_audio = self.audio.map(|audio| audio.saturating_add(self.sound));
        match self.video.filter(|_| video) {
            Some(last) => {
                let since = self.audio.map_or(0, |audio| self.audio_since_video(audio));
                let standing = since > MAX_FRAME_TICKS;
                Some(last.saturating_add(if standing { since } else { self.frame }))
            }
            None => by_audio,
        }
    }
}
