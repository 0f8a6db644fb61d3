//! Where segments end: rules S1 to S13 and T4, T5, T22, by scripted publishers.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use spillway_hls::PackagerOptions;
use spillway_media::sample::{Sample, TrackKind};
use spillway_ts::{PID_AUDIO, PID_VIDEO};

#[test]
fn segments_are_whole_gops_at_or_after_the_target() {
    for (gop_ms, expected, target_s) in [
        (500, vec![1000, 2000, 2000, 2000], 2),
        (1000, vec![1000, 2000, 2000, 2000], 2),
        (2000, vec![2000, 2000, 2000, 2000], 2),
        (7000, vec![7000, 7000, 7000, 7000], 7),
    ] {
        let mut pipeline = Pipeline::new().av();
        let end = expected.iter().sum::<i64>() + 1000;
        pipeline.feed(&mix(&[video(0, end, 40, gop_ms), audio(0, end)]));
        assert_eq!(pipeline.durations_ms()[..4], expected, "GOP {gop_ms}");
        assert_eq!(pipeline.target_s(), target_s, "GOP {gop_ms}");
        assert!(pipeline.discontinuities().is_empty() && pipeline.dependent().is_empty());
        assert!(pipeline.playlists.iter().all(|playlist| playlist.independent));
    }
}

#[test]
fn a_gop_of_twenty_seconds_is_one_segment_if_allowed() {
    let options = PackagerOptions {
        max_segment_ms: 30_000,
        ..PackagerOptions::default()
    };
    let mut pipeline = Pipeline::with(options).av();
    pipeline.feed(&mix(&[video(0, 60_100, 40, 20_000), audio(0, 60_100)]));
    assert_eq!(pipeline.durations_ms(), [20_000, 20_000, 20_000]);
    assert_eq!(pipeline.target_s(), 20);
}

#[test]
fn a_short_first_segment_promises_what_the_next_will_need() {
    let mut pipeline = Pipeline::new().video_only();
    pipeline.feed(&video(0, 10_000, 40, 1480));
    assert_eq!(pipeline.durations_ms()[..3], [1480, 2960, 2960]);
    assert_eq!(pipeline.target_s(), 3);
}

#[test]
fn a_jittering_clock_does_not_cost_a_gop() {
    let mut pipeline = Pipeline::new().video_only();
    let samples: Vec<Sample> = (0..500i64)
        .map(|n| picture(n * 40 + [0, 9, -9][n as usize % 3], n % 50 == 0, 50))
        .collect();
    pipeline.feed(&samples);
    assert!(
        pipeline
            .durations_ms()
            .iter()
            .all(|ms| (1980..=2020).contains(ms))
    );
}

#[test]
fn longer_gops_later_are_split_and_say_so() {
    let mut pipeline = Pipeline::new().av();
    let end = 34_000;
    pipeline.feed(&mix(&[
        video(0, 10_000, 40, 2000),
        video(10_000, end, 40, 4000),
        audio(0, end),
    ]));
    assert_eq!(pipeline.target_s(), 2);
    let split = pipeline.dependent();
    assert!(!split.is_empty());
    // After each split the next key frame begins an independent segment again.
    for index in split {
        assert!(pipeline.cuts.get(index + 1).is_none_or(|cut| cut.independent));
    }
    assert!(pipeline.discontinuities().is_empty());
    assert!(!pipeline.playlists.last().unwrap().independent);
}

#[test]
fn one_key_frame_and_then_none_for_ten_minutes_stays_bounded() {
    let options = PackagerOptions {
        max_segment_bytes: 20_000,
        ..PackagerOptions::default()
    };
    let mut pipeline = Pipeline::with(options).video_only();
    pipeline.feed(&video(0, 600_000, 40, 1_000_000));
    assert!(pipeline.cuts.len() > 40);
    let most = pipeline.cuts.iter().map(|cut| cut.segment.bytes).max().unwrap();
    assert!(most <= 21_000, "{most}");
    assert!(pipeline.cuts[0].independent && pipeline.cuts[1..].iter().all(|cut| !cut.independent));
}

#[test]
fn bytes_split_a_segment_before_its_time() {
    let options = PackagerOptions {
        max_segment_bytes: 300_000,
        ..PackagerOptions::default()
    };
    let mut pipeline = Pipeline::with(options).video_only();
    let samples: Vec<Sample> = (0..250).map(|n| picture(n * 40, n % 50 == 0, 20_000)).collect();
    pipeline.feed(&samples);
    assert!(pipeline.cuts.iter().all(|cut| cut.segment.bytes <= 300_000));
}

