//! Publishers and their networks fail in every way: their stream ends or goes on, other streams notice nothing, and a
//! name is never held by somebody who is not there.

use std::net::SocketAddr;
use std::time::Duration;

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::flv::{self, Tag};
use spillway_tests::frames::{self, Decoder};
use spillway_tests::gateway::Gateway;
use spillway_tests::network::Network;
use spillway_tests::process::Process;
use spillway_tests::proxy::{Line, Proxy};
use spillway_tests::rtmp::Publisher;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};

const KEY: &str = "live/faulty";
const OTHER: &str = "live/healthy";

/// Nothing ended and each track's time only rose.
fn assert_undisturbed(watchers: &[Watcher]) {
    for watcher in watchers {
        let seen = watcher.seen();
        assert!(
            seen.ended.is_none() && seen.backwards.is_empty(),
            "{}: {seen:?}",
            watcher.name()
        );
    }
}

async fn wait_more(watchers: &[Watcher], count: u64) {
    for watcher in watchers {
        watcher.wait_more(secs(20), count).await;
    }
}

async fn is_live(gateway: &Gateway, key: &str) -> bool {
    let of = |sample: &spillway_tests::metrics::Sample| {
        sample.name == "spillway_stream_live" && sample.label("stream") == Some(key)
    };
    gateway.metrics().await.sum(of) > 0.0
}

/// A gateway that publishers on other networks reach.
async fn open_to_all(idle_timeout: &str) -> Gateway {
    Gateway::with()
        .set("rtmp.listen", "0.0.0.0:0")
        .set("auth.publish", "open")
        .set("publish.idle_timeout", idle_timeout)
        .start()
        .await
}

