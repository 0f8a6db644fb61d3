//! The hook: a program that is asked who may publish and play, and told when they end.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::gateway::Gateway;
use spillway_tests::hook::{Endpoint, Event, Reply, SECRET};
use spillway_tests::http::{self, Request};
use spillway_tests::process::Process;
use spillway_tests::rtmp;
use spillway_tests::tools;
use spillway_tests::viewer::{Viewer, Watcher};
use spillway_tests::wait::{secs, until, within};
use spillway_tests::ws;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinSet;

const KEY: &str = "sk-0123456789";

fn everybody(_: &Event) -> Reply {
    Reply::allow()
}

/// Publishes and waits until the stream is live under the name it is to have.
async fn publishing(gateway: &Gateway, asked: &str, public: &str) -> Process {
    let publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(asked));
    let path = format!("/api/v1/streams/{public}");
    until(secs(20), &format!("{public} to be live"), || async {
        let stream = gateway.admin_get(&path).await.text();
        (stream.contains("\"phase\":\"live\"") && stream.contains("\"video\":{")).then_some(())
    })
    .await;
    publisher
}

fn pairs(events: &[Event]) -> HashMap<String, Vec<String>> {
    let mut sessions = HashMap::<_, Vec<String>>::new();
    for event in events {
        let kinds = sessions.entry(event.text("session").to_owned()).or_default();
        kinds.push(event.text("event").to_owned());
    }
    sessions
}

