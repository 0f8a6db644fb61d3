//! A scripted publisher and a pipeline that checks every rule at every step.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use bytes::Bytes;
use spillway_hls::check::{self, Playlist};
use spillway_hls::playlist::media;
use spillway_hls::{Packager, PackagerOptions, Segment, Window, WindowOptions};
use spillway_media::aac::AacConfig;
use spillway_media::codec::CodecConfig;
use spillway_media::h264::AvcConfig;
use spillway_media::sample::{Sample, TrackKind};
use spillway_ts::walk::{self, Walker};

/// 640x480 High profile as x264 writes it, and a picture parameter set.
pub const SPS: &[u8] = &[
    0x67, 0x64, 0x00, 0x1E, 0xAC, 0xD9, 0x40, 0xA0, 0x3D, 0xA1, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00,
    0x03, 0x00, 0x32, 0x0F, 0x16, 0x2D, 0x96,
];
pub const PPS: &[u8] = &[0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC0];
pub const START_UNIX_MS: u64 = 1_796_137_445_678;

pub fn avc() -> Arc<CodecConfig> {
    avc_with(PPS)
}

pub fn avc_with(pps: &[u8]) -> Arc<CodecConfig> {
    let sets = (vec![Bytes::from_static(SPS)], vec![Bytes::copy_from_slice(pps)]);
    Arc::new(CodecConfig::Avc(
        AvcConfig::from_parameter_sets(sets.0, sets.1).unwrap(),
    ))
}

/// 44.1 kHz stereo, or 48 kHz.
pub fn aac(rate: u32) -> Arc<CodecConfig> {
    let asc = if rate == 48_000 {
        [0x11, 0x90]
    } else {
        [0x12, 0x10]
    };
    Arc::new(CodecConfig::Aac(AacConfig::parse(&asc).unwrap()))
}

pub fn picture(dts_ms: i64, key: bool, size: usize) -> Sample {
    let mut data = ((size.max(1) + 1) as u32).to_be_bytes().to_vec();
    data.push(if key { 0x65 } else { 0x41 });
    data.extend((0..size.max(1)).map(|i| (i % 251) as u8 | 1));
    Sample {
        kind: TrackKind::Video,
        dts_ms,
        cts_ms: 0,
        key,
        data: data.into(),
    }
}

pub fn sound(dts_ms: i64) -> Sample {
    Sample {
        kind: TrackKind::Audio,
        dts_ms,
        cts_ms: 0,
        key: true,
        data: vec![0x21; 180].into(),
    }
}

/// Pictures every `frame_ms` with a key frame every `gop_ms`, in `[from_ms, to_ms)`.
pub fn video(from_ms: i64, to_ms: i64, frame_ms: i64, gop_ms: i64) -> Vec<Sample> {
    let times = (0..)
        .map(|n| from_ms + n * frame_ms)
        .take_while(|dts| *dts < to_ms);
    times
        .map(|dts| picture(dts, (dts - from_ms) % gop_ms == 0, 400))
        .collect()
}

/// 44.1 kHz AAC frames in `[from_ms, to_ms)`, stamped in whole milliseconds.
pub fn audio(from_ms: i64, to_ms: i64) -> Vec<Sample> {
    let times = (0..)
        .map(|n: i64| from_ms + n * 1024 * 1000 / 44_100)
        .take_while(|dts| *dts < to_ms);
    times.map(sound).collect()
}

/// Samples of several tracks in the order of their times.
pub fn mix(tracks: &[Vec<Sample>]) -> Vec<Sample> {
    let mut all: Vec<Sample> = tracks.concat();
    all.sort_by_key(|sample| (sample.dts_ms, sample.kind));
    all
}

/// What a segment turned out to be.
#[derive(Debug, Clone)]
pub struct Cut {
    pub ms: f64,
    pub discontinuity: bool,
    pub independent: bool,
    pub walked: walk::Segment,
    pub segment: Segment,
}

