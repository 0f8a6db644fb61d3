use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use spillway_hub::{EndReason, Hub, HubOptions, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{LiveOptions, LiveState, live_router};
use crate::serve::{ServeOptions, serve};
use crate::testing::{Source, hub, key};

async fn ask(hub: &Hub, request: Request<Body>) -> Response {
    let state = LiveState {
        hub: hub.clone(),
        access: None,
        options: LiveOptions::default(),
    };
    live_router(state).oneshot(request).await.unwrap()
}

async fn get(hub: &Hub, path: &str) -> Response {
    ask(hub, Request::get(path).body(Body::empty()).unwrap()).await
}

async fn get_with(hub: &Hub, path: &str, header: &str, value: &str) -> Response {
    ask(
        hub,
        Request::get(path)
            .header(header, value)
            .body(Body::empty())
            .unwrap(),
    )
    .await
}

async fn text(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn next(body: &mut Body) -> Bytes {
    let frame = timeout(Duration::from_secs(5), body.frame()).await.unwrap();
    frame.unwrap().unwrap().into_data().unwrap()
}

fn viewers(hub: &Hub, protocol: Protocol) -> u64 {
    hub.stream(&key("live/cam"))
        .map_or(0, |stream| stream.snapshot().viewers[protocol.index()])
}

#[tokio::test]
async fn flv_starts_with_true_flags_headers_and_a_key_frame() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    let response = get(&hub, "/live/cam.flv").await;
    assert_eq!(response.status(), 200);
    let headers = response.headers();
    assert_eq!(headers["content-type"], "video/x-flv");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert_eq!(headers["access-control-allow-origin"], "*");
    assert!(!headers.contains_key("content-length") && !headers.contains_key("connection"));
    let mut body = response.into_body();
    assert_eq!(
        next(&mut body).await,
        &[b'F', b'L', b'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0][..]
    );
    let mut seen = Vec::new();
    while seen.last() != Some(&(9, 0x17, 1)) {
        let tag = next(&mut body).await;
        seen.push((tag[0], tag[11], tag[12]));
    }
    seen.retain(|tag| tag.0 != 18);
    assert_eq!(seen, [(9, 0x17, 0), (8, 0xAF, 0), (9, 0x17, 1)]);
    assert_eq!(viewers(&hub, Protocol::Flv), 1);
    drop(body);
    assert_eq!(viewers(&hub, Protocol::Flv), 0);
}

#[tokio::test]
async fn every_viewer_gets_the_same_buffers() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let mut body = get(&hub, "/live/cam.flv").await.into_body();
        next(&mut body).await;
        bodies.push(body);
    }
    for _ in 0..6 {
        let tags = [next(&mut bodies[0]).await, next(&mut bodies[1]).await];
        assert_eq!(tags[0].as_ptr(), tags[1].as_ptr());
    }
}