#[test]
fn durations_sum_to_the_media_time() {
    let mut pipeline = Pipeline::new().video_only();
    // An hour of 30000/1001 frames a second in whole milliseconds, a key frame every 60.
    let frames = 3600 * 30_000 / 1001;
    let samples: Vec<Sample> = (0..frames)
        .map(|n| picture(n * 1001 / 30, n % 60 == 0, 20))
        .collect();
    pipeline.feed(&samples).finish();
    let sum: f64 = pipeline.cuts.iter().map(|cut| cut.ms).sum();
    let media = frames as f64 * 1001.0 / 30.0;
    assert!((sum - media).abs() < 34.0, "{sum} {media}");
    assert!(pipeline.discontinuities().is_empty());
}

#[test]
fn a_storm_of_key_frames_makes_no_splinters() {
    let mut pipeline = Pipeline::new().video_only();
    pipeline.feed(&video(0, 20_000, 10, 10));
    assert!(pipeline.cuts.iter().all(|cut| cut.ms >= 990.0));
}

#[test]
fn audio_alone_is_cut_at_the_target_by_sample_count() {
    let mut pipeline = Pipeline::new().audio_only();
    pipeline.feed(&audio(0, 600_000)).finish();
    let frame = 1024.0 / 44.1;
    for cut in &pipeline.cuts[..pipeline.cuts.len() - 1] {
        assert!((2000.0..2000.0 + frame + 0.1).contains(&cut.ms), "{}", cut.ms);
        assert!(cut.independent && !cut.walked.streams.contains_key(&PID_VIDEO));
    }
    let sum: f64 = pipeline.cuts.iter().map(|cut| cut.ms).sum();
    assert!((sum - 600_000.0).abs() < 2.0 * frame, "{sum}");
    assert!(pipeline.discontinuities().is_empty());
}

#[test]
fn standing_video_is_bridged_by_audio_and_picked_up_at_its_key_frame() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[
        video(0, 5000, 40, 1000),
        video(12_000, 20_000, 40, 1000),
        audio(0, 20_000),
    ]));
    let ms = pipeline.durations_ms();
    assert!(ms.iter().all(|ms| *ms <= 2499), "{ms:?}");
    let sum: i64 = ms.iter().sum();
    assert!((17_000..=20_000).contains(&sum), "{ms:?}");
    assert!(pipeline.discontinuities().is_empty());
    // The declared tracks stay, and each segment begins with a picture that can be decoded or has none.
    for cut in &pipeline.cuts {
        assert_eq!(cut.walked.streams.len(), 2);
        assert!(cut.independent);
    }
    assert!(
        pipeline
            .cuts
            .iter()
            .any(|cut| cut.walked.of(PID_VIDEO).count() == 0)
    );
}

#[test]
fn video_gone_for_long_leaves_the_program_and_comes_back() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[
        video(0, 5000, 40, 1000),
        video(40_000, 50_000, 40, 1000),
        audio(0, 50_000),
    ]));
    assert_eq!(pipeline.discontinuities().len(), 2);
    let [gone, back] = pipeline.discontinuities()[..] else {
        unreachable!()
    };
    assert_eq!(pipeline.cuts[gone].walked.pcr_pid, PID_AUDIO);
    assert_eq!(pipeline.cuts[back].walked.streams.len(), 2);
    assert!(pipeline.cuts[back].independent);
}

#[test]
fn slides_and_speech_stay_one_program() {
    let mut pipeline = Pipeline::new().av();
    let slides: Vec<Sample> = (0..12).map(|n| picture(n * 5000, true, 30_000)).collect();
    pipeline.feed(&mix(&[slides, audio(0, 60_000)]));
    assert!(pipeline.discontinuities().is_empty());
    let sum: f64 = pipeline.cuts.iter().map(|cut| cut.ms).sum();
    assert!(sum > 53_000.0, "{sum}");
}

#[test]
fn a_start_in_mid_gop_waits_for_the_key_frame() {
    let mut pipeline = Pipeline::new().av();
    let late_start: Vec<Sample> = mix(&[video(0, 10_000, 40, 2000), audio(0, 10_000)]);
    let from = late_start.iter().position(|sample| sample.dts_ms >= 500).unwrap();
    pipeline.feed(&late_start[from..]);
    let first = &pipeline.cuts[0].walked;
    let video = first.of(PID_VIDEO).next().unwrap();
    assert_eq!(video.dts, 90_000 + 2000 * 90);
    // Sound from before the first picture: one frame at most.
    let earliest = first.of(PID_AUDIO).map(|pes| pes.pts).min().unwrap();
    assert!(earliest + 2 * 2090 > video.pts, "{earliest}");
}

