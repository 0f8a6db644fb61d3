//! Viewers that vanish, crawl or come all at once: each ends as it should, its descriptor is free again, and whoever
//! watches beside them gets every frame.

use std::io;
use std::time::Duration;

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::frames::{self, Decoder};
use spillway_tests::gateway::Gateway;
use spillway_tests::network::Network;
use spillway_tests::process::Process;
use spillway_tests::slow;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const KEY: &str = "live/crowd";

/// Players of one clip from its start, and what they must have seen at its end.
struct Healthy {
    decoders: Vec<(&'static str, Decoder)>,
    publisher: Process,
    clip: Clip,
}

impl Healthy {
    /// Starts the players, then the publisher.
    async fn start(gateway: &Gateway, clip: Clip) -> Self {
        let ffmpeg = clip.ffmpeg();
        let decoders = vec![
            ("RTMP", Decoder::start(&ffmpeg, &gateway.rtmp_url(KEY), &[])),
            (
                "HTTP-FLV",
                Decoder::start(&ffmpeg, &gateway.http_url(&format!("{KEY}.flv")), &[]),
            ),
        ];
        gateway.wait_connections(gateway.rtmp, 1).await;
        gateway.wait_connections(gateway.http, 1).await;
        Self {
            decoders,
            publisher: publish_once(clip, &gateway.rtmp_url(KEY)),
            clip,
        }
    }

