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
use spillway_hub::{EndReason, Format, Frame, Hub, Protocol, StreamKey, Viewer};

use super::drive::Drive;
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
            Ok(viewer) => Response::new(body(viewer, connection, parts.version)),
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

fn body(viewer: Viewer, connection: Connection, version: Version) -> Body {
    let tracks = viewer.tracks();
    let header = Bytes::copy_from_slice(&tag::file_header(tracks.has_audio, tracks.has_video));
    let player = match connection.transport() {
        Some(transport) => {
            let chunked = version >= Version::HTTP_11;
            let format = if chunked { Format::FlvChunked } else { Format::Flv };
            Player::Driven(Drive::new(
                viewer,
                transport.socket.clone(),
                format,
                transport.stall_timeout,
            ))
        }
        None => Player::Polled {
            viewer,
            batch: Vec::new(),
            next: 0,
        },
    };
    let feed = Feed {
        player: Some(player),
        connection,
        header: Some(header),
    };
    Body::from_stream(stream::unfold(feed, Feed::step))
}

/// How the tags get to the viewer.
enum Player {
    /// Past hyper, to the socket.
    Driven(Drive),
    /// Through hyper, where there is no socket at hand.
    Polled {
        viewer: Viewer,
        batch: Vec<Arc<Frame>>,
        next: usize,
    },
}

/// A viewer as a stream: the FLV header, then the tags as far as they go through hyper.
struct Feed {
    player: Option<Player>,
    connection: Connection,
    header: Option<Bytes>,
}

impl Feed {
    async fn step(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if let Some(header) = self.header.take() {
            return Some((Ok(header), self));
        }
        let result = match self.player.as_mut()? {
            Player::Driven(drive) => {
                if let Some(transport) = self.connection.transport() {
                    transport.flushed().await;
                }
                Err(drive.run().await)
            }
            Player::Polled { viewer, batch, next } => polled_tag(viewer, batch, next).await,
        };
        match result {
            Ok(tag) => Some((Ok(tag), self)),
            Err(reason) => {
                self.end(reason);
                None
            }
        }
    }

    fn end(&mut self, reason: EndReason) {
        match self.player.take() {
            Some(Player::Driven(drive)) => drive.end(reason),
            Some(Player::Polled { viewer, .. }) => viewer.end(reason),
            None => {}
        }
    }
}

async fn polled_tag(
    viewer: &mut Viewer,
    batch: &mut Vec<Arc<Frame>>,
    next: &mut usize,
) -> Result<Bytes, EndReason> {
    loop {
        if let Some(frame) = batch.get(*next) {
            *next += 1;
            viewer.sent(frame.tag().len() as u64);
            return Ok(frame.tag().clone());
        }
        *next = 0;
        viewer.next(batch).await?;
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
