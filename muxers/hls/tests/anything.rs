//! Whatever a publisher sends, segments and playlists keep every rule and memory stays bounded.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use proptest::prelude::*;
use spillway_hls::PackagerOptions;
use spillway_media::codec::{Codec, CodecConfig};
use spillway_media::sample::{Sample, TrackKind};
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Event {
    Picture {
        step_ms: i64,
        key: bool,
        cts_ms: i32,
        size: usize,
    },
    Sound {
        step_ms: i64,
        size: usize,
    },
    Garbage {
        video: bool,
        data: Vec<u8>,
    },
    Jump(i64),
    VideoConfig(u8),
    AudioConfig(u8),
    Finish,
    ForceCut,
    SkipAhead {
        video: bool,
        ms: i64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        30 => (1i64..120, prop::bool::weighted(0.08), -120i32..240, 1usize..3000)
            .prop_map(|(step_ms, key, cts_ms, size)| Event::Picture { step_ms, key, cts_ms, size }),
        30 => (15i64..30, 1usize..600).prop_map(|(step_ms, size)| Event::Sound { step_ms, size }),
        2 => (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(video, data)| Event::Garbage { video, data }),
        1 => (-100_000i64..100_000).prop_map(Event::Jump),
        1 => (0u8..4).prop_map(Event::VideoConfig),
        1 => (0u8..4).prop_map(Event::AudioConfig),
        1 => Just(Event::Finish),
        1 => Just(Event::ForceCut),
        2 => (any::<bool>(), 0i64..9000).prop_map(|(video, ms)| Event::SkipAhead { video, ms }),
    ]
}

fn video_config(which: u8) -> Option<Arc<CodecConfig>> {
    match which {
        0 => None,
        1 => Some(Arc::new(CodecConfig::Other(Codec::Av1))),
        2 => Some(avc()),
        _ => Some(avc_with(&[0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC1])),
    }
}

fn audio_config(which: u8) -> Option<Arc<CodecConfig>> {
    match which {
        0 => None,
        1 => Some(Arc::new(CodecConfig::Other(Codec::Opus))),
        2 => Some(aac(44_100)),
        _ => Some(aac(48_000)),
    }
}

fn play(pipeline: &mut Pipeline, events: Vec<Event>, limit: u64) {
    let (mut video_ms, mut audio_ms, mut unix_ms) = (0i64, 0i64, START_UNIX_MS);
    for event in events {
        match event {
            Event::Picture {
                step_ms,
                key,
                cts_ms,
                size,
            } => {
                video_ms += step_ms;
                unix_ms += step_ms.unsigned_abs();
                pipeline.feed_at(
                    &Sample {
                        cts_ms,
                        ..picture(video_ms, key, size)
                    },
                    unix_ms,
                );
            }
            Event::Sound { step_ms, size } => {
                audio_ms += step_ms;
                pipeline.feed_at(
                    &Sample {
                        data: vec![0x21; size].into(),
                        ..sound(audio_ms)
                    },
                    unix_ms,
                );
            }
            Event::Garbage { video: true, data } => {
                // Bytes that no framing accepts; what parses as NAL units could be anything, by design.
                let data = [vec![0xFF, 0xFF, 0xFF, 0xFF], data].concat();
                pipeline.feed_at(
                    &Sample {
                        data: data.into(),
                        ..picture(video_ms, false, 1)
                    },
                    unix_ms,
                );
            }
            Event::Garbage { video: false, .. } => {
                pipeline.feed_at(
                    &Sample {
                        data: Vec::new().into(),
                        ..sound(audio_ms)
                    },
                    unix_ms,
                );
            }
            Event::Jump(ms) => {
                video_ms += ms;
                audio_ms += ms;
            }
            Event::VideoConfig(which) => pipeline
                .packager
                .set_config(TrackKind::Video, video_config(which)),
            Event::AudioConfig(which) => pipeline
                .packager
                .set_config(TrackKind::Audio, audio_config(which)),
            Event::Finish => {
                pipeline.finish();
            }
            Event::ForceCut => {
                let segment = pipeline.packager.force_cut();
                pipeline.take(segment);
            }
            Event::SkipAhead { video: true, ms } => video_ms += ms,
            Event::SkipAhead { video: false, ms } => audio_ms += ms,
        }
        assert!(pipeline.packager.open_bytes() <= 2 * limit + 10_000);
    }
    pipeline.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_rule_holds_for_any_publisher(
        events in prop::collection::vec(event(), 1..700),
        freeze_after in 1usize..4,
    ) {
        let limit = 100_000;
        let options = PackagerOptions { max_segment_bytes: limit, ..PackagerOptions::default() };
        let mut pipeline = Pipeline::with(options).freeze_after(freeze_after).av();
        play(&mut pipeline, events, limit);
    }
}