    async fn assert_all_frames(mut self) {
        let source = frames::of_clip(self.clip).await;
        self.publisher.wait_ok(secs(40)).await;
        for (name, decoder) in self.decoders {
            let frames = decoder.finish(secs(40)).await;
            frames.assert_same_as(&source, name);
            frames.assert_no_errors(name);
        }
    }
}

/// A raw HTTP-FLV viewer behind its request; the socket takes little.
async fn ask(gateway: &Gateway) -> io::Result<TcpStream> {
    let mut socket = slow::connect(gateway.http, Some(slow::SMALL_BUFFER)).await?;
    let request = format!("GET /{KEY}.flv HTTP/1.1\r\nHost: test\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    Ok(socket)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_takes_a_byte_a_second_is_closed_and_holds_nobody_up() {
    let gateway = Gateway::with()
        .set("play.stall_timeout", "3s")
        .set("publish.linger", "3s")
        .start()
        .await;
    let healthy = Healthy::start(&gateway, Clip::Fat).await;
    gateway.wait_live(KEY).await;
    let mut crawler = ask(&gateway).await.expect("a connection");
    let crawl = async {
        // A byte each second until the gateway hangs up.
        let mut byte = [0];
        while let Ok(1) = crawler.read(&mut byte).await {
            tokio::time::sleep(secs(1)).await;
        }
    };
    let closed = until(secs(30), "the crawler to be closed as stalled", || async {
        (gateway.viewer_ends("stalled").await >= 1.0).then_some(())
    });
    tokio::select! {
        () = closed => {}
        () = crawl => panic!("the crawler's connection ended before it counted as stalled"),
    }
    healthy.assert_all_frames().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_ones_are_closed_after_the_stall_timeout_and_their_descriptors_freed() {
    let gateway = Gateway::with()
        .set("rtmp.listen", "0.0.0.0:0")
        .set("http.listen", "0.0.0.0:0")
        .set("auth.publish", "open")
        .set("play.stall_timeout", "3s")
        .start()
        .await;
    let network = Network::join();
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        watcher.wait_more(secs(15), 50).await;
    }
    let before = gateway.open_files();
    let (rtmp, http) = (gateway.rtmp.port(), gateway.http.port());
    let address = network.address();
    let players: Vec<Process> = [
        format!("rtmp://{address}:{rtmp}/{KEY}"),
        format!("http://{address}:{http}/{KEY}.flv"),
    ]
    .into_iter()
    .map(|url| {
        let mut command = network.command(&Clip::Fat.ffmpeg());
        command.args(["-v", "error", "-nostdin", "-i", &url, "-f", "null", "-"]);
        Process::spawn("ffmpeg player on another network", command)
    })
    .collect();
    until(secs(20), "both players to be served", || async {
        (gateway.metrics().await.named("spillway_viewers") >= 5.0).then_some(())
    })
    .await;
    network.swallow(true);
    // They are gone without a word: nothing of theirs reaches the gateway any more.
    drop(players);
    until(secs(20), "both to be closed as stalled", || async {
        (gateway.viewer_ends("stalled").await >= 2.0).then_some(())
    })
    .await;
    gateway.wait_open_files(before).await;
    for watcher in &watchers {
        let seen = watcher.wait_more(secs(10), 50).await;
        assert!(
            seen.ended.is_none() && seen.gaps.is_empty() && seen.backwards.is_empty(),
            "{}: {seen:?}",
            watcher.name()
        );
    }
}

/// Reads until there is media: the head, the FLV header and the first tags.
async fn watch_a_little(gateway: &Gateway) -> io::Result<TcpStream> {
    const ENOUGH: usize = 4096;
    let mut socket = ask(gateway).await?;
    let mut bytes = Vec::with_capacity(2 * ENOUGH);
    while bytes.len() < ENOUGH {
        if socket.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let ok = bytes.starts_with(b"HTTP/1.1 200") && bytes.windows(4).any(|four| four == b"FLV\x01");
    ok.then_some(socket).ok_or_else(|| {
        io::Error::other(
            String::from_utf8_lossy(&bytes)
                .chars()
                .take(200)
                .collect::<String>(),
        )
    })
}

async fn a_herd_in_one_second(count: usize) {
    let (_, hard) = (0, rustix::process::getrlimit(rustix::process::Resource::Nofile));
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: hard.maximum,
            maximum: hard.maximum,
        },
    );
    let gateway = std::sync::Arc::new(Gateway::with().set("publish.linger", "3s").start().await);
    let healthy = Healthy::start(&gateway, Clip::Plain).await;
    gateway.wait_live(KEY).await;
    let before = gateway.open_files();
    let mut herd = JoinSet::new();
    for number in 0..count {
        let gateway = gateway.clone();
        herd.spawn(async move {
            // Spread over the second.
            let at = Duration::from_secs(1) * u32::try_from(number).unwrap_or(0)
                / u32::try_from(count).unwrap_or(1);
            tokio::time::sleep(at).await;
            watch_a_little(&gateway).await
        });
    }
    let sockets = within(secs(60), "the herd to be served", async {
        let mut sockets = Vec::new();
        while let Some(served) = herd.join_next().await {
            sockets.push(
                served
                    .expect("a viewer")
                    .unwrap_or_else(|error| panic!("a viewer: {error}")),
            );
        }
        sockets
    })
    .await;
    assert_eq!(sockets.len(), count);
    drop(sockets);
    gateway.wait_open_files(before).await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.named("spillway_task_panics_total"), 0.0);
    healthy.assert_all_frames().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_in_one_second_are_all_served() {
    a_herd_in_one_second(1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "5,000 connections want the machine for themselves; tests/run --long"]
async fn five_thousand_in_one_second_are_all_served() {
    a_herd_in_one_second(5_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_leave_in_the_middle_of_a_batch_are_no_errors() {
    let gateway = std::sync::Arc::new(Gateway::with().set("publish.linger", "3s").start().await);
    let healthy = Healthy::start(&gateway, Clip::Fat).await;
    gateway.wait_live(KEY).await;
    let before = gateway.open_files();
    let mut leaving = JoinSet::new();
    for number in 0..100_u64 {
        let gateway = gateway.clone();
        leaving.spawn(async move {
            let mut socket = watch_a_little(&gateway).await.expect("a viewer");
            // Some bytes further on each time, by hanging up and by a reset in turn.
            let mut bytes = vec![0; 1 + usize::try_from(number * 977 % 30_000).unwrap_or(0)];
            let _ = socket.read_exact(&mut bytes).await;
            if number % 2 == 0 {
                let _ = socket.set_zero_linger();
            }
        });
    }
    within(secs(30), "all to leave", async {
        while let Some(left) = leaving.join_next().await {
            left.expect("a viewer that leaves");
        }
    })
    .await;
    gateway.wait_open_files(before).await;
    let metrics = gateway.metrics().await;
    let ends = |reason: &str| {
        metrics.sum(|sample| {
            sample.name == "spillway_viewer_sessions_ended_total" && sample.label("reason") == Some(reason)
        })
    };
    // One more by `wait_live`.
    assert!(ends("client") >= 100.0, "{} left by themselves", ends("client"));
    let others = metrics.named("spillway_viewer_sessions_ended_total") - ends("client");
    assert_eq!(others, 0.0, "viewers who left were counted as something else");
    assert_eq!(metrics.named("spillway_task_panics_total"), 0.0);
    healthy.assert_all_frames().await;
}
