//! Running it: configuration, sub-commands, probes, metrics, draining, the demo.

use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::gateway::{Gateway, binary};
use spillway_tests::http::{self, Request};
use spillway_tests::tools;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};
use tokio::process::Command;

const KEY: &str = "live/ops";

async fn run(args: &[&str]) -> (Output, String) {
    let mut command = Command::new(binary());
    command
        .args(args)
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let output = within(secs(15), &format!("spillway {args:?}"), command.output())
        .await
        .expect("the binary");
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output, text)
}

fn config_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("a temporary file");
    std::fs::write(file.path(), text).expect("a configuration file");
    file
}

#[tokio::test]
async fn a_wrong_key_stops_the_start_with_file_line_and_key() {
    let cases = [
        ("[hls]\nwindow = 6\nwindwo = 7\n", "3", "windwo"),
        (
            "[rtmp]\nlisten = \"0.0.0.0:1935\"\n\n[ghost]\nx = 1\n",
            "4",
            "ghost",
        ),
        ("[publish]\nlinger = 15\n", "2", "linger"),
        ("[hls]\n\nsegment_duration = \"two\"\n", "3", "segment_duration"),
        ("[http]\nlisten = \"nowhere\"\n", "2", "listen"),
    ];
    for (text, line, key) in cases {
        let file = config_file(text);
        let path = file.path().to_str().expect("a plain path");
        for args in [vec!["check", path], vec!["--config", path]] {
            let (output, said) = run(&args).await;
            assert!(!output.status.success(), "{args:?} took {text:?}");
            assert!(
                said.contains(path),
                "{args:?} with {text:?} does not name the file:\n{said}"
            );
            assert!(
                said.contains(&format!(":{line}")) || said.contains(&format!("line {line}")),
                "{args:?} with {text:?} does not name line {line}:\n{said}"
            );
            assert!(
                said.contains(key),
                "{args:?} with {text:?} does not name {key}:\n{said}"
            );
        }
    }
}

#[tokio::test]
async fn a_wrong_key_on_the_command_line_or_in_the_environment_stops_the_start() {
    let (output, said) = run(&["--set", "hls.windwo=7"]).await;
    assert!(!output.status.success() && said.contains("windwo"), "{said}");
    let (output, said) = run(&["--set", "publish.linger=fifteen"]).await;
    assert!(!output.status.success() && said.contains("linger"), "{said}");
    let mut command = Command::new(binary());
    command.env("SPILLWAY__HLS__WINDWO", "7").kill_on_drop(true);
    let output = within(secs(15), "a start with a wrong variable", command.output())
        .await
        .expect("the binary");
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && said.to_ascii_lowercase().contains("windwo"),
        "{said}"
    );
}

#[tokio::test]
async fn the_command_line_beats_the_environment_beats_the_file() {
    let file = config_file("[hls]\nwindow = 7\nsegment_duration = \"1s\"\n[publish]\nlinger = \"9s\"\n");
    let gateway = Gateway::with()
        .arg("--config")
        .arg(file.path().to_str().expect("a plain path"))
        .env("SPILLWAY__HLS__WINDOW", "5")
        .set("hls.window", "3")
        .start()
        .await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = spillway_tests::hls::Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(30), 6).await;
    let listed = record.newest.expect("a playlist").segments.len();
    assert_eq!(
        listed, 3,
        "--set hls.window=3 against 5 in the environment and 7 in the file"
    );
}

#[tokio::test]
async fn check_accepts_the_shipped_files_and_schema_is_json() {
    for name in ["spillway.toml"] {
        let path = tools::repository().join("config").join(name);
        let (output, said) = run(&["check", &path.to_string_lossy()]).await;
        assert!(output.status.success(), "check {name}:\n{said}");
    }
    let (output, _) = run(&["check"]).await;
    assert!(
        output.status.success(),
        "check without a file checks the defaults"
    );
    let (output, _) = run(&["schema"]).await;
    assert!(output.status.success());
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).expect("schema prints JSON");
    let text = schema.to_string();
    for key in ["segment_duration", "stall_timeout", "publish_keys", "linger"] {
        assert!(text.contains(key), "the schema does not know {key}");
    }
}

