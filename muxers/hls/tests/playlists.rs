//! Windows and playlists over time: rules P1 to P21 and M1 to M4.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use proptest::prelude::*;
use spillway_hls::check;
use spillway_hls::playlist::media;
use spillway_hls::playlist::multivariant::{self, Variant};
use spillway_hls::{Segment, SegmentTracks, Window, WindowOptions};
use std::sync::Arc;

fn options() -> WindowOptions {
    WindowOptions {
        listed: 6,
        retained: 6,
        max_bytes: 1 << 20,
        first_msn: 1_796_137_445,
        first_dsn: 1_796_137_445,
        name_prefix: "m1x2-0-".to_owned(),
        target_ms: 2000,
    }
}

fn segment(ms: u64, discontinuity: bool, date: u64) -> Segment {
    Segment {
        duration_ticks_90k: ms * 90,
        discontinuity,
        independent: true,
        program_date_time_unix_ms: date,
        parts: Arc::new([vec![0x47; 188].into()]),
        bytes: 188,
        tracks: Arc::new(SegmentTracks::default()),
    }
}

#[test]
fn a_playlist_as_it_is_written() {
    let mut pipeline = Pipeline::new().av();
    pipeline
        .feed(&mix(&[video(0, 5100, 40, 1000), audio(0, 5100)]))
        .finish();
    let text = media::render(&pipeline.window.snapshot().unwrap());
    assert_eq!(
        text,
        "#EXTM3U\n\
         #EXT-X-VERSION:3\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n\
         #EXT-X-TARGETDURATION:2\n\
         #EXT-X-MEDIA-SEQUENCE:1000\n\
         #EXT-X-DISCONTINUITY-SEQUENCE:50\n\
         #EXT-X-PROGRAM-DATE-TIME:2026-12-01T15:04:05.678Z\n\
         #EXTINF:1.000000,\n\
         t-1000.ts\n\
         #EXT-X-PROGRAM-DATE-TIME:2026-12-01T15:04:06.678Z\n\
         #EXTINF:2.000000,\n\
         t-1001.ts\n\
         #EXT-X-PROGRAM-DATE-TIME:2026-12-01T15:04:08.678Z\n\
         #EXTINF:2.000000,\n\
         t-1002.ts\n\
         #EXT-X-PROGRAM-DATE-TIME:2026-12-01T15:04:10.678Z\n\
         #EXTINF:0.120000,\n\
         t-1003.ts\n"
    );
}

#[test]
fn a_multivariant_playlist_as_it_is_written() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[video(0, 5100, 40, 1000), audio(0, 5100)]));
    let variant = Variant::measure(&pipeline.window.snapshot().unwrap());
    let text = multivariant::render(&variant, "media.m3u8");
    let (head, rest) = text.split_once("BANDWIDTH=").unwrap();
    assert_eq!(
        head,
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-STREAM-INF:"
    );
    let (_, rest) = rest.split_once(",CODECS=").unwrap();
    assert_eq!(
        rest,
        "\"avc1.64001E,mp4a.40.2\",RESOLUTION=640x480,FRAME-RATE=25.000\nmedia.m3u8\n"
    );
}

#[test]
fn told_bit_rates_hold_for_the_segments_measured() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[video(0, 13_100, 40, 1000), audio(0, 13_100)]));
    let snapshot = pipeline.window.snapshot().unwrap();
    let variant = Variant::measure(&snapshot);
    for listed in snapshot.listed() {
        assert!(listed.segment.bits_per_second() <= variant.bandwidth);
        assert!(listed.segment.bits_per_second() * 4 / 3 > variant.average_bandwidth);
    }
    assert!(variant.average_bandwidth <= variant.bandwidth);
}

#[test]
fn bit_rates_are_frozen_while_the_tracks_stay() {
    let mut pipeline = Pipeline::new().av();
    pipeline.feed(&mix(&[video(0, 13_100, 40, 1000), audio(0, 13_100)]));
    let mut variant = Variant::measure(&pipeline.window.snapshot().unwrap());
    let before = variant.clone();
    let bigger: Vec<_> = (330..700).map(|n| picture(n * 40, n % 25 == 0, 4000)).collect();
    pipeline.feed(&mix(&[bigger, audio(13_200, 28_000)]));
    variant.refresh(&pipeline.window.snapshot().unwrap());
    assert_eq!(variant, before);
}

