//! The admin listener: metrics, probes and a read-only API. It answers GET and HEAD only and sends no CORS
//! headers, so that a page of another site can neither change nor read anything.

mod api;
mod doors;
mod families;
mod guard;
mod metrics;
mod probes;
mod process;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use spillway_hooks::HookMetrics;
use spillway_hub::{Hub, StreamKey};
use spillway_net::Door;

use crate::access::AccessCounters;
use crate::http::answer;
use crate::serve::ServeCounters;
pub use guard::AdminAccess;
use guard::Guard;
use metrics::Metrics;
pub use probes::Readiness;
pub use process::{CpuGroup, ProcessState, SchedulerDelay, Throttling};

const ALLOW: &str = "GET, HEAD";
const INDEX: &str = include_str!("../../page/admin.html");
const STREAM_PREFIX: &str = "/api/v1/streams/";

/// What the admin routes serve from.
#[derive(Debug, Clone)]
pub struct AdminState {
    /// The streams.
    pub hub: Hub,
    /// Who may use it.
    pub admin: AdminAccess,
    /// What `/readyz` says.
    pub readiness: Readiness,
    /// The HTTP listeners whose counters `/metrics` shows, by the name in their `listener` label.
    pub listeners: Vec<(&'static str, Arc<ServeCounters>)>,
    /// What came of requests to publish and to play.
    pub access: Arc<AccessCounters>,
    /// What is counted of the hook, if there is one.
    pub hooks: Option<HookMetrics>,
    /// What stands before the listeners, RTMP's too: their counters and certificates are shown.
    pub doors: Vec<Door>,
    /// The streams that get series of their own in `/metrics`; the others are summed as `_other`.
    pub max_streams: usize,
    /// The version that `spillway_build_info` shows.
    pub version: &'static str,
    /// What is shown of the process.
    pub process: ProcessState,
}

#[derive(Debug)]
struct Admin {
    hub: Hub,
    guard: Arc<Guard>,
    readiness: Readiness,
    metrics: Metrics,
}

/// The routes of the admin listener.
pub fn admin_router(state: AdminState) -> Router {
    let guard = Arc::new(Guard::new(state.admin.clone()));
    let admin = Admin {
        hub: state.hub.clone(),
        guard: guard.clone(),
        readiness: state.readiness.clone(),
        metrics: Metrics::new(state, guard),
    };
    Router::new().fallback(handle).with_state(Arc::new(admin))
}

async fn handle(State(admin): State<Arc<Admin>>, request: Request) -> Response {
    let mut response = match (admin.guard.check(&request), request.method()) {
        (Err(refused), _) => refused.answer(),
        (Ok(()), &Method::GET | &Method::HEAD) => admin.read(request.uri().path()),
        _ => answer::method_not_allowed(ALLOW),
    };
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

impl Admin {
    fn read(&self, path: &str) -> Response {
        match path {
            "/" => index(),
            "/metrics" => match self.metrics.render() {
                Ok(text) => typed("text/plain; version=0.0.4; charset=utf-8", text),
                Err(error) => {
                    tracing::error!(%error, "metrics could not be rendered");
                    answer::error(
                        StatusCode::INTERNAL_SERVER_ERROR,
                        "metrics could not be rendered\n",
                    )
                }
            },
            "/livez" => typed("text/plain; charset=utf-8", "alive\n".to_owned()),
            "/readyz" => self.readiness.answer(),
            "/api/v1/streams" => typed("application/json", api::streams(&self.hub)),
            _ => self.stream(path),
        }
    }

    fn stream(&self, path: &str) -> Response {
        let key = path
            .strip_prefix(STREAM_PREFIX)
            .and_then(|path| StreamKey::parse(path).ok());
        match key.and_then(|key| self.hub.stream(&key)) {
            Some(stream) => typed("application/json", api::stream(&stream)),
            None => answer::not_found(),
        }
    }
}

fn typed(content_type: &'static str, text: String) -> Response {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, answer::NO_STORE);
    response
}

fn index() -> Response {
    let mut response = typed("text/html; charset=utf-8", INDEX.to_owned());
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    response
        .headers_mut()
        .insert(HeaderName::from_static("content-security-policy"), policy);
    response
}

#[cfg(test)]
mod tests;
