//! The public listener: HTTP-FLV, WS-FLV, HLS and the players' page.

mod door;
mod drive;
mod flv;
mod hls;
mod hls_guests;
mod player;
mod route;
mod streams;
mod ws;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method};
use axum::middleware;
use axum::response::Response;
use spillway_hub::{AttachError, EndReason, Hub, Protocol, SessionInfo, StreamKey};

use crate::assets::{self, RtmpPorts};
use crate::http::{answer, cors};
use crate::serve::Connection;
pub use door::LiveAccess;
pub use hls_guests::HlsGuests;
use route::Target;
use streams::StreamList;

/// The text of a 503 for want of memory; the limit's name is for the operator's log.
const SHORT_OF_MEMORY: &str = "the server is short of memory and takes no new viewers; try again later\n";
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The options of the public routes.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// Whether `/streams.json` tells everyone which streams are live; without it the list page is empty and a
    /// stream is found by its address only.
    pub list_streams: bool,
    /// Whether the list and player pages and their scripts are served.
    pub player: bool,
    /// The RTMP port the pages name in their "copy link" lines; without it they name no RTMP address.
    pub rtmp_port: Option<u16>,
    /// The port of RTMP under TLS, which pages opened by HTTPS name in place of it.
    pub rtmps_port: Option<u16>,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            list_streams: true,
            player: true,
            rtmp_port: Some(1935),
            rtmps_port: None,
        }
    }
}

impl LiveOptions {
    fn rtmp_ports(&self) -> RtmpPorts {
        RtmpPorts {
            plain: self.rtmp_port,
            tls: self.rtmps_port,
        }
    }
}

/// What the public routes serve from.
#[derive(Debug, Clone)]
pub struct LiveState {
    /// The streams.
    pub hub: Hub,
    /// Who decides on viewers; without it everybody may play everything.
    pub access: Option<LiveAccess>,
    /// The options.
    pub options: LiveOptions,
}

#[derive(Debug)]
struct Live {
    hub: Hub,
    access: Option<LiveAccess>,
    options: LiveOptions,
    list: StreamList,
}

/// The routes of the public listener. Paths are matched here and not by axum, because a stream's name is
/// decoded exactly once and its application may have several segments.
pub fn live_router(state: LiveState) -> Router {
    let LiveState { hub, access, options } = state;
    let live = Live {
        hub,
        access,
        options,
        list: StreamList::default(),
    };
    Router::new()
        .fallback(handle)
        .layer(middleware::map_response(cors::on_every_answer))
        .with_state(Arc::new(live))
}

async fn handle(State(live): State<Arc<Live>>, request: Request) -> Response {
    match *request.method() {
        Method::GET | Method::HEAD => live.read(request).await,
        Method::OPTIONS => cors::preflight(request.headers()),
        _ => answer::method_not_allowed(ALLOW),
    }
}

impl Live {
    async fn read(&self, request: Request) -> Response {
        let uri = request.uri().clone();
        let target = Target::of(uri.path());
        match target {
            Target::List | Target::Asset(_) | Target::Page { .. } | Target::PageSlash { .. }
                if !self.options.player =>
            {
                answer::not_found()
            }
            Target::List => assets::list_page(request.headers(), self.options.rtmp_ports()),
            Target::Asset(name) => {
                let headers = request.into_parts().0.headers;
                assets::serve(name, &headers).await
            }
            Target::Streams if self.options.list_streams => self.list.answer(&self.hub),
            Target::Page { stream, depth } => self.page(stream, depth, request.headers()),
            Target::PageSlash { name } => {
                let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                answer::redirect(&format!("../{name}{query}"))
            }
            Target::Flv(stream) => flv::answer(&self.hub, self.access.as_ref(), stream, request).await,
            Target::Multivariant(_)
            | Target::MultivariantOuter(_)
            | Target::Media(_)
            | Target::Segment { .. } => {
                let (parts, _) = request.into_parts();
                hls::answer(&self.hub, self.access.as_ref(), target, &parts).await
            }
            Target::Streams | Target::Nothing => answer::not_found(),
        }
    }

    fn page(&self, stream: &str, depth: usize, headers: &HeaderMap) -> Response {
        match StreamKey::parse(stream) {
            Ok(key) if is_navigation(headers, key.name()) => {
                assets::player_page(headers, key.as_str(), depth, self.options.rtmp_ports())
            }
            _ => answer::not_found(),
        }
    }
}

/// Whether someone opens a page, and not a player some file that is not there: whoever says "anything" for a
/// name that looks like a file's means the file.
fn is_navigation(headers: &HeaderMap, name: &str) -> bool {
    let accepted = headers
        .get(ACCEPT)
        .map_or("*/*", |value| value.to_str().unwrap_or(""));
    accepted.contains("text/html") || (accepted.contains("*/*") && !name.contains('.'))
}

fn session(protocol: Protocol, connection: &Connection) -> SessionInfo {
    SessionInfo::new(protocol, connection.peer())
}

fn connection_of(extensions: &axum::http::Extensions) -> Connection {
    extensions.get::<Connection>().cloned().unwrap_or_default()
}

/// Counts a viewer that gets no stream; gives the reason it goes under.
fn refused(hub: &Hub, info: &SessionInfo, error: AttachError) -> EndReason {
    let reason = match error {
        AttachError::NotFound => EndReason::NotFound,
        _ => EndReason::Refused,
    };
    count_refusal(hub, info, reason, &error);
    reason
}

fn count_refusal(hub: &Hub, info: &SessionInfo, reason: EndReason, why: &dyn std::error::Error) {
    hub.stats().viewer_ended(info.protocol, reason);
    tracing::info!(
        session = %info.id, peer = %info.peer, protocol = info.protocol.label(), reason = %why,
        "viewer refused"
    );
}

/// The answer to a viewer that gets no stream.
fn refusal(error: AttachError) -> Response {
    match error {
        AttachError::NotFound => answer::not_found(),
        AttachError::ShuttingDown => answer::unavailable("the server is shutting down\n", 2),
        AttachError::ShortOfMemory => answer::unavailable(SHORT_OF_MEMORY, 5),
        _ => answer::unavailable("no room for another viewer; try again later\n", 5),
    }
}

#[cfg(test)]
mod tests;
