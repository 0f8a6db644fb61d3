//! Proxies in front: whose word on a client's address is taken, and that limits, rules and logs go by that address.

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::flv;
use spillway_tests::front::{Front, connect, header_v1, header_v2};
use spillway_tests::gateway::Gateway;
use spillway_tests::http::{self, Request};
use spillway_tests::rtmp;
use spillway_tests::tls::Authority;
use spillway_tests::tools;
use spillway_tests::wait::{secs, until, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

const KEY: &str = "live/proxied";

async fn counter(gateway: &Gateway, name: &str, label: &str, value: &str) -> f64 {
    let metrics = gateway.metrics().await;
    metrics.sum(|sample| sample.name == name && sample.label(label) == Some(value))
}

async fn wait_refused_per_ip(gateway: &Gateway, count: f64) {
    until(secs(10), "connections refused for their address", || async {
        let refused = counter(gateway, "spillway_refusals_total", "limit", "connections_per_ip").await;
        (refused == count).then_some(())
    })
    .await;
}

async fn wait_logged(gateway: &Gateway, words: &[&str]) {
    let what = format!("a line with {words:?} in the log");
    until(secs(15), &what, || async {
        let log = gateway.log().text();
        let found = log
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)));
        found.then_some(())
    })
    .await;
}

/// Whether the gateway closes the connection, with or without an answer, before it says `200`.
async fn is_closed(mut stream: TcpStream) -> bool {
    let mut answer = Vec::new();
    let read = within(
        secs(15),
        "the connection to be closed",
        stream.read_to_end(&mut answer),
    )
    .await;
    read.is_err() || !String::from_utf8_lossy(&answer).contains(" 200 ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_header_of_either_version_names_the_client_of_each_protocol() {
    let authority = Authority::new();
    let mut start = authority
        .gateway(&authority.issue("server"))
        .set("proxies.trusted", "[\"127.0.0.1\"]")
        .set("auth.publish", "open");
    for listener in ["rtmp", "http", "rtmps", "https"] {
        start = start.set(&format!("{listener}.proxy_protocol"), "required");
    }
    let gateway = start.start().await;
    let front = Front::start(gateway.rtmp, header_v1("203.0.113.7:4711")).await;
    let _publisher = publish_loop(Clip::Plain, &format!("rtmp://{}/{KEY}", front.address));
    wait_logged(&gateway, &["publisher started", "203.0.113.7:4711"]).await;

    let socket = connect("127.0.0.1", gateway.rtmp, &header_v2("203.0.113.8:99")).await;
    let mut viewer = rtmp::Viewer::over(Box::new(socket), "proxied", KEY);
    within(secs(15), "media by RTMP", viewer.next_tag())
        .await
        .expect("media");
    wait_logged(&gateway, &["viewer started", "203.0.113.8:99"]).await;

    let request = Request::get(&format!("/{KEY}.flv"));
    let socket = connect("127.0.0.1", gateway.http, &header_v2("[2001:db8::9]:99")).await;
    let stream = http::open_over(Box::new(socket), "proxied", request.clone()).await;
    let mut viewer = flv::Viewer::of(stream.expect("HTTP-FLV"));
    within(secs(15), "media by HTTP", viewer.next_tag())
        .await
        .expect("media");
    wait_logged(&gateway, &["viewer started", "[2001:db8::9]:99"]).await;

    // The header comes before TLS.
    let https = gateway.https.expect("HTTPS is on");
    let socket = connect("127.0.0.1", https, &header_v1("203.0.113.10:99")).await;
    let socket = authority.client().over(socket).await.expect("TLS");
    let stream = http::open_over(Box::new(socket), "proxied", request).await;
    let mut viewer = flv::Viewer::of(stream.expect("HTTPS-FLV"));
    within(secs(15), "media by HTTPS", viewer.next_tag())
        .await
        .expect("media");
    wait_logged(&gateway, &["viewer started", "203.0.113.10:99"]).await;

    // curl writes a header of its own.
    let mut command = Command::new(tools::program("curl"));
    command.args([
        "-sS",
        "--haproxy-protocol",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
    ]);
    command.arg(gateway.http_url(""));
    let output = within(secs(20), "curl", command.output())
        .await
        .expect("curl runs");
    assert_eq!(output.stdout, b"200");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_no_trusted_proxy_or_sends_no_header_is_closed_and_counted() {
    let gateway = Gateway::with()
        .set("proxies.trusted", "[\"127.0.0.7\"]")
        .set("http.proxy_protocol", "required")
        .set("rtmp.proxy_protocol", "required")
        .set("limits.handshake_timeout", "2s")
        .start()
        .await;
    let get = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let with_header = [&header_v1("203.0.113.7:1")[..], get].concat();
    assert!(
        !is_closed(connect("127.0.0.7", gateway.http, &with_header).await).await,
        "the trusted one"
    );
    assert!(
        is_closed(connect("127.0.0.8", gateway.http, &with_header).await).await,
        "a stranger"
    );
    assert!(
        is_closed(connect("127.0.0.7", gateway.http, get).await).await,
        "no header"
    );
    assert!(
        is_closed(connect("127.0.0.7", gateway.http, b"PROXY TCP4 ").await).await,
        "half a header"
    );
    assert!(
        is_closed(connect("127.0.0.8", gateway.rtmp, &[3; 1537]).await).await,
        "plain RTMP"
    );
    let name = "spillway_proxy_header_failures_total";
    assert_eq!(counter(&gateway, name, "listener", "http").await, 3.0);
    assert_eq!(counter(&gateway, name, "listener", "rtmp").await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_nobody_asked_for_is_no_address() {
    let gateway = Gateway::with()
        .set("proxies.trusted", "[\"127.0.0.7\"]")
        .start()
        .await;
    let bytes = [
        &header_v1("203.0.113.7:1")[..],
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ]
    .concat();
    assert!(is_closed(connect("127.0.0.7", gateway.http, &bytes).await).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_connections_for_an_address_counts_the_client_behind_the_header() {
    let gateway = Gateway::with()
        .set("proxies.trusted", "[\"127.0.0.1\"]")
        .set("http.proxy_protocol", "required")
        .set("rtmp.proxy_protocol", "required")
        .set("limits.max_connections_per_ip", "2")
        .start()
        .await;
    let one = header_v1("203.0.113.7:1");
    let mut first = connect("127.0.0.1", gateway.rtmp, &one).await;
    let second = connect("127.0.0.1", gateway.http, &header_v2("203.0.113.7:2")).await;
    // The RTMP server speaks once it has been spoken to: then the first has its place.
    first.write_all(&[3; 1537]).await.expect("room");
    first.read_u8().await.expect("an answer");
    wait_places(&gateway, 2).await;
    let third = connect("127.0.0.1", gateway.rtmp, &one).await;
    assert!(is_closed(third).await);
    wait_refused_per_ip(&gateway, 1.0).await;
    let get = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let fourth = connect("127.0.0.1", gateway.http, &[&one[..], get].concat()).await;
    assert!(is_closed(fourth).await);
    wait_refused_per_ip(&gateway, 2.0).await;
    let other = [&header_v1("203.0.113.8:1")[..], get].concat();
    assert!(
        !is_closed(connect("127.0.0.1", gateway.http, &other).await).await,
        "another client"
    );
    drop(second);
    until(secs(10), "the place of the second to be free", || async {
        let again = connect("127.0.0.1", gateway.http, &[&one[..], get].concat()).await;
        (!is_closed(again).await).then_some(())
    })
    .await;
}

/// Waits until so many connections are in a session, behind their headers.
async fn wait_places(gateway: &Gateway, count: u32) {
    until(secs(10), "the connections to be let in", || async {
        let metrics = gateway.metrics().await;
        let open = metrics
            .sum(|sample| sample.name == "spillway_connections" && sample.label("listener") != Some("admin"));
        (open >= f64::from(count)).then_some(())
    })
    .await;
}

/// An FLV viewer that a proxy at `source` asks for.
async fn ask_for(gateway: &Gateway, source: &str, header: (&str, &str)) -> (u16, http::Stream) {
    let request = Request::get(&format!("/{KEY}.flv")).header(header.0, header.1);
    let socket = connect(source, gateway.http, b"").await;
    let stream = http::open_over(Box::new(socket), "proxied", request);
    let stream = within(secs(20), "an answer", stream).await.expect("an answer");
    (stream.head.status, stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_names_the_client_of_each_request_and_its_places_are_counted() {
    let gateway = Gateway::with()
        .set("proxies.trusted", "[\"127.0.0.7\", \"10.0.0.0/8\"]")
        .set("limits.max_connections_per_ip", "1")
        .start()
        .await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    until(secs(15), "the stream", || async {
        let head = Request::new("HEAD", &format!("/{KEY}.flv"));
        let socket = connect("127.0.0.3", gateway.http, b"").await;
        let answer = http::open_over(Box::new(socket), "a", head).await.ok()?;
        (answer.head.status == 200).then_some(())
    })
    .await;
    // Left of the first untrusted hop anything may be made up.
    let (status, _first) = ask_for(
        &gateway,
        "127.0.0.7",
        ("X-Forwarded-For", "192.0.2.66, 203.0.113.7, 10.1.1.1"),
    )
    .await;
    assert_eq!(status, 200);
    wait_logged(&gateway, &["viewer started", "203.0.113.7"]).await;
    let (status, refused) = ask_for(&gateway, "127.0.0.7", ("X-Forwarded-For", "203.0.113.7")).await;
    assert_eq!((status, refused.head.header("retry-after")), (503, Some("2")));
    wait_refused_per_ip(&gateway, 1.0).await;
    let (status, _second) = ask_for(&gateway, "127.0.0.7", ("X-Forwarded-For", "203.0.113.8")).await;
    assert_eq!(status, 200, "another client by the same proxy");
    let (status, _own) = ask_for(&gateway, "127.0.0.4", ("X-Forwarded-For", "203.0.113.9")).await;
    assert_eq!(status, 200);
    wait_logged(&gateway, &["viewer started", "127.0.0.4:"]).await;
    assert!(
        !gateway.log().text().contains("203.0.113.9"),
        "a stranger was believed"
    );
    assert!(
        !gateway.log().text().contains("192.0.2.66"),
        "a made-up hop was believed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_from_this_machine_is_not_for_those_behind_a_proxy_on_it() {
    let gateway = Gateway::with()
        .set("proxies.trusted", "[\"127.0.0.1\"]")
        .set("rtmp.proxy_protocol", "required")
        .start()
        .await;
    let front = Front::start(gateway.rtmp, header_v1("127.0.0.1:4711")).await;
    let mut publisher = publish_loop(Clip::Plain, &format!("rtmp://{}/{KEY}", front.address));
    assert!(!publisher.wait(secs(20)).await.success(), "it was let in");
    assert!(gateway.log().text().contains("auth.publish_keys"));
}