/// ffmpeg in that network, publishing again and again in real time.
fn publish_from(network: &Network, gateway: &Gateway, clip: Clip, key: &str) -> Process {
    let mut command = network.command(&clip.ffmpeg());
    command
        .args([
            "-hide_banner",
            "-nostdin",
            "-v",
            "warning",
            "-re",
            "-stream_loop",
            "-1",
            "-i",
        ])
        .arg(clip.file());
    command
        .args(["-c", "copy", "-flvflags", "no_duration_filesize", "-f", "flv"])
        .arg(format!(
            "rtmp://{}:{}/{key}",
            network.address(),
            gateway.rtmp.port()
        ));
    Process::spawn("ffmpeg publisher on another network", command)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_pulled_cable_the_session_ends_and_the_publisher_may_return() {
    let gateway = open_to_all("2s").await;
    let network = Network::join();
    let publisher = publish_from(&network, &gateway, Clip::Plain, KEY);
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 50).await;
    network.plug(false);
    until(secs(10), "the session to end by publish.idle_timeout", || async {
        (gateway.publisher_ends("idle").await == 1.0).then_some(())
    })
    .await;
    assert!(
        !is_live(&gateway, KEY).await,
        "still publishing with its cable pulled"
    );
    drop(publisher);
    network.plug(true);
    let _again = publish_from(&network, &gateway, Clip::Plain, KEY);
    wait_more(&watchers, 50).await;
    assert_undisturbed(&watchers);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_short_flap_of_the_link_the_same_session_passes_media_or_has_ended() {
    let gateway = open_to_all("15s").await;
    let network = Network::join();
    let _publisher = publish_from(&network, &gateway, Clip::Plain, KEY);
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 50).await;
    for _ in 0..3 {
        network.plug(false);
        // How long the link is gone is part of the case.
        tokio::time::sleep(Duration::from_millis(400)).await;
        network.plug(true);
        let before = watchers[0].seen().media;
        let outcome = until(secs(20), "media or the end of the session", || async {
            let metrics = gateway.metrics().await;
            let ends = metrics.named("spillway_publisher_sessions_ended_total");
            (watchers[0].seen().media >= before + 50 || ends > 0.0).then_some(ends)
        })
        .await;
        if outcome > 0.0 {
            assert!(
                !is_live(&gateway, KEY).await,
                "its session has ended and it is live"
            );
            return;
        }
    }
    assert_eq!(gateway.metrics().await.named("spillway_publishes_total"), 1.0);
    assert_undisturbed(&watchers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_in_a_black_hole_loses_its_name_to_who_comes_and_ends_by_the_idle_timeout() {
    let gateway = open_to_all("6s").await;
    let network = Network::join();
    let _lost = publish_from(&network, &gateway, Clip::Plain, KEY);
    let _lost_too = publish_from(&network, &gateway, Clip::Plain, OTHER);
    let watchers = Watcher::all(&gateway, KEY).await;
    gateway.wait_live(OTHER).await;
    wait_more(&watchers, 50).await;
    network.swallow(true);
    let _again = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    wait_more(&watchers, 100).await;
    assert_undisturbed(&watchers);
    assert_eq!(gateway.publisher_ends("replaced").await, 1.0);
    until(secs(15), "the other session to end", || async {
        (gateway.publisher_ends("idle").await == 1.0).then_some(())
    })
    .await;
    assert!(
        !is_live(&gateway, OTHER).await,
        "still publishing out of a black hole"
    );
    until(secs(15), "both connections to be closed", || async {
        // The publisher that came, and the one viewer by RTMP.
        (gateway.connections(gateway.rtmp) <= 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_too_thin_for_its_publisher_is_late_and_nobody_else_notices() {
    let gateway = open_to_all("15s").await;
    let network = Network::join();
    network.make_thin(400);
    let _fat = publish_from(&network, &gateway, Clip::Fat, KEY);
    let watchers = Watcher::all(&gateway, KEY).await;
    let source = frames::of_clip(Clip::Plain).await;
    let decoder = Decoder::start(&Clip::Plain.ffmpeg(), &gateway.rtmp_url(OTHER), &[]);
    gateway.wait_connections(gateway.rtmp, 3).await;
    let mut healthy = spillway_tests::ffmpeg::publish_once(Clip::Plain, &gateway.rtmp_url(OTHER));
    healthy.wait_ok(secs(30)).await;
    network.make_wide();
    wait_more(&watchers, 200).await;
    assert_undisturbed(&watchers);
    let frames = decoder.finish(secs(40)).await;
    frames.assert_same_as(&source, "beside a publisher on a thin link");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_frame_arrives_over_a_line_that_delays_and_loses() {
    let gateway = Gateway::with().set("publish.linger", "2s").start().await;
    let line = Line {
        delay: Duration::from_millis(150),
        lost_one_in: 100,
    };
    let proxy = Proxy::start(gateway.rtmp, line).await;
    let source = frames::of_clip(Clip::BFrames).await;
    let direct = Decoder::start(&Clip::BFrames.ffmpeg(), &gateway.rtmp_url(KEY), &[]);
    let url = format!("rtmp://{}/{KEY}", proxy.address());
    let over_the_line = Decoder::start(&Clip::BFrames.ffmpeg(), &url, &[]);
    gateway.wait_connections(gateway.rtmp, 2).await;
    let mut publisher = spillway_tests::ffmpeg::publish_once(Clip::BFrames, &url);
    publisher.wait_ok(secs(60)).await;
    for (name, decoder) in [("direct", direct), ("over the line", over_the_line)] {
        let frames = decoder.finish(secs(40)).await;
        frames.assert_same_as(&source, name);
        frames.assert_no_errors(name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_line_ends_the_session_and_its_connection() {
    let gateway = Gateway::with().set("publish.idle_timeout", "2s").start().await;
    let line = Line {
        delay: Duration::ZERO,
        lost_one_in: u64::MAX,
    };
    let proxy = Proxy::start(gateway.rtmp, line).await;
    let _publisher = publish_loop(Clip::Plain, &format!("rtmp://{}/{KEY}", proxy.address()));
    gateway.wait_live(KEY).await;
    proxy.go_silent(true);
    until(secs(10), "the session to end by publish.idle_timeout", || async {
        (gateway.publisher_ends("idle").await == 1.0).then_some(())
    })
    .await;
    until(secs(10), "its connection to be closed", || async {
        (gateway.connections(gateway.rtmp) == 0).then_some(())
    })
    .await;
}

/// Bytes that no protocol has, the same each time.
fn garbage(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_after_a_good_start_ends_that_session_only_and_is_counted() {
    let gateway = Gateway::with().start().await;
    let _healthy = publish_loop(Clip::Plain, &gateway.rtmp_url(OTHER));
    let others = Watcher::all(&gateway, OTHER).await;
    let mut publisher = Publisher::open(gateway.rtmp, KEY).await.expect("a publisher");
    let tags = flv::tags_of(&Clip::Plain.file());
    let start: Vec<Tag> = tags.into_iter().filter(|tag| tag.timestamp_ms < 2_000).collect();
    let watchers = async { Watcher::all(&gateway, KEY).await };
    let (played, watchers) = tokio::join!(publisher.play(&start, |ms| ms), watchers);
    played.expect("a good start");
    // The connection may be closed under it.
    let _ = publisher.send_bytes(&garbage(1 << 20)).await;
    within(secs(10), "the publisher to be closed", publisher.ended_with()).await;
    assert_eq!(gateway.publisher_ends("protocol").await, 1.0);
    let log = gateway.log().text();
    assert!(
        log.lines()
            .any(|line| line.contains("publish") && line.contains("protocol")),
        "no line in the log:\n{log}"
    );
    let _again = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    wait_more(&watchers, 50).await;
    assert_undisturbed(&watchers);
    wait_more(&others, 25).await;
    assert_undisturbed(&others);
    for watcher in &others {
        assert!(watcher.seen().gaps.is_empty(), "{}", watcher.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_publishers_at_the_same_moment_one_stays_and_the_other_is_told() {
    let gateway = Gateway::with().start().await;
    let open = || Publisher::open(gateway.rtmp, KEY);
    let (first, second) = tokio::join!(open(), open());
    let (mut first, mut second) = (first.expect("the first"), second.expect("the second"));
    let told = within(secs(10), "one to be told", async {
        tokio::select! {
            told = first.ended_with() => told,
            told = second.ended_with() => told,
        }
    });
    let told = told.await;
    assert!(told.contains("NetStream.Publish.BadName"), "{told}");
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.named("spillway_publishes_total"), 2.0);
    assert!(is_live(&gateway, KEY).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_returns_after_a_second_goes_on() {
    returns_after(secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes 20 s; tests/run --long"]
async fn one_that_returns_after_ten_seconds_goes_on() {
    returns_after(secs(10)).await;
}

async fn returns_after(pause: Duration) {
    let gateway = Gateway::with().start().await;
    let mut publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 50).await;
    publisher.kill().await;
    // How long it is away is the case.
    tokio::time::sleep(pause).await;
    let _again = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    wait_more(&watchers, 100).await;
    assert_undisturbed(&watchers);
}

/// A publisher whose times are mapped, watched by every protocol; the discontinuities counted.
async fn with_times(to: SocketAddr, gateway: &Gateway, key: &str, map: impl Fn(u32) -> u32) -> f64 {
    let tags: Vec<Tag> = flv::tags_of(&Clip::Plain.file());
    let tags: Vec<Tag> = tags.into_iter().filter(|tag| tag.timestamp_ms < 5_000).collect();
    let mut publisher = Publisher::open(to, key).await.expect("a publisher");
    let (played, watchers) = tokio::join!(publisher.play(&tags, map), Watcher::all(gateway, key));
    played.expect("five seconds of media");
    let media = tags
        .iter()
        .filter(|tag| tag.kind != 18 && !tag.is_header())
        .count() as u64;
    for watcher in &watchers {
        let what = format!("all {media} tags of {key}");
        let seen = watcher.wait(secs(10), &what, |seen| seen.media >= media).await;
        assert_eq!(seen.media, media, "{key} by {}", watcher.name());
        assert!(
            seen.backwards.is_empty() && seen.gaps.is_empty() && seen.ended.is_none(),
            "{key} by {}: {seen:?}",
            watcher.name()
        );
    }
    let of = |sample: &spillway_tests::metrics::Sample| {
        sample.name == "spillway_stream_discontinuities_total" && sample.label("stream") == Some(key)
    };
    gateway.metrics().await.sum(of)
}

#[tokio::test(flavor = "multi_thread")]
async fn times_may_wrap_and_jump() {
    const DAY_MS: u32 = 24 * 3600 * 1000;
    let gateway = Gateway::with().start().await;
    let from = |start: u32| move |ms: u32| start.wrapping_add(ms);
    let jump = |far: u32| move |ms: u32| if ms < 2_500 { ms } else { ms.wrapping_add(far) };
    let (at_24_bits, at_32_bits, forward, back) = tokio::join!(
        with_times(gateway.rtmp, &gateway, "live/24-bits", from((1 << 24) - 2_500)),
        with_times(gateway.rtmp, &gateway, "live/32-bits", from(u32::MAX - 2_500)),
        with_times(gateway.rtmp, &gateway, "live/a-day-on", jump(DAY_MS)),
        with_times(gateway.rtmp, &gateway, "live/a-day-back", |ms| {
            DAY_MS + if ms < 2_500 { DAY_MS } else { 0 } + ms
        }),
    );
    assert_eq!((at_24_bits, at_32_bits), (0.0, 0.0), "a wrap is no discontinuity");
    assert!(
        forward >= 1.0 && back >= 1.0,
        "{forward} and {back} jumps noticed"
    );
}