#[test]
fn a_window_lists_n_and_serves_n_more() {
    let mut window = Window::new(options());
    for n in 0..40u64 {
        window.push(segment(2000, false, n * 2000));
        window.target_duration_s(2000);
        let snapshot = window.snapshot().unwrap();
        assert_eq!(snapshot.listed().len() as u64, (n + 1).min(6));
        assert_eq!(snapshot.segments.len() as u64, (n + 1).min(12));
    }
    let snapshot = window.snapshot().unwrap();
    for served in &snapshot.segments {
        assert_eq!(snapshot.find(&served.name).unwrap().msn, served.msn);
    }
    let gone = format!("m1x2-0-{}.ts", 1_796_137_445 + 27);
    assert!(snapshot.find(&gone).is_none());
}

#[test]
fn names_that_were_never_given_are_not_found() {
    let mut window = Window::new(options());
    window.push(segment(2000, false, 0));
    window.target_duration_s(0);
    let snapshot = window.snapshot().unwrap();
    for name in [
        "",
        ".ts",
        "1796137445.ts",
        "m1x2-1-1796137445.ts",
        "m1x2-0-1796137446.ts",
        "m1x2-0-01796137445.ts",
        "m1x2-0-99999999999999999999999999.ts",
        "m1x2-0-1796137445.m4s",
        "../m1x2-0-1796137445.ts",
        "é.ts",
    ] {
        assert!(snapshot.find(name).is_none(), "{name}");
    }
}

#[test]
fn the_byte_bound_takes_retained_segments_first() {
    let mut window = Window::new(WindowOptions {
        max_bytes: 188 * 8,
        ..options()
    });
    for n in 0..20 {
        window.push(segment(2000, n % 5 == 0, n * 2000));
    }
    window.target_duration_s(0);
    let snapshot = window.snapshot().unwrap();
    assert_eq!((snapshot.listed().len(), snapshot.segments.len()), (6, 8));
    let mut window = Window::new(WindowOptions {
        max_bytes: 188 * 3,
        ..options()
    });
    for n in 0..20 {
        window.push(segment(2000, n % 5 == 0, n * 2000));
        assert!(window.bytes() <= 188 * 3);
    }
    window.target_duration_s(0);
    let snapshot = window.snapshot().unwrap();
    assert_eq!((snapshot.listed().len(), snapshot.segments.len()), (3, 3));
    // Discontinuities at 0, 5, 10 and 15 have left; 17, 18, 19 are listed.
    assert_eq!(snapshot.discontinuity_sequence, 1_796_137_445 + 4);
}

#[test]
fn short_segments_never_bring_the_list_below_three_targets() {
    let mut window = Window::new(options());
    window.push(segment(2000, false, 0));
    window.target_duration_s(2000);
    let mut before = check::media(&media::render(&window.snapshot().unwrap())).unwrap();
    for n in 0..60 {
        window.push(segment(500, false, 2000 + n * 500));
        let after = check::media(&media::render(&window.snapshot().unwrap())).unwrap();
        check::successive(&before, &after).unwrap();
        assert!(after.entries.len() <= 19);
        before = after;
    }
}

#[test]
fn an_ended_playlist_says_so_and_a_new_list_goes_on_counting() {
    let mut window = Window::new(options());
    (0..3).for_each(|n| window.push(segment(2000, n == 1, n * 2000)));
    window.target_duration_s(0);
    window.end();
    let ended = check::media(&media::render(&window.snapshot().unwrap())).unwrap();
    assert!(ended.ended);
    window.restart();
    assert!(window.snapshot().is_none());
    window.push(segment(4000, true, 60_000));
    assert_eq!(window.target_duration_s(0), Some(4));
    let snapshot = window.snapshot().unwrap();
    let again = check::media(&media::render(&snapshot)).unwrap();
    assert!(!again.ended);
    assert_eq!(again.media_sequence, ended.media_sequence + 3);
    assert_eq!(again.discontinuity_sequence, ended.discontinuity_sequence + 1);
    assert_eq!(snapshot.segments.len(), 4);
}

#[test]
fn target_durations_round_to_nearest() {
    for (ms, predicted_ms, target_s) in [
        (1000, 0, 2),
        (2000, 2000, 2),
        (2499, 0, 2),
        (2500, 0, 3),
        (1500, 3000, 3),
        (1000, 2380, 2),
        (1000, 2400, 3),
        (7000, 7000, 7),
    ] {
        let mut window = Window::new(options());
        window.push(segment(ms, false, 0));
        assert_eq!(
            window.target_duration_s(predicted_ms),
            Some(target_s),
            "{ms} {predicted_ms}"
        );
        assert_eq!(window.target_duration_s(60_000), Some(target_s), "frozen");
    }
}

