//! What happens to the process itself: no descriptors, a clock that is set, a log that nobody takes, an end under load.
//! Whoever is there plays on, whoever comes is told, and afterwards all is as before.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::frames::{self, Decoder};
use spillway_tests::gateway::Gateway;
use spillway_tests::hls::Poller;
use spillway_tests::http::{self, Request};
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const KEY: &str = "live/process";

fn assert_undisturbed(watchers: &[Watcher]) {
    for watcher in watchers {
        let seen = watcher.seen();
        assert!(
            seen.ended.is_none() && seen.backwards.is_empty() && seen.gaps.is_empty(),
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

async fn refused_connections(gateway: &Gateway) -> f64 {
    gateway.metrics().await.sum(|sample| {
        sample.name == "spillway_refusals_total" && sample.label("limit") == Some("connections")
    })
}

/// 128 files are room for 64 connections.
#[tokio::test(flavor = "multi_thread")]
async fn beyond_its_open_files_it_refuses_politely_serves_who_is_there_and_recovers() {
    let gateway = Gateway::with()
        .under(&["prlimit", "--nofile=128:128"])
        .start()
        .await;
    assert!(
        gateway.log().text().contains("room for 64 connections"),
        "{}",
        gateway.log().tail()
    );
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 25).await;
    let before = gateway.open_files();
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(
            TcpStream::connect(gateway.http)
                .await
                .expect("the gateway listens"),
        );
    }
    until(secs(10), "connections to be refused", || async {
        (refused_connections(&gateway).await > 0.0).then_some(())
    })
    .await;
    // RTMP has no word for it before a handshake: the connection is closed.
    let mut player = TcpStream::connect(gateway.rtmp)
        .await
        .expect("the gateway listens");
    let read = within(
        secs(10),
        "an RTMP connection to be closed",
        player.read(&mut [0; 16]),
    )
    .await;
    assert!(matches!(read, Ok(0) | Err(_)), "it was served: {read:?}");
    let answer = within(secs(10), "a refusal", http::send(gateway.http, Request::get("/"))).await;
    let answer = answer.expect("a polite answer");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("2")));
    wait_more(&watchers, 50).await;
    assert_undisturbed(&watchers);
    drop((idle, player));
    gateway.wait_open_files(before).await;
    assert_eq!(gateway.get("/").await.status, 200);
}

/// The system takes the descriptors away that were there at the start.
#[tokio::test(flavor = "multi_thread")]
async fn without_descriptors_newcomers_wait_and_are_served_once_there_are_some() {
    let gateway = Arc::new(Gateway::with().start().await);
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 25).await;
    let pid = Pid::from_raw(gateway.pid());
    let set = |files| prlimit(pid, Resource::Nofile, files).expect("a limit of another process can be set");
    let before = set(Rlimit {
        current: Some(8),
        // Raising it would take a capability that root in a container lacks.
        maximum: getrlimit(Resource::Nofile).maximum,
    });
    let newcomer = tokio::spawn({
        let gateway = gateway.clone();
        async move { http::send(gateway.http, Request::get("/streams.json")).await }
    });
    wait_more(&watchers, 75).await;
    assert_undisturbed(&watchers);
    assert!(!newcomer.is_finished(), "it was served without a descriptor");
    set(before);
    let answer = within(secs(10), "the one who waited to be served", newcomer).await;
    assert_eq!(answer.expect("the task").expect("an answer").status, 200);
    let metrics = gateway.metrics().await;
    assert!(metrics.named("spillway_accept_errors_total") >= 1.0);
    wait_more(&watchers, 25).await;
    assert_undisturbed(&watchers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_closed_even_if_its_peer_keeps_it_open() {
    let gateway = Gateway::with()
        .set("limits.max_connections", "2")
        .set("limits.handshake_timeout", "30s")
        .start()
        .await;
    let mut there = Vec::new();
    for _ in 0..2 {
        there.push(
            TcpStream::connect(gateway.rtmp)
                .await
                .expect("the gateway listens"),
        );
    }
    gateway.wait_connections(gateway.rtmp, 2).await;
    let full = gateway.open_files();
    let mut refused = Vec::new();
    for address in [gateway.rtmp, gateway.http].into_iter().cycle().take(20) {
        let mut socket = TcpStream::connect(address).await.expect("the gateway listens");
        // Half of a request, so that there is something to read.
        let _ = socket.write_all(b"GET /").await;
        refused.push(socket);
    }
    until(secs(10), "20 refusals", || async {
        (refused_connections(&gateway).await >= 20.0).then_some(())
    })
    .await;
    gateway.wait_open_files(full).await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.named("spillway_task_panics_total"), 0.0);
    drop((refused, there));
}

