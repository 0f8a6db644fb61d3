//! RTMPS and HTTPS with real programs: the same frames as without TLS, certificates renewed under way, what is refused.

use std::process::Stdio;

use rustix::process::Signal;
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::flv;
use spillway_tests::frames::{self, Decoder};
use spillway_tests::gateway::Gateway;
use spillway_tests::http::{self, Request};
use spillway_tests::rtmp;
use spillway_tests::slow::Socket;
use spillway_tests::tls::{Authority, Client, der_of, shown};
use spillway_tests::tools;
use spillway_tests::viewer::{Viewer, Watcher};
use spillway_tests::wait::{secs, until, within};
use spillway_tests::ws;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

const KEY: &str = "live/tls";

fn rtmps_url(gateway: &Gateway) -> String {
    format!("rtmps://{}/{KEY}", gateway.rtmps.expect("RTMPS is on"))
}

fn https_url(gateway: &Gateway, path: &str) -> String {
    format!("https://{}/{path}", gateway.https.expect("HTTPS is on"))
}

async fn rtmps_viewer(gateway: &Gateway, client: &Client) -> Viewer {
    let at = gateway.rtmps.expect("RTMPS is on");
    let socket = client.socket(at).await;
    Viewer::Rtmp(Box::new(rtmp::Viewer::over(socket, &at.to_string(), KEY)))
}

async fn flv_viewer(gateway: &Gateway, client: &Client) -> Viewer {
    let at = gateway.https.expect("HTTPS is on");
    let request = Request::get(&format!("/{KEY}.flv"));
    let stream = http::open_over(client.socket(at).await, &at.to_string(), request).await;
    Viewer::Flv(Box::new(flv::Viewer::of(stream.expect("HTTPS-FLV"))))
}

async fn ws_viewer(gateway: &Gateway, client: &Client) -> ws::Viewer {
    let at = gateway.https.expect("HTTPS is on");
    let url = format!("ws://{at}/{KEY}.flv");
    ws::Viewer::over(client.socket(at).await, &url).await
}

/// GET over a connection.
async fn get(socket: Socket, path: &str) -> http::Response {
    let stream = http::open_over(socket, "127.0.0.1", Request::get(path)).await;
    let whole = http::read_whole(stream.expect("an answer"));
    within(secs(20), path, whole).await.expect("a whole answer")
}

