use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use spillway_access::{Action, Grant, Reason, Refusal, Tickets};
use spillway_hub::Hub;
use tower::ServiceExt;

use super::LiveAccess;
use crate::access::{Gatekeeper, HlsSessions, Pass, Visit};
use crate::live::{LiveOptions, LiveState, live_router};
use crate::testing::{Source, hub};

/// Grants whoever says `token=good`, at a time that the test sets.
#[derive(Debug, Default)]
struct Porter {
    now: AtomicU64,
    asked: AtomicU64,
    good_until: AtomicU64,
}

impl Gatekeeper for Porter {
    fn decide<'a>(&'a self, visit: &'a Visit) -> BoxFuture<'a, Result<Pass, Refusal>> {
        assert_eq!(visit.action, Action::Play);
        self.asked.fetch_add(1, Ordering::Relaxed);
        let good =
            visit.params.get("token") == Some("good") && self.now() < self.good_until.load(Ordering::Relaxed);
        let granted = good.then(|| Pass {
            grant: Grant {
                lifetime: Some(Duration::from_secs(100)),
                ..Grant::default()
            },
            ..Pass::default()
        });
        let decision = granted.ok_or_else(|| Refusal::new(Reason::BadToken, "bring another token"));
        std::future::ready(decision).boxed()
    }

    fn lets_in(&self, _: IpAddr) -> bool {
        true
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
}

struct House {
    porter: Arc<Porter>,
    router: Router,
    _source: Source,
}

fn house(hub: &Hub) -> House {
    let porter = Arc::new(Porter {
        now: 1_000.into(),
        good_until: 10_000.into(),
        ..Porter::default()
    });
    let mut source = Source::start(hub, "live/cam");
    for _ in 0..4 {
        source.gop(60);
    }
    let sessions = HlsSessions {
        guests: None,
        tickets: Tickets::random().unwrap(),
        lifetime: Duration::from_secs(3600),
    };
    let router = live_router(LiveState {
        hub: hub.clone(),
        access: Some(LiveAccess {
            gate: porter.clone(),
            sessions: Arc::new(sessions),
        }),
        options: LiveOptions::default(),
    });
    House {
        porter,
        router,
        _source: source,
    }
}

impl House {
    async fn get(&self, path: &str) -> (u16, axum::http::HeaderMap, String) {
        self.send(Request::get(path)).await
    }

    async fn send(&self, request: axum::http::request::Builder) -> (u16, axum::http::HeaderMap, String) {
        let request = request.body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (
            parts.status.as_u16(),
            parts.headers,
            String::from_utf8_lossy(&body).into_owned(),
        )
    }

    fn asked(&self) -> u64 {
        self.porter.asked.load(Ordering::Relaxed)
    }

