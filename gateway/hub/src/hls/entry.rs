//! One stream's place in the store.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use spillway_hls::{Packager, PackagerOptions, Window, WindowOptions};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::view::{Renderer, View};
use crate::key::StreamKey;
use crate::options::HlsOptions;
use crate::stream::Stream;

/// One segment may take this part of a stream's bytes: an encoder gone wild still leaves a window of several.
const SEGMENT_SHARE: u64 = 4;

/// The packager and its window: owned by the task while it runs, by the entry otherwise.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) packager: Packager,
    pub(super) window: Window,
    pub(super) renderer: Renderer,
    /// The stream last read, and the newest frame taken from it.
    pub(super) read: Option<(Weak<Stream>, u64)>,
}

/// Who has the output.
#[derive(Debug)]
pub(super) enum Holder {
    /// Nobody: the packager rests.
    Resting(Box<Output>),
    /// The task.
    Running,
}

/// One stream's output, from its first request (or start) until it is forgotten.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: StreamKey,
    /// Begins the names of this entry's segments and its ETags.
    pub(super) prefix: String,
    pub(super) holder: Mutex<Holder>,
    /// What requests are answered from; `None` until there is something to play.
    pub(super) view: ArcSwapOption<View>,
    /// The view is from before a rest: playlists wait for a newer one.
    pub(super) stale: AtomicBool,
    /// Is told of each new view.
    pub(super) changed: watch::Sender<u64>,
    /// Asks the packager to list what it has.
    pub(super) hurry: Notify,
    /// Bytes of the window and the open segment.
    pub(super) bytes: AtomicU64,
    /// Numbers above all that playlists have shown.
    pub(super) next: Mutex<Numbers>,
    last_request: Mutex<Instant>,
    ended_at: Mutex<Option<Instant>>,
}

/// The first numbers of a window, or numbers that are above all it has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    /// The media sequence number.
    pub(super) msn: u64,
    /// The discontinuity sequence number.
    pub(super) dsn: u64,
}

impl Numbers {
    /// Numbers made of the wall clock, so that they rise over restarts of the process. Media sequence: Unix
    /// seconds. Discontinuity sequence: minutes since 2026, which is small: hls.js 1.7 loops for ever over a
    /// number of ten digits.
    pub(super) fn at(unix_ms: u64) -> Self {
        const SECONDS_TO_2026: u64 = 1_767_225_600;
        let msn = unix_ms / 1000;
        Self {
            msn,
            dsn: msn.saturating_sub(SECONDS_TO_2026) / 60,
        }
    }

    /// The higher of each.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            msn: self.msn.max(other.msn),
            dsn: self.dsn.max(other.dsn),
        }
    }
}

impl Entry {
    /// A place whose sequence numbers start at `first`.
    pub(super) fn new(key: StreamKey, prefix: String, first: Numbers, options: &HlsOptions) -> Self {
        let target_ms = millis(options.segment_duration);
        let max_bytes = options.max_bytes as u64;
        let packager = Packager::new(PackagerOptions {
            target_ms,
            max_segment_ms: millis(options.max_segment_duration).max(target_ms),
            max_segment_bytes: max_bytes / SEGMENT_SHARE,
        });
        let window = Window::new(WindowOptions {
            listed: options.window,
            retained: options.window,
            max_bytes,
            first_msn: first.msn,
            first_dsn: first.dsn,
            name_prefix: prefix.clone(),
            target_ms,
        });
        let output = Output {
            packager,
            window,
            renderer: Renderer::default(),
            read: None,
        };
        Self {
            key,
            prefix,
            holder: Mutex::new(Holder::Resting(Box::new(output))),
            view: ArcSwapOption::empty(),
            stale: AtomicBool::new(false),
            changed: watch::Sender::new(0),
            hurry: Notify::new(),
            bytes: AtomicU64::new(0),
            next: Mutex::new(first),
            last_request: Mutex::new(Instant::now()),
            ended_at: Mutex::new(None),
        }
    }

    /// Notes that somebody watches.
    pub(super) fn touch(&self) {
        *self.last_request.lock() = Instant::now();
    }

    /// When somebody last asked for anything.
    pub(super) fn last_request(&self) -> Instant {
        *self.last_request.lock()
    }

    /// The view that a playlist request may be answered from now.
    pub(super) fn current(&self) -> Option<Arc<View>> {
        if self.stale.load(Ordering::Acquire) {
            None
        } else {
            self.view.load_full()
        }
    }

    /// Takes the output for a task, unless one runs.
    pub(super) fn take(&self) -> Option<Box<Output>> {
        match std::mem::replace(&mut *self.holder.lock(), Holder::Running) {
            Holder::Resting(output) => Some(output),
            Holder::Running => None,
        }
    }

    /// Puts the output back.
    pub(super) fn rest(&self, output: Box<Output>) {
        *self.holder.lock() = Holder::Resting(output);
    }

    /// Whether no task runs.
    pub(super) fn is_resting(&self) -> bool {
        matches!(*self.holder.lock(), Holder::Resting(_))
    }

    /// Renders the window and wakes who waits for it.
    pub(super) fn publish(&self, output: &mut Output) {
        self.bytes.store(
            output.window.bytes() + output.packager.open_bytes(),
            Ordering::Relaxed,
        );
        *self.next.lock() = Numbers {
            msn: output.window.next_msn(),
            dsn: output.window.next_dsn(),
        };
        let Some(target_s) = output.window.target_duration_s(output.packager.predicted_ms()) else {
            return;
        };
        output.packager.limit_to(target_s);
        let Some(snapshot) = output.window.snapshot() else {
            return;
        };
        let view = output.renderer.render(snapshot, self.key.as_str(), &self.prefix);
        self.view.store(Some(Arc::new(view)));
        self.freshen();
    }

    /// What there is may be served.
    pub(super) fn freshen(&self) {
        self.stale.store(false, Ordering::Release);
        self.changed.send_modify(|version| *version += 1);
    }

    /// The stream is over: the playlist says so.
    pub(super) fn end(&self, output: &mut Output) {
        output.window.end();
        self.publish(output);
        *self.ended_at.lock() = Some(Instant::now());
        self.freshen();
    }

    /// The stream of a resting packager is over. One that runs sees that itself, and what has ended stays as it is.
    pub(super) fn end_resting(&self) {
        if let Holder::Resting(output) = &mut *self.holder.lock()
            && self.ended_at().is_none()
        {
            self.end(output);
        }
    }

    /// The stream came back.
    pub(super) fn revive(&self) {
        *self.ended_at.lock() = None;
    }

    /// Numbers above all that playlists have shown.
    pub(super) fn next_numbers(&self) -> Numbers {
        *self.next.lock()
    }

    /// When the stream ended, if it did.
    pub(super) fn ended_at(&self) -> Option<Instant> {
        *self.ended_at.lock()
    }
}

/// Milliseconds as the packager counts them.
pub(super) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
