//! Programs of others: GStreamer, rtmpdump, VLC, ffprobe, old HTTP clients, odd ffmpeg publishers.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish, publish_loop, publish_once};
use spillway_tests::frames::{self, Decoder};
use spillway_tests::gateway::Gateway;
use spillway_tests::http::{self, Request};
use spillway_tests::process::Process;
use spillway_tests::tools;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};
use tokio::process::Command;

const KEY: &str = "live/interop";

/// VLC refuses to run as root, so it runs as nobody with a home of its own.
fn vlc(home: &Path, args: &[&str]) -> Process {
    let mut command = Command::new(tools::program("setpriv"));
    command
        .args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"])
        .arg(tools::program("cvlc"));
    command.args([
        "-I",
        "dummy",
        "--no-video-title-show",
        "--vout=dummy",
        "--aout=dummy",
        "--play-and-exit",
    ]);
    command
        .args(args)
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .current_dir(home);
    Process::spawn("vlc", command)
}

fn home_of_nobody() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().expect("a temporary folder");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777))
        .expect("a folder for nobody");
    home
}

/// Waits until a file that a player writes holds at least `bytes`.
async fn wait_file(path: &Path, bytes: u64, player: &Process) {
    until(
        secs(30),
        &format!("{bytes} bytes in {}; {}", path.display(), player.output().tail()),
        || async {
            let length = std::fs::metadata(path).map_or(0, |meta| meta.len());
            (length >= bytes).then_some(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gstreamer_publishes() {
    let gateway = Gateway::with().start().await;
    let line = format!(
        "-e flvmux name=m streamable=true ! rtmp2sink location={} \
         videotestsrc is-live=true ! video/x-raw,width=320,height=180,framerate=25/1 ! x264enc tune=zerolatency key-int-max=25 ! h264parse ! queue ! m. \
         audiotestsrc is-live=true ! avenc_aac ! aacparse ! queue ! m.",
        gateway.rtmp_url(KEY)
    );
    let mut command = Command::new(tools::program("gst-launch-1.0"));
    command.args(line.split_ascii_whitespace());
    let mut publisher = Process::spawn("gst-launch rtmp2sink", command);
    let watchers = Watcher::all(&gateway, KEY).await;
    for watcher in &watchers {
        let seen = watcher.wait_more(secs(20), 100).await;
        assert!(
            seen.ended.is_none() && seen.keys > 0,
            "{}: {seen:?}",
            watcher.name()
        );
    }
    assert!(publisher.is_running(), "{}", publisher.output().tail());
    let mut player = Decoder::start(
        &tools::ffmpeg(),
        &gateway.http_url("live/interop.flv"),
        &["-t", "2"],
    );
    player.process().wait_ok(secs(20)).await;
    let frames = player.finish(secs(1)).await;
    assert!(
        frames.video.len() >= 40 && !frames.audio.is_empty(),
        "{} pictures",
        frames.video.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn gstreamer_plays() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("gst.flv");
    let mut command = Command::new(tools::program("gst-launch-1.0"));
    command
        .arg("rtmp2src")
        .arg(format!("location={}", gateway.rtmp_url(KEY)));
    command
        .args(["!", "filesink", "buffer-mode=unbuffered"])
        .arg(format!("location={}", file.display()));
    let mut player = Process::spawn("gst-launch rtmp2src", command);
    wait_file(&file, 150_000, &player).await;
    player.signal(Signal::INT);
    player.wait(secs(10)).await;
    let frames = frames::of_file(&tools::ffmpeg(), &file).await;
    assert!(
        frames.video.len() > 25 && !frames.audio.is_empty(),
        "{} pictures",
        frames.video.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rtmpdump_plays() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    for extra in [&["-v"][..], &["-A", "1"], &["-v", "-B", "3"]] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("dump.flv");
        let mut command = Command::new(tools::program("rtmpdump"));
        command
            .arg("-r")
            .arg(gateway.rtmp_url(KEY))
            .args(extra)
            .arg("-o")
            .arg(&file);
        let mut player = Process::spawn("rtmpdump", command);
        wait_file(&file, 100_000, &player).await;
        player.signal(Signal::INT);
        player.wait(secs(10)).await;
        let frames = frames::of_file(&tools::ffmpeg(), &file).await;
        assert!(
            frames.video.len() > 25,
            "rtmpdump {extra:?}: {} pictures",
            frames.video.len()
        );
    }
}

/// rtmpdump is told when the stream is over and ends by itself.
#[tokio::test(flavor = "multi_thread")]
async fn rtmpdump_ends_with_the_stream() {
    let gateway = Gateway::with().set("publish.linger", "1s").start().await;
    let mut publisher = publish_once(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let mut command = Command::new(tools::program("rtmpdump"));
    command
        .args(["-v", "-r"])
        .arg(gateway.rtmp_url(KEY))
        .args(["-o", "/dev/null"]);
    let mut player = Process::spawn("rtmpdump", command);
    publisher.wait_ok(secs(30)).await;
    player.wait(secs(15)).await;
}

/// What ffprobe lists is what is published, for a viewer who was there first and for a late one.
#[tokio::test(flavor = "multi_thread")]
async fn players_see_only_the_tracks_there_are() {
    let gateway = Gateway::with().start().await;
    let urls = [gateway.rtmp_url(KEY), gateway.http_url("live/interop.flv")];
    let probe = |url: &str| {
        let mut command = Command::new(tools::program("ffprobe"));
        command.args([
            "-v",
            "error",
            "-show_entries",
            "stream=codec_type,codec_name",
            "-of",
            "csv=p=0",
            url,
        ]);
        Process::spawn(&format!("ffprobe {url}"), command)
    };
    let first: Vec<Process> = urls.iter().map(|url| probe(url)).collect();
    gateway.wait_connections(gateway.rtmp, 1).await;
    gateway.wait_connections(gateway.http, 1).await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let mut watcher = spillway_tests::flv::Viewer::open(gateway.http, KEY).await;
    within(secs(20), "media at 3 s", async {
        while watcher
            .next_tag()
            .await
            .is_some_and(|tag| tag.timestamp_ms < 3000)
        {}
    })
    .await;
    let late = urls.iter().map(|url| probe(url));
    for (mut player, when) in first
        .into_iter()
        .map(|player| (player, "first"))
        .chain(late.map(|player| (player, "late")))
    {
        player.wait_ok(secs(20)).await;
        let mut streams: Vec<String> = player.output().text().lines().map(str::to_owned).collect();
        streams.sort_unstable();
        assert_eq!(streams, ["aac,audio", "h264,video"], "{when} viewer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vlc_plays_by_rtmp_flv_and_hls() {
    let gateway = Gateway::with().set("hls.segment_duration", "1s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let urls = [
        gateway.rtmp_url(KEY),
        gateway.http_url("live/interop.flv"),
        gateway.http_url("live/interop/index.m3u8"),
    ];
    for url in urls {
        let home = home_of_nobody();
        let file = home.path().join("vlc.ts");
        let sout = format!("#std{{access=file,mux=ts,dst={}}}", file.display());
        let mut player = vlc(home.path(), &["--sout", &sout, &url]);
        wait_file(&file, 800_000, &player).await;
        player.signal(Signal::TERM);
        player.wait(secs(10)).await;
        let frames = frames::of_file(&tools::ffmpeg(), &file).await;
        assert!(
            frames.video.len() > 25 && !frames.audio.is_empty(),
            "VLC {url}: {} pictures",
            frames.video.len()
        );
    }
}

/// An HLS player that was suspended for longer than the window, but shorter than window and retained time, goes on.
#[tokio::test(flavor = "multi_thread")]
async fn vlc_and_ffmpeg_survive_a_suspension() {
    let gateway = Gateway::with().set("hls.segment_duration", "1s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let url = gateway.http_url("live/interop/index.m3u8");
    let home = home_of_nobody();
    let file = home.path().join("vlc.ts");
    let sout = format!("#std{{access=file,mux=ts,dst={}}}", file.display());
    let mut vlc = vlc(home.path(), &["--sout", &sout, &url]);
    let copy = home.path().join("ffmpeg.ts");
    let mut command = Command::new(tools::ffmpeg());
    command
        .args([
            "-v",
            "error",
            "-nostdin",
            "-i",
            &url,
            "-c",
            "copy",
            "-flush_packets",
            "1",
        ])
        .arg(&copy);
    let mut ffmpeg = Process::spawn("ffmpeg HLS player", command);
    wait_file(&file, 1_000_000, &vlc).await;
    wait_file(&copy, 1_000_000, &ffmpeg).await;
    for player in [&vlc, &ffmpeg] {
        player.signal(Signal::STOP);
    }
    // The window is 6 s, the retained time as much again: the suspension is between the two.
    tokio::time::sleep(secs(8)).await;
    for player in [&vlc, &ffmpeg] {
        player.signal(Signal::CONT);
    }
    for (path, player) in [(&file, &mut vlc), (&copy, &mut ffmpeg)] {
        let had = std::fs::metadata(path).expect("the player's file").len();
        wait_file(path, had + 2_500_000, player).await;
        assert!(player.is_running(), "{}", player.output().tail());
    }
    let said = ffmpeg.output().text();
    assert!(!said.contains("404"), "ffmpeg met a 404:\n{said}");
}

/// RTMP and HTTP-FLV players that were suspended shorter than the stall time-out go on.
#[tokio::test(flavor = "multi_thread")]
async fn suspended_ffmpeg_players_go_on() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut players = Vec::new();
    for (name, url) in [
        ("rtmp", gateway.rtmp_url(KEY)),
        ("flv", gateway.http_url("live/interop.flv")),
    ] {
        let file = folder.path().join(format!("{name}.ts"));
        let mut command = Command::new(tools::ffmpeg());
        command
            .args([
                "-v",
                "error",
                "-nostdin",
                "-i",
                &url,
                "-c",
                "copy",
                "-flush_packets",
                "1",
            ])
            .arg(&file);
        players.push((Process::spawn(&format!("ffmpeg {name} player"), command), file));
    }
    for (player, file) in &players {
        wait_file(file, 100_000, player).await;
        player.signal(Signal::STOP);
    }
    tokio::time::sleep(secs(4)).await;
    for (player, file) in &mut players {
        player.signal(Signal::CONT);
        let had = std::fs::metadata(&*file).expect("the player's file").len();
        wait_file(file, had + 200_000, player).await;
        assert!(player.is_running(), "{}", player.output().tail());
        assert!(
            player.output().text().trim().is_empty(),
            "{}",
            player.output().tail()
        );
    }
}

/// HTTP/1.0 has no chunks: the body ends with the connection.
#[tokio::test(flavor = "multi_thread")]
async fn an_http_1_0_client_gets_plain_flv() {
    let gateway = Gateway::with().set("publish.linger", "1s").start().await;
    let mut publisher = publish_once(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let mut stream = http::open(gateway.http, Request::get("/live/interop.flv").http10())
        .await
        .expect("an answer");
    assert_eq!(stream.head.status, 200);
    assert!(
        stream.head.header("transfer-encoding").is_none(),
        "HTTP/1.0 knows no chunks: {:?}",
        stream.head
    );
    assert_eq!(stream.head.header("content-type"), Some("video/x-flv"));
    let mut reader = spillway_tests::flv::Reader::default();
    let read = async {
        while let Some(piece) = stream.next().await.expect("the body") {
            reader.push(&piece);
        }
    };
    within(secs(25), "the end of the stream by HTTP/1.0", read).await;
    let media = std::iter::from_fn(|| reader.next_tag())
        .filter(|tag| tag.kind != 18)
        .count();
    assert!(media > 300, "{media} tags");
    publisher.wait_ok(secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn flv_answers_carry_the_headers_players_need() {
    let gateway = Gateway::with().start().await;
    let publishers: Vec<Process> = [
        (Clip::Plain, "live/interop"),
        (Clip::AudioOnly, "live/audio"),
        (Clip::VideoOnly, "live/video"),
    ]
    .map(|(clip, key)| publish_loop(clip, &gateway.rtmp_url(key)))
    .into();
    for (key, flags) in [
        ("live/interop", (true, true)),
        ("live/audio", (true, false)),
        ("live/video", (false, true)),
    ] {
        let mut viewer = spillway_tests::flv::Viewer::open(gateway.http, key).await;
        within(secs(10), "the first tag", viewer.next_tag())
            .await
            .expect("a tag");
        assert_eq!(
            viewer.announces(),
            Some(flags),
            "{key}: FLV header (audio, video)"
        );
        let head = viewer.head();
        assert_eq!(head.header("content-type"), Some("video/x-flv"));
        assert_eq!(head.header("access-control-allow-origin"), Some("*"));
        assert!(
            head.header("cache-control")
                .is_some_and(|value| value.contains("no-")),
            "{head:?}"
        );
    }
    let head = http::fetch(gateway.http, Request::new("HEAD", "/live/interop.flv")).await;
    assert_eq!((head.status, head.body.len()), (200, 0), "HEAD of a live FLV");
    assert_eq!(head.header("content-type"), Some("video/x-flv"));
    let options = Request::new("OPTIONS", "/live/interop.flv").header("Access-Control-Request-Method", "GET");
    let options = http::fetch(gateway.http, options).await;
    assert!(
        matches!(options.status, 200 | 204),
        "OPTIONS of a live FLV: {}",
        options.status
    );
    drop(publishers);
}

/// Times near the wraps, big offsets, missing metadata and end marks: time rises for the viewers all the same.
#[tokio::test(flavor = "multi_thread")]
async fn odd_ffmpeg_publishers_are_played() {
    let gateway = Gateway::with().set("publish.linger", "1s").start().await;
    let cases: [(&str, &[&str]); 5] = [
        ("extended", &["-output_ts_offset", "20000"]),
        ("wrap24", &["-output_ts_offset", "16775.2"]),
        ("wrap31", &["-output_ts_offset", "2147481"]),
        ("bare", &["-flvflags", "no_metadata+no_sequence_end"]),
        ("inband", &["-bsf:v", "dump_extra=freq=keyframe"]),
    ];
    for (name, options) in cases {
        let key = format!("live/{name}");
        let mut publisher = publish(Clip::Plain, &gateway.rtmp_url(&key), &[], options);
        let watchers = Watcher::all(&gateway, &key).await;
        publisher.wait_ok(secs(30)).await;
        for watcher in &watchers {
            let seen = watcher
                .wait(secs(15), "the end", |seen| seen.ended.is_some())
                .await;
            assert!(
                seen.backwards.is_empty(),
                "{name}, {}: {:?}",
                watcher.name(),
                seen.backwards
            );
            assert!(
                seen.media > 500,
                "{name}, {}: {} tags",
                watcher.name(),
                seen.media
            );
            assert!(
                seen.newest_ms > 7000 && seen.newest_ms < 12_000,
                "{name}, {}: {seen:?}",
                watcher.name()
            );
        }
    }
}

/// A header of another size in mid-stream reaches each viewer and the decoder goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_sequence_header_in_mid_stream_reaches_the_viewers() {
    let gateway = Gateway::with().set("publish.linger", "1s").start().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let joined = folder.path().join("joined.flv");
    let shifted = folder.path().join("shifted.flv");
    let mut command = Command::new(tools::ffmpeg());
    command
        .args(["-v", "error", "-nostdin", "-i"])
        .arg(Clip::OtherSize.file());
    command
        .args(["-c", "copy", "-output_ts_offset", "8.1", "-f", "flv"])
        .arg(&shifted);
    Process::spawn("ffmpeg shifting", command).wait_ok(secs(20)).await;
    let mut bytes = tokio::fs::read(Clip::Plain.file()).await.expect("the clip");
    bytes.extend_from_slice(&tokio::fs::read(&shifted).await.expect("the shifted clip")[13..]);
    tokio::fs::write(&joined, bytes).await.expect("the joined clip");
    let watching = Watcher::all(&gateway, KEY);
    let publishing = async {
        gateway.wait_connections(gateway.http, 2).await;
        let mut command = Command::new(tools::ffmpeg());
        command
            .args(["-v", "error", "-nostdin", "-re", "-i"])
            .arg(&joined);
        command
            .args(["-c", "copy", "-f", "flv"])
            .arg(gateway.rtmp_url(KEY));
        Process::spawn("ffmpeg publisher", command)
    };
    let (watchers, mut publisher) = tokio::join!(watching, publishing);
    publisher.wait_ok(secs(40)).await;
    for watcher in &watchers {
        let seen = watcher
            .wait(secs(15), "the end", |seen| seen.ended.is_some())
            .await;
        assert_eq!(
            seen.video_headers.len(),
            2,
            "{}: sequence headers",
            watcher.name()
        );
        assert!(
            seen.backwards.is_empty(),
            "{}: {:?}",
            watcher.name(),
            seen.backwards
        );
    }
}

/// Stopping a publisher in the usual way is not a fault: no error level line in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_normal_session_logs_no_error() {
    let gateway = Gateway::with().set("publish.linger", "1s").start().await;
    let mut publisher = publish_once(Clip::Plain, &gateway.rtmp_url(KEY));
    let watchers = Watcher::all(&gateway, KEY).await;
    publisher.wait_ok(secs(30)).await;
    for watcher in &watchers {
        watcher
            .wait(secs(15), "the end", |seen| seen.ended.is_some())
            .await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let log = gateway.log().text();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
}