#[tokio::test]
async fn a_viewer_may_come_first_and_leaves_with_the_stream() {
    let hub = hub();
    let waiting = tokio::spawn({
        let hub = hub.clone();
        async move { get(&hub, "/live/cam.flv").await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let source = Source::start(&hub, "live/cam");
    let response = waiting.await.unwrap();
    assert_eq!(response.status(), 200);
    drop(source);
    let whole = timeout(Duration::from_secs(5), response.into_body().collect())
        .await
        .unwrap()
        .unwrap();
    assert!(whole.to_bytes().len() > 10 * 200);
}

#[tokio::test]
async fn an_unknown_stream_is_404_and_head_tells_without_a_viewer() {
    let hub = hub();
    let response = get(&hub, "/live/cam.flv").await;
    assert_eq!(response.status(), 404);
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(text(response).await, "not found\n");
    assert_eq!(refusals(&hub, EndReason::NotFound), 1);
    let head = || Request::head("/live/cam.flv").body(Body::empty()).unwrap();
    assert_eq!(ask(&hub, head()).await.status(), 404);
    let _source = Source::start(&hub, "live/cam");
    let response = ask(&hub, head()).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "video/x-flv");
    assert_eq!(viewers(&hub, Protocol::Flv), 0);
    assert_eq!(refusals(&hub, EndReason::NotFound), 1);
}

fn refusals(hub: &Hub, reason: EndReason) -> u64 {
    hub.stats().viewer_ends(Protocol::Flv, reason)
}

#[tokio::test]
async fn a_viewer_that_is_refused_is_counted() {
    let hub = Hub::new(HubOptions {
        max_viewers_per_stream: 1,
        ..HubOptions::default()
    });
    let _source = Source::start(&hub, "live/cam");
    let _first = get(&hub, "/live/cam.flv").await;
    assert_eq!(get(&hub, "/live/cam.flv").await.status(), 503);
    assert_eq!(refusals(&hub, EndReason::Refused), 1);
    assert_eq!(get(&hub, "/live/%00.flv").await.status(), 404);
    assert_eq!(refusals(&hub, EndReason::Refused), 2);
}

#[tokio::test]
async fn cors_is_on_every_answer() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    let asset = get(&hub, "/assets/style.css").await;
    let etag = asset.headers()["etag"].to_str().unwrap().to_owned();
    for (response, status) in [
        (asset, 200),
        (
            get_with(&hub, "/assets/style.css", "if-none-match", &etag).await,
            304,
        ),
        (get(&hub, "/live/cam/").await, 308),
        (get(&hub, "/nothing").await, 404),
        (get(&hub, "/live/cam/9.ts").await, 404),
        (get(&hub, "/live/%00.flv").await, 404),
        (
            ask(&hub, Request::post("/").body(Body::empty()).unwrap()).await,
            405,
        ),
        (
            ask(
                &hub,
                Request::options("/live/cam/index.m3u8")
                    .body(Body::empty())
                    .unwrap(),
            )
            .await,
            204,
        ),
    ] {
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["access-control-allow-origin"], "*", "{status}");
        let exposed = response.headers()["access-control-expose-headers"]
            .to_str()
            .unwrap();
        assert!(exposed.contains("Content-Range") && exposed.contains("Date"));
    }
}

#[tokio::test]
async fn hls_is_served_from_the_first_request_on() {
    let hub = hub();
    let mut source = Source::start(&hub, "live/cam");
    let feed = tokio::spawn(async move {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            source.gop(50);
        }
        source
    });
    let master = text(get(&hub, "/live/cam/index.m3u8").await).await;
    assert!(
        master.contains("avc1.42C00A") && master.ends_with("\nmedia.m3u8\n"),
        "{master}"
    );
    let outer = text(get(&hub, "/live/cam.m3u8").await).await;
    assert!(outer.ends_with("\ncam/media.m3u8\n"), "{outer}");
    let media = text(get(&hub, "/live/cam/media.m3u8").await).await;
    let file = media.lines().find(|line| !line.starts_with('#')).unwrap();
    let segment = get(&hub, &format!("/live/cam/{file}")).await;
    assert_eq!(segment.headers()["content-type"], "video/mp2t");
    let length: usize = segment.headers()["content-length"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    let bytes = segment.into_body().collect().await.unwrap().to_bytes();
    assert_eq!((bytes.len(), bytes.len() % 188, bytes[0]), (length, 0, 0x47));
    assert_eq!(hub.stats().bytes_out[Protocol::Hls.index()].get(), length as u64);
    assert_eq!(get(&hub, "/live/cam/old-1.ts").await.status(), 404);
    drop(feed.await);
}