/// Packager, window, playlist and every checker in a row.
pub struct Pipeline {
    pub packager: Packager,
    pub window: Window,
    pub cuts: Vec<Cut>,
    pub playlists: Vec<Playlist>,
    walker: Walker,
    freeze_after: usize,
}

impl Pipeline {
    pub fn new() -> Self {
        Self::with(PackagerOptions::default())
    }

    pub fn with(options: PackagerOptions) -> Self {
        let window = Window::new(WindowOptions {
            listed: 6,
            retained: 6,
            max_bytes: 64 << 20,
            first_msn: 1000,
            first_dsn: 50,
            name_prefix: "t-".to_owned(),
            target_ms: options.target_ms,
        });
        Self {
            packager: Packager::new(options),
            window,
            cuts: Vec::new(),
            playlists: Vec::new(),
            walker: Walker::new(),
            freeze_after: 1,
        }
    }

    /// The target duration is promised only after this many segments, as when a backlog is read first.
    pub fn freeze_after(mut self, segments: usize) -> Self {
        self.freeze_after = segments;
        self
    }

    pub fn av(mut self) -> Self {
        self.packager.set_config(TrackKind::Video, Some(avc()));
        self.packager.set_config(TrackKind::Audio, Some(aac(44_100)));
        self
    }

    pub fn video_only(mut self) -> Self {
        self.packager.set_config(TrackKind::Video, Some(avc()));
        self
    }

    pub fn audio_only(mut self) -> Self {
        self.packager.set_config(TrackKind::Audio, Some(aac(44_100)));
        self
    }

    pub fn feed(&mut self, samples: &[Sample]) -> &mut Self {
        for sample in samples {
            self.feed_at(sample, START_UNIX_MS.saturating_add_signed(sample.dts_ms));
        }
        self
    }

    pub fn feed_at(&mut self, sample: &Sample, unix_ms: u64) {
        let segment = self.packager.push(sample, unix_ms);
        self.take(segment);
    }

    pub fn finish(&mut self) -> &mut Self {
        let segment = self.packager.finish();
        self.take(segment);
        self
    }

    pub fn take(&mut self, segment: Option<Segment>) {
        let Some(segment) = segment else { return };
        let bytes = segment.parts.concat();
        assert_eq!(bytes.len() as u64, segment.bytes);
        let walked = match self.walker.segment(&bytes, segment.discontinuity) {
            Ok(walked) => walked,
            Err(violation) => panic!("segment {}: {violation}", self.cuts.len()),
        };
        self.cuts.push(Cut {
            ms: segment.duration_ticks_90k as f64 / 90.0,
            discontinuity: segment.discontinuity,
            independent: segment.independent,
            walked,
            segment: segment.clone(),
        });
        self.window.push(segment);
        if self.cuts.len() >= self.freeze_after {
            let target = self
                .window
                .target_duration_s(self.packager.predicted_ms())
                .unwrap();
            self.packager.limit_to(target);
            self.list();
        }
    }

    pub fn list(&mut self) {
        let text = media::render(&self.window.snapshot().unwrap());
        let playlist = check::media(&text).unwrap_or_else(|violation| panic!("{violation}\n{text}"));
        if let Some(before) = self.playlists.last()
            && let Err(violation) = check::successive(before, &playlist)
        {
            // However short the segments, only so many are listed.
            let crowded = violation.rule == "P11" && playlist.entries.len() >= 18;
            assert!(crowded, "{violation}\n{text}");
        }
        self.playlists.push(playlist);
    }

    pub fn target_s(&self) -> u64 {
        self.playlists.last().unwrap().target_duration_s
    }

    pub fn durations_ms(&self) -> Vec<i64> {
        self.cuts.iter().map(|cut| cut.ms.round() as i64).collect()
    }

    pub fn discontinuities(&self) -> Vec<usize> {
        (0..self.cuts.len())
            .filter(|index| self.cuts[*index].discontinuity)
            .collect()
    }

    pub fn dependent(&self) -> Vec<usize> {
        (0..self.cuts.len())
            .filter(|index| !self.cuts[*index].independent)
            .collect()
    }
}
