use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use http_body_util::BodyExt;
use spillway_hub::{Hub, Protocol, SessionInfo};
use tower::ServiceExt;

use super::{
    AdminAccess, AdminState, CpuGroup, ProcessState, Readiness, SchedulerDelay, Throttling, admin_router,
};
use crate::testing::{Source, hub, key};

fn router(hub: &Hub, readiness: &Readiness, max_streams: usize) -> Router {
    admin_router(AdminState {
        hub: hub.clone(),
        admin: AdminAccess::default(),
        readiness: readiness.clone(),
        listeners: vec![("http", Arc::default()), ("admin", Arc::default())],
        access: Arc::default(),
        hooks: None,
        doors: vec![],
        max_streams,
        version: "1.2.3",
        process: ProcessState::default(),
    })
}

async fn ask(router: &Router, method: Method, path: &str) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    assert!(!response.headers().contains_key("access-control-allow-origin"));
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(router: &Router, path: &str) -> (u16, String) {
    ask(router, Method::GET, path).await
}

#[tokio::test]
async fn probes_follow_the_process() {
    let readiness = Readiness::default();
    let router = router(&hub(), &readiness, 10);
    assert_eq!(get(&router, "/livez").await.0, 200);
    assert_eq!(get(&router, "/readyz").await, (503, "starting\n".into()));
    readiness.ready();
    assert_eq!(get(&router, "/readyz").await, (200, "ready\n".into()));
    readiness.draining();
    readiness.ready();
    assert_eq!(get(&router, "/readyz").await, (503, "draining\n".into()));
    assert_eq!(get(&router, "/livez").await.0, 200);
}

#[tokio::test]
async fn only_reading_is_answered() {
    let router = router(&hub(), &Readiness::default(), 10);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        assert_eq!(ask(&router, method, "/api/v1/streams").await.0, 405);
    }
    assert_eq!(get(&router, "/nothing").await.0, 404);
    assert!(get(&router, "/").await.1.contains("href=\"metrics\""));
}

#[tokio::test]
async fn the_api_tells_of_streams() {
    let hub = hub();
    let router = router(&hub, &Readiness::default(), 10);
    let _source = Source::start(&hub, "live/caf%C3%A9");
    let (status, list) = get(&router, "/api/v1/streams").await;
    assert_eq!(status, 200);
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["streams"][0]["name"], "live/café");
    let (status, one) = get(&router, "/api/v1/streams/live/caf%C3%A9").await;
    assert_eq!(status, 200);
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!((&one["phase"], &one["epoch"]), (&"live".into(), &1.into()));
    assert_eq!(one["video"]["codec_string"], "avc1.42C00A");
    assert_eq!(one["audio"]["sample_rate"], 44_100);
    assert_eq!(one["publisher"]["protocol"], "rtmp");
    assert!(one["omitted"].is_array());
    for path in [
        "/api/v1/streams/live/other",
        "/api/v1/streams/",
        "/api/v1/streams/live/..%2f..",
    ] {
        assert_eq!(get(&router, path).await.0, 404, "{path}");
    }
}