    fn set_now(&self, now: u64) {
        self.porter.now.store(now, Ordering::Relaxed);
    }
}

fn first_uri(playlist: &str) -> &str {
    playlist.lines().find(|line| !line.starts_with('#')).unwrap()
}

#[tokio::test]
async fn an_hls_session_is_decided_once_and_its_ticket_opens_what_follows() {
    let hub = hub();
    let house = house(&hub);
    let (status, headers, master) = house.get("/live/cam/index.m3u8?token=good&lang=de").await;
    assert_eq!(
        (status, &headers["cache-control"]),
        (200, &"private, no-store".parse().unwrap())
    );
    assert!(!headers.contains_key("etag"));
    let media = format!("/live/cam/{}", first_uri(&master));
    assert!(
        media.starts_with("/live/cam/media.m3u8?token=good&lang=de&session="),
        "{media}"
    );
    let mut segment = String::new();
    for _ in 0..3 {
        let (status, headers, playlist) = house.get(&media).await;
        assert_eq!(
            (status, &headers["cache-control"]),
            (200, &"private, no-store".parse().unwrap())
        );
        assert!(
            playlist
                .lines()
                .all(|line| line.starts_with('#') || line.contains(".ts?session="))
        );
        assert!(!playlist.contains("good"));
        segment = format!("/live/cam/{}", first_uri(&playlist));
        let (status, headers, _) = house.get(&segment).await;
        assert_eq!(status, 200);
        assert!(
            headers["cache-control"]
                .to_str()
                .unwrap()
                .starts_with("private, max-age=")
        );
    }
    assert_eq!(house.asked(), 1);
    let (status, headers, body) = house.get(segment.split('?').next().unwrap()).await;
    assert_eq!((status, body.as_str()), (401, "bring another token\n"));
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    assert_eq!(headers["www-authenticate"], "Bearer");
}

#[tokio::test]
async fn when_the_ticket_has_expired_the_token_is_asked_for_again() {
    let hub = hub();
    let house = house(&hub);
    let (_, _, master) = house.get("/live/cam.m3u8?token=good").await;
    let media = format!("/live/{}", first_uri(&master));
    let (_, _, playlist) = house.get(&media).await;
    let segment = format!("/live/cam/{}", first_uri(&playlist));
    house.set_now(1_100);
    assert_eq!(house.get(&media).await.0, 200);
    assert_eq!(house.asked(), 2);
    assert_eq!(house.get(&segment).await.0, 200, "listed before the end");
    house.set_now(1_160);
    assert_eq!(house.get(&segment).await.0, 401);
    house.porter.good_until.store(0, Ordering::Relaxed);
    let (status, _, body) = house.get(&media).await;
    assert_eq!((status, body.as_str()), (401, "bring another token\n"));
}

#[tokio::test]
async fn a_ticket_of_one_stream_opens_no_other() {
    let hub = hub();
    let house = house(&hub);
    let _other = Source::start(&hub, "live/other");
    let (_, _, playlist) = house.get("/live/cam/media.m3u8?token=good").await;
    let ticket = first_uri(&playlist).split_once('?').unwrap().1;
    assert_eq!(house.get(&format!("/live/cam/media.m3u8?{ticket}")).await.0, 200);
    assert_eq!(
        house.get(&format!("/live/other/media.m3u8?{ticket}")).await.0,
        401
    );
    let cut = &ticket[..ticket.len() - 1];
    assert_eq!(house.get(&format!("/live/cam/media.m3u8?{cut}")).await.0, 401);
}

#[tokio::test]
async fn flv_and_web_socket_are_refused_before_anything_is_sent() {
    let hub = hub();
    let house = house(&hub);
    let upgrade = || {
        Request::get("/live/cam.flv")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    for request in [
        Request::get("/live/cam.flv"),
        Request::head("/live/cam.flv?token=bad"),
        upgrade(),
    ] {
        let (status, headers, _) = house.send(request).await;
        assert_eq!(status, 401);
        assert_eq!(headers["access-control-allow-origin"], "*");
    }
    let head = |request: axum::http::request::Builder| house.send(request);
    assert_eq!(head(Request::head("/live/cam.flv?token=good")).await.0, 200);
    let bearer = Request::head("/live/cam.flv").header("authorization", "bearer good");
    assert_eq!(head(bearer).await.0, 200);
}

#[tokio::test]
async fn an_flv_session_ends_with_the_time_granted() {
    let hub = hub();
    let house = house(&hub);
    let request = Request::get("/live/cam.flv?token=good")
        .body(Body::empty())
        .unwrap();
    let response = house.router.clone().oneshot(request).await.unwrap();
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    tokio::time::pause();
    let all = async {
        while let Some(frame) = body.frame().await {
            assert!(frame.is_ok(), "the answer ends as one that is whole");
        }
    };
    tokio::time::timeout(Duration::from_secs(200), all).await.unwrap();
    let ended = hub
        .stats()
        .viewer_ends(spillway_hub::Protocol::Flv, spillway_hub::EndReason::Expired);
    assert_eq!(ended, 1);
}