async fn counter(gateway: &Gateway, name: &str, listener: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum(|sample| sample.name == name && sample.label("listener") == Some(listener))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_by_rtmps_comes_out_of_each_tls_output_frame_by_frame() {
    let clip = Clip::BFrames;
    let source = frames::of_clip(clip).await;
    let authority = Authority::new();
    let start = authority.gateway(&authority.issue("server"));
    let gateway = start.set("publish.linger", "2s").start().await;
    let ffmpeg = clip.ffmpeg();
    let rtmps = Decoder::start(&ffmpeg, &rtmps_url(&gateway), &[]);
    let flv = Decoder::start(&ffmpeg, &https_url(&gateway, "live/tls.flv"), &[]);
    let wss = ws_viewer(&gateway, &authority.client()).await;
    let wss = tokio::spawn(wss.keeping_bytes().record());
    let at = |address: Option<_>| address.expect("TLS is on");
    gateway.wait_connections(at(gateway.rtmps), 1).await;
    gateway.wait_connections(at(gateway.https), 2).await;

    let mut publisher = publish_once(clip, &rtmps_url(&gateway));
    let hls = Decoder::start(
        &ffmpeg,
        &https_url(&gateway, "live/tls/index.m3u8"),
        &["-live_start_index", "0"],
    );
    publisher.wait_ok(secs(40)).await;
    let recorded = within(secs(20), "the WebSocket to end after the linger", wss).await;
    let recorded = recorded.expect("the pump");
    for (name, frames) in [
        ("RTMPS", rtmps.finish(secs(20)).await),
        ("HTTPS-FLV", flv.finish(secs(20)).await),
        (
            "WSS-FLV",
            frames::of_bytes(ffmpeg.clone(), &recorded, "wss.flv").await,
        ),
        ("HLS by HTTPS", hls.finish(secs(30)).await),
    ] {
        frames.assert_same_as(&source, name);
        frames.assert_no_errors(name);
    }
}

/// curl, with what it says of the connection: the HTTP version and the status.
async fn curl(authority: &Authority, args: &[&str]) -> (String, Vec<u8>) {
    let mut command = Command::new(tools::program("curl"));
    command.args(["-sS", "--cacert", &shown(&authority.file())]);
    command
        .args(["-o", "-", "-w", "%{stderr}%{http_version} %{http_code}"])
        .args(args);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within(secs(30), "curl", command.output())
        .await
        .expect("curl runs");
    (
        String::from_utf8_lossy(&output.stderr).into_owned(),
        output.stdout,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_fetches_playlists_segments_and_flv_by_http2_and_by_http1() {
    let authority = Authority::new();
    let gateway = authority.gateway(&authority.issue("server")).start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    for (option, version) in [("--http2", "2 200"), ("--http1.1", "1.1 200")] {
        let master = https_url(&gateway, "live/tls/index.m3u8");
        let (said, text) = curl(&authority, &[option, &master]).await;
        assert_eq!(said, version);
        assert!(text.starts_with(b"#EXTM3U"), "{}", String::from_utf8_lossy(&text));
        let (said, text) = curl(&authority, &[option, &https_url(&gateway, "live/tls/media.m3u8")]).await;
        assert_eq!(said, version);
        let text = String::from_utf8(text).expect("a playlist");
        let segment = text
            .lines()
            .find(|line| !line.starts_with('#'))
            .expect("a segment");
        let segment = segment.split('?').next().expect("a path");
        let (said, bytes) = curl(
            &authority,
            &[option, &https_url(&gateway, &format!("live/tls/{segment}"))],
        )
        .await;
        assert_eq!(said, version);
        assert!(bytes.len() > 188 * 10 && bytes.iter().step_by(188).all(|byte| *byte == 0x47));
        let page = https_url(&gateway, "");
        let (said, _) = curl(&authority, &[option, &page]).await;
        assert_eq!(said, version);
        // A stream has no end: curl gives up after a while with what it has.
        let flv = https_url(&gateway, "live/tls.flv");
        let (_, bytes) = curl(&authority, &[option, "-m", "2", &flv]).await;
        let mut reader = flv::Reader::default();
        reader.push(&bytes);
        let tags = std::iter::from_fn(|| reader.next_tag()).count();
        assert!(tags > 20, "{option}: {tags} tags");
    }
    let url = https_url(&gateway, "live/tls.flv");
    let (said, _) = curl(&authority, &["--http2", "-X", "POST", &url]).await;
    assert_eq!(said, "2 405");
    assert_eq!(gateway.metrics().await.named("spillway_task_panics_total"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_taken_up_and_a_broken_one_is_not_while_viewers_play_on() {
    let authority = Authority::new();
    let files = authority.issue("server");
    let gateway = authority.gateway(&files).start().await;
    let _publisher = publish_loop(Clip::Plain, &rtmps_url(&gateway));
    gateway.wait_live(KEY).await;
    let client = authority.client();
    let watchers = [
        Watcher::start("RTMPS", rtmps_viewer(&gateway, &client).await),
        Watcher::start("HTTPS-FLV", flv_viewer(&gateway, &client).await),
    ];
    for watcher in &watchers {
        watcher.wait_more(secs(15), 20).await;
    }
    let [rtmps, https] = [gateway.rtmps, gateway.https].map(|at| at.expect("TLS is on"));
    let first = der_of(&files.cert);
    assert_eq!(client.certificate_of(https).await, first);

    // Nobody says a word: the files are looked at.
    authority.issue("server");
    let second = der_of(&files.cert);
    for at in [https, rtmps] {
        until(secs(30), "the renewed certificate", || async {
            (client.certificate_of(at).await == second).then_some(())
        })
        .await;
    }

    std::fs::write(&files.cert, "-----BEGIN CERTIFICATE-----\nhalf a fi").expect("a broken file");
    hang_up(&gateway);
    until(secs(20), "the broken file to be counted", || async {
        let failures = gateway
            .metrics()
            .await
            .named("spillway_tls_certificate_reload_failures_total");
        (failures == 1.0).then_some(())
    })
    .await;
    assert!(
        gateway.log().text().contains("tls.cert_file"),
        "the log names the key"
    );
    assert_eq!(
        client.certificate_of(https).await,
        second,
        "the old one stays in force"
    );

    authority.issue("server");
    let third = der_of(&files.cert);
    hang_up(&gateway);
    until(secs(30), "the repaired certificate", || async {
        (client.certificate_of(https).await == third).then_some(())
    })
    .await;
    for watcher in &watchers {
        let seen = watcher.wait_more(secs(15), 50).await;
        assert!(
            seen.ended.is_none() && seen.gaps.is_empty() && seen.backwards.is_empty(),
            "{}: {seen:?}",
            watcher.name()
        );
    }
    let expiry = counter(
        &gateway,
        "spillway_tls_certificate_expiry_timestamp_seconds",
        "rtmps",
    )
    .await;
    assert!(expiry > 2e9, "{expiry}");
}

fn hang_up(gateway: &Gateway) {
    let pid = rustix::process::Pid::from_raw(gateway.pid()).expect("a process");
    rustix::process::kill_process(pid, Signal::HUP).expect("SIGHUP");
}

/// openssl's client with one version of TLS; whether the handshake went through.
async fn openssl_connects(to: std::net::SocketAddr, version: &str) -> (bool, String) {
    let mut command = Command::new(tools::program("openssl"));
    // Debian's own level of security would refuse TLS 1.1 before the gateway does.
    command.args([
        "s_client",
        version,
        "-cipher",
        "ALL:@SECLEVEL=0",
        "-connect",
        &to.to_string(),
    ]);
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within(secs(20), "openssl", command.output())
        .await
        .expect("openssl runs");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tls_plain_text_and_silence_are_refused_counted_and_closed() {
    let authority = Authority::new();
    let start = authority.gateway(&authority.issue("server"));
    let gateway = start.set("limits.handshake_timeout", "1s").start().await;
    let [rtmps, https] = [gateway.rtmps, gateway.https].map(|at| at.expect("TLS is on"));
    for at in [rtmps, https] {
        let (connected, said) = openssl_connects(at, "-tls1_2").await;
        assert!(connected, "TLS 1.2: {said}");
        let (connected, said) = openssl_connects(at, "-tls1_1").await;
        assert!(!connected && said.contains("alert"), "TLS 1.1: {said}");
    }
    let mut plain = TcpStream::connect(https).await.expect("it listens");
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .expect("room");
    let mut silent = TcpStream::connect(https).await.expect("it listens");
    for (what, stream) in [("plain HTTP", &mut plain), ("silence", &mut silent)] {
        let mut answer = Vec::new();
        let end = within(
            secs(15),
            "the connection to be closed",
            stream.read_to_end(&mut answer),
        )
        .await;
        assert!(end.is_err() || !answer.starts_with(b"HTTP"), "{what} was served");
    }
    until(secs(10), "the failures to be counted", || async {
        let failures = "spillway_tls_handshake_failures_total";
        let counts = (
            counter(&gateway, failures, "https").await,
            counter(&gateway, failures, "rtmps").await,
        );
        (counts == (3.0, 1.0)).then_some(())
    })
    .await;
    assert_eq!(
        counter(&gateway, "spillway_tls_handshakes_total", "https").await,
        1.0
    );
    let answer = get(authority.client().socket(https).await, "/").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_under_tls_that_takes_nothing_is_closed_and_counted_as_stalled() {
    let authority = Authority::new();
    let start = authority.gateway(&authority.issue("server"));
    let gateway = start.set("play.stall_timeout", "3s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let client = authority.client().narrow();
    let mut viewers = [
        rtmps_viewer(&gateway, &client).await,
        flv_viewer(&gateway, &client).await,
        Viewer::Ws(Box::new(ws_viewer(&gateway, &client).await)),
    ];
    for viewer in &mut viewers {
        within(secs(15), "first media", viewer.next_tag())
            .await
            .expect("media");
    }
    let http2 = tokio::spawn(http2_viewer_that_opens_no_window(
        gateway.https,
        authority.client(),
    ));
    let [rtmps, https] = [gateway.rtmps, gateway.https].map(|at| at.expect("TLS is on"));
    until(secs(30), "the stalled viewers to be counted", || async {
        (gateway.metrics().await.labelled("reason", "stalled") >= 4.0).then_some(())
    })
    .await;
    let received = within(secs(10), "the HTTP/2 connection to be closed", http2).await;
    let received = received.expect("the client");
    assert!(received > 30_000, "{received} bytes by HTTP/2 before it stalled");
    until(secs(10), "their sockets to be closed", || async {
        (gateway.connections(rtmps) == 0 && gateway.connections(https) == 0).then_some(())
    })
    .await;
}

/// Asks for FLV by HTTP/2 and reads all that comes, but never opens the window again that a stream begins with
/// (RFC 9113 §6.9), until the server closes; gives how much came. No HTTP/2 library has that fault.
async fn http2_viewer_that_opens_no_window(to: Option<std::net::SocketAddr>, client: Client) -> usize {
    let to = to.expect("HTTPS is on");
    let mut stream = client.offering(&["h2"]).connect(to).await.expect("TLS");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let path = format!("/{KEY}.flv");
    // HPACK (RFC 7541): :method GET, :scheme https, then :path and :authority as literals without Huffman.
    let mut head = vec![0x82, 0x87, 0x04, u8::try_from(path.len()).expect("short")];
    head.extend_from_slice(path.as_bytes());
    head.extend_from_slice(&[0x01, 9]);
    head.extend_from_slice(b"localhost");
    let length = u8::try_from(head.len()).expect("short");
    let (settings, headers) = ([0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, length, 1, 5, 0, 0, 0, 1]);
    let request = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &settings,
        &headers,
        &head,
    ]
    .concat();
    stream.write_all(&request).await.expect("room");
    let mut received = Vec::new();
    let _end = stream.read_to_end(&mut received).await;
    received.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_trying_needs_no_files_and_the_demo_names_addresses_under_tls() {
    let gateway = Gateway::with()
        .arg("--tls-self-signed")
        .arg("--demo")
        .set("https.listen", "127.0.0.1:0")
        .set("rtmps.listen", "127.0.0.1:0")
        .start()
        .await;
    let [rtmps, https] = [gateway.rtmps, gateway.https].map(|at| at.expect("TLS is on"));
    until(secs(15), "the demo's addresses in the log", || async {
        let log = gateway.log().text();
        let named = [
            format!("https://localhost:{}/live/demo", https.port()),
            format!("wss://localhost:{}/live/demo.flv", https.port()),
            format!("rtmps://localhost:{}/live/demo", rtmps.port()),
        ];
        named.iter().all(|url| log.contains(url)).then_some(())
    })
    .await;
    gateway.wait_live("live/demo").await;
    let url = format!("https://localhost:{}/live/demo", https.port());
    let mut command = Command::new(tools::program("curl"));
    command
        .args(["-sSk", "-H", "Accept: text/html", &url])
        .stdin(Stdio::null());
    let output = within(secs(20), "curl", command.output())
        .await
        .expect("curl runs");
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let rtmps_port = format!("data-rtmps-port=\"{}\"", rtmps.port());
    assert!(page.contains(&rtmps_port), "{page}");
    // ffmpeg asks for no proof unless it is told to.
    let mut player = Decoder::start(
        &tools::ffmpeg(),
        &format!("rtmps://{rtmps}/live/demo"),
        &["-t", "1"],
    );
    player.process().wait_ok(secs(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_come_in_with_a_certificate_of_the_authority_and_nobody_else_does() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let files = authority.issue("server");
    let gateway = authority
        .gateway(&files)
        .set("admin.tls_listen", "0.0.0.0:0")
        .set("admin.tls_client_ca_file", &shown(&authority.file()))
        .start()
        .await;
    let at = gateway.admin_tls.expect("the operators' TLS listener is on");
    let known = authority.client().with_certificate(authority.issue("operator"));
    let answer = get(known.socket(at).await, "/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("spillway_build_info"));
    // By whatever name: nobody else could have shown the certificate.
    let stream = http::open_over(
        known.socket(at).await,
        "gateway.example",
        Request::get("/api/v1/streams"),
    )
    .await;
    assert_eq!(stream.expect("an answer").head.status, 200);
    for unknown in [
        authority.client(),
        authority.client().with_certificate(stranger.issue("operator")),
    ] {
        // By TLS 1.3 the client learns of the refusal when it reads.
        let refused = async {
            let mut stream = unknown.connect(at).await?;
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
                .await?;
            stream.read_u8().await
        };
        let refused = within(secs(15), "the refusal", refused).await;
        assert!(refused.is_err(), "a stranger was served");
    }
    until(secs(10), "the refusals to be counted", || async {
        let count = counter(&gateway, "spillway_tls_handshake_failures_total", "admin_tls").await;
        (count == 2.0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_no_idle_http2_connection() {
    let authority = Authority::new();
    let start = authority.gateway(&authority.issue("server"));
    let mut gateway = start.set("shutdown.grace", "60s").start().await;
    let https = gateway.https.expect("HTTPS is on");
    let client = authority.client().offering(&["h2"]);
    let mut silent = client.connect(https).await.expect("TLS");
    let mut idle = client.connect(https).await.expect("TLS");
    let request = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 0, 4, 0, 0, 0, 0, 0],
    ]
    .concat();
    idle.write_all(&request).await.expect("room");
    idle.read_u8().await.expect("the server's settings");
    let status = gateway.terminate(secs(20)).await;
    assert!(status.success(), "{status}");
    assert!(silent.read(&mut [0; 64]).await.map_or(true, |count| count < 64));
}