#[tokio::test]
async fn metrics_name_their_units_and_explain_themselves() {
    let hub = hub();
    let router = router(&hub, &Readiness::default(), 10);
    let _source = Source::start(&hub, "live/cam");
    let info = SessionInfo::new(Protocol::Flv, ([127, 0, 0, 1], 1).into());
    let mut viewer = hub.attach(&key("live/cam"), info).await.unwrap();
    viewer.sent(1234);
    let (status, text) = get(&router, "/metrics").await;
    assert_eq!(status, 200);
    for line in [
        "spillway_build_info{version=\"1.2.3\"} 1",
        "spillway_streams{phase=\"live\"} 1",
        "spillway_viewers{protocol=\"flv\"} 1",
        "spillway_sent_bytes_total{protocol=\"flv\"} 1234",
        "spillway_stream_viewers{protocol=\"flv\",stream=\"live/cam\"} 1",
        "spillway_stream_sent_bytes_total{protocol=\"flv\",stream=\"live/cam\"} 1234",
        "spillway_stream_live{stream=\"live/cam\"} 1",
        "spillway_connections{listener=\"admin\"} 0",
        "spillway_publishes_total 1",
        "spillway_hls_window_bytes 0",
        "spillway_hls_segment_duration_seconds 2",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("spillway_ring_bytes "));
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        assert!(
            name.starts_with("spillway_") || name.starts_with("process_"),
            "{name}"
        );
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
    }
    viewer.end(spillway_hub::EndReason::Stalled);
    let (_, text) = get(&router, "/metrics").await;
    assert!(text.contains("spillway_viewer_sessions_ended_total{protocol=\"flv\",reason=\"stalled\"} 1"));
}

#[tokio::test]
async fn streams_beyond_the_cap_are_summed() {
    let hub = hub();
    let router = router(&hub, &Readiness::default(), 2);
    let _sources: Vec<_> = ["live/a", "live/b", "live/c", "live/d"]
        .iter()
        .map(|path| Source::start(&hub, path))
        .collect();
    let waiting = hub.clone();
    let waiter = tokio::spawn(async move {
        let info = SessionInfo::new(Protocol::Flv, ([127, 0, 0, 1], 1).into());
        waiting
            .attach(&key("live/0-asked-for-only"), info)
            .await
            .map(drop)
    });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let (_, text) = get(&router, "/metrics").await;
    waiter.await.unwrap().unwrap_err();
    let publishes: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("spillway_stream_publishes_total"))
        .collect();
    let expected = ["_other\"} 2", "live/a\"} 1", "live/b\"} 1"]
        .map(|rest| format!("spillway_stream_publishes_total{{stream=\"{rest}"));
    assert_eq!(publishes, expected);
    assert!(!text.contains("asked-for-only"));
    assert!(!text.contains("spillway_stream_live{stream=\"_other\"}"));
    assert!(text.contains("spillway_streams{phase=\"waiting\"} 1"));
}

fn a_throttled_group() -> CpuGroup {
    CpuGroup {
        quota_cores: Some(0.5),
        throttling: Some(Throttling {
            periods: 120,
            throttled_periods: 60,
            throttled_seconds: 2.5,
        }),
    }
}

#[tokio::test]
async fn metrics_tell_what_the_scheduler_does_to_the_process() {
    let scheduler_delay = SchedulerDelay::new();
    let router = |cpu_group| {
        admin_router(AdminState {
            hub: hub(),
            admin: AdminAccess::default(),
            readiness: Readiness::default(),
            listeners: vec![],
            access: Arc::default(),
            hooks: None,
            doors: vec![],
            max_streams: 1,
            version: "1.2.3",
            process: ProcessState {
                workers: 3,
                scheduler_delay: scheduler_delay.clone(),
                cpu_group,
                ..ProcessState::default()
            },
        })
    };
    scheduler_delay.observe(std::time::Duration::from_millis(30));
    let (_, text) = get(&router(a_throttled_group), "/metrics").await;
    for line in [
        "spillway_workers 3",
        "spillway_cgroup_cpu_quota_cores 0.5",
        "spillway_cgroup_cpu_periods_total 120",
        "spillway_cgroup_cpu_throttled_periods_total 60",
        "spillway_cgroup_cpu_throttled_seconds_total 2.5",
        "spillway_scheduler_delay_seconds_bucket{le=\"0.025\"} 0",
        "spillway_scheduler_delay_seconds_bucket{le=\"0.05\"} 1",
        "spillway_scheduler_delay_seconds_count 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
    let (_, text) = get(&router(CpuGroup::default), "/metrics").await;
    assert!(!text.contains("spillway_cgroup_"), "no quota, no series:\n{text}");
}