#[test]
fn restarts_over_many_windows_keep_the_sequence_numbers_true() {
    let mut pipeline = Pipeline::new().av();
    for epoch in 0..12i64 {
        let from = epoch * 10_000;
        pipeline
            .feed(&mix(&[
                video(from, from + 7300, 40, 1000),
                audio(from, from + 7300),
            ]))
            .finish();
    }
    assert_eq!(pipeline.discontinuities().len(), 11);
    let last = pipeline.playlists.last().unwrap();
    let listed = last.entries.iter().filter(|entry| entry.discontinuity).count() as u64;
    assert_eq!(last.discontinuity_sequence, 50 + 11 - listed);
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let mut window = Window::new(options());
    (0..3).for_each(|n| window.push(segment(2000, n == 2, n * 2000)));
    window.target_duration_s(0);
    let good = media::render(&window.snapshot().unwrap());
    check::media(&good).unwrap();
    for (from, to, rule) in [
        ("#EXTM3U\n", "", "P1"),
        ("#EXT-X-VERSION:3\n", "#EXT-X-VERSION:3\n#EXT-X-VERSION:3\n", "P1"),
        ("TARGETDURATION:2", "TARGETDURATION:1", "P3"),
        ("#EXTINF:2.000000,", "#EXTINF:2.000000", "P5"),
        ("#EXTINF:2.000000,", "#EXTINF:2,", "P5"),
        ("#EXT-X-MEDIA-SEQUENCE:1796137445\n", "", "P6/P7"),
        ("#EXT-X-DISCONTINUITY-SEQUENCE:1796137445\n", "", "P6/P7"),
        ("m1x2-0-1796137446.ts", "http://h/m1x2-0-1796137446.ts", "P18"),
        ("m1x2-0-1796137446.ts", "m1x2-0-1796137445.ts", "P18"),
        ("1970-01-01T00:00:02.000Z", "1970-01-01T00:00:02.010Z", "P13"),
        ("#EXT-X-PROGRAM-DATE-TIME:1970-01-01T00:00:02.000Z\n", "", "P13"),
        (
            "#EXT-X-DISCONTINUITY\n",
            "#EXT-X-DISCONTINUITY\n#EXT-X-DISCONTINUITY\n",
            "P14",
        ),
        (
            "#EXT-X-TARGETDURATION",
            "#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-TARGETDURATION",
            "P15",
        ),
        ("#EXTINF", "\n#EXTINF", "P1"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        assert_eq!(check::media(&bad).unwrap_err().rule, rule, "{from:?} → {to:?}");
    }
    let before = check::media(&good).unwrap();
    let edit = |change: &dyn Fn(&mut check::Playlist)| {
        let mut after = before.clone();
        change(&mut after);
        check::successive(&before, &after).unwrap_err().rule
    };
    assert_eq!(edit(&|p| p.target_duration_s = 3), "P4");
    assert_eq!(edit(&|p| p.media_sequence -= 1), "P6");
    assert_eq!(edit(&|p| p.discontinuity_sequence += 1), "P7");
    assert_eq!(edit(&|p| p.entries[1].duration_us += 1), "P8");
    assert_eq!(edit(&|p| drop(p.entries.pop())), "P8");
    assert_eq!(
        edit(&|p| {
            p.media_sequence += 1;
            p.entries.remove(0);
        }),
        "P11"
    );
}

proptest! {
    #[test]
    fn any_window_keeps_its_rules(steps in prop::collection::vec((100u64..2500, any::<bool>(), 1u64..300), 1..150)) {
        let mut window = Window::new(WindowOptions { max_bytes: 188 * 300, ..options() });
        let mut date = 0;
        let mut before: Option<check::Playlist> = None;
        for (ms, discontinuity, packets) in steps {
            let bytes = packets * 188;
            window.push(Segment { bytes, ..segment(ms.min(2499), discontinuity, date) });
            date += ms.min(2499);
            window.target_duration_s(2000);
            let snapshot = window.snapshot().unwrap();
            prop_assert!(window.bytes() <= 188 * 300);
            let after = check::media(&media::render(&snapshot)).unwrap();
            if let Some(before) = &before {
                match check::successive(before, &after) {
                    // The byte bound is stronger than the least length.
                    Ok(()) => {}
                    Err(violation) => prop_assert_eq!(violation.rule, "P11"),
                }
            }
            before = Some(after);
        }
    }
}
