//! HLS: transport streams, segments and playlists.

use super::{Material, PASS_MS, SMALL, Work};
use crate::generator::StreamShape;
use spillway_hls::{Packager, PackagerOptions, Segment, Snapshot, Window, WindowOptions, playlist};
use spillway_media::{Sample, TrackKind};
use spillway_ts::{ClockSource, TsMuxer};
use std::hint::black_box;

/// The wall clock of the first pass, in Unix milliseconds: some time in 2026.
const EPOCH_UNIX_MS: u64 = 1_780_000_000_000;
/// Playlists rendered in a pass: what a thousand players would ask for, were it not kept.
const PLAYLISTS: u64 = 1_000;
/// Segments listed, and as many retained: the default.
const LISTED: usize = 6;

/// Moves samples to the next pass's time.
fn advance(samples: &mut [Sample]) {
    for sample in samples {
        sample.dts_ms += i64::from(PASS_MS);
    }
}

fn packager() -> Packager {
    let mut packager = Packager::new(PackagerOptions::default());
    let [video, audio] = Material::configs();
    packager.set_config(TrackKind::Video, Some(video));
    packager.set_config(TrackKind::Audio, Some(audio));
    packager
}

/// Samples to one MPEG-TS segment, without the decision where it ends.
#[derive(Debug)]
pub struct TsMuxing {
    samples: Vec<Sample>,
    muxer: TsMuxer,
}

impl TsMuxing {
    /// Muxes a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut muxer = TsMuxer::new();
        let [video, audio] = Material::configs();
        muxer.set_video(Some(&video)).expect("H.264 can be carried");
        muxer.set_audio(Some(&audio)).expect("AAC can be carried");
        let mut work = Self {
            samples: Material::new(shape).samples(),
            muxer,
        };
        work.pass();
        work
    }
}

impl Work for TsMuxing {
    fn pass(&mut self) {
        self.muxer.begin_segment(ClockSource::Video);
        for sample in &self.samples {
            match sample.kind {
                TrackKind::Video => {
                    let unit = self.muxer.read_video(sample).expect("a valid access unit");
                    self.muxer.push_video(&unit, sample).expect("there is video");
                }
                TrackKind::Audio => {
                    self.muxer.push_audio(sample).expect("there is audio");
                }
            }
        }
        black_box(self.muxer.end_segment(true, true));
        advance(&mut self.samples);
    }

    fn items(&self) -> u64 {
        self.samples.len() as u64
    }
}

/// Samples to one finished HLS segment.
#[derive(Debug)]
pub struct Packaging {
    samples: Vec<Sample>,
    packager: Packager,
    unix_ms: u64,
}

impl Packaging {
    /// Packages a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut work = Self {
            samples: Material::new(shape).samples(),
            packager: packager(),
            unix_ms: EPOCH_UNIX_MS,
        };
        // The first pass ends no segment: the second's key frame does.
        assert!(work.segment().is_none());
        work.pass();
        work
    }

    fn segment(&mut self) -> Option<Segment> {
        let mut segment = None;
        for sample in &self.samples {
            let ended = self.packager.push(sample, self.unix_ms);
            segment = segment.or(ended);
        }
        advance(&mut self.samples);
        self.unix_ms += u64::from(PASS_MS);
        segment
    }
}

impl Work for Packaging {
    fn pass(&mut self) {
        let segment = self.segment().expect("each key frame ends a segment");
        black_box(segment);
    }

    fn items(&self) -> u64 {
        self.samples.len() as u64
    }
}

/// A full window of the small stream, and a segment to go on with.
fn window() -> (Window, Segment) {
    let mut packaging = Packaging::new(SMALL);
    let mut window = Window::new(WindowOptions {
        listed: LISTED,
        retained: LISTED,
        max_bytes: 64 << 20,
        first_msn: EPOCH_UNIX_MS / 1000,
        first_dsn: 0,
        name_prefix: "b".to_owned(),
        target_ms: PASS_MS,
    });
    let mut segment = packaging.segment().expect("each key frame ends a segment");
    for _ in 0..2 * LISTED {
        window.push(std::mem::replace(
            &mut segment,
            packaging.segment().expect("each key frame ends a segment"),
        ));
        window.target_duration_s(PASS_MS);
    }
    (window, segment)
}

fn snapshot(window: &Window) -> Snapshot {
    window.snapshot().expect("segments are listed")
}

/// A window's media playlist as text.
#[derive(Debug)]
pub struct PlaylistRendering {
    snapshot: Snapshot,
}

impl PlaylistRendering {
    /// Renders a window of the default length.
    pub fn new() -> Self {
        Self {
            snapshot: snapshot(&window().0),
        }
    }
}

impl Default for PlaylistRendering {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for PlaylistRendering {
    fn pass(&mut self) {
        for _ in 0..PLAYLISTS {
            black_box(playlist::media::render(black_box(&self.snapshot)));
        }
    }

    fn items(&self) -> u64 {
        PLAYLISTS
    }
}

/// A new segment taken into the window, and the state that players are shown from then on.
#[derive(Debug)]
pub struct PlaylistUpdating {
    window: Window,
    next: Segment,
}

impl PlaylistUpdating {
    /// Updates a window of the default length.
    pub fn new() -> Self {
        let (window, next) = window();
        Self { window, next }
    }
}

impl Default for PlaylistUpdating {
    fn default() -> Self {
        Self::new()
    }
}

impl Work for PlaylistUpdating {
    fn pass(&mut self) {
        for _ in 0..PLAYLISTS {
            self.window.push(self.next.clone());
            black_box(snapshot(&self.window));
        }
    }

    fn items(&self) -> u64 {
        PLAYLISTS
    }
}
