//! Who may publish and who may play, over every protocol and through real programs.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command as Program;

use serde_json::{Value as Json, json};
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::gateway::{self, Gateway, Start};
use spillway_tests::http::{self, Request, Response};
use spillway_tests::jwt::{KeyPair, Signer, now};
use spillway_tests::process::Process;
use spillway_tests::viewer::Viewer;
use spillway_tests::wait::{secs, until, within};
use spillway_tests::{rtmp, tools, ws};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

const LINK_KEY: &str = "link-secret-0123456789abcdef";
const JWT_KEY: &str = "jwt-secret-0123456789abcdef";
const STREAM: &str = "live/cam";
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Links and tokens for publishing and playing.
fn by_tokens() -> Start {
    Gateway::with()
        .set("auth.publish", "token")
        .set("auth.play", "token")
        .set("auth.link_keys", LINK_KEY)
        .set("auth.jwt.keys", JWT_KEY)
}

/// What `spillway sign` makes.
fn sign(arguments: &[&str]) -> String {
    let output = Program::new(gateway::binary())
        .args(["--set", "auth.publish=token", "--set", "auth.play=token"])
        .args(["--set", &format!("auth.link_keys={LINK_KEY}"), "sign"])
        .args(arguments)
        .output()
        .expect("spillway sign starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "spillway sign {arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn hs256(claims: &Json) -> String {
    Signer::Hs256(JWT_KEY.into()).token(claims)
}

fn token_for(action: &str, pattern: &str) -> String {
    hs256(&json!({ "exp": now() + 600, action: pattern }))
}

/// A publisher that is let in, and its stream once it is live.
async fn publishing(gateway: &Gateway, query: &str) -> Process {
    let publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(&format!("{STREAM}?{query}")));
    until(secs(15), "the stream to be live", || async {
        let streams = gateway.admin_get("/api/v1/streams").await.text();
        (streams.contains("\"phase\":\"live\"") && streams.contains("\"video\":{")).then_some(())
    })
    .await;
    publisher
}

async fn assert_plays(what: &str, viewer: &mut Viewer) {
    let tag = within(secs(15), what, viewer.next_tag()).await;
    assert!(tag.is_some(), "{what} got nothing");
}

/// What ffprobe reads of an address in a second.
async fn probe(url: &str) -> (bool, String) {
    let mut command = Command::new(tools::program("ffprobe"));
    command.args([
        "-hide_banner",
        "-v",
        "warning",
        "-show_entries",
        "stream=codec_name",
        "-of",
        "csv",
    ]);
    command.arg(url);
    let mut process = Process::spawn("ffprobe", command);
    let status = process.wait(secs(30)).await;
    (status.success(), process.output().text())
}

fn status_of(responses: &[Response]) -> Vec<u16> {
    responses.iter().map(|response| response.status).collect()
}

fn uris(playlist: &str) -> Vec<&str> {
    playlist.lines().filter(|line| !line.starts_with('#')).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_plays_over_every_protocol_and_none_plays_over_none() {
    let gateway = by_tokens().start().await;
    let _publisher = publishing(&gateway, &sign(&["publish", STREAM])).await;
    for query in [
        sign(&["play", STREAM]),
        format!("token={}", token_for("play", "live/*")),
    ] {
        let key = format!("{STREAM}?{query}");
        let mut viewer = Viewer::Rtmp(Box::new(rtmp::Viewer::open(gateway.rtmp, &key).await));
        assert_plays("RTMP", &mut viewer).await;
        let response = http::open(gateway.http, Request::get(&format!("/{STREAM}.flv?{query}"))).await;
        assert_eq!(response.expect("an answer").head.status, 200);
        let url = gateway.ws_url(&format!("{STREAM}.flv?{query}"));
        let mut viewer = Viewer::Ws(Box::new(ws::Viewer::open(&url).await));
        assert_plays("WebSocket", &mut viewer).await;
        // ffmpeg's HLS player knows nothing of tokens: it follows the addresses that it is given.
        let paths = ["live/cam/index.m3u8", "live/cam.m3u8", "live/cam.flv"];
        let urls = paths.map(|path| gateway.http_url(&format!("{path}?{query}")));
        for url in urls.iter().chain([&gateway.rtmp_url(&key)]) {
            let (success, said) = probe(url).await;
            assert!(success && said.contains("h264"), "{url}: {said}");
        }
    }
    for query in ["", "?token=nonsense", "?exp=9999999999&sig=00"] {
        let mut viewer = rtmp::Viewer::open(gateway.rtmp, &format!("{STREAM}{query}")).await;
        assert!(within(secs(10), "a refusal", viewer.next_tag()).await.is_none());
        let said = viewer.ended_with().unwrap_or_default();
        assert!(
            said.starts_with("NetStream.Play.Failed: ") && said.contains("token") || said.contains("link"),
            "{said}"
        );
        for path in [".flv", "/index.m3u8", ".m3u8", "/media.m3u8"] {
            let response = gateway.get(&format!("/{STREAM}{path}{query}")).await;
            assert_eq!(response.status, 401, "{path}{query}");
            assert!(response.text().contains("token") || response.text().contains("link"));
            assert_eq!(response.header("cache-control"), Some("no-store"));
            assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
        }
    }
    let (success, said) = probe(&gateway.http_url("live/cam/index.m3u8")).await;
    assert!(!success && said.contains("401"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_without_a_right_link_or_token_is_told_so() {
    let gateway = by_tokens().start().await;
    let play_only = format!("token={}", token_for("play", "*"));
    let other = format!("token={}", token_for("publish", "live/other"));
    let expired = format!("token={}", hs256(&json!({ "exp": now() - 60, "publish": "*" })));
    for (query, said) in [
        ("", "needs a signed link or a token"),
        (&play_only, "does not allow publishing this stream"),
        (&other, "does not allow publishing this stream"),
        (&expired, "has expired"),
        (&sign(&["play", STREAM]), "signature is wrong"),
    ] {
        let mut publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(&format!("{STREAM}?{query}")));
        assert!(!publisher.wait(secs(15)).await.success());
        until(secs(5), said, || async {
            gateway.log().text().contains(said).then_some(())
        })
        .await;
    }
    assert_eq!(
        gateway.metrics().await.sum(|sample| {
            sample.name == "spillway_authorisations_total" && sample.label("action") == Some("publish")
        }),
        5.0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_time_and_hls_asks_for_the_token_again() {
    let gateway = by_tokens().start().await;
    let publish = json!({ "exp": now() + 600, "publish": "*" });
    let mut publisher = publishing(&gateway, &format!("token={}", hs256(&publish))).await;
    // Long enough for HLS to have a playlist before the token itself expires.
    let claims = json!({ "exp": now() + 8, "play": "*", "lifetime": 3 });
    let query = format!("token={}", hs256(&claims));
    let master = gateway.get(&format!("/{STREAM}/index.m3u8?{query}")).await;
    assert_eq!(master.status, 200, "{}", master.text());
    let media = format!("/{STREAM}/{}", uris(&master.text())[0]);
    let playlist = gateway.get(&media).await;
    assert_eq!(playlist.header("cache-control"), Some("private, no-store"));
    let segment = format!("/{STREAM}/{}", uris(&playlist.text())[0]);
    let (with_ticket, bare) = (
        gateway.get(&segment).await,
        gateway.get(segment.split('?').next().unwrap()).await,
    );
    assert_eq!((with_ticket.status, bare.status), (200, 401));
    let mut viewers = [
        (
            "RTMP",
            Viewer::Rtmp(Box::new(
                rtmp::Viewer::open(gateway.rtmp, &format!("{STREAM}?{query}")).await,
            )),
        ),
        (
            "WebSocket",
            Viewer::Ws(Box::new(
                ws::Viewer::open(&gateway.ws_url(&format!("{STREAM}.flv?{query}"))).await,
            )),
        ),
    ];
    for (name, viewer) in &mut viewers {
        assert_plays(name, viewer).await;
        let whole = async { while viewer.next_tag().await.is_some() {} };
        within(secs(15), &format!("the end of {name}"), whole).await;
        assert!(viewer.ended_properly(), "{name}");
    }
    let refused = until(secs(20), "the ticket and the token to expire", || async {
        let response = gateway.get(&media).await;
        (response.status != 200).then_some(response)
    })
    .await;
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("expired"), "{}", refused.text());
    assert!(publisher.is_running());
    let short = hs256(&json!({ "exp": now() + 600, "publish": "live/short", "lifetime": 2 }));
    let mut ended = publish_loop(
        Clip::Plain,
        &gateway.rtmp_url(&format!("live/short?token={short}")),
    );
    assert!(!ended.wait(secs(20)).await.success(), "{}", ended.output().tail());
    let metrics = gateway.metrics().await;
    for protocol in ["rtmp", "ws"] {
        let ended = metrics.sum(|sample| {
            sample.name == "spillway_viewer_sessions_ended_total"
                && sample.label("protocol") == Some(protocol)
                && sample.label("reason") == Some("expired")
        });
        assert_eq!(ended, 1.0, "{protocol}");
    }
    let ended = metrics.sum(|sample| {
        sample.name == "spillway_publisher_sessions_ended_total" && sample.label("reason") == Some("expired")
    });
    assert_eq!(ended, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_verified_by_keys_that_may_change_while_it_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("jwks.json");
    let write = |keys: &[&KeyPair]| {
        let keys: Vec<Json> = keys.iter().map(|pair| pair.jwk()).collect();
        std::fs::write(&file, json!({ "keys": keys }).to_string()).expect("a key set");
    };
    let (rsa, ed, next) = (
        KeyPair::rsa("one"),
        KeyPair::ed25519("two"),
        KeyPair::ed25519("three"),
    );
    write(&[&rsa, &ed]);
    let gateway = Gateway::with()
        .set("auth.play", "token")
        .set("auth.jwt.jwks", &file.to_string_lossy())
        .set("auth.free_failures", "10000")
        .start()
        .await;
    let _publisher = publishing(&gateway, "").await;
    let claims = json!({ "exp": now() + 600, "play": "live/*" });
    let [rsa, ed, next, stranger] = [rsa, ed, next, KeyPair::ed25519("two")].map(Signer::Pair);
    let play = async |signer: &Signer| {
        let path = format!("/{STREAM}.flv?token={}", signer.token(&claims));
        http::fetch(gateway.http, Request::new("HEAD", &path))
            .await
            .status
    };
    assert_eq!((play(&rsa).await, play(&ed).await), (200, 200));
    assert_eq!((play(&next).await, play(&stranger).await), (401, 401));
    let Signer::Pair(pair) = &next else { unreachable!() };
    write(&[pair]);
    until(secs(30), "the new key to be taken up", || async {
        (play(&next).await == 200).then_some(())
    })
    .await;
    assert_eq!((play(&rsa).await, play(&ed).await), (401, 401));
    std::fs::write(&file, "nonsense").expect("a broken key set");
    until(secs(30), "the broken key set to be noticed", || async {
        let failed = gateway.metrics().await.sum(|sample| {
            sample.name == "spillway_jwks_reads_total" && sample.label("outcome") == Some("failed")
        });
        (failed > 0.0).then_some(())
    })
    .await;
    assert_eq!(play(&next).await, 200);
}

/// A web server of Python's that serves the folder by HTTPS, and its address.
async fn https_server(folder: &Path) -> (Process, String) {
    let (key, certificate) = (folder.join("server.key"), folder.join("server.pem"));
    let made = Program::new(tools::program("openssl"))
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let script = "import http.server, ssl, sys\n\
        class Here(http.server.SimpleHTTPRequestHandler):\n\
        \x20   protocol_version = 'HTTP/1.1'\n\
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Here)\n\
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
        tls.load_cert_chain(sys.argv[1], sys.argv[2])\n\
        server.socket = tls.wrap_socket(server.socket, server_side=True)\n\
        print(f'port {server.server_port};', flush=True)\n\
        server.serve_forever()\n";
    let mut command = Command::new(tools::program("python3"));
    command
        .arg("-c")
        .arg(script)
        .arg(&certificate)
        .arg(&key)
        .current_dir(folder);
    let server = Process::spawn("https server", command);
    let port = server
        .wait_output(secs(15), "its port", |text| {
            let (_, port) = text.split_once("port ")?;
            Some(port.split_once(';')?.0.to_owned())
        })
        .await;
    (server, format!("https://localhost:{port}/jwks.json"))
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_fetched_from_an_address_and_stay_when_it_fails() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("jwks.json");
    let (mut server, address) = https_server(folder.path()).await;
    let pair = KeyPair::ed25519("one");
    let keys = json!({ "keys": [pair.jwk()] }).to_string();
    let gateway = Gateway::with()
        .set("auth.play", "token")
        .set("auth.jwt.jwks", &address)
        .set(
            "auth.jwt.jwks_ca_file",
            &folder.path().join("server.pem").to_string_lossy(),
        )
        .set("auth.jwt.jwks_refresh", "10s")
        .start()
        .await;
    let _publisher = publishing(&gateway, "").await;
    let claims = json!({ "exp": now() + 600, "play": "live/*" });
    let path = format!("/{STREAM}.flv?token={}", Signer::Pair(pair).token(&claims));
    let play = async || http::fetch(gateway.http, Request::new("HEAD", &path)).await;
    let reads = async |outcome: &str| {
        gateway.metrics().await.sum(|sample| {
            sample.name == "spillway_jwks_reads_total" && sample.label("outcome") == Some(outcome)
        })
    };
    // There are no keys at the address yet.
    assert_eq!(play().await.status, 503);
    std::fs::write(&file, &keys).expect("a key set");
    until(secs(30), "the keys to be fetched", || async {
        (play().await.status == 200).then_some(())
    })
    .await;
    server.kill().await;
    let failed = reads("failed").await;
    until(secs(30), "the server to be missed", || async {
        (reads("failed").await > failed).then_some(())
    })
    .await;
    assert_eq!(play().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_for_one_address_and_rules_for_networks_hold() {
    let gateway = by_tokens()
        .set("auth.publish", "local")
        .set("auth.play_deny", "127.0.0.3")
        .start()
        .await;
    let _publisher = publishing(&gateway, "").await;
    let query = sign(&["play", STREAM, "--ip", "127.0.0.2"]);
    let free = sign(&["play", STREAM]);
    let ask = async |path: &str, from: IpAddr| {
        let request = Request::get(path).from(from);
        http::fetch(gateway.http, request).await
    };
    let path = format!("/{STREAM}/media.m3u8?{query}");
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let answers = [ask(&path, ELSEWHERE).await, ask(&path, here).await];
    assert_eq!(status_of(&answers), [200, 401]);
    let segment = format!("/{STREAM}/{}", uris(&answers[0].text())[0]);
    assert_eq!(
        status_of(&[ask(&segment, ELSEWHERE).await, ask(&segment, here).await]),
        [200, 401]
    );
    let denied = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
    let path = format!("/{STREAM}/media.m3u8?{free}");
    let answers = [ask(&path, here).await, ask(&path, denied).await];
    assert_eq!(status_of(&answers), [200, 403]);
    let segment = format!("/{STREAM}/{}", uris(&answers[0].text())[0]);
    assert_eq!(
        status_of(&[ask(&segment, ELSEWHERE).await, ask(&segment, denied).await]),
        [200, 403]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_guesses_has_to_wait_and_others_do_not() {
    let gateway = Gateway::with()
        .set("auth.play", "keys")
        .set("auth.play_keys", "the-right-key")
        .set("auth.free_failures", "3")
        .start()
        .await;
    let _publisher = publishing(&gateway, "").await;
    let ask = async |key: &str, from: IpAddr| {
        let path = format!("/{STREAM}.flv?key={key}");
        http::fetch(gateway.http, Request::new("HEAD", &path).from(from)).await
    };
    for guess in 0..3 {
        assert_eq!(ask(&format!("guess-{guess}"), ELSEWHERE).await.status, 401);
    }
    let refused = ask("the-right-key", ELSEWHERE).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(
        ask("the-right-key", IpAddr::V4(Ipv4Addr::LOCALHOST)).await.status,
        200
    );
    until(secs(10), "the wait to be over", || async {
        (ask("the-right-key", ELSEWHERE).await.status == 200).then_some(())
    })
    .await;
    let metrics = gateway.metrics().await;
    let count = |outcome: &str| {
        metrics.sum(|sample| {
            sample.name == "spillway_authorisations_total" && sample.label("outcome") == Some(outcome)
        })
    };
    assert_eq!(count("wrong_key"), 3.0);
    assert!(count("too_many_failures") >= 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_the_logs_the_metrics_the_api_or_an_error() {
    let gateway = by_tokens()
        .set("log.level", "debug")
        .set("auth.free_failures", "1000")
        .start()
        .await;
    let (link, token) = (sign(&["publish", STREAM]), token_for("play", "*"));
    let (play_link, wrong) = (sign(&["play", STREAM]), "a-wrong-secret-that-was-typed");
    let _publisher = publishing(&gateway, &link).await;
    let mut said = String::new();
    for query in [
        format!("token={token}"),
        format!("key={wrong}"),
        format!("token={wrong}"),
        play_link.clone(),
    ] {
        let mut refused = publish_loop(Clip::Plain, &gateway.rtmp_url(&format!("{STREAM}?{query}")));
        refused.wait(secs(15)).await;
        let mut viewer = rtmp::Viewer::open(gateway.rtmp, &format!("{STREAM}?{query}")).await;
        within(secs(10), "an answer", viewer.next_tag()).await;
        said += viewer.ended_with().unwrap_or_default();
        for path in [
            ".flv",
            "/index.m3u8",
            "/media.m3u8",
            "/no-such-segment.ts",
            ".flv/x",
        ] {
            let path = format!("/{STREAM}{path}?{query}");
            let response = within(secs(10), &path, http::open(gateway.http, Request::get(&path))).await;
            if let Ok(response) = response
                && response.head.status >= 400
            {
                said += &gateway.get(&path).await.text();
            }
        }
    }
    for path in ["/metrics", "/api/v1/streams", "/api/v1/streams/live/cam"] {
        said += &gateway.admin_get(path).await.text();
    }
    until(secs(10), "the refusals in the log", || async {
        gateway.log().text().contains("publisher refused").then_some(())
    })
    .await;
    said += &gateway.log().text();
    assert!(said.contains("DEBUG"), "the log is at debug level");
    let signature = |link: &str| link.split("sig=").nth(1).unwrap().to_owned();
    let token_signature = token.rsplit('.').next().unwrap().to_owned();
    for secret in [
        LINK_KEY.to_owned(),
        JWT_KEY.to_owned(),
        wrong.to_owned(),
        signature(&link),
        signature(&play_link),
        token_signature,
    ] {
        let line = said.lines().find(|line| line.contains(&secret));
        assert_eq!(line, None, "{secret} was said");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_listener_asks_for_a_token_where_others_reach_it() {
    const TOKEN: &str = "admin-token-0123456789abcdef";
    let mut command = Command::new(gateway::binary());
    command.args([
        "--set",
        "admin.listen=0.0.0.0:0",
        "--set",
        "rtmp.listen=127.0.0.1:0",
    ]);
    let mut refused = Process::spawn("spillway", command);
    assert!(!refused.wait(secs(15)).await.success());
    assert!(
        refused.output().text().contains("admin.tokens"),
        "{}",
        refused.output().tail()
    );

    let gateway = Gateway::with()
        .set("admin.listen", "0.0.0.0:0")
        .set("admin.tokens", TOKEN)
        .set("admin.deny", "127.0.0.2")
        .set("log.level", "debug")
        .start()
        .await;
    let ask = async |path: &str, header: (&str, &str)| {
        let request = Request::get(path).header(header.0, header.1);
        http::fetch(gateway.admin, request).await
    };
    for path in ["/metrics", "/api/v1/streams", "/"] {
        let refused = ask(path, ("accept", "*/*")).await;
        assert_eq!(
            (refused.status, refused.header("www-authenticate")),
            (401, Some("Bearer"))
        );
        assert!(refused.text().contains("admin.tokens"));
        assert_eq!(
            ask(path, ("authorization", &format!("Bearer {TOKEN}")))
                .await
                .status,
            200
        );
    }
    assert_eq!(
        ask("/metrics", ("authorization", "Bearer a-wrong-token"))
            .await
            .status,
        401
    );
    assert_eq!(ask("/readyz", ("accept", "*/*")).await.status, 200);
    let denied = http::fetch(gateway.admin, Request::get("/livez").from(ELSEWHERE)).await;
    assert_eq!(denied.status, 403);
    let log = gateway.log().text();
    assert!(!log.contains(TOKEN) && !log.contains("a-wrong-token"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_reaches_the_admin_listener_of_its_viewers_machine() {
    let gateway = Gateway::with().start().await;
    let send = async |text: &str| {
        let mut socket = tokio::net::TcpStream::connect(gateway.admin)
            .await
            .expect("a connection");
        socket.write_all(text.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        within(secs(10), text, socket.read_to_string(&mut answer))
            .await
            .expect("an answer");
        answer.get(9..12).unwrap_or_default().to_owned()
    };
    let close = "connection: close\r\n\r\n";
    let rebound = format!("GET /metrics HTTP/1.1\r\nhost: rebound.example:8081\r\n{close}");
    assert_eq!(send(&rebound).await, "421");
    let forged = format!(
        "POST /api/v1/streams HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\ncontent-length: 0\r\n{close}"
    );
    assert_eq!(send(&forged).await, "403");
    assert_eq!(
        send(&format!(
            "GET /metrics HTTP/1.1\r\nhost: localhost:8081\r\n{close}"
        ))
        .await,
        "200"
    );
}
