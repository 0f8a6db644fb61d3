//! Limits as peers meet them: the newcomer is told why, whoever is there plays on, and the refusal is counted.

use std::net::SocketAddr;

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::gateway::Gateway;
use spillway_tests::http::{self, Request};
use spillway_tests::rtmp;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;

const KEY: &str = "live/limits";

async fn refusals(gateway: &Gateway, limit: &str) -> f64 {
    gateway
        .metrics()
        .await
        .sum(|sample| sample.name == "spillway_refusals_total" && sample.label("limit") == Some(limit))
}

/// Asks for a stream by HTTP-FLV; the status and Retry-After.
async fn flv_status(gateway: &Gateway, key: &str) -> (u16, Option<String>) {
    let request = Request::get(&format!("/{key}.flv"));
    let answer = within(secs(20), "an HTTP-FLV answer", http::open(gateway.http, request)).await;
    let head = answer.expect("an answer").head;
    (head.status, head.header("retry-after").map(str::to_owned))
}

/// Asks for a stream by RTMP; how it was refused.
async fn rtmp_refusal(gateway: &Gateway, key: &str) -> String {
    let mut viewer = rtmp::Viewer::open(gateway.rtmp, key).await;
    let tag = within(secs(20), "an RTMP refusal", viewer.next_tag()).await;
    assert!(tag.is_none(), "the viewer was let in");
    viewer.ended_with().unwrap_or("closed without a word").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_memory_budget_a_new_viewer_is_refused_with_503_and_retry_after_while_existing_ones_play_on()
{
    let gateway = Gateway::with().set("limits.memory", "1MiB").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    until(secs(20), "more media in memory than limits.memory", || async {
        let metrics = gateway.metrics().await;
        (metrics.named("spillway_memory_bytes") > metrics.named("spillway_memory_limit_bytes")).then_some(())
    })
    .await;

    let (status, retry_after) = flv_status(&gateway, KEY).await;
    assert_eq!((status, retry_after.as_deref()), (503, Some("5")), "HTTP-FLV");
    let hls = gateway.get(&format!("/{KEY}/index.m3u8")).await;
    assert_eq!(
        (hls.status, hls.header("retry-after")),
        (503, Some("5")),
        "HLS: {}",
        hls.text()
    );
    let refusal = rtmp_refusal(&gateway, KEY).await;
    assert!(
        refusal.starts_with("NetStream.Play.Failed") && refusal.contains("limits.memory"),
        "{refusal}"
    );
    let mut newcomer = publish_once(Clip::Plain, &gateway.rtmp_url("live/another"));
    assert!(
        !newcomer.wait(secs(15)).await.success(),
        "a new publisher was let in"
    );
    assert!(refusals(&gateway, "memory").await >= 4.0);

    for watcher in &watchers {
        let seen = watcher.wait_more(secs(15), 100).await;
        assert!(
            seen.ended.is_none() && seen.gaps.is_empty(),
            "{} did not play on: {seen:?}",
            watcher.name()
        );
    }
}

/// A connection from an address of our choice in 127.0.0.0/8.
async fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let source = format!("{source}:0").parse().expect("an address");
    socket.bind(source).expect("a loopback address");
    within(secs(10), "a connection", socket.connect(to))
        .await
        .expect("the gateway listens")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_has_so_many_connections_over_both_listeners_and_others_come_in() {
    let gateway = Gateway::with()
        .set("limits.max_connections_per_ip", "2")
        .start()
        .await;
    let _first = connect_from("127.0.0.9", gateway.rtmp).await;
    let _second = connect_from("127.0.0.9", gateway.http).await;
    gateway.wait_connections(gateway.rtmp, 1).await;
    gateway.wait_connections(gateway.http, 1).await;
    let third = connect_from("127.0.0.9", gateway.rtmp).await;
    let closed = within(secs(10), "the third connection to be closed", async {
        third.readable().await?;
        third.try_read(&mut [0; 16])
    });
    assert!(
        matches!(closed.await, Ok(0) | Err(_)),
        "the third connection was served"
    );
    assert_eq!(refusals(&gateway, "connections_per_ip").await, 1.0);
    assert_eq!(gateway.get("/").await.status, 200, "from 127.0.0.1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_publishes_so_many_streams() {
    let gateway = Gateway::with()
        .set("limits.max_streams_per_ip", "1")
        .start()
        .await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let mut second = publish_once(Clip::Plain, &gateway.rtmp_url("live/second"));
    assert!(
        !second.wait(secs(15)).await.success(),
        "a second stream was taken"
    );
    assert!(gateway.log().text().contains("limits.max_streams_per_ip"));
    assert_eq!(refusals(&gateway, "streams_per_ip").await, 1.0);
    // Its own name it gets back at once, as ever.
    let _again = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    until(secs(15), "the second publisher of the same name", || async {
        (gateway.metrics().await.named("spillway_publishes_total") >= 2.0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_in_all_are_bounded_over_all_streams() {
    let gateway = Gateway::with().set("limits.max_viewers", "3").start().await;
    let _publishers = [KEY, "live/other"].map(|key| publish_loop(Clip::Plain, &gateway.rtmp_url(key)));
    gateway.wait_live("live/other").await;
    until(secs(15), "the viewer that looked to be gone", || async {
        (gateway.metrics().await.named("spillway_viewers") == 0.0).then_some(())
    })
    .await;
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 10).await;
    }
    assert_eq!(flv_status(&gateway, "live/other").await.0, 503);
    let refusal = rtmp_refusal(&gateway, "live/other").await;
    assert!(refusal.contains("limits.max_viewers"), "{refusal}");
    assert_eq!(refusals(&gateway, "all_viewers").await, 2.0);
    for watcher in &watchers {
        let seen = watcher.wait_more(secs(15), 25).await;
        assert!(seen.ended.is_none(), "{} did not play on", watcher.name());
    }
}

/// A file sent as fast as it goes: ffmpeg without `-re`.
#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_far_above_the_bit_rate_is_disconnected_with_a_word() {
    let gateway = Gateway::with()
        .set("limits.publish_bitrate", "500kbit/s")
        .start()
        .await;
    let mut publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let status = publisher.wait(secs(30)).await;
    assert!(
        !status.success(),
        "ffmpeg noticed nothing:\n{}",
        publisher.output().tail()
    );
    assert_eq!(refusals(&gateway, "publish_bitrate").await, 1.0);
    let ended = gateway.metrics().await.sum(|sample| {
        sample.name == "spillway_publisher_sessions_ended_total" && sample.label("reason") == Some("too_fast")
    });
    assert_eq!(ended, 1.0);
    assert!(gateway.log().text().contains("limits.publish_bitrate"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http_head_above_the_limit_is_answered_431_and_counted() {
    let gateway = Gateway::with().set("limits.http_header", "8KiB").start().await;
    let request = Request::get("/").header("X-Long", &"a".repeat(9_000));
    assert_eq!(http::fetch(gateway.http, request).await.status, 431);
    until(secs(10), "the refusal to be counted", || async {
        (refusals(&gateway, "http_header").await >= 1.0).then_some(())
    })
    .await;
}

/// The budget is half of what the control group of the process allows, if it is in one.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_budget_is_by_default_half_of_what_the_process_may_use() {
    let gateway = Gateway::with().start().await;
    let budget = gateway.metrics().await.named("spillway_memory_limit_bytes");
    let output = Command::new("awk")
        .args(["/^MemTotal:/ { print $2 * 1024 }", "/proc/meminfo"])
        .output()
        .await
        .expect("awk");
    let machine: f64 = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("MemTotal");
    assert!(
        budget > 0.0 && budget <= machine / 2.0,
        "{budget} bytes of a machine's {machine}"
    );
}
