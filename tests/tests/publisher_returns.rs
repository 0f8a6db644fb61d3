//! A publisher that dies and comes back, or is replaced, is a short pause to its viewers and no more.

use rustix::process::Signal;
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::gateway::Gateway;
use spillway_tests::hls::{self, Poller};
use spillway_tests::http;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until};

const KEY: &str = "live/back";

async fn start(linger: &str) -> Gateway {
    Gateway::with()
        .set("publish.linger", linger)
        .set("hls.segment_duration", "1s")
        .start()
        .await
}

/// Nothing ended and each track's time only rose.
fn assert_undisturbed(watchers: &[Watcher]) {
    for watcher in watchers {
        let seen = watcher.seen();
        assert!(
            seen.ended.is_none(),
            "{}: the viewer was closed: {seen:?}",
            watcher.name()
        );
        assert!(
            seen.backwards.is_empty(),
            "{}: time did not rise: {:?}",
            watcher.name(),
            seen.backwards
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_stay_when_it_is_killed_and_returns() {
    let gateway = start("12s").await;
    let mut publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    let poller = Poller::start(gateway.http, KEY).await;
    let before = poller.wait_segments(secs(20), 5).await;
    publisher.kill().await;

    // The outage is part of the case, not a wait for something.
    tokio::time::sleep(secs(3)).await;
    assert_undisturbed(&watchers);
    let frozen = poller.record().newest.expect("a playlist");
    assert!(!frozen.ended, "ENDLIST within the linger");

    let _again = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    for watcher in &watchers {
        watcher.wait_more(secs(15), 150).await;
    }
    let after = poller.wait_segments(secs(20), 6).await;
    assert_undisturbed(&watchers);
    after.assert_no_problems();
    let last = |record: &hls::Record| record.segments.keys().next_back().copied();
    assert!(last(&after) > last(&before), "media sequence did not rise");
    assert_eq!(after.discontinuities(), 1, "one DISCONTINUITY for one return");
    for watcher in &watchers {
        let seen = watcher.seen();
        assert_eq!(
            seen.video_headers.len(),
            1,
            "{}: the same header is no new header",
            watcher.name()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_publisher_takes_over_from_one_that_hangs() {
    let gateway = start("10s").await;
    let mut first = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 50).await;
    }
    first.signal(Signal::STOP);
    let mut second = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    for watcher in &watchers {
        watcher.wait_more(secs(10), 200).await;
    }
    assert_undisturbed(&watchers);
    first.signal(Signal::CONT);
    let status = first.wait(secs(15)).await;
    assert!(
        !status.success(),
        "the replaced publisher ended as if all were well"
    );
    for watcher in &watchers {
        watcher.wait_more(secs(10), 100).await;
    }
    assert_undisturbed(&watchers);
    assert!(
        second.is_running(),
        "the second publisher ended: {}",
        second.output().tail()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_publisher_takes_over_from_one_that_runs() {
    let gateway = start("10s").await;
    let mut first = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    let poller = Poller::start(gateway.http, KEY).await;
    poller.wait_segments(secs(15), 3).await;
    let mut second = publish_loop(Clip::OtherSize, &gateway.rtmp_url(KEY));
    first.wait(secs(15)).await;
    for watcher in &watchers {
        watcher
            .wait(secs(15), "the header of the other size", |seen| {
                seen.video_headers.len() == 2
            })
            .await;
        watcher.wait_more(secs(10), 100).await;
    }
    assert_undisturbed(&watchers);
    let record = poller.wait_segments(secs(20), 3).await;
    record.assert_no_problems();
    assert_eq!(record.discontinuities(), 1, "one DISCONTINUITY for one take-over");
    assert!(
        second.is_running(),
        "the second publisher ended: {}",
        second.output().tail()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_are_ended_after_the_linger() {
    let gateway = start("3s").await;
    let mut publisher = publish_once(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    let poller = Poller::start(gateway.http, KEY).await;
    publisher.wait_ok(secs(30)).await;
    for watcher in &watchers {
        let seen = watcher
            .wait(secs(10), "the end after the linger", |seen| seen.ended.is_some())
            .await;
        assert_eq!(
            seen.ended,
            Some(true),
            "{}: cut, and not told that the stream ended",
            watcher.name()
        );
    }
    let ended = |record: &hls::Record| record.newest.as_ref().is_some_and(|playlist| playlist.ended);
    let record = poller.wait(secs(10), "ENDLIST", ended).await;
    record.assert_no_problems();
    let listed: f64 = record
        .segments
        .values()
        .map(|(segment, _)| segment.duration_s)
        .sum();
    let whole = f64::from(spillway_tests::clip::SECONDS);
    assert!(
        (listed - whole).abs() < 1.1,
        "{listed:.2} s of the {whole} s published were listed"
    );
}

/// A stream that is over is one that can be published again, and its HLS goes on with higher numbers.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_over_starts_again_with_higher_numbers() {
    let gateway = start("1s").await;
    let mut publisher = publish_once(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    publisher.wait_ok(secs(30)).await;
    let ended = |record: &hls::Record| record.newest.as_ref().is_some_and(|playlist| playlist.ended);
    let record = poller.wait(secs(10), "ENDLIST", ended).await;
    let last = record.segments.keys().next_back().copied().expect("segments");
    drop(poller);
    let _again = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let path = hls::media_path(gateway.http, KEY).await;
    let playlist = until(secs(15), "a playlist of the new broadcast", || async {
        let playlist = hls::fetch_media(gateway.http, &path).await;
        (!playlist.ended).then_some(playlist)
    })
    .await;
    let newest = playlist.segments.last().expect("segments");
    assert!(
        newest.sequence > last,
        "media sequence {} after {last}",
        newest.sequence
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_that_sends_nothing_is_closed() {
    let gateway = Gateway::with()
        .set("publish.idle_timeout", "2s")
        .set("publish.linger", "1s")
        .start()
        .await;
    let mut publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 20).await;
    }
    publisher.signal(Signal::STOP);
    for watcher in &watchers {
        watcher
            .wait(secs(10), "the end after idle time-out and linger", |seen| {
                seen.ended.is_some()
            })
            .await;
    }
    publisher.signal(Signal::CONT);
    publisher.wait(secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_may_come_first() {
    let gateway = start("5s").await;
    let waiting = Watcher::all(&gateway, KEY);
    let publisher = async {
        gateway.wait_connections(gateway.http, 2).await;
        gateway.wait_connections(gateway.rtmp, 1).await;
        publish_loop(Clip::Plain, &gateway.rtmp_url(KEY))
    };
    let (watchers, _publisher) = tokio::join!(waiting, publisher);
    for watcher in &watchers {
        watcher.wait_more(secs(15), 50).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_of_nothing_is_told_after_the_wait() {
    let gateway = Gateway::with().set("play.wait", "1s").start().await;
    let started = std::time::Instant::now();
    let response = gateway.get("/live/nothing.flv").await;
    assert_eq!(response.status, 404, "HTTP-FLV of nothing");
    assert!(
        response.header("access-control-allow-origin").is_some(),
        "CORS on the 404"
    );
    assert!(started.elapsed() < secs(8), "took {:?}", started.elapsed());
    let mut viewer = spillway_tests::rtmp::Viewer::open(gateway.rtmp, "live/nothing").await;
    assert!(viewer.next_tag().await.is_none());
    let told = viewer.ended_with().unwrap_or_default().to_owned();
    assert!(
        told.contains("NetStream.Play.StreamNotFound"),
        "RTMP of nothing: {told:?}"
    );
    let head = http::fetch(gateway.http, http::Request::get("/live/nothing/index.m3u8")).await;
    assert_eq!(head.status, 404, "HLS of nothing");
    assert!(
        head.header("access-control-allow-origin").is_some(),
        "CORS on the 404"
    );
}
