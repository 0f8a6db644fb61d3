use super::*;
use TrackKind::{Audio, Video};
use proptest::prelude::*;

fn feed(timeline: &mut Timeline, kind: TrackKind, inputs: impl IntoIterator<Item = u32>) -> Vec<Mapped> {
    inputs
        .into_iter()
        .map(|input| timeline.map(kind, input))
        .collect()
}

fn dts(timeline: &mut Timeline, kind: TrackKind, inputs: impl IntoIterator<Item = u32>) -> Vec<i64> {
    feed(timeline, kind, inputs)
        .iter()
        .map(|mapped| mapped.dts_ms)
        .collect()
}

/// Video every 40 ms and audio every 20 ms from `input`, interleaved, for `frames` pictures. Gives
/// the last of each.
fn both(timeline: &mut Timeline, input: u32, frames: u32) -> (Mapped, Mapped) {
    let mut last = None;
    for at in (0..frames).map(|frame| input.wrapping_add(frame * 40)) {
        let video = timeline.map(Video, at);
        timeline.map(Audio, at);
        last = Some((video, timeline.map(Audio, at.wrapping_add(20))));
    }
    last.unwrap()
}

#[test]
fn a_start_far_from_zero_becomes_zero() {
    let mut timeline = Timeline::default();
    assert_eq!(timeline.now(), 0);
    assert_eq!(
        dts(&mut timeline, Video, [20_000_000, 20_000_033, 20_000_066]),
        [0, 33, 66]
    );
    assert_eq!(timeline.now(), 66);
}

#[test]
fn the_second_track_takes_the_base_of_the_first() {
    let mut timeline = Timeline::default();
    assert_eq!(dts(&mut timeline, Video, [5_000, 5_040]), [0, 40]);
    assert_eq!(dts(&mut timeline, Audio, [5_017, 5_040, 5_063]), [17, 40, 63]);
}

#[test]
fn a_second_track_from_before_zero_is_closed_up_and_then_in_step() {
    let mut timeline = Timeline::default();
    timeline.map(Video, 5_000);
    assert_eq!(
        dts(&mut timeline, Audio, [4_960, 4_983, 5_006, 5_029]),
        [0, 1, 6, 29]
    );
}

#[test]
fn tracks_with_bases_hours_apart_meet_by_arrival() {
    let mut timeline = Timeline::default();
    assert_eq!(dts(&mut timeline, Video, [0, 40, 80]), [0, 40, 80]);
    let first = timeline.map(Audio, 7_200_000);
    assert_eq!(
        first,
        Mapped {
            dts_ms: 80,
            discontinuity: false,
            resynced: true
        }
    );
    assert_eq!(
        timeline.map(Audio, 7_200_023),
        Mapped {
            dts_ms: 103,
            discontinuity: false,
            resynced: false
        }
    );
    assert_eq!(
        timeline.map(Video, 120),
        Mapped {
            dts_ms: 120,
            discontinuity: false,
            resynced: false
        }
    );
}

#[test]
fn the_32_bit_wrap_is_no_jump() {
    let mut timeline = Timeline::default();
    let (video, audio) = both(&mut timeline, u32::MAX - 99, 10);
    assert_eq!((video.dts_ms, audio.dts_ms), (360, 380));
    assert!(!video.discontinuity && !audio.discontinuity);
}

#[test]
fn the_31_bit_wrap_is_no_jump_for_either_track() {
    let mut timeline = Timeline::default();
    let top = 1u32 << 31;
    let video = feed(&mut timeline, Video, [top - 80, top - 40, 0, 40]);
    let audio = feed(&mut timeline, Audio, [top - 40, top - 20, 0, 20, 40]);
    assert_eq!(
        video.iter().map(|m| m.dts_ms).collect::<Vec<_>>(),
        [0, 40, 80, 120]
    );
    assert_eq!(
        audio.iter().map(|m| m.dts_ms).collect::<Vec<_>>(),
        [40, 60, 80, 100, 120]
    );
    assert!(
        video
            .iter()
            .chain(&audio)
            .all(|mapped| !mapped.discontinuity && !mapped.resynced)
    );
}

