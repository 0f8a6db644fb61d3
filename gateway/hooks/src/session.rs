//! [`Session`]: what the endpoint knows of, or may know of, until its end is delivered.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::event::{Ending, Event, EventKind, Guest, Numbers};
use crate::hooks::Shared;
use crate::metrics::Held;
use crate::order::Turn;
use crate::outgoing::{Outgoing, Place};

/// A session: its place among all, its id, and whom it is of.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) guest: Guest,
    id: String,
    stream: Option<Arc<str>>,
    since: Instant,
    _seat: OwnedSemaphorePermit,
    _counted: Held,
}

impl Session {
    /// `None` when there are as many as may be.
    pub(crate) fn open(shared: &Arc<Shared>, guest: Guest) -> Option<Self> {
        let seat = shared.seat()?;
        let stream: Option<Arc<str>> = guest.stream.as_deref().map(Into::into);
        if let Some(stream) = &stream {
            shared.order.lock().enter(stream, micros(since_1970()));
        }
        Some(Self {
            id: shared.id(),
            stream,
            since: Instant::now(),
            _seat: seat,
            _counted: shared.metrics.session(),
            shared: shared.clone(),
            guest: guest.bounded(),
        })
    }

    /// The event that starts it, in its place among the stream's.
    pub(crate) fn start(&self, turn: Turn, asks: bool) -> Outgoing {
        let id = self.shared.id();
        let (sequence, place) = self.place(turn);
        let body = Event::start(&self.guest, self.numbers(&id, sequence), asks).to_json();
        Outgoing::new(self.shared.clone(), self.guest.kind, id, body, place)
    }

    /// The start is told: what only it told, and may be a secret, is not kept.
    pub(crate) fn begun(mut self) -> Self {
        self.guest.params = Vec::new();
        self
    }

    /// The event that ends it, in its place among the stream's, if the endpoint wants it.
    pub(crate) fn end(&self, renamed: Option<&str>, reason: &'static str) -> Option<Outgoing> {
        let kind = self.guest.kind.end()?;
        if !self.shared.options.events.contains(&kind) {
            return None;
        }
        let id = self.shared.id();
        let (sequence, place) = self.place(Turn::Report);
        let ending = Ending {
            reason,
            duration_ms: millis(self.since.elapsed()),
        };
        let body = Event::end(&self.guest, self.numbers(&id, sequence), renamed, ending)?.to_json();
        Some(Outgoing::new(self.shared.clone(), kind, id, body, place))
    }

    fn numbers<'a>(&'a self, id: &'a str, sequence: Option<u64>) -> Numbers<'a> {
        Numbers {
            id,
            session: &self.id,
            sequence,
            time_ms: millis(since_1970()),
        }
    }

    /// A publisher's events go in order; a stream's viewers, who may be many, wait for each other in nothing.
    fn place(&self, turn: Turn) -> (Option<u64>, Option<Place>) {
        let Some(stream) = &self.stream else {
            return (None, None);
        };
        if self.guest.kind != EventKind::Publish {
            return (Some(self.shared.order.lock().number(stream)), None);
        }
        let place = Place::new(self.shared.clone(), stream.clone(), turn);
        (Some(place.number()), Some(place))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            self.shared.order.lock().leave(stream);
        }
    }
}

pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
