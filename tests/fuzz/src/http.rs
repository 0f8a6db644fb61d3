//! What viewers ask for by HTTP: any path, query and headers at the real routes, with a live stream behind them.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use spillway_hub::{
    HlsMode, HlsOptions, Hub, HubOptions, Protocol, Publisher, SessionInfo, StreamKey, TagType,
};
use spillway_web::{LiveOptions, LiveState, live_router};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

/// The stream that is there; seeds name it.
const STREAM: &str = "live/a";
/// Headers read of one request: as many as may say something at once.
const MOST_HEADERS: usize = 8;

/// The first byte is the method, the first line the target, each further one `name: value`.
pub fn http(data: &[u8]) {
    let Some((method, rest)) = data.split_first() else {
        return;
    };
    let method = match method % 4 {
        0 => Method::GET,
        1 => Method::HEAD,
        2 => Method::OPTIONS,
        _ => Method::POST,
    };
    let mut lines = rest.split(|byte| *byte == b'\n');
    let Some(uri) = lines.next().and_then(|line| Uri::try_from(line).ok()) else {
        return;
    };
    let mut request = Request::new(Body::empty());
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri.clone();
    for line in lines.take(MOST_HEADERS) {
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(at);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            request.headers_mut().append(name, value);
        }
    }
    SITE.with(|site| {
        site.runtime.block_on(async {
            let answer = site.router.clone().oneshot(request).await;
            check(&method, &uri, answer.expect("the routes always answer")).await;
        });
    });
}

async fn check(method: &Method, uri: &Uri, answer: Response<Body>) {
    let status = answer.status();
    let known = [
        StatusCode::OK,
        StatusCode::NO_CONTENT,
        StatusCode::PARTIAL_CONTENT,
        StatusCode::NOT_MODIFIED,
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::METHOD_NOT_ALLOWED,
        StatusCode::NOT_ACCEPTABLE,
        StatusCode::RANGE_NOT_SATISFIABLE,
        StatusCode::UPGRADE_REQUIRED,
    ];
    assert!(
        known.contains(&status) || status.is_redirection(),
        "{method} {uri}: {status}"
    );
    let headers = answer.headers().clone();
    let text = |name| {
        headers
            .get(name)
            .map(|value: &HeaderValue| value.to_str().expect("a header of text"))
    };
    assert!(
        text(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_some(),
        "{method} {uri}: no CORS"
    );
    if let Some(location) = text(header::LOCATION) {
        assert!(location.starts_with("../"), "{uri} leads to {location}");
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or_default();
    if kind == "video/x-flv" && status == StatusCode::OK {
        return; // it has no end
    }
    let body = answer
        .into_body()
        .collect()
        .await
        .expect("a whole body")
        .to_bytes();
    if let Some(length) = text(header::CONTENT_LENGTH)
        && method != Method::HEAD
        && status != StatusCode::NOT_MODIFIED
    {
        assert_eq!(length, body.len().to_string(), "{method} {uri}: Content-Length");
    }
    if kind.starts_with("text/html") {
        let name = StreamKey::parse(uri.path()).map(|key| key.as_str().to_owned());
        let name = name.unwrap_or_default();
        let markup = name.contains(['<', '"', '\'']);
        let page = String::from_utf8_lossy(&body);
        assert!(
            !markup || !page.contains(&name),
            "{uri}: the name is markup in the page"
        );
    }
}

struct Site {
    runtime: Runtime,
    router: Router,
    _publisher: Publisher,
}

thread_local! {
    static SITE: Site = Site::open();
}

impl Site {
    fn open() -> Self {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (router, publisher) = runtime.block_on(async {
            let hub = Hub::new(HubOptions {
                play_wait: Duration::ZERO,
                hls: HlsOptions {
                    mode: HlsMode::Always,
                    segment_duration: Duration::from_secs(1),
                    first_wait: Duration::ZERO,
                    ..HlsOptions::default()
                },
                ..HubOptions::default()
            });
            let publisher = publish(&hub);
            let router = live_router(LiveState {
                hub,
                access: None,
                options: LiveOptions::default(),
            });
            wait_for_playlist(&router).await;
            (router, publisher)
        });
        Self {
            runtime,
            router,
            _publisher: publisher,
        }
    }
}

/// Ten seconds of H.264 and AAC with a key frame each second.
fn publish(hub: &Hub) -> Publisher {
    let info = SessionInfo::new(Protocol::Rtmp, ([127, 0, 0, 1], 1).into());
    let key = StreamKey::parse(STREAM).expect("a good name");
    let mut publisher = hub.publish(key, info).expect("an empty hub");
    let mut push = |kind, at_ms, body: &[&[u8]]| {
        let buf = [&[&[0; 11][..]], body].concat().concat();
        publisher.push(kind, at_ms, buf).expect("its own stream");
    };
    push(TagType::Video, 0, &[&[0x17, 0, 0, 0, 0], super::AVC_RECORD]);
    push(TagType::Audio, 0, &[&[0xAF, 0], super::AAC_RECORD]);
    for at_ms in (0..10_000).step_by(40) {
        let (first, nal) = if at_ms % 1000 == 0 {
            (0x17, 0x65)
        } else {
            (0x27, 0x41)
        };
        push(
            TagType::Video,
            at_ms,
            &[&[first, 1, 0, 0, 0], &[0, 0, 0, 101], &[nal], &[7; 100]],
        );
        push(TagType::Audio, at_ms, &[&[0xAF, 1], &[7; 50]]);
    }
    publisher
}

async fn wait_for_playlist(router: &Router) {
    for _ in 0..1000 {
        let request = Request::get(format!("/{STREAM}/media.m3u8")).body(Body::empty());
        let answer = router.clone().oneshot(request.expect("a good request")).await;
        if answer.expect("the routes always answer").status() == StatusCode::OK {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("no playlist of {STREAM}");
}