#[test]
fn sound_before_the_video_header_does_not_make_an_audio_playlist() {
    let mut pipeline = Pipeline::new().audio_only();
    pipeline.feed(&audio(0, 300));
    pipeline.packager.set_config(TrackKind::Video, Some(avc()));
    pipeline.feed(&mix(&[video(320, 6000, 40, 1000), audio(300, 6000)]));
    assert!(pipeline.discontinuities().is_empty());
    assert_eq!(pipeline.cuts[0].walked.streams.len(), 2);
}

#[test]
fn time_jumps_begin_a_new_timeline() {
    for (jump_ms, is_new) in [
        (500, false),
        (-60_000, true),
        (-2000, true),
        (60_000, true),
        (-500, false),
    ] {
        let mut pipeline = Pipeline::new().av();
        let base = 100_000;
        let second = base + 10_000 + jump_ms;
        pipeline.feed(&mix(&[
            video(base, base + 10_000, 40, 1000),
            audio(base, base + 10_000),
        ]));
        let unix = START_UNIX_MS + 110_000;
        for sample in mix(&[
            video(second, second + 10_000, 40, 1000),
            audio(second, second + 10_000),
        ]) {
            pipeline.feed_at(&sample, unix);
        }
        assert_eq!(
            !pipeline.discontinuities().is_empty(),
            is_new,
            "jump by {jump_ms}"
        );
    }
}

#[test]
fn a_forward_gap_longer_than_promised_is_not_stretched_over() {
    let mut pipeline = Pipeline::new().video_only();
    pipeline
        .feed(&video(0, 10_000, 40, 1000))
        .feed(&video(15_000, 20_000, 40, 1000));
    assert_eq!(pipeline.discontinuities().len(), 1);
    assert!(pipeline.durations_ms().iter().all(|ms| *ms <= 2499));
}

#[test]
fn the_same_header_again_changes_nothing_and_another_one_cuts() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[video(0, 5000, 40, 1000), audio(0, 5000)]));
    pipeline.packager.set_config(TrackKind::Video, Some(avc()));
    pipeline.feed(&mix(&[video(5000, 9000, 40, 1000), audio(5000, 9000)]));
    assert!(pipeline.discontinuities().is_empty());
    pipeline.packager.set_config(
        TrackKind::Video,
        Some(avc_with(&[0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC1])),
    );
    pipeline.feed(&mix(&[video(9000, 16_000, 40, 1000), audio(9000, 16_000)]));
    let [changed] = pipeline.discontinuities()[..] else {
        panic!("{:?}", pipeline.discontinuities())
    };
    let first = pipeline.cuts[changed].walked.of(PID_VIDEO).next().unwrap();
    assert_eq!(first.dts, 90_000 + 9000 * 90);
    assert!(
        first
            .data
            .windows(6)
            .any(|window| window == [0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC1])
    );
}

#[test]
fn another_audio_configuration_cuts_at_the_next_key_frame() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[video(0, 5500, 40, 1000), audio(0, 5500)]));
    pipeline.packager.set_config(TrackKind::Audio, Some(aac(48_000)));
    let mut rest = mix(&[video(5000, 12_000, 40, 1000), audio(5500, 12_000)]);
    rest.retain(|sample| sample.dts_ms >= 5500);
    pipeline.feed(&rest);
    let [changed] = pipeline.discontinuities()[..] else {
        panic!("{:?}", pipeline.discontinuities())
    };
    assert!(pipeline.cuts[changed].independent);
    assert_eq!(
        pipeline.cuts[changed].walked.of(PID_VIDEO).next().unwrap().dts,
        90_000 + 6000 * 90
    );
}

#[test]
fn the_map_names_only_tracks_that_carry_samples() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&video(0, 10_000, 40, 1000));
    assert!(pipeline.cuts.iter().all(|cut| cut.walked.streams.len() == 1));
    // Late audio: from the next segment on, with a discontinuity there.
    pipeline.feed(&mix(&[video(10_000, 20_000, 40, 1000), audio(10_200, 20_000)]));
    let [late] = pipeline.discontinuities()[..] else {
        panic!("{:?}", pipeline.discontinuities())
    };
    assert_eq!(pipeline.cuts[late].walked.streams.len(), 2);
    assert_eq!(pipeline.cuts[late].walked.pmt_version, 1);
    let first = pipeline.cuts[late].walked.of(PID_AUDIO).next().unwrap();
    let start = pipeline.cuts[late].walked.of(PID_VIDEO).next().unwrap();
    assert!(first.pts.abs_diff(start.dts) <= 2 * 2090);
    assert_eq!(
        pipeline.cuts[late]
            .segment
            .tracks
            .audio
            .as_ref()
            .unwrap()
            .codec_string
            .as_deref(),
        Some("mp4a.40.2")
    );
}