/// The clock of one process, as libfaketime makes it.
struct Clock {
    folder: TempDir,
}

impl Clock {
    fn new() -> Self {
        let clock = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        clock.set("+0");
        clock
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// Sets it so far from the real time.
    fn set(&self, offset: &str) {
        // At once: a half written file would be a clock of its own.
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, offset).expect("a file for the clock");
        std::fs::rename(&fresh, self.file()).expect("a file for the clock");
    }

    fn library() -> PathBuf {
        let folder = Path::new("/usr/lib/x86_64-linux-gnu/faketime");
        let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let found = folders
            .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"))
            .find(|path| path.is_file());
        found.unwrap_or_else(|| {
            panic!(
                "no libfaketimeMT.so.1 in {}: tests/run --only install",
                folder.display()
            )
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_on_or_back_disturbs_no_viewer_and_no_playlist() {
    let clock = Clock::new();
    let gateway = Gateway::with()
        .env("LD_PRELOAD", &Clock::library().to_string_lossy())
        .env("FAKETIME_TIMESTAMP_FILE", &clock.file().to_string_lossy())
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .set("hls.segment_duration", "1s")
        .set("play.wait", "1s")
        .set("play.stall_timeout", "5s")
        .set("publish.idle_timeout", "5s")
        .start()
        .await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    let poller = Poller::start(gateway.http, KEY).await;
    poller.wait_segments(secs(20), 3).await;
    let day = || {
        gateway
            .log()
            .text()
            .lines()
            .last()
            .unwrap_or_default()
            .chars()
            .take(10)
            .collect::<String>()
    };
    let real_day = day();
    for offset in ["+1d", "-1d", "+0"] {
        clock.set(offset);
        poller.wait_segments(secs(20), 2).await;
        wait_more(&watchers, 25).await;
        if offset == "+1d" {
            // A line of the log, to see that the process has this clock.
            let _ = within(
                secs(30),
                "a refusal",
                http::send(gateway.http, Request::get("/live/none.flv")),
            )
            .await;
            assert_ne!(day(), real_day, "the clock of the gateway was not set");
        }
    }
    assert_undisturbed(&watchers);
    let record = poller.record();
    record.assert_no_problems();
    assert_eq!(record.discontinuities(), 0);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.named("spillway_task_panics_total"), 0.0);
}

/// The gateway with its log in other hands: it is told to become `script`, in which `"$0" "$@"` is the gateway. All
/// frames arrive, lines are lost and counted, and the process ends in good order.
async fn serves_without_a_log(script: &str, reason: &str) {
    let mut gateway = Gateway::with()
        .under(&["bash", "-c", script])
        .env("RUST_LOG", "trace")
        .set("publish.linger", "1s")
        .set("shutdown.grace", "5s")
        .start()
        .await;
    let clip = Clip::Plain;
    let source = frames::of_clip(clip).await;
    let decoder = Decoder::start(&clip.ffmpeg(), &gateway.rtmp_url(KEY), &[]);
    gateway.wait_connections(gateway.rtmp, 1).await;
    let mut publisher = publish_once(clip, &gateway.rtmp_url(KEY));
    // Each refused viewer is a line of the log.
    let lost = until(secs(30), "log lines to be lost", || async {
        let mut many = JoinSet::new();
        for _ in 0..50 {
            let to = gateway.http;
            many.spawn(async move { http::send(to, Request::get("/live/%00.flv")).await });
        }
        while many.join_next().await.is_some() {}
        let lost = gateway.metrics().await.sum(|sample| {
            sample.name == "spillway_log_lines_lost_total" && sample.label("reason") == Some(reason)
        });
        (lost > 0.0).then_some(lost)
    })
    .await;
    assert!(lost >= 1.0);
    publisher.wait_ok(secs(30)).await;
    decoder
        .finish(secs(30))
        .await
        .assert_same_as(&source, "without a log");
    let metrics = gateway.metrics().await;
    assert_eq!(
        metrics.named("spillway_task_panics_total"),
        0.0,
        "a task panicked for want of a log"
    );
    gateway.process().signal(Signal::TERM);
    let status = gateway.process().wait(secs(15)).await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_reads_holds_nothing_up() {
    // Reads up to the ready line, then no more, and keeps the pipe open.
    serves_without_a_log(
        r#"exec "$0" "$@" 2> >(sed -u "/ready/q"; exec sleep 120 >/dev/null 2>&1)"#,
        "queue",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_reader_is_gone_ends_nothing() {
    serves_without_a_log(r#"exec "$0" "$@" 2> >(sed -u "/ready/q")"#, "write").await;
}

/// A file system of 16 KiB, made for this process alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_under_the_log_ends_nothing() {
    let script = r#"
        log=$(mktemp -d) && mount -t tmpfs -o size=16k none "$log" || { echo "no tmpfs: needs root" >&2; exit 1; }
        touch "$log/log"
        (tail -f -n +1 "$log/log" --pid=$$ | sed -u "/ready/q") &
        exec "$0" "$@" 2>>"$log/log""#;
    // In a mount namespace of its own, so that nothing is left behind.
    let script = format!("exec unshare --mount bash -c '{script}' \"$0\" \"$@\"");
    serves_without_a_log(&script, "write").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_ends_it_in_time_and_tells_who_listens() {
    let mut gateway = Gateway::with().set("shutdown.grace", "5s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 25).await;
    let mut crowd = JoinSet::new();
    let (rtmp, http) = (gateway.rtmp, gateway.http);
    for number in 0..300 {
        crowd.spawn(async move {
            match number % 4 {
                // Stalled: asks and never reads.
                0 => {
                    let socket =
                        http::open(http, Request::get(&format!("/{KEY}.flv")).receive_buffer(4096)).await;
                    tokio::time::sleep(secs(60)).await;
                    drop(socket);
                }
                // Says nothing.
                1 => {
                    let socket = TcpStream::connect(rtmp).await;
                    tokio::time::sleep(secs(60)).await;
                    drop(socket);
                }
                // Comes and goes.
                2 => loop {
                    let _ = http::send(http, Request::get("/streams.json")).await;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                },
                // Reads all it gets.
                _ => {
                    if let Ok(mut stream) = http::open(http, Request::get(&format!("/{KEY}.flv"))).await {
                        while matches!(stream.next().await, Ok(Some(_))) {}
                    }
                }
            }
        });
    }
    until(secs(20), "the crowd to be there", || async {
        (gateway.metrics().await.named("spillway_viewers") >= 150.0).then_some(())
    })
    .await;
    gateway.process().signal(Signal::TERM);
    // Twice the grace: the machine is busy.
    let status = gateway.process().wait(secs(10)).await;
    assert_eq!(status.code(), Some(0), "{}", gateway.log().tail());
    let log = gateway.log().text();
    assert!(log.contains("stopped") && !log.contains("panic"), "{log}");
    for watcher in &watchers {
        let seen = watcher
            .wait(secs(5), "the end", |seen| seen.ended.is_some())
            .await;
        assert_eq!(seen.ended, Some(true), "{}: cut, and not told", watcher.name());
    }
    crowd.abort_all();
}

/// Connections one after the other: nothing of them stays.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_connections_in_turn_leave_nothing_behind() {
    connections_in_turn(2_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; tests/run --long"]
async fn a_hundred_thousand_connections_in_turn_leave_nothing_behind() {
    connections_in_turn(100_000).await;
}

async fn connections_in_turn(count: usize) {
    /// What the allocator may keep of the busiest moment.
    const SLACK_BYTES: u64 = 16 << 20;
    const AT_ONCE: usize = 32;
    let gateway = Arc::new(Gateway::with().start().await);
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    wait_more(&watchers, 250).await;
    let (files, bytes) = (gateway.open_files(), gateway.resident_bytes());
    let mut turns = JoinSet::new();
    for number in 0..count {
        if turns.len() >= AT_ONCE {
            turns.join_next().await;
        }
        let gateway = gateway.clone();
        turns.spawn(async move {
            match number % 3 {
                0 => drop(TcpStream::connect(gateway.rtmp).await),
                1 => drop(http::open(gateway.http, Request::get(&format!("/{KEY}.flv"))).await),
                _ => {
                    let mut viewer = spillway_tests::rtmp::Viewer::open(gateway.rtmp, KEY).await;
                    viewer.next_tag().await;
                }
            }
        });
    }
    while turns.join_next().await.is_some() {}
    gateway.wait_open_files(files).await;
    until(secs(20), "memory to return", || async {
        (gateway.resident_bytes() <= bytes + SLACK_BYTES).then_some(())
    })
    .await;
    assert_undisturbed(&watchers);
    assert_eq!(gateway.metrics().await.named("spillway_task_panics_total"), 0.0);
}