#[tokio::test]
async fn a_preflight_allows_what_players_send() {
    let request = Request::options("/live/cam/1.ts").header("access-control-request-private-network", "true");
    let response = ask(&hub(), request.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let headers = response.headers();
    assert_eq!(headers["access-control-allow-methods"], "GET, HEAD, OPTIONS");
    assert_eq!(headers["access-control-allow-private-network"], "true");
    assert!(
        headers["access-control-allow-headers"]
            .to_str()
            .unwrap()
            .contains("Range")
    );
    assert!(headers.contains_key("access-control-max-age"));
}

#[tokio::test]
async fn the_page_is_for_people_and_its_links_are_relative() {
    let hub = hub();
    let response = get_with(&hub, "/a/b/cam.1", "accept", "text/html,*/*;q=0.8").await;
    assert_eq!(response.status(), 200);
    assert!(
        response.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .starts_with("default-src 'self'")
    );
    let page = text(response).await;
    assert!(page.contains("data-root=\"../../\"") && page.contains("data-stream=\"a/b/cam.1\""));
    assert_eq!(get(&hub, "/live/cam").await.status(), 200);
    assert_eq!(get(&hub, "/live/cam.mp4").await.status(), 404);
    assert_eq!(
        get_with(&hub, "/live/cam", "accept", "image/png").await.status(),
        404
    );
    assert_eq!(get(&hub, "/live/cam/").await.headers()["location"], "../cam");
    assert!(text(get(&hub, "/").await).await.contains("data-root=\"./\""));
}

#[tokio::test]
async fn the_list_shows_what_is_live_unless_switched_off() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    let response = get(&hub, "/streams.json").await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let list: serde_json::Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(list["total"], 1);
    let stream = &list["streams"][0];
    assert_eq!(
        (&stream["name"], &stream["live"]),
        (&"live/cam".into(), &true.into())
    );
    assert_eq!(stream["video"]["codec"], "h264");
    assert_eq!(stream["video"]["width"], 64);
    assert_eq!(stream["audio"]["codec"], "aac");
    let options = LiveOptions {
        list_streams: false,
        player: false,
        ..LiveOptions::default()
    };
    let router = live_router(LiveState {
        hub,
        access: None,
        options,
    });
    for path in ["/streams.json", "/", "/live/cam", "/assets/style.css"] {
        let request = Request::get(path).body(Body::empty()).unwrap();
        assert_eq!(
            router.clone().oneshot(request).await.unwrap().status(),
            404,
            "{path}"
        );
    }
}

/// Runs the public routes on a real listener.
pub(super) async fn listen(hub: &Hub) -> std::net::SocketAddr {
    listen_with(hub, ServeOptions::default()).await
}

pub(super) async fn listen_with(hub: &Hub, options: ServeOptions) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = live_router(LiveState {
        hub: hub.clone(),
        access: None,
        options: LiveOptions::default(),
    });
    tokio::spawn(serve(listener, router, options, CancellationToken::new()));
    address
}

async fn raw(hub: &Hub, request: &str) -> Vec<u8> {
    let mut client = TcpStream::connect(listen(hub).await).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(Duration::from_secs(5), client.read_to_end(&mut answer))
        .await
        .unwrap()
        .unwrap();
    answer
}

fn split(answer: &[u8]) -> (String, &[u8]) {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    (
        String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase(),
        &answer[end + 4..],
    )
}

#[tokio::test]
async fn an_http_1_0_player_gets_raw_bytes_and_a_close() {
    let hub = hub();
    let source = Source::start(&hub, "live/cam");
    let end = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(source);
    });
    let answer = raw(&hub, "GET /live/cam.flv HTTP/1.0\r\n\r\n").await;
    end.await.unwrap();
    let (head, body) = split(&answer);
    assert!(head.starts_with("http/1.0 200"), "{head}");
    assert!(
        head.contains("connection: close") && !head.contains("transfer-encoding"),
        "{head}"
    );
    assert!(body.starts_with(b"FLV\x01\x05"));
}

#[tokio::test]
async fn an_http_1_1_player_sees_the_streams_proper_end() {
    let hub = hub();
    let source = Source::start(&hub, "live/cam");
    let end = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(source);
    });
    let answer = raw(
        &hub,
        "GET /live/cam.flv HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    .await;
    end.await.unwrap();
    let (head, body) = split(&answer);
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert!(body.ends_with(b"\r\n0\r\n\r\n"));
}

#[tokio::test]
async fn head_has_the_headers_and_no_body() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    let request = "HEAD /live/cam.flv HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = raw(&hub, request).await;
    let text = String::from_utf8(answer).unwrap().to_lowercase();
    let answers: Vec<_> = text.split("http/1.1 200 ok").skip(1).collect();
    assert_eq!(answers.len(), 2, "{text}");
    assert!(
        answers[0].contains("video/x-flv") && !answers[0].contains("content-length: 0"),
        "{text}"
    );
    assert!(
        answers[0].ends_with("\r\n\r\n") && answers[1].ends_with("\r\n\r\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_player_that_leaves_is_noticed_while_the_stream_is_silent() {
    let hub = hub();
    let _source = Source::start(&hub, "live/cam");
    let mut client = TcpStream::connect(listen(&hub).await).await.unwrap();
    client
        .write_all(b"GET /live/cam.flv HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    client.read_exact(&mut [0; 500]).await.unwrap();
    assert_eq!(viewers(&hub, Protocol::Flv), 1);
    drop(client);
    for _ in 0..500 {
        if viewers(&hub, Protocol::Flv) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the viewer is still there");
}