#[test]
fn a_late_audio_header_counts_as_late_audio() {
    let mut pipeline = Pipeline::new().video_only();
    pipeline.feed(&video(0, 10_000, 40, 1000));
    pipeline.packager.set_config(TrackKind::Audio, Some(aac(44_100)));
    pipeline.feed(&mix(&[video(10_000, 20_000, 40, 1000), audio(10_200, 20_000)]));
    let [late] = pipeline.discontinuities()[..] else {
        panic!("{:?}", pipeline.discontinuities())
    };
    assert_eq!(
        late,
        pipeline
            .cuts
            .iter()
            .position(|cut| cut.walked.streams.len() == 2)
            .unwrap()
    );
}

#[test]
fn a_pause_of_the_sound_changes_nothing() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[
        video(0, 20_000, 40, 1000),
        audio(0, 6000),
        audio(11_000, 20_000),
    ]));
    assert!(pipeline.discontinuities().is_empty());
    assert!(pipeline.cuts.iter().all(|cut| cut.walked.streams.len() == 2));
}

#[test]
fn each_segment_holds_the_sound_of_its_time() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[video(0, 30_000, 40, 1000), audio(0, 30_000)]));
    for cut in &pipeline.cuts {
        let video: Vec<u64> = cut.walked.of(PID_VIDEO).map(|pes| pes.dts).collect();
        let audio: Vec<u64> = cut.walked.of(PID_AUDIO).map(|pes| pes.pts).collect();
        assert!(audio[0].abs_diff(video[0]) < 3600 + 2090);
        let last = cut.walked.of(PID_AUDIO).last().unwrap();
        let end = last.pts + (last.data.len() as u64 / 187) * 2090;
        assert!(end.abs_diff(video.last().unwrap() + 3600) < 3600 + 2 * 2090);
    }
}

#[test]
fn the_last_segment_is_finished_when_the_publisher_leaves() {
    let mut pipeline = Pipeline::new().av();
    pipeline
        .feed(&mix(&[video(0, 5400, 40, 1000), audio(0, 5400)]))
        .finish();
    let pictures: usize = pipeline
        .cuts
        .iter()
        .map(|cut| cut.walked.of(PID_VIDEO).count())
        .sum();
    assert_eq!(pictures, 135);
    assert_eq!(pipeline.durations_ms(), [1000, 2000, 2000, 400]);
    // It comes back with other times.
    let unix = START_UNIX_MS + 20_000;
    for sample in mix(&[video(77_000, 84_000, 40, 1000), audio(77_000, 84_000)]) {
        pipeline.feed_at(&sample, unix.saturating_add_signed(sample.dts_ms - 77_000));
    }
    assert_eq!(pipeline.discontinuities(), [4]);
    assert_eq!(pipeline.cuts[4].segment.program_date_time_unix_ms, unix);
}

#[test]
fn a_forced_cut_lists_what_there_is_and_goes_on_without_a_seam() {
    let mut pipeline = Pipeline::new().av();
    let samples = mix(&[video(0, 20_000, 40, 10_000), audio(0, 20_000)]);
    let half = samples.iter().position(|sample| sample.dts_ms >= 8000).unwrap();
    pipeline.feed(&samples[..half]);
    assert!(pipeline.cuts.is_empty());
    let forced = pipeline.packager.force_cut();
    assert!(forced.is_some() && pipeline.packager.force_cut().is_none());
    pipeline.take(forced);
    pipeline.feed(&samples[half..]);
    pipeline.finish();
    // The target duration has room for GOPs that were not known yet: the next one is not cut in two.
    assert_eq!(pipeline.durations_ms(), [8000, 2000, 10_000]);
    assert_eq!(pipeline.target_s(), 12);
    assert_eq!(pipeline.dependent(), [1]);
    assert!(pipeline.discontinuities().is_empty());
}

#[test]
fn constant_skew_between_the_tracks_is_no_stall() {
    for skew_ms in [-4000i64, -800, 800, 4000] {
        let mut pipeline = Pipeline::new().av();
        // Both tracks arrive side by side, but their stamps are apart.
        let base = 10_000;
        let mut samples: Vec<(i64, Sample)> = video(base, base + 30_000, 40, 1000)
            .into_iter()
            .map(|sample| (sample.dts_ms, sample))
            .collect();
        samples.extend(
            audio(base + skew_ms, base + 30_000 + skew_ms)
                .into_iter()
                .map(|s| (s.dts_ms - skew_ms, s)),
        );
        samples.sort_by_key(|(arrival, sample)| (*arrival, sample.kind));
        samples.iter().for_each(|(_, sample)| {
            pipeline.feed(std::slice::from_ref(sample));
        });
        let full = pipeline.durations_ms().iter().filter(|ms| **ms == 2000).count();
        assert!(full >= 13, "{skew_ms}: {:?}", pipeline.durations_ms());
    }
}