#[tokio::test]
async fn an_address_in_use_is_said_with_the_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let (output, said) = run(&[
        "--set",
        &format!("http.listen={address}"),
        "--set",
        "rtmp.listen=127.0.0.1:0",
        "--set",
        "admin.listen=127.0.0.1:0",
    ])
    .await;
    assert!(!output.status.success());
    assert!(said.contains(&address) && said.contains("http.listen"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn healthcheck_asks_the_running_gateway() {
    let gateway = Gateway::with().start().await;
    let admin = format!("admin.listen={}", gateway.admin);
    let (output, said) = run(&["healthcheck", "--set", &admin]).await;
    assert!(
        output.status.success(),
        "healthcheck of a running gateway:\n{said}"
    );
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("its address");
    let (output, _) = run(&["healthcheck", "--set", &format!("admin.listen={free}")]).await;
    assert!(!output.status.success(), "healthcheck of nothing");
}

/// SIGTERM: not ready any more, no new sessions, viewers told, exit 0 within the grace.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains() {
    let mut gateway = Gateway::with().set("shutdown.grace", "6s").start().await;
    let publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 50).await;
    }
    assert_eq!(gateway.admin_get("/readyz").await.status, 200);
    assert_eq!(gateway.admin_get("/livez").await.status, 200);
    let admin = gateway.admin;
    let started = std::time::Instant::now();
    gateway.process().signal(Signal::TERM);
    let probe = until(
        secs(6),
        "/readyz to say 503, or the end of the process",
        || async {
            match http::send(admin, Request::get("/readyz")).await {
                Ok(response) if response.status == 200 => None,
                Ok(response) => Some(Some(response.status)),
                Err(_) => Some(None),
            }
        },
    )
    .await;
    assert!(
        matches!(probe, Some(503) | None),
        "/readyz while draining: {probe:?}"
    );
    let status = gateway.process().wait(secs(8)).await;
    let took = started.elapsed();
    assert_eq!(
        status.code(),
        Some(0),
        "exit status; the log:\n{}",
        gateway.log().tail()
    );
    assert!(took < secs(7), "took {took:?} with a grace of 6 s");
    for watcher in &watchers {
        let seen = watcher
            .wait(secs(5), "the end", |seen| seen.ended.is_some())
            .await;
        assert_eq!(seen.ended, Some(true), "{}: cut, and not told", watcher.name());
    }
    drop(publisher);
}

/// While draining the probe says so: a viewer that takes its time keeps the process alive meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn readyz_is_503_while_draining() {
    let mut gateway = Gateway::with().set("shutdown.grace", "4s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let _stalled = spillway_tests::flv::Viewer::open_narrow(gateway.http, KEY).await;
    gateway.wait_live(KEY).await;
    let admin = gateway.admin;
    gateway.process().signal(Signal::TERM);
    let status = until(secs(3), "/readyz to say 503", || async {
        let response = http::send(admin, Request::get("/readyz")).await.ok()?;
        (response.status != 200).then_some(response.status)
    })
    .await;
    assert_eq!(status, 503);
    let refused = http::send(gateway.http, Request::get("/live/ops.flv")).await;
    assert!(
        refused.is_err() || refused.is_ok_and(|response| response.status == 503),
        "a new viewer while draining"
    );
    let status = gateway.process().wait(secs(8)).await;
    assert_eq!(status.code(), Some(0), "{}", gateway.log().tail());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_ends_at_once() {
    let mut gateway = Gateway::with().start().await;
    let started = std::time::Instant::now();
    let status = gateway.terminate(secs(5)).await;
    assert_eq!(status.code(), Some(0), "{}", gateway.log().tail());
    assert!(started.elapsed() < secs(3), "took {:?}", started.elapsed());
}

/// Keys let a publisher in, are never written to the log, and a wrong one is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_key_opens_and_is_never_logged() {
    const SECRET: &str = "s3cret-publish-key-0123456789";
    let file = config_file(&format!("[auth]\npublish_keys = [\"{SECRET}\"]\n"));
    let gateway = Gateway::with()
        .arg("--config")
        .arg(file.path().to_str().expect("a plain path"))
        .set("publish.linger", "1s")
        .env("RUST_LOG", "trace")
        .start()
        .await;
    let wrong = "wr0ng-publish-key-987654321";
    let mut refused = publish_once(Clip::Plain, &gateway.rtmp_url(&format!("{KEY}?key={wrong}")));
    assert!(!refused.wait(secs(15)).await.success(), "a wrong key was taken");
    let mut publisher = publish_once(Clip::Plain, &gateway.rtmp_url(&format!("{KEY}?key={SECRET}")));
    publisher.wait_ok(secs(30)).await;
    let log = gateway.log().text();
    assert!(!log.contains(SECRET), "the key is in the log");
    assert!(!log.contains(wrong), "the refused key is in the log");
    let metrics = gateway.admin_get("/metrics").await.text();
    assert!(!metrics.contains(SECRET), "the key is in the metrics");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_parse_and_count() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 100).await;
    }
    let metrics = gateway.metrics().await;
    let ours: Vec<_> = metrics
        .samples
        .iter()
        .filter(|sample| sample.name.starts_with("spillway_"))
        .collect();
    assert!(ours.len() > 10, "only {} samples of spillway_", ours.len());
    for sample in &ours {
        for (name, value) in &sample.labels {
            assert!(
                value.len() <= 128,
                "label {name} of {} is unbounded: {value}",
                sample.name
            );
            assert!(
                !value.contains("127.0.0.1"),
                "an address as a label of {}",
                sample.name
            );
        }
    }
    let names: Vec<&str> = metrics.types.iter().map(|(name, _)| name.as_str()).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "a metric has two TYPE lines");
    for (name, kind) in &metrics.types {
        assert!(
            kind != "counter" || name.ends_with("_total"),
            "counter {name} does not end with _total"
        );
    }
    for protocol in ["rtmp", "flv", "ws"] {
        let of = metrics.sum(|sample| {
            sample.name.starts_with("spillway_") && sample.labels.iter().any(|(_, value)| value == protocol)
        });
        assert!(of > 0.0, "nothing is counted for {protocol}");
    }
}

