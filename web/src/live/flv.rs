//! HTTP-FLV: one endless answer of FLV tags, each the stream's own buffer.

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
use thiserror::Error;
use tokio::time::Instant;

use super::door::{self, LiveAccess};
use super::drive::{Drive, over};
use super::{connection_of, count_refusal, refusal, refused, session, ws};
use crate::access::{Lease, Pass};
use crate::http::answer;
use crate::serve::Connection;

/// Tells nginx and its like not to collect the answer before passing it on.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `/APP/NAME.flv`. The status is decided only once the stream is there or is not: a GET waits up to
/// `play.wait` for a publisher; HEAD tells what is there now and starts no viewer.
pub(super) async fn answer(
    hub: &Hub,
    access: Option<&LiveAccess>,
    stream: &str,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let for_ws = ws::handshake::is_asked(&parts);
    let protocol = if for_ws { Protocol::Ws } else { Protocol::Flv };
    let key = match StreamKey::parse(stream) {
        Ok(key) => key,
        Err(error) => {
            if parts.method == Method::GET {
                let info = session(protocol, &connection_of(&parts.extensions));
                count_refusal(hub, &info, EndReason::Refused, &error);
            }
            return answer::not_found();
        }
    };
    let visit = door::visit(protocol, &key, &parts);
    let info = visit.session;
    let pass = match LiveAccess::decide(access, hub, &visit).await {
        Ok(pass) => pass,
        Err(refusal) => {
            if parts.method == Method::GET {
                hub.stats().viewer_ended(protocol, EndReason::Refused);
            }
            return answer::denied(&refusal);
        }
    };
    if for_ws {
        return ws::start(hub, visit, pass, parts);
    }
    let response = if parts.method == Method::HEAD {
        let playable = hub
            .stream(&key)
            .is_some_and(|stream| stream.phase().is_open() && stream.is_ready());
        if !playable {
            return answer::not_found();
        }
        Response::new(Body::from_stream(stream::empty::<Result<Bytes, Unfinished>>()))
    } else {
        let connection = connection_of(&parts.extensions);
        match hub.attach(&key, info).await {
            Ok(viewer) => Response::new(body(viewer, pass, connection, parts.version)),
            Err(error) => {
                pass.end(refused(hub, &info, error));
                return refusal(error);
            }
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

fn body(viewer: Viewer, pass: Pass, connection: Connection, version: Version) -> Body {
    let tracks = viewer.tracks();
    let header = Bytes::copy_from_slice(&tag::file_header(tracks.has_audio, tracks.has_video));
    let way = match connection.transport() {
        Some(transport) => {
            let chunked = version >= Version::HTTP_11;
            let format = if chunked { Format::FlvChunked } else { Format::Flv };
            Way::Driven(Drive::new(
                viewer,
                transport.socket.clone(),
                format,
                transport.stall_timeout,
            ))
        }
        None => Way::Polled {
            viewer,
            batch: Vec::new(),
            next: 0,
        },
    };
    let feed = Feed {
        way: Some(way),
        ends: pass.grant.lifetime.map(|lifetime| Instant::now() + lifetime),
        lease: pass.lease,
        connection,
        header: Some(header),
    };
    Body::from_stream(stream::unfold(feed, Feed::step))
}

/// The viewer is gone before its stream was over: hyper must drop the connection, because a proper end of the
/// answer would be a lie and, past a half-written chunk, be taken for media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the answer stays unfinished: {}", .0.label())]
struct Unfinished(EndReason);

/// How the tags get to the viewer.
enum Way {
    /// Past hyper, to the socket.
    Driven(Drive),
    /// Through hyper, where there is no socket at hand.
    Polled {
        viewer: Viewer,
        batch: Vec<Arc<Frame>>,
        next: usize,
    },
}

impl Way {
    /// Whether the answer may end properly here: the stream is over and no tag is half written.
    fn is_finished(&self, reason: EndReason) -> bool {
        let whole = match self {
            Self::Driven(drive) => drive.at_tag_start(),
            Self::Polled { .. } => true,
        };
        whole
            && matches!(
                reason,
                EndReason::StreamEnded | EndReason::Shutdown | EndReason::Expired
            )
    }
}

/// A viewer as a stream: the FLV header, then the tags as far as they go through hyper.
struct Feed {
    way: Option<Way>,
    connection: Connection,
    header: Option<Bytes>,
    /// When the time granted is over.
    ends: Option<Instant>,
    lease: Option<Box<dyn Lease>>,
}

impl Feed {
    async fn step(mut self) -> Option<(Result<Bytes, Unfinished>, Self)> {
        if let Some(header) = self.header.take() {
            return Some((Ok(header), self));
        }
        let way = self.way.as_mut()?;
        let result = match way {
            Way::Driven(drive) => {
                if let Some(transport) = self.connection.transport() {
                    transport.flushed().await;
                }
                Err(drive.run_until(self.ends).await)
            }
            Way::Polled { viewer, batch, next } => tokio::select! {
                tag = polled_tag(viewer, batch, next) => tag,
                () = over(self.ends) => Err(EndReason::Expired),
            },
        };
        let reason = match result {
            Ok(tag) => return Some((Ok(tag), self)),
            Err(reason) => reason,
        };
        let finished = way.is_finished(reason);
        self.end(reason);
        (!finished).then_some((Err(Unfinished(reason)), self))
    }

    fn end(&mut self, reason: EndReason) {
        if let Some(lease) = self.lease.take() {
            lease.ends(reason);
        }
        if reason == EndReason::Stalled {
            self.connection.note_stalled();
        }
        match self.way.take() {
            Some(Way::Driven(drive)) => drive.end(reason),
            Some(Way::Polled { viewer, .. }) => viewer.end(reason),
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
            EndReason::of_drop()
        });
    }
}

#[cfg(test)]
mod tests;