#[test]
fn a_track_that_starts_behind_the_31_bit_wrap_is_in_step() {
    let mut timeline = Timeline::default();
    dts(&mut timeline, Video, [(1 << 31) - 40, 0, 40]);
    assert_eq!(
        timeline.map(Audio, 60),
        Mapped {
            dts_ms: 100,
            discontinuity: false,
            resynced: false
        }
    );
}

#[test]
fn crossing_2_to_the_24_is_nothing_special() {
    let mut timeline = Timeline::default();
    assert_eq!(
        dts(&mut timeline, Video, [(1 << 24) - 20, (1 << 24) + 20]),
        [0, 40]
    );
}

#[test]
fn a_restart_that_reaches_the_tracks_one_after_the_other_keeps_them_in_step() {
    let mut timeline = Timeline::default();
    both(&mut timeline, 60_000, 100);
    // Video restarts at zero; 400 ms of audio on the old base straggle in; then audio follows.
    let video = feed(&mut timeline, Video, (0..10).map(|frame| frame * 40));
    assert!(video[0].discontinuity);
    assert_eq!(video[0].dts_ms, 4_000);
    assert!(video[1..].iter().all(|mapped| !mapped.discontinuity));
    let stragglers = feed(&mut timeline, Audio, (0..2).map(|frame| 64_000 + frame * 20));
    assert_eq!(
        stragglers.iter().map(|m| m.dts_ms).collect::<Vec<_>>(),
        [4_000, 4_020]
    );
    let audio = feed(&mut timeline, Audio, (2..12).map(|frame| frame * 20));
    assert_eq!(
        audio[0],
        Mapped {
            dts_ms: 4_040,
            discontinuity: false,
            resynced: false
        }
    );
    assert_eq!(audio[9].dts_ms - video[9].dts_ms, 11 * 20 - 9 * 40);
}

#[test]
fn tracks_of_unequal_length_stay_in_step_over_a_concatenation() {
    for (video_ms, audio_ms) in [
        (10_000u32, 13_000u32),
        (13_000, 10_000),
        (10_000, 10_700),
        (10_700, 10_000),
    ] {
        let mut timeline = Timeline::default();
        let parts = |start: u32, timeline: &mut Timeline| {
            let mut last = (0, 0);
            for at in (0..video_ms.max(audio_ms)).step_by(20) {
                if at % 40 == 0 && at < video_ms {
                    last.0 = timeline.map(Video, start + at).dts_ms - i64::from(at);
                }
                if at < audio_ms {
                    last.1 = timeline.map(Audio, start + at).dts_ms - i64::from(at);
                }
            }
            last
        };
        let (video, audio) = parts(100_000, &mut timeline);
        assert_eq!(video, audio);
        let (video, audio) = parts(0, &mut timeline);
        assert_eq!(video, audio, "{video_ms} ms of video, {audio_ms} ms of audio");
        assert!(
            video >= i64::from(video_ms.min(audio_ms)) && video <= i64::from(video_ms.max(audio_ms)) + 40
        );
    }
}

#[test]
fn a_jump_ahead_is_closed_up_and_a_gap_is_left() {
    let mut timeline = Timeline::default();
    assert_eq!(dts(&mut timeline, Video, [0, 40, 9_040]), [0, 40, 9_040]);
    let jumped = timeline.map(Video, 20_000_000);
    assert_eq!(
        jumped,
        Mapped {
            dts_ms: 9_080,
            discontinuity: true,
            resynced: false
        }
    );
}

#[test]
fn small_steps_back_are_closed_up_in_order() {
    let mut timeline = Timeline::default();
    assert_eq!(
        dts(&mut timeline, Video, [0, 40, 80, 60, 60, 100, 140]),
        [0, 40, 80, 81, 82, 100, 140]
    );
}

#[test]
fn one_wrong_timestamp_does_no_lasting_harm() {
    let mut timeline = Timeline::default();
    both(&mut timeline, 60_000, 10);
    assert_eq!(
        timeline.map(Video, 0),
        Mapped {
            dts_ms: 400,
            discontinuity: true,
            resynced: false
        }
    );
    let back = timeline.map(Video, 60_440);
    assert_eq!(
        back,
        Mapped {
            dts_ms: 440,
            discontinuity: false,
            resynced: false
        }
    );
    assert_eq!(timeline.map(Audio, 60_440).dts_ms, 440);
}