fn sequences(events: &[Event]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| event.0["sequence"].as_u64())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_key_becomes_a_public_name_and_is_seen_nowhere() {
    let endpoint = Endpoint::start(|event| match event.text("event") {
        "publish" if event.text("stream").ends_with(KEY) => {
            Reply::json(&json!({"allow": true, "rename": "alice", "max_viewers": 1}))
        }
        "publish" => Reply::json(&json!({"allow": false, "reason": "unknown stream key"})),
        _ => Reply::allow(),
    })
    .await;
    let gateway = endpoint.gateway().start().await;
    let publisher = publishing(&gateway, &format!("live/{KEY}?user=alice"), "live/alice").await;
    let published = &endpoint.wait("publish", 1).await[0];
    assert_eq!(
        (published.text("app"), published.text("protocol")),
        ("live", "rtmp")
    );
    assert_eq!(published.0["params"], json!({"user": "alice"}));
    let viewer = Viewer::Rtmp(Box::new(rtmp::Viewer::open(gateway.rtmp, "live/alice").await));
    let viewer = Watcher::start("RTMP", viewer);
    viewer.wait_more(secs(15), 5).await;
    let full = gateway.get("/live/alice.flv").await;
    assert_eq!(full.status, 503, "the hook allowed one viewer: {}", full.text());
    let mut wrong = publish_loop(Clip::Plain, &gateway.rtmp_url("live/sk-wrong-guess"));
    assert!(!wrong.wait(secs(15)).await.success());
    let said = wrong.output().text();
    assert!(said.contains("unknown stream key"), "{said}");
    drop(viewer);
    publisher.signal(Signal::KILL);
    let ended = &endpoint.wait("unpublish", 1).await[0];
    assert_eq!(ended.text("session"), published.text("session"));
    assert_eq!((ended.text("renamed"), ended.text("reason")), ("alice", "client"));
    assert!(!ended.0.to_string().contains("user"), "{}", ended.0);
    for (place, text) in [
        ("log", gateway.log().text()),
        ("metrics", gateway.admin_get("/metrics").await.text()),
        ("API", gateway.admin_get("/api/v1/streams").await.text()),
        ("list", gateway.get("/streams.json").await.text()),
    ] {
        for secret in [KEY, "sk-wrong-guess", SECRET] {
            assert!(!text.contains(secret), "{secret} in the {place}:\n{text}");
        }
    }
    let metrics = gateway.metrics().await;
    let decided = |outcome| {
        metrics.sum(|sample| {
            sample.name == "spillway_hook_decisions_total"
                && sample.label("event") == Some("publish")
                && sample.label("outcome") == Some(outcome)
        })
    };
    assert_eq!((decided("allow"), decided("refuse")), (1.0, 1.0));
    assert!(metrics.named("spillway_hook_seconds_count") >= 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_guesses_stream_keys_has_to_wait_and_the_endpoint_is_spared() {
    let endpoint = Endpoint::start(|_| Reply::status(403)).await;
    let gateway = endpoint.gateway().set("auth.free_failures", "1").start().await;
    let mut said = String::new();
    let mut tries = 0;
    while !said.contains("too many") {
        tries += 1;
        assert!(tries < 8, "never told to wait: {said}");
        let mut guesser = publish_loop(Clip::Plain, &gateway.rtmp_url(&format!("live/guess-{tries}")));
        assert!(!guesser.wait(secs(15)).await.success());
        said = guesser.output().text();
    }
    assert!(endpoint.events_of("publish").len() < tries);
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_are_asked_about_over_every_protocol_and_told_why_not() {
    let endpoint = Endpoint::start(|event| {
        let wrong = event.is("play") && event.0["params"]["ticket"] != "good";
        if wrong {
            Reply::json(&json!({"allow": false, "reason": "members only"}))
        } else {
            Reply::allow()
        }
    })
    .await;
    let gateway = endpoint.gateway().start().await;
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    let key = "live/cam?ticket=good";
    let ws = ws::Viewer::open(&gateway.ws_url("live/cam.flv?ticket=good")).await;
    let watchers = [
        Watcher::start(
            "RTMP",
            Viewer::Rtmp(Box::new(rtmp::Viewer::open(gateway.rtmp, key).await)),
        ),
        Watcher::start("WS-FLV", Viewer::Ws(Box::new(ws))),
    ];
    for watcher in &watchers {
        watcher.wait_more(secs(15), 5).await;
    }
    let flv = http::open(gateway.http, Request::get("/live/cam.flv?ticket=good")).await;
    let flv = flv.expect("an answer");
    assert_eq!(flv.head.status, 200);
    let mut protocols: Vec<_> = endpoint
        .wait("play", 3)
        .await
        .iter()
        .map(|e| e.text("protocol").to_owned())
        .collect();
    protocols.sort();
    assert_eq!(protocols, ["flv", "rtmp", "ws"]);
    let mut refused = rtmp::Viewer::open(gateway.rtmp, "live/cam?ticket=bad").await;
    assert!(within(secs(10), "a refusal", refused.next_tag()).await.is_none());
    assert!(refused.ended_with().unwrap_or_default().contains("members only"));
    for path in ["/live/cam.flv", "/live/cam/index.m3u8"] {
        let answer = gateway.get(path).await;
        assert_eq!(
            (answer.status, answer.text().contains("members only")),
            (403, true),
            "{path}"
        );
    }
    drop((watchers, flv));
    let stops = endpoint.wait("stop", 3).await;
    let plays = endpoint.events_of("play");
    assert_eq!(plays.len(), 6);
    for stop in &stops {
        assert!(
            plays
                .iter()
                .any(|play| play.text("session") == stop.text("session"))
        );
    }
    assert_eq!(endpoint.events_of("stop").len(), 3);
}

/// Attempts fail, publishers are killed, come back and take each other's place: what the endpoint takes is each start
/// and each end once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn starts_and_ends_are_paired_and_in_order_whatever_happens() {
    let attempts = Mutex::new(HashMap::<String, u32>::new());
    let endpoint = Endpoint::start(move |event| {
        let mut attempts = attempts.lock().expect("no panic");
        let attempt = attempts.entry(event.text("id").to_owned()).or_default();
        *attempt += 1;
        if *attempt == 1 {
            Reply::status(500)
        } else {
            Reply::allow()
        }
    })
    .await;
    let mut gateway = endpoint.gateway().set("auth.play", "open").start().await;
    let first = publishing(&gateway, "live/cam", "live/cam").await;
    let _second = publish_loop(Clip::Plain, &gateway.rtmp_url("live/cam"));
    let ended = endpoint.wait("unpublish", 1).await;
    assert_eq!(ended[0].text("reason"), "replaced");
    drop(first);
    let mut third = publish_loop(Clip::Plain, &gateway.rtmp_url("live/cam"));
    endpoint.wait("unpublish", 2).await;
    third.kill().await;
    let _fourth = publish_loop(Clip::Plain, &gateway.rtmp_url("live/cam"));
    endpoint.wait("publish", 4).await;
    until(secs(15), "the fourth to be live", || async {
        let streams = gateway.admin_get("/api/v1/streams").await.text();
        streams.contains("\"phase\":\"live\"").then_some(())
    })
    .await;
    gateway.terminate(secs(15)).await;
    let events = endpoint.events();
    let sessions = pairs(&events);
    assert_eq!(sessions.len(), 4, "{events:#?}");
    for (session, kinds) in &sessions {
        assert_eq!(kinds, &["publish", "unpublish"], "{session}: {events:#?}");
    }
    let sequences = sequences(&events);
    assert!(sequences.is_sorted_by(|a, b| a < b), "{events:#?}");
    assert_eq!(events.last().map(|event| event.text("reason")), Some("shutdown"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_endpoint_keeps_out_or_lets_in_as_configured() {
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", dead.local_addr().expect("its address"));
    drop(dead);
    let start = || {
        Gateway::with()
            .set("auth.publish", "hook")
            .set("hooks.url", &url)
            .set("hooks.timeout", "1s")
            .set("shutdown.grace", "2s")
    };
    let closed = start().start().await;
    let mut publisher = publish_loop(Clip::Plain, &closed.rtmp_url("live/cam"));
    assert!(!publisher.wait(secs(15)).await.success());
    let said = publisher.output().text();
    assert!(said.contains("try again"), "{said}");
    let log = closed.log().text();
    assert!(
        log.contains("hooks.url") && log.contains("cannot be reached"),
        "{log}"
    );
    let metrics = closed.metrics().await;
    let failures =
        |name| metrics.sum(|s| s.name == "spillway_hook_failures_total" && s.label("failure") == Some(name));
    assert!(failures("connect") >= 2.0);
    assert!(failures("timeout").abs() < 0.5);
    let open = start().set("hooks.fail", "open").start().await;
    let _publisher = publishing(&open, "live/cam", "live/cam").await;
    let stream = http::open(open.http, Request::get("/live/cam.flv")).await;
    assert_eq!(stream.expect("an answer").head.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_delays_its_own_session_only() {
    let endpoint = Endpoint::start(|event| {
        let slow = event.text("stream") == "live/slow" || event.0["params"]["slow"] == "1";
        let reply = Reply::allow();
        if slow { reply.after(secs(600)) } else { reply }
    })
    .await;
    let gateway = endpoint.gateway().set("hooks.timeout", "8s").start().await;
    let mut slow = publish_loop(Clip::Plain, &gateway.rtmp_url("live/slow"));
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    let mut slow_viewer = rtmp::Viewer::open(gateway.rtmp, "live/cam?slow=1").await;
    let waiting = tokio::spawn(async move { slow_viewer.next_tag().await.is_none() });
    for watcher in Watcher::all(&gateway, "live/cam").await {
        watcher.wait_more(secs(15), 5).await;
    }
    assert!(slow.is_running() && !waiting.is_finished());
    assert!(
        !slow.wait(secs(20)).await.success(),
        "nobody said that it may publish"
    );
    assert!(
        within(secs(20), "the slow viewer's end", waiting)
            .await
            .expect("no panic")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_that_the_hook_grants_ends_sessions_politely() {
    let endpoint = Endpoint::start(|event| match event.text("event") {
        "publish" if event.text("stream") == "live/short" => {
            Reply::json(&json!({"allow": true, "lifetime_seconds": 2}))
        }
        "play" => Reply::json(&json!({"allow": true, "lifetime_seconds": 1})),
        _ => Reply::allow(),
    })
    .await;
    let gateway = endpoint.gateway().start().await;
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    for watcher in Watcher::all(&gateway, "live/cam").await {
        let seen = watcher
            .wait(secs(15), "its end", |seen| seen.ended.is_some())
            .await;
        assert_eq!(
            (seen.ended, seen.media > 0),
            (Some(true), true),
            "{}",
            watcher.name()
        );
    }
    for stop in endpoint.wait("stop", 3).await {
        assert_eq!(stop.text("reason"), "expired");
    }
    let mut short = publish_loop(Clip::Plain, &gateway.rtmp_url("live/short"));
    let ended = &endpoint.wait("unpublish", 1).await[0];
    assert_eq!(
        (ended.text("stream"), ended.text("reason")),
        ("live/short", "expired")
    );
    short.wait(secs(15)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_kept_for_a_while_and_every_session_is_told_of() {
    let endpoint = Endpoint::start(everybody).await;
    let gateway = endpoint.gateway().set("hooks.cache", "600s").start().await;
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    let path = "/live/cam.flv?who=me";
    for _ in 0..3 {
        let stream = http::open(gateway.http, Request::get(path))
            .await
            .expect("an answer");
        assert_eq!(stream.head.status, 200);
    }
    let plays = endpoint.wait("play", 3).await;
    let asked = plays.iter().filter(|play| play.0["asks"] == true).count();
    assert_eq!((asked, plays.len()), (1, 3));
    let stops = endpoint.wait("stop", 3).await;
    assert_eq!(stops.len(), 3);
    let metrics = gateway.metrics().await;
    assert!((metrics.named("spillway_hook_cached_decisions_total") - 2.0).abs() < 0.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hls_session_is_asked_about_once_and_ends_when_it_falls_silent() {
    let endpoint = Endpoint::start(everybody).await;
    let gateway = endpoint
        .gateway()
        .set("hls.idle_stop", "3s")
        .set("hls.mode", "always")
        .set("hls.segment_duration", "1s")
        .start()
        .await;
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    let line = |text: &str| {
        let uri = text
            .lines()
            .rfind(|line| !line.starts_with('#') && !line.is_empty());
        format!("/live/cam/{}", uri.expect("an address in the playlist"))
    };
    let top = gateway.get("/live/cam/index.m3u8?who=me").await;
    assert_eq!(top.status, 200, "{}", top.text());
    let media = line(&top.text());
    for _ in 0..4 {
        let playlist = gateway.get(&media).await;
        assert_eq!(playlist.status, 200);
        assert_eq!(gateway.get(&line(&playlist.text())).await.status, 200);
    }
    // A player that was given the media playlist itself comes with nothing but its own words.
    let bare = media.split_once('?').expect("a query").0.to_owned() + "?who=else";
    for _ in 0..4 {
        assert_eq!(gateway.get(&bare).await.status, 200);
    }
    let plays = endpoint.events_of("play");
    assert_eq!(plays.len(), 2, "{plays:#?}");
    let stops = endpoint.wait("stop", 2).await;
    assert_eq!(stops[0].text("reason"), "client");
    assert_eq!(stops[0].text("protocol"), "hls");
    // Whoever comes back is a new session.
    assert_eq!(gateway.get(&media).await.status, 200);
    let plays = endpoint.wait("play", 3).await;
    assert_eq!(plays[2].0["params"], json!({"who": "me"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_decides_nothing_is_told_of_everybody() {
    let endpoint = Endpoint::start(everybody).await;
    let gateway = Gateway::with().set("hooks.url", &endpoint.url()).start().await;
    let mut publisher = publishing(&gateway, "live/cam", "live/cam").await;
    for watcher in Watcher::all(&gateway, "live/cam").await {
        watcher.wait_more(secs(15), 5).await;
    }
    let playlist = gateway.get("/live/cam/index.m3u8").await.text();
    assert!(
        !playlist.contains("session="),
        "an open stream has one playlist for all:\n{playlist}"
    );
    publisher.kill().await;
    endpoint.wait("unpublish", 1).await;
    endpoint.wait("stop", 3).await;
    let events = endpoint.events();
    assert_eq!(events.len(), 8, "{events:#?}");
    assert!(events.iter().all(|event| event.0["asks"] == false));
    assert!(pairs(&events).values().all(|kinds| kinds.len() == 2));
}

/// Many at once, each with a slow answer: nobody is turned away, each is asked about once, each end is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_gets_in_and_the_end_of_the_process_is_told_of_each() {
    const CROWD: usize = 300;
    let endpoint = Endpoint::start(|_| Reply::allow().after(Duration::from_millis(50))).await;
    let start = endpoint.gateway().set("hooks.max_in_flight", "100");
    let mut gateway = start
        .set("hls.mode", "always")
        .set("hls.segment_duration", "1s")
        .start()
        .await;
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    let mut crowd = JoinSet::new();
    for viewer in 0..CROWD {
        let (http, hls) = (gateway.http, viewer % 3 == 0);
        crowd.spawn(async move {
            let path = if hls {
                "/live/cam/index.m3u8"
            } else {
                "/live/cam.flv"
            };
            let stream = http::open(http, Request::get(path)).await.expect("an answer");
            assert_eq!(stream.head.status, 200, "{path}");
            stream
        });
    }
    let viewers = within(secs(30), "the crowd to get in", crowd.join_all()).await;
    assert_eq!(endpoint.events_of("play").len(), CROWD);
    gateway.terminate(secs(15)).await;
    let events = endpoint.events();
    let sessions = pairs(&events);
    assert_eq!(sessions.len(), CROWD + 1);
    assert!(sessions.values().all(|kinds| kinds.len() == 2), "{events:#?}");
    let ends = events.iter().filter(|event| event.text("reason") == "shutdown");
    assert_eq!(ends.count(), CROWD + 1);
    drop(viewers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_be_refused_as_soon_as_it_connects() {
    let endpoint = Endpoint::start(|event| match event.text("event") {
        "connect" if event.text("app") == "private" => {
            Reply::json(&json!({"allow": false, "reason": "not your application"}))
        }
        _ => Reply::allow(),
    })
    .await;
    let gateway = Gateway::with()
        .set("hooks.url", &endpoint.url())
        .set("hooks.events", r#"["connect"]"#)
        .start()
        .await;
    let mut publisher = publish_loop(Clip::Plain, &gateway.rtmp_url("private/cam"));
    assert!(!publisher.wait(secs(15)).await.success());
    let said = publisher.output().text();
    assert!(said.contains("not your application"), "{said}");
    let _publisher = publishing(&gateway, "live/cam", "live/cam").await;
    assert_eq!(endpoint.events_of("connect").len(), 2);
    assert_eq!(endpoint.events().len(), 2);
}

/// The program in README.md does what README.md says.
#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_of_the_readme_works() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let text = std::fs::read_to_string(readme).expect("README.md");
    let program = text
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hook.py");
    std::fs::write(&file, program.expect("a Python program in README.md")).expect("written");
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        free.local_addr().expect("its address").port()
    };
    let mut command = Command::new(tools::program("python3"));
    command
        .arg("-u")
        .arg(&file)
        .arg(port.to_string())
        .env("HOOK_SECRET", SECRET);
    command.stdin(Stdio::null());
    let hook = Process::spawn("hook.py", command);
    until(secs(15), "hook.py to listen", || async {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
    })
    .await;
    let gateway = Gateway::with()
        .set("auth.publish", "hook")
        .set("hooks.url", &format!("http://127.0.0.1:{port}/"))
        .env("SPILLWAY__HOOKS__SECRET", SECRET)
        .start()
        .await;
    let mut publisher = publishing(&gateway, "live/key-of-alice", "live/alice").await;
    let mut wrong = publish_loop(Clip::Plain, &gateway.rtmp_url("live/no-key"));
    assert!(!wrong.wait(secs(15)).await.success());
    assert!(
        wrong.output().text().contains("unknown stream key"),
        "{}",
        wrong.output().text()
    );
    publisher.kill().await;
    hook.wait_output(secs(15), "the end of alice's stream", |said| {
        said.contains("unpublish").then_some(())
    })
    .await;
    let forger = Gateway::with()
        .set("auth.publish", "hook")
        .set("hooks.url", &format!("http://127.0.0.1:{port}/"))
        .env("SPILLWAY__HOOKS__SECRET", "another-secret-0123456789")
        .start()
        .await;
    let mut publisher = publish_loop(Clip::Plain, &forger.rtmp_url("live/key-of-alice"));
    assert!(
        !publisher.wait(secs(15)).await.success(),
        "a forged event was believed"
    );
}
