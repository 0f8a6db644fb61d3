//! One face for the viewers that receive tags, and a watcher that reads one in the background and keeps book.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::flv::{self, Tag};
use crate::gateway::Gateway;
use crate::{rtmp, ws};

/// A viewer of one of the three tag protocols.
pub enum Viewer {
    /// RTMP play.
    Rtmp(Box<rtmp::Viewer>),
    /// HTTP-FLV.
    Flv(Box<flv::Viewer>),
    /// WebSocket-FLV.
    Ws(Box<ws::Viewer>),
}

impl Viewer {
    /// One of each protocol on the same stream.
    pub async fn all(gateway: &Gateway, key: &str) -> Vec<(&'static str, Self)> {
        let (rtmp, flv, ws) = tokio::join!(
            rtmp::Viewer::open(gateway.rtmp, key),
            flv::Viewer::open(gateway.http, key),
            async { ws::Viewer::open(&gateway.ws_url(&format!("{key}.flv"))).await },
        );
        vec![
            ("RTMP", Self::Rtmp(Box::new(rtmp))),
            ("HTTP-FLV", Self::Flv(Box::new(flv))),
            ("WS-FLV", Self::Ws(Box::new(ws))),
        ]
    }

    /// The next tag; `None` when the stream ended.
    pub async fn next_tag(&mut self) -> Option<Tag> {
        match self {
            Self::Rtmp(viewer) => viewer.next_tag().await,
            Self::Flv(viewer) => viewer.next_tag().await,
            Self::Ws(viewer) => viewer.next_tag().await,
        }
    }

    /// Whether the stream ended in the way of the protocol, and was not just cut.
    #[must_use]
    pub fn ended_properly(&self) -> bool {
        match self {
            Self::Rtmp(viewer) => viewer.ended_with().is_some(),
            Self::Flv(viewer) => viewer.ended_cleanly(),
            Self::Ws(viewer) => viewer.closed_with().is_some(),
        }
    }
}

/// What a watcher has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Audio and video tags that are no sequence headers.
    pub media: u64,
    /// Key frames.
    pub keys: u64,
    /// Sequence headers of video, each body once in the order they came.
    pub video_headers: Vec<Vec<u8>>,
    /// Time of the newest media.
    pub newest_ms: u32,
    /// Places where a track's time did not rise.
    pub backwards: Vec<String>,
    /// Pauses of more than a second in the time of the video.
    pub gaps: Vec<String>,
    /// Set when the stream ended: whether properly.
    pub ended: Option<bool>,
}

impl Seen {
    fn note(&mut self, tag: &Tag, last: &mut [Option<u32>; 2]) {
        if tag.kind == 18 {
            return;
        }
        if tag.is_header() {
            let body = tag.body.to_vec();
            if tag.kind == 9 && self.video_headers.last() != Some(&body) {
                self.video_headers.push(body);
            }
            return;
        }
        self.media += 1;
        self.keys += u64::from(tag.is_key());
        self.newest_ms = tag.timestamp_ms;
        let track = usize::from(tag.kind == 9);
        if let Some(before) = last[track] {
            if tag.timestamp_ms <= before {
                self.backwards
                    .push(format!("type {}: {} after {before}", tag.kind, tag.timestamp_ms));
            } else if tag.kind == 9 && tag.timestamp_ms - before > 1000 {
                self.gaps.push(format!("{before} to {}", tag.timestamp_ms));
            }
        }
        last[track] = Some(tag.timestamp_ms);
    }
}

/// Reads a viewer in the background.
pub struct Watcher {
    name: &'static str,
    seen: watch::Receiver<Arc<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    /// Starts reading.
    #[must_use]
    pub fn start(name: &'static str, mut viewer: Viewer) -> Self {
        let (sender, seen) = watch::channel(Arc::new(Seen::default()));
        let task = tokio::spawn(async move {
            let mut last = [None; 2];
            while let Some(tag) = viewer.next_tag().await {
                sender.send_modify(|seen| Arc::make_mut(seen).note(&tag, &mut last));
            }
            let properly = viewer.ended_properly();
            sender.send_modify(|seen| Arc::make_mut(seen).ended = Some(properly));
        });
        Self { name, seen, task }
    }

    /// Watchers of all three protocols.
    pub async fn all(gateway: &Gateway, key: &str) -> Vec<Self> {
        Viewer::all(gateway, key)
            .await
            .into_iter()
            .map(|(name, viewer)| Self::start(name, viewer))
            .collect()
    }

    /// The protocol watched.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it has seen so far.
    #[must_use]
    pub fn seen(&self) -> Arc<Seen> {
        Arc::clone(&self.seen.borrow())
    }

    /// Waits until `wanted` is true of what it has seen.
    ///
    /// # Panics
    /// When it is not within `limit`.
    pub async fn wait(&self, limit: Duration, what: &str, wanted: impl Fn(&Seen) -> bool) -> Arc<Seen> {
        let mut seen = self.seen.clone();
        let result = tokio::time::timeout(limit, seen.wait_for(|seen| wanted(seen))).await;
        match result {
            Ok(Ok(seen)) => Arc::clone(&seen),
            Ok(Err(_)) => panic!(
                "{}: the reader died before: {what}; seen {:?}",
                self.name,
                self.seen()
            ),
            Err(_) => panic!(
                "{}: waited {limit:?} in vain for: {what}; seen {:?}",
                self.name,
                self.seen()
            ),
        }
    }

    /// Waits for `count` more media tags.
    pub async fn wait_more(&self, limit: Duration, count: u64) -> Arc<Seen> {
        let wanted = self.seen().media + count;
        self.wait(limit, &format!("{count} more tags"), |seen| {
            seen.media >= wanted || seen.ended.is_some()
        })
        .await
    }
}
