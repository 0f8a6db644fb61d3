//! HTTP-FLV: one endless answer of FLV tags, each the stream's own buffer.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Method, Version};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use spillway_flv::tag;
use spillway_hub::{EndReason, Frame, Hub, Protocol, StreamKey, Viewer};

use super::{connection_of, refusal, session, ws};
use crate::http::answer;
use crate::serve::Connection;

/// Tells nginx and its like not to collect the answer before passing it on.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `/APP/NAME.flv`. The status is decided only once the stream is there or is not: a GET waits up to
/// `play.wait` for a publisher; HEAD tells what is there now and starts no viewer.
pub(super) async fn answer(hub: &Hub, key: StreamKey, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if ws::handshake::is_asked(&parts) {
        return ws::start(hub, key, parts);
    }
    let response = if parts.method == Method::HEAD {
        let playable = hub
            .stream(&key)
            .is_some_and(|stream| stream.phase().is_open() && stream.is_ready());
        if !playable {
            return answer::not_found();
        }
        Response::new(Body::from_stream(stream::empty::<Result<Bytes, Infallible>>()))
    } else {
        let connection = connection_of(&parts.extensions);
        match hub.attach(&key, session(Protocol::Flv, &connection)).await {
            Ok(viewer) => Response::new(body(viewer, connection)),
            Err(error) => return refusal(error),
        }
    };
    with_headers(response, parts.version)
}

fn with_headers(mut response: Response, version: Version) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("video/x-flv"));
    headers.insert(CACHE_CONTROL, answer::NO_STORE);
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    if version < Version::HTTP_11 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn body(viewer: Viewer, connection: Connection) -> Body {
    let tracks = viewer.tracks();
    let header = Bytes::copy_from_slice(&tag::file_header(tracks.has_audio, tracks.has_video));
    let feed = Feed {
        viewer: Some(viewer),
        connection,
        header: Some(header),
        batch: Vec::new(),
        next: 0,
    };
    Body::from_stream(stream::unfold(feed, Feed::step))
}

/// A viewer as a stream of tags.
struct Feed {
    viewer: Option<Viewer>,
    connection: Connection,
    header: Option<Bytes>,
    batch: Vec<Arc<Frame>>,
    next: usize,
}

impl Feed {
    async fn step(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let bytes = match self.header.take() {
            Some(header) => header,
            None => self.tag().await?,
        };
        if let Some(viewer) = &mut self.viewer {
            viewer.sent(bytes.len() as u64);
        }
        Some((Ok(bytes), self))
    }

    async fn tag(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.batch.get(self.next) {
                self.next += 1;
                return Some(frame.tag().clone());
            }
            self.next = 0;
            if let Err(reason) = self.viewer.as_mut()?.next(&mut self.batch).await {
                self.end(reason);
                return None;
            }
        }
    }

    fn end(&mut self, reason: EndReason) {
        if let Some(viewer) = self.viewer.take() {
            viewer.end(reason);
        }
    }
}

impl Drop for Feed {
    /// The body of an answer is dropped half-way when its connection has failed.
    fn drop(&mut self) {
        self.end(if self.connection.stalled() {
            EndReason::Stalled
        } else {
            EndReason::Client
        });
    }
}