#[test]
fn a_track_that_was_silent_for_minutes_comes_back_in_step() {
    let mut timeline = Timeline::default();
    both(&mut timeline, 0, 10);
    dts(&mut timeline, Video, (10..5_000).map(|frame| frame * 40));
    let back = timeline.map(Audio, 5_000 * 40);
    assert_eq!(
        back,
        Mapped {
            dts_ms: 200_000,
            discontinuity: false,
            resynced: false
        }
    );
}

#[test]
fn a_silent_track_that_comes_back_on_another_base_meets_by_arrival() {
    let mut timeline = Timeline::default();
    both(&mut timeline, 0, 10);
    dts(&mut timeline, Video, (10..5_000).map(|frame| frame * 40));
    let back = timeline.map(Audio, 3_000_000_000);
    assert_eq!(
        back,
        Mapped {
            dts_ms: 4_999 * 40,
            discontinuity: true,
            resynced: false
        }
    );
}

#[test]
fn a_clock_that_stands_still_is_replaced() {
    let mut timeline = Timeline::default();
    let stuck = feed(&mut timeline, Video, std::iter::repeat_n(777, 200));
    assert!(stuck.windows(2).all(|pair| pair[0].dts_ms < pair[1].dts_ms));
    assert_eq!(stuck.iter().filter(|mapped| mapped.resynced).count(), 1);
    let last = stuck[199].dts_ms;
    assert!(
        last > 130 * DEFAULT_FRAME_MS,
        "frame by frame once it is known to be stuck, was {last}"
    );
    assert_eq!(
        timeline.map(Video, 810).dts_ms,
        last + 33,
        "and normal when it runs again"
    );
}

#[test]
fn a_clock_that_stands_still_follows_the_other_track() {
    let mut timeline = Timeline::default();
    for frame in 0..500u32 {
        let audio = timeline.map(Audio, frame * 20);
        let video = timeline.map(Video, 0);
        assert!(
            frame < 100 || (video.dts_ms - audio.dts_ms).abs() <= 1,
            "frame {frame}: {video:?} {audio:?}"
        );
    }
}

#[test]
fn slices_of_one_picture_do_not_count_as_standing_still() {
    let mut timeline = Timeline::default();
    for frame in 0..20u32 {
        for slice in 0..8 {
            assert_eq!(
                timeline.map(Video, frame * 40).dts_ms,
                i64::from(frame * 40 + slice)
            );
        }
    }
}

#[test]
fn a_new_publisher_goes_on_where_the_last_one_ended() {
    let mut timeline = Timeline::default();
    both(&mut timeline, 60_000, 26);
    assert_eq!(timeline.now(), 1_020);
    timeline.start_epoch();
    assert_eq!(timeline.now(), 1_020);
    let video = feed(&mut timeline, Video, [3, 43]);
    assert_eq!(
        video[0],
        Mapped {
            dts_ms: 1_060,
            discontinuity: false,
            resynced: false
        }
    );
    assert_eq!(video[1].dts_ms, 1_100);
    assert_eq!(dts(&mut timeline, Audio, [0, 20]), [1_057, 1_077]);
    timeline.start_epoch();
    assert_eq!(timeline.map(Audio, 9).dts_ms, 1_120);
}

#[test]
fn an_epoch_without_media_changes_nothing() {
    let mut timeline = Timeline::default();
    timeline.start_epoch();
    assert_eq!(timeline.map(Audio, 9).dts_ms, 0);
    timeline.start_epoch();
    timeline.start_epoch();
    assert_eq!(timeline.map(Audio, 9).dts_ms, DEFAULT_FRAME_MS);
}

#[test]
fn the_frame_duration_is_the_tracks_own() {
    let mut timeline = Timeline::default();
    dts(&mut timeline, Video, [0, 16, 32]);
    assert_eq!(timeline.map(Video, 1_000_000).dts_ms, 48);
    dts(&mut timeline, Video, [1_005_000]);
    assert_eq!(
        timeline.map(Video, 0).dts_ms,
        5_048 + 16,
        "a gap is no frame duration"
    );
}