/// Prometheus's own check of names, units, types and help.
#[tokio::test(flavor = "multi_thread")]
async fn promtool_finds_nothing_to_say_of_the_metrics() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 25).await;
    }
    let metrics = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(metrics.path(), gateway.admin_get("/metrics").await.text()).expect("a file of metrics");
    let mut command = Command::new("promtool");
    command
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(metrics.path()).expect("the same file"))
        .kill_on_drop(true);
    let output = within(secs(20), "promtool check metrics", command.output())
        .await
        .expect("promtool, of Debian's package prometheus");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "promtool: {}",
        String::from_utf8_lossy(&said)
    );
}

/// What the scheduler does to the process: the number of workers and how late the probe task runs.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_workers_and_scheduler_delay() {
    let gateway = Gateway::with().set("runtime.workers", "3").start().await;
    assert_eq!(gateway.metrics().await.named("spillway_workers"), 3.0);
    until(secs(15), "three probes of the scheduler's delay", || async {
        let metrics = gateway.metrics().await;
        (metrics.named("spillway_scheduler_delay_seconds_count") >= 3.0).then_some(())
    })
    .await;
}

/// One line for each end of a session, with reason, bytes and duration.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_logged_as_json_when_asked() {
    let mut gateway = Gateway::with()
        .set("publish.linger", "1s")
        .set("log.format", "json")
        .start_json()
        .await;
    let mut publisher = publish_once(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    publisher.wait_ok(secs(30)).await;
    for watcher in &watchers {
        watcher
            .wait(secs(15), "the end", |seen| seen.ended.is_some())
            .await;
    }
    gateway.terminate(secs(10)).await;
    let log = gateway.log().text();
    let mut ends = 0;
    for line in log.lines().filter(|line| !line.trim().is_empty()) {
        let value: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"));
        let text = value.to_string();
        ends += usize::from(
            text.contains("reason")
                && text.contains("bytes")
                && (text.contains("duration") || text.contains("seconds")),
        );
    }
    assert!(
        ends >= 4,
        "{ends} session ends with reason, bytes and duration for 4 sessions:\n{log}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_publishes_and_plays() {
    let gateway = Gateway::with().arg("--demo").start().await;
    gateway.wait_live("live/demo").await;
    let log = gateway.log().text();
    assert!(
        log.contains("live/demo"),
        "the log does not say what to open:\n{log}"
    );
    let watchers = Watcher::all(&gateway, "live/demo").await;
    let poller = spillway_tests::hls::Poller::start(gateway.http, "live/demo").await;
    // Longer than the clip, so that the loop has gone round once.
    for watcher in &watchers {
        let seen = watcher
            .wait(secs(40), "10 s more than at the start", |seen| seen.media > 900)
            .await;
        assert!(
            seen.ended.is_none() && seen.backwards.is_empty() && seen.gaps.is_empty(),
            "{seen:?}"
        );
        assert_eq!(seen.video_headers.len(), 1, "{}", watcher.name());
    }
    let record = poller.record();
    record.assert_no_problems();
    assert_eq!(record.discontinuities(), 0, "the loop of the demo is seamless");
    let list = gateway.get("/").await;
    assert_eq!(list.status, 200);
    assert!(
        list.header("content-type")
            .is_some_and(|kind| kind.starts_with("text/html"))
    );
    let page = gateway.get("/live/demo").await;
    assert_eq!(page.status, 200, "the players' page");
    drop(watchers);
    let frames = spillway_tests::frames::of_bytes(tools::ffmpeg(), &record.joined(), "demo.ts").await;
    frames.assert_no_errors("the demo");
}

#[tokio::test]
async fn help_names_what_there_is() {
    let (output, said) = run(&["--help"]).await;
    assert!(output.status.success());
    for word in ["--config", "--set", "--demo", "check", "schema", "healthcheck"] {
        assert!(said.contains(word), "--help does not name {word}:\n{said}");
    }
    let (output, said) = run(&["--version"]).await;
    assert!(output.status.success() && said.contains("spillway"), "{said}");
    assert!(Path::new(&binary()).is_file());
}
