//! Each frame that is published is decoded by each kind of viewer: same pictures, same sound, nothing lost or added.

use spillway_tests::clip::{self, Clip};
use spillway_tests::ffmpeg::publish_once;
use spillway_tests::flv;
use spillway_tests::frames::{self, Decoder, Frames};
use spillway_tests::gateway::Gateway;
use spillway_tests::wait::{secs, within};
use spillway_tests::ws;

const KEY: &str = "live/frames";

/// What the players decoded.
struct Seen {
    rtmp: Frames,
    flv: Frames,
    ws: Frames,
    hls: Option<Frames>,
}

/// Publishes the clip once with players on it from the start.
async fn watch(clip: Clip, with_hls: bool, sets: &[(&str, &str)]) -> Seen {
    let _file = clip.file();
    let mut start = Gateway::with().set("publish.linger", "2s");
    for (key, value) in sets {
        start = start.set(key, value);
    }
    let gateway = start.start().await;
    let ffmpeg = clip.ffmpeg();
    let rtmp = Decoder::start(&ffmpeg, &gateway.rtmp_url(KEY), &[]);
    let flv = Decoder::start(&ffmpeg, &gateway.http_url("live/frames.flv"), &[]);
    let ws_url = gateway.ws_url("live/frames.flv");
    let ws = tokio::spawn(async move { ws::Viewer::open(&ws_url).await.keeping_bytes().record().await });
    gateway.wait_connections(gateway.rtmp, 1).await;
    gateway.wait_connections(gateway.http, 2).await;

    let mut publisher = publish_once(clip, &gateway.rtmp_url(KEY));
    let hls = with_hls.then(|| {
        let url = gateway.http_url("live/frames/index.m3u8");
        Decoder::start(&ffmpeg, &url, &["-live_start_index", "0"])
    });
    publisher.wait_ok(secs(40)).await;
    let recorded = within(secs(20), "the WebSocket to end after the linger", ws)
        .await
        .expect("the pump");
    Seen {
        rtmp: rtmp.finish(secs(20)).await,
        flv: flv.finish(secs(20)).await,
        ws: frames::of_bytes(ffmpeg, &recorded, "ws.flv").await,
        hls: match hls {
            Some(hls) => Some(hls.finish(secs(30)).await),
            None => None,
        },
    }
}

async fn each_viewer_gets_all_of(clip: Clip, with_hls: bool, sets: &[(&str, &str)]) {
    let source = frames::of_clip(clip).await;
    assert_eq!(
        source.video.is_empty(),
        !clip.has_video(),
        "{clip:?}: video in the source"
    );
    assert_eq!(
        source.audio.is_empty(),
        !clip.has_audio(),
        "{clip:?}: audio in the source"
    );
    let seen = watch(clip, with_hls, sets).await;
    let by = [
        ("RTMP", Some(&seen.rtmp)),
        ("HTTP-FLV", Some(&seen.flv)),
        ("WS-FLV", Some(&seen.ws)),
        ("HLS", seen.hls.as_ref()),
    ];
    for (name, frames) in by.into_iter().filter_map(|(name, frames)| Some((name, frames?))) {
        let what = format!("{clip:?} by {name}");
        frames.assert_same_as(&source, &what);
        frames.assert_no_errors(&what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h264_and_aac() {
    each_viewer_gets_all_of(Clip::Plain, true, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b_frames() {
    each_viewer_gets_all_of(Clip::BFrames, true, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audio_only() {
    each_viewer_gets_all_of(Clip::AudioOnly, true, &[("hls.mode", "always")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn video_only() {
    each_viewer_gets_all_of(Clip::VideoOnly, true, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mp3() {
    each_viewer_gets_all_of(Clip::Mp3, true, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hevc_by_enhanced_rtmp() {
    each_viewer_gets_all_of(Clip::Hevc, true, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn av1_and_opus_by_enhanced_rtmp() {
    each_viewer_gets_all_of(Clip::Av1Opus, false, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hls_runs_always_when_told_so() {
    each_viewer_gets_all_of(Clip::Plain, true, &[("hls.mode", "always")]).await;
}

/// A viewer who comes in the middle starts with a key frame and decodes without an error from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_viewer_starts_at_a_key_frame() {
    let clip = Clip::Plain;
    let source = frames::of_clip(clip).await;
    let gateway = Gateway::with().set("publish.linger", "1s").start().await;
    let mut publisher = publish_once(clip, &gateway.rtmp_url(KEY));
    // Any time in the stream is late enough: wait until media of the second GOP has gone through.
    let mut flv = flv::Viewer::open(gateway.http, KEY).await;
    within(secs(20), "media at 3 s", async {
        while let Some(tag) = flv.next_tag().await {
            if tag.timestamp_ms >= 3000 {
                break;
            }
        }
    })
    .await;
    let ffmpeg = clip.ffmpeg();
    let late = [
        ("RTMP", Decoder::start(&ffmpeg, &gateway.rtmp_url(KEY), &[])),
        (
            "HTTP-FLV",
            Decoder::start(&ffmpeg, &gateway.http_url("live/frames.flv"), &[]),
        ),
    ];
    publisher.wait_ok(secs(30)).await;
    for (name, decoder) in late {
        let frames = decoder.finish(secs(20)).await;
        frames.assert_no_errors(name);
        assert!(!frames.video.is_empty(), "{name}: no picture");
        assert!(
            source.video.ends_with(&frames.video),
            "{name}: pictures are not the end of the source"
        );
        let gop = usize::try_from(clip::FPS * clip::GOP_SECONDS).expect("small");
        let first = source.video.len() - frames.video.len();
        assert_eq!(
            first % gop,
            0,
            "{name}: starts at frame {first}, which is no key frame"
        );
        // The first sound depends on the one before it, which this viewer did not get.
        let audio = frames.audio.get(2..).unwrap_or_default();
        assert!(
            !audio.is_empty() && source.audio.ends_with(audio),
            "{name}: sound is not the end of the source"
        );
    }
}

/// The clips are what the tests take them for.
#[tokio::test(flavor = "multi_thread")]
async fn the_clips_start_with_a_key_frame() {
    let pictures = usize::try_from(clip::FPS * clip::SECONDS).expect("small");
    for clip in Clip::ALL {
        let file = clip.file();
        let frames = frames::of_file(&clip.ffmpeg(), &file).await;
        frames.assert_no_errors("the clip");
        let expected = if clip.has_video() { pictures } else { 0 };
        assert!(
            frames.video.len().abs_diff(expected) <= 3,
            "{clip:?}: {} pictures",
            frames.video.len()
        );
        let bytes = tokio::fs::read(&file).await.expect("the clip");
        let mut reader = flv::Reader::default();
        reader.push(&bytes);
        let mut media =
            std::iter::from_fn(|| reader.next_tag()).filter(|tag| tag.kind != 18 && !tag.is_header());
        let first = media.next().expect("media");
        assert!(
            first.timestamp_ms <= 40,
            "{clip:?} starts at {} ms",
            first.timestamp_ms
        );
        assert!(
            first.is_key() || !clip.has_video(),
            "{clip:?} starts with {first:?}"
        );
    }
}