/// A publisher whose clock is set anew at times, and whose tracks arrive `lag_ms` apart.
#[derive(Debug, Clone)]
struct Source {
    bases: Vec<u32>,
    lag_ms: i64,
    mask_31: bool,
}

/// Media time between two settings of the clock.
const SPAN_MS: i64 = 12_000;

impl Source {
    /// (arrival, kind, media time, wire timestamp) in arrival order.
    fn messages(&self) -> Vec<(i64, TrackKind, i64, u32)> {
        let end = SPAN_MS * self.bases.len() as i64;
        let mut messages = Vec::new();
        for (kind, step, lag) in [(Video, 40, 0), (Audio, 23, self.lag_ms)] {
            for at in (0..end).step_by(step) {
                let base = self.bases[(at / SPAN_MS) as usize];
                let wire = base.wrapping_add((at % SPAN_MS) as u32);
                let wire = if self.mask_31 {
                    wire & (u32::MAX >> 1)
                } else {
                    wire
                };
                messages.push((at + lag, kind, at, wire));
            }
        }
        messages.sort_by_key(|(arrival, ..)| *arrival);
        messages
    }
}

fn source() -> impl Strategy<Value = Source> {
    (
        prop::collection::vec(any::<u32>(), 1..5),
        -3_000i64..3_000,
        any::<bool>(),
    )
        .prop_map(|(bases, lag_ms, mask_31)| Source {
            bases,
            lag_ms,
            mask_31,
        })
}

/// Any wire timestamps, with runs of small steps and values near the wraps made likely.
fn wire() -> impl Strategy<Value = (bool, u32, bool)> {
    let timestamp = prop_oneof![
        4 => 0u32..2_000,
        2 => any::<u32>(),
        1 => (u32::MAX - 2_000)..=u32::MAX,
        2 => ((1u32 << 31) - 2_000)..((1 << 31) + 2_000),
        1 => Just(777),
    ];
    (any::<bool>(), timestamp, prop::bool::weighted(0.02))
}

proptest! {
    #[test]
    fn the_output_of_each_track_strictly_rises(inputs in prop::collection::vec(wire(), 0..400)) {
        let mut timeline = Timeline::default();
        let mut last = [-1i64; 2];
        for (audio, timestamp, new_epoch) in inputs {
            if new_epoch {
                timeline.start_epoch();
            }
            let mapped = timeline.map(if audio { Audio } else { Video }, timestamp);
            let last = &mut last[usize::from(audio)];
            prop_assert!(mapped.dts_ms > *last, "{} after {last}", mapped.dts_ms);
            *last = mapped.dts_ms;
            prop_assert!(timeline.now() >= mapped.dts_ms);
        }
    }

    #[test]
    fn one_frame_never_leaps_far(inputs in prop::collection::vec(wire(), 1..400)) {
        let mut timeline = Timeline::default();
        for (audio, timestamp, _) in inputs {
            let before = timeline.now();
            let mapped = timeline.map(if audio { Audio } else { Video }, timestamp);
            // A gap, a base moved for the other track, and what that track ran ahead.
            prop_assert!(mapped.dts_ms - before <= 40_000, "{before} -> {mapped:?}");
        }
    }

    #[test]
    fn sound_and_picture_stay_in_step_over_any_clock_changes(source in source()) {
        let mut timeline = Timeline::default();
        let mut ahead = [0i64; 2];
        let mut reports = 0;
        for (_, kind, at, wire) in source.messages() {
            let mapped = timeline.map(kind, wire);
            reports += usize::from(mapped.discontinuity);
            prop_assert!(!mapped.resynced);
            ahead[usize::from(kind == Audio)] = mapped.dts_ms - at;
        }
        prop_assert_eq!(ahead[0], ahead[1]);
        prop_assert!(reports < source.bases.len());
        prop_assert!(ahead[0].abs() <= 3_000 + 50 * source.bases.len() as i64, "time neither lost nor made: {}", ahead[0]);
    }
}
