//! Viewers that take nothing, or too little, harm nobody: not their neighbours, not the memory, not their own decoder.

use std::time::Duration;

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::flv::{self, Tag};
use spillway_tests::frames::{self, Decoder};
use spillway_tests::gateway::Gateway;
use spillway_tests::http::{self, Request};
use spillway_tests::rtmp;
use spillway_tests::tls::Authority;
use spillway_tests::viewer::{Viewer, Watcher};
use spillway_tests::wait::{secs, until, within};
use spillway_tests::ws;

const KEY: &str = "live/fat";
/// Stalled viewers of each protocol in the memory test.
const CROWD: usize = 40;
/// Memory that may differ after the crowd has gone: allocator slack, not media.
const SLACK_BYTES: u64 = 12 << 20;

/// Asks to play by RTMP and reads until media flows, then never again.
async fn stalled_rtmp(gateway: &Gateway) -> rtmp::Viewer {
    let mut viewer = rtmp::Viewer::open_narrow(gateway.rtmp, KEY).await;
    within(
        secs(15),
        "first media of a viewer who is about to stall",
        viewer.next_tag(),
    )
    .await
    .expect("media");
    viewer
}

async fn stalled_count(gateway: &Gateway) -> f64 {
    gateway.metrics().await.labelled("reason", "stalled")
}

async fn wait_stalled(gateway: &Gateway, limit: Duration, count: f64) {
    until(
        limit,
        "the stalled viewers to be closed and counted with reason=\"stalled\"",
        || async { (stalled_count(gateway).await >= count).then_some(()) },
    )
    .await;
}

