//! Which tracks the packager works with: configurations in force and waiting, and the tracks left out.

use std::sync::Arc;

use spillway_media::codec::{Codec, CodecConfig};
use spillway_media::sample::TrackKind;
use spillway_ts::{TsError, TsMuxer};

use crate::segment::{SegmentTracks, TrackInfo};

/// A track that is published but not in the segments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Which track.
    pub kind: TrackKind,
    /// Its codec.
    pub codec: Codec,
    /// Why.
    pub reason: TsError,
}

/// One track's configuration.
#[derive(Debug, Default)]
struct Track {
    config: Option<Arc<CodecConfig>>,
    info: Option<TrackInfo>,
    skipped: Option<Skipped>,
    /// Set but not in force yet: takes effect at a segment border.
    waiting: Option<Option<Arc<CodecConfig>>>,
}

/// Both tracks.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    video: Track,
    audio: Track,
    summary: Option<Arc<SegmentTracks>>,
}

impl Tracks {
    fn track(&self, kind: TrackKind) -> &Track {
        match kind {
            TrackKind::Video => &self.video,
            TrackKind::Audio => &self.audio,
        }
    }

    fn track_mut(&mut self, kind: TrackKind) -> &mut Track {
        match kind {
            TrackKind::Video => &mut self.video,
            TrackKind::Audio => &mut self.audio,
        }
    }

    /// Notes a configuration; identical ones change nothing.
    pub(crate) fn set(&mut self, kind: TrackKind, config: Option<Arc<CodecConfig>>) {
        let track = self.track_mut(kind);
        let same = match (&track.config, &config) {
            (Some(now), Some(new)) => Arc::ptr_eq(now, new) || now == new,
            (None, None) => true,
            _ => false,
        };
        track.waiting = if same { None } else { Some(config) };
    }

    /// Whether a configuration waits for a segment border.
    pub(crate) fn waiting(&self, kind: TrackKind) -> bool {
        self.track(kind).waiting.is_some()
    }

    /// Whether the track had a configuration before the one that waits.
    pub(crate) fn configured(&self, kind: TrackKind) -> bool {
        self.track(kind).config.is_some()
    }

    /// Puts what waits for `kind` into force.
    pub(crate) fn apply(&mut self, kind: TrackKind, muxer: &mut TsMuxer) {
        let track = self.track_mut(kind);
        let Some(config) = track.waiting.take() else {
            return;
        };
        let result = match kind {
            TrackKind::Video => muxer.set_video(config.as_deref()),
            TrackKind::Audio => muxer.set_audio(config.as_deref()),
        };
        track.skipped = match (&config, result) {
            (Some(config), Err(reason)) => Some(Skipped {
                kind,
                codec: config.codec(),
                reason,
            }),
            _ => None,
        };
        let carried = config.as_deref().filter(|_| track.skipped.is_none());
        track.info = carried.map(TrackInfo::of);
        track.config = config;
    }

    /// The tracks that are published but left out.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = &Skipped> {
        self.video.skipped.iter().chain(&self.audio.skipped)
    }

    /// The description of a segment that declares these tracks; the same object while nothing changes.
    pub(crate) fn summary(&mut self, video: bool, audio: bool) -> Arc<SegmentTracks> {
        let new = SegmentTracks {
            video: self.video.info.clone().filter(|_| video),
            audio: self.audio.info.clone().filter(|_| audio),
        };
        match &self.summary {
            Some(summary) if **summary == new => summary.clone(),
            _ => self.summary.insert(Arc::new(new)).clone(),
        }
    }
}
