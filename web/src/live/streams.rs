//! `/streams.json`: what the list page shows, rendered at most once a second for everyone.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use spillway_hub::{Hub, Phase, StreamSnapshot, TrackSnapshot};

use crate::http::answer;

/// How old the list may be: viewers that poll cost one rendering a second, however many they are.
const MAX_AGE: Duration = Duration::from_secs(1);
/// The streams listed; a page with more is of no use to anyone.
const MAX_LISTED: usize = 500;

/// The list of streams, with its last rendering.
#[derive(Debug, Default)]
pub(super) struct StreamList {
    rendered: Mutex<Option<(Instant, Bytes)>>,
}

#[derive(Serialize)]
struct Listing {
    /// How many there are; more than are listed when there are too many.
    total: usize,
    streams: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    live: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    video: Option<Track>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<Track>,
    bitrate_bps: u64,
    viewers: u64,
    since_s: u64,
}

#[derive(Serialize)]
struct Track {
    codec: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
}

impl StreamList {
    pub(super) fn answer(&self, hub: &Hub) -> Response {
        let mut response = Response::new(Body::from(self.body(hub)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, answer::NO_CACHE);
        response
    }

    fn body(&self, hub: &Hub) -> Bytes {
        let mut rendered = self.rendered.lock();
        if let Some((at, body)) = &*rendered
            && at.elapsed() < MAX_AGE
        {
            return body.clone();
        }
        let body = render(hub);
        *rendered = Some((Instant::now(), body.clone()));
        body
    }
}

fn render(hub: &Hub) -> Bytes {
    let mut streams = hub.streams();
    streams.retain(|stream| matches!(stream.phase(), Phase::Live | Phase::Away));
    let total = streams.len();
    let streams = streams
        .iter()
        .take(MAX_LISTED)
        .map(|stream| Entry::of(stream.snapshot()))
        .collect();
    serde_json::to_vec(&Listing { total, streams })
        .unwrap_or_default()
        .into()
}

impl Entry {
    fn of(snapshot: StreamSnapshot) -> Self {
        Self {
            live: snapshot.phase == Phase::Live,
            video: snapshot.video.as_ref().map(Track::of),
            audio: snapshot.audio.as_ref().map(Track::of),
            bitrate_bps: snapshot.bitrate_in_bps,
            viewers: snapshot.viewers.iter().sum(),
            since_s: snapshot.phase_age.as_secs(),
            name: snapshot.key,
        }
    }
}

impl Track {
    fn of(track: &TrackSnapshot) -> Self {
        let size = track.geometry;
        Self {
            codec: track.codec,
            width: size.map(|g| g.width),
            height: size.map(|g| g.height),
        }
    }
}