/// Two stalled viewers beside two that decode all of a clip.
async fn healthy_ones_lose_nothing(stall_timeout: &str, clip_rounds: u32) {
    let clip = Clip::Fat;
    let source = frames::of_clip(clip).await;
    let gateway = Gateway::with()
        .set("play.stall_timeout", stall_timeout)
        .set("publish.linger", "2s")
        .start()
        .await;
    let ffmpeg = clip.ffmpeg();
    let healthy = [
        ("RTMP", Decoder::start(&ffmpeg, &gateway.rtmp_url(KEY), &[])),
        (
            "HTTP-FLV",
            Decoder::start(&ffmpeg, &gateway.http_url("live/fat.flv"), &[]),
        ),
    ];
    gateway.wait_connections(gateway.rtmp, 1).await;
    gateway.wait_connections(gateway.http, 1).await;
    let rounds = (clip_rounds - 1).to_string();
    let url = gateway.rtmp_url(KEY);
    let mut publisher = spillway_tests::ffmpeg::publish(clip, &url, &["-stream_loop", &rounds], &[]);
    let (_rtmp, _flv) = tokio::join!(
        stalled_rtmp(&gateway),
        flv::Viewer::open_narrow(gateway.http, KEY)
    );
    let length = secs(u64::from(clip_rounds * spillway_tests::clip::SECONDS));
    publisher.wait_ok(length + secs(20)).await;
    wait_stalled(&gateway, secs(5), 2.0).await;
    for (name, decoder) in healthy {
        let frames = decoder.finish(secs(20)).await;
        frames.assert_no_errors(name);
        let rounds = usize::try_from(clip_rounds).expect("small");
        assert_eq!(
            frames.video,
            vec![source.video.clone(); rounds].concat(),
            "{name}: pictures beside stalled viewers"
        );
        assert_eq!(
            frames.audio.len(),
            source.audio.len() * rounds,
            "{name}: sound beside stalled viewers"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_viewers_lose_nothing_and_the_stalled_are_closed_and_counted() {
    healthy_ones_lose_nothing("3s", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes 80 s; tests/run --long"]
async fn healthy_viewers_lose_nothing_beside_a_window_closed_for_a_minute() {
    healthy_ones_lose_nothing("60s", 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_returns_when_a_crowd_of_stalled_viewers_is_gone() {
    let gateway = Gateway::with().set("play.stall_timeout", "4s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher
            .wait(secs(30), "the ring to be full of 11 s", |seen| {
                seen.newest_ms >= 11_000
            })
            .await;
    }
    let before = gateway.resident_bytes();
    let stalled = async {
        let mut rtmp = Vec::new();
        let mut flv = Vec::new();
        for _ in 0..CROWD {
            let (one, other) = tokio::join!(
                stalled_rtmp(&gateway),
                flv::Viewer::open_narrow(gateway.http, KEY)
            );
            rtmp.push(one);
            flv.push(other);
        }
        (rtmp, flv)
    };
    let crowd = within(secs(30), "a crowd to attach", stalled).await;
    wait_stalled(&gateway, secs(30), 2.0 * 40.0).await;
    until(secs(10), "the sockets of the crowd to be closed", || async {
        (gateway.connections(gateway.rtmp) <= 2 && gateway.connections(gateway.http) <= 2).then_some(())
    })
    .await;
    drop(crowd);
    until(secs(10), "memory to return", || async {
        (gateway.resident_bytes() <= before + SLACK_BYTES).then_some(())
    })
    .await;
    for watcher in &watchers {
        let seen = watcher.wait_more(secs(5), 50).await;
        assert!(seen.ended.is_none(), "{}: ended", watcher.name());
        assert!(
            seen.gaps.is_empty() && seen.backwards.is_empty(),
            "{}: {seen:?}",
            watcher.name()
        );
    }
}

/// Reads tags at about a third of the stream's rate for a while.
async fn read_slowly(viewer: &mut Viewer, span: Duration) -> Vec<Tag> {
    const BYTES_PER_SECOND: f64 = 170_000.0;
    let started = tokio::time::Instant::now();
    let mut taken = 0.0;
    let mut tags = Vec::new();
    while started.elapsed() < span {
        let tag = within(secs(10), "the next tag of a slow viewer", viewer.next_tag()).await;
        let tag = tag.unwrap_or_else(|| panic!("a slow viewer was closed after {:?}", started.elapsed()));
        #[allow(clippy::cast_precision_loss)]
        let bytes = tag.body.len() as f64;
        taken += bytes;
        tags.push(tag);
        tokio::time::sleep_until(started + Duration::from_secs_f64(taken / BYTES_PER_SECOND)).await;
    }
    tags
}

fn assert_skips_to_key_frames(tags: &[Tag], name: &str) {
    let video: Vec<&Tag> = tags
        .iter()
        .filter(|tag| tag.kind == 9 && !tag.is_header())
        .collect();
    assert!(
        video.first().is_some_and(|tag| tag.is_key()),
        "{name}: does not start with a key frame"
    );
    let mut skips = 0;
    for pair in video.windows(2) {
        let [before, after] = pair else { continue };
        assert!(
            after.timestamp_ms > before.timestamp_ms,
            "{name}: time stood still at {}",
            before.timestamp_ms
        );
        if after.timestamp_ms - before.timestamp_ms > 60 {
            skips += 1;
            assert!(
                after.is_key(),
                "{name}: skipped from {} to {}, no key frame",
                before.timestamp_ms,
                after.timestamp_ms
            );
        }
    }
    assert!(
        skips >= 1,
        "{name}: read a third of the stream and skipped nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_viewer_skips_to_key_frames_and_its_decoder_shows_no_error() {
    let authority = Authority::new();
    let start = authority.gateway(&authority.issue("server"));
    let gateway = start.set("play.max_lag", "2s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let rtmp = rtmp::Viewer::open_narrow(gateway.rtmp, KEY).await;
    let flv = flv::Viewer::open_narrow(gateway.http, KEY).await;
    let [rtmps, https] = [gateway.rtmps, gateway.https].map(|at| at.expect("TLS is on"));
    let client = authority.client().narrow();
    let rtmps = rtmp::Viewer::over(client.socket(rtmps).await, "tls", KEY);
    let request = Request::get(&format!("/{KEY}.flv"));
    let https_flv = http::open_over(client.socket(https).await, "tls", request).await;
    let https_flv = flv::Viewer::of(https_flv.expect("HTTPS-FLV"));
    let wss = ws::Viewer::over(client.socket(https).await, &format!("ws://{https}/{KEY}.flv")).await;
    let viewers = [
        ("RTMP", Viewer::Rtmp(Box::new(rtmp))),
        ("HTTP-FLV", Viewer::Flv(Box::new(flv))),
        ("RTMPS", Viewer::Rtmp(Box::new(rtmps))),
        ("HTTPS-FLV", Viewer::Flv(Box::new(https_flv))),
        ("WSS-FLV", Viewer::Ws(Box::new(wss))),
    ];
    let reading =
        viewers.map(|(name, mut viewer)| async move { (name, read_slowly(&mut viewer, secs(14)).await) });
    for (name, tags) in futures_util::future::join_all(reading).await {
        assert_skips_to_key_frames(&tags, name);
        let frames = frames::of_bytes(Clip::Fat.ffmpeg(), &flv::file_of(&tags), "slow.flv").await;
        frames.assert_no_errors(name);
        assert!(
            frames.video.len() > 25,
            "{name}: decoded {} pictures",
            frames.video.len()
        );
    }
    let metrics = gateway.metrics().await;
    let dropped = metrics.sum(|sample| sample.name.contains("drop") && sample.name.ends_with("_total"));
    assert!(dropped > 0.0, "no counter of dropped frames rose");
}

/// A publisher of its own is not slowed by a stalled viewer of another stream.
#[tokio::test(flavor = "multi_thread")]
async fn another_stream_does_not_notice() {
    let gateway = Gateway::with().set("publish.linger", "2s").start().await;
    let _fat = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let _stalled = tokio::join!(
        stalled_rtmp(&gateway),
        flv::Viewer::open_narrow(gateway.http, KEY)
    );
    let source = frames::of_clip(Clip::Plain).await;
    let decoder = Decoder::start(&Clip::Plain.ffmpeg(), &gateway.http_url("live/other.flv"), &[]);
    gateway.wait_connections(gateway.http, 2).await;
    let mut publisher = publish_once(Clip::Plain, &gateway.rtmp_url("live/other"));
    publisher.wait_ok(secs(30)).await;
    decoder
        .finish(secs(20))
        .await
        .assert_same_as(&source, "beside a stalled viewer of another stream");
}
