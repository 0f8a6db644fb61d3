//! What HTTP/2 needs beside hyper: an end for connections nobody uses, and for answers nobody takes.
//!
//! HTTP/1 connections are bounded by the header deadline and by [`StallGuard`](super::StallGuard). An HTTP/2
//! connection may be silent for ever, and a stream's own flow control may stand still while the socket does not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::connection::Connection;

/// Requests of one connection at a time. A browser's page needs a few; each may be a viewer, so this times
/// `limits.max_connections` is the most there may be.
const MAX_STREAMS: u32 = 32;
/// Bytes of request bodies taken before anyone reads them, for one request and for a connection. Nobody here reads any;
/// this is the least that the protocol begins with (RFC 9113 §6.9.2).
const RECEIVE_WINDOW: u32 = 65_535;
/// Bytes of one answer that wait in the connection: one media batch. Media is shared, so they are mostly no copies.
const MAX_SEND_BYTES: usize = 256 * 1024;
/// An answer's data is handed on in pieces of at most this much, each of which must be taken within the stall
/// time-out.
const PIECE_BYTES: usize = 64 * 1024;
/// The watch looks so many times in the shorter of its time-outs.
const LOOKS: u32 = 4;

pub(super) fn builder(connection: &Connection, max_header_bytes: usize) -> http2::Builder<Tasks> {
    let mut http = http2::Builder::new(Tasks(connection.clone()));
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(RECEIVE_WINDOW)
        .initial_connection_window_size(RECEIVE_WINDOW)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_SEND_BYTES);
    http
}

/// Runs a connection's streams as tasks of its own: a panic ends one of them, the drain waits for all.
#[derive(Clone)]
pub(super) struct Tasks(Connection);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

/// What goes on in one connection.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    answers: Vec<Arc<Taken>>,
    /// Since when nothing has been asked or answered.
    idle_since: Option<Instant>,
}

/// When an answer's last piece was handed on, in milliseconds from the connection's start and plus one; 0 while the
/// answer itself has nothing to hand on.
#[derive(Debug, Default)]
struct Taken(AtomicU64);

/// Why a connection is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unused {
    /// Nothing has been asked for the header time-out.
    Idle,
    /// An answer was not taken for the stall time-out.
    Stalled,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            start: now,
            state: Mutex::new(State {
                answers: Vec::new(),
                idle_since: Some(now),
            }),
        })
    }

    /// Notes a request; what it is answered with must go through [`Asked::answer`].
    pub(super) fn asked(self: &Arc<Self>) -> Asked {
        let taken = Arc::<Taken>::default();
        let mut state = self.state.lock();
        state.answers.push(taken.clone());
        state.idle_since = None;
        Asked {
            activity: self.clone(),
            taken,
        }
    }

    /// Waits until the connection is of no more use.
    pub(super) async fn watch(&self, idle: Duration, stall: Duration) -> Unused {
        let pause = (idle.min(stall) / LOOKS).max(Duration::from_millis(10));
        loop {
            tokio::time::sleep(pause).await;
            if let Some(unused) = self.look(Instant::now(), idle, stall) {
                return unused;
            }
        }
    }

    fn look(&self, now: Instant, idle: Duration, stall: Duration) -> Option<Unused> {
        let state = self.state.lock();
        if state.idle_since.is_some_and(|since| now - since >= idle) {
            return Some(Unused::Idle);
        }
        let now_ms = self.millis(now);
        let stall_ms = u64::try_from(stall.as_millis()).unwrap_or(u64::MAX);
        let is_stalled = |taken: &Arc<Taken>| match taken.0.load(Ordering::Relaxed) {
            0 => false,
            at => now_ms.saturating_sub(at) >= stall_ms,
        };
        state.answers.iter().any(is_stalled).then_some(Unused::Stalled)
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from((now - self.start).as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
    }
}

/// One request under way.
#[derive(Debug)]
pub(super) struct Asked {
    activity: Arc<Activity>,
    taken: Arc<Taken>,
}

impl Asked {
    /// The answer's body, watched.
    pub(super) fn answer(self, body: Body) -> Body {
        Body::new(Watched {
            asked: self,
            body,
            rest: Bytes::new(),
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.answers.retain(|other| !Arc::ptr_eq(other, &self.taken));
        if state.answers.is_empty() {
            state.idle_since = Some(Instant::now());
        }
    }
}

/// A body in pieces that notes when one was handed on.
struct Watched {
    asked: Asked,
    body: Body,
    rest: Bytes,
}

impl Watched {
    fn note(&self, waits_for_peer: bool) {
        let at = if waits_for_peer {
            self.asked.activity.millis(Instant::now())
        } else {
            0
        };
        self.asked.taken.0.store(at, Ordering::Relaxed);
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => {
                    self.note(false);
                    return other;
                }
            }
        }
        self.note(true);
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let inner = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const IDLE: Duration = Duration::from_secs(10);
    const STALL: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_after_the_header_time_out() {
        let activity = Activity::new();
        assert_eq!(activity.watch(IDLE, STALL).await, Unused::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_waits_for_media_is_neither_idle_nor_stalled() {
        let activity = Activity::new();
        let pending = futures_util::stream::pending::<Result<Bytes, axum::Error>>();
        let mut body = activity.asked().answer(Body::from_stream(pending));
        tokio::select! {
            unused = activity.watch(IDLE, STALL) => panic!("{unused:?}"),
            frame = body.frame() => panic!("{frame:?}"),
            () = tokio::time::sleep(10 * STALL) => {}
        }
        drop(body);
        assert_eq!(activity.watch(IDLE, STALL).await, Unused::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_nobody_takes_stalls() {
        let activity = Activity::new();
        let mut body = activity.asked().answer(Body::from(vec![7; PIECE_BYTES + 1]));
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), PIECE_BYTES);
        assert_eq!(activity.watch(IDLE, STALL).await, Unused::Stalled);
        let rest = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(rest.len(), 1);
        assert!(body.frame().await.is_none());
    }
}
