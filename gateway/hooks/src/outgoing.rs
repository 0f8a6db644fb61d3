//! [`Outgoing`]: one event on its way to the endpoint.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::answer::{Verdict, delivered, verdict};
use crate::client::Answer;
use crate::event::EventKind;
use crate::failure::Failure;
use crate::hooks::{FIRST_PAUSE, Shared};
use crate::metrics::{Drop as Dropped, Held, Purpose};
use crate::order::Turn;
use crate::session::since_1970;
use crate::signature::{SIGNATURE_HEADER, signature};
use crate::trouble::Line;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("spillway/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_HEADER: &str = "spillway-event";
const ID_HEADER: &str = "spillway-event-id";
const ATTEMPT_HEADER: &str = "spillway-attempt";

/// The part of the time for an answer that may go by until there is room for the call: a crowd that comes at once gets
/// in, and behind an endpoint that answers nobody nobody waits for long.
const SLOT_SHARE: u32 = 4;

/// The attempts that an event has once the process is going away: enough for a slip, and soon over if nobody is there.
const LAST_ATTEMPTS: u32 = 3;

/// A place among a stream's events, free when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    stream: Arc<str>,
    number: u64,
}

impl Place {
    pub(crate) fn new(shared: Arc<Shared>, stream: Arc<str>, turn: Turn) -> Self {
        let number = shared.order.lock().queue(&stream, turn);
        Self {
            shared,
            stream,
            number,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for its turn.
    async fn turn(&self) {
        let blocked = || self.shared.order.lock().wait_for(&self.stream, self.number);
        while let Some(changed) = blocked() {
            let change = changed.notified();
            tokio::pin!(change);
            // What changes from here on is seen: only now is it known whether to wait.
            change.as_mut().enable();
            if blocked().is_some() {
                change.await;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.order.lock().through(&self.stream, self.number);
    }
}

/// An event on its way.
#[derive(Debug)]
pub(crate) struct Outgoing {
    shared: Arc<Shared>,
    kind: EventKind,
    id: String,
    body: Bytes,
    place: Option<Place>,
    attempts: u32,
    may_be_known: bool,
}

impl Outgoing {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kind: EventKind,
        id: String,
        body: Vec<u8>,
        place: Option<Place>,
    ) -> Self {
        Self {
            shared,
            kind,
            id,
            body: body.into(),
            place,
            attempts: 0,
            may_be_known: false,
        }
    }

    /// Asks, as often as there is time for.
    pub(crate) async fn ask(&mut self) -> Result<Verdict, Failure> {
        let deadline = Instant::now() + self.shared.options.timeout;
        if timeout_at(deadline, self.turn()).await.is_err() {
            self.shared.note_failure(Failure::Timeout);
            return Err(Failure::Timeout);
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let result = self.call(Purpose::Ask, left).await;
            let result = result.and_then(|answer| verdict(answer.status, &answer.body));
            self.shared.note(result.as_ref().err().copied());
            let Err(failure) = result else { return result };
            match self
                .pause(failure)
                .filter(|pause| Instant::now() + *pause < deadline)
            {
                Some(pause) => sleep(pause).await,
                None => return Err(failure),
            }
        }
    }

    /// Whether the endpoint knows of it, or may.
    pub(crate) fn may_be_known(&self) -> bool {
        self.may_be_known
    }

    /// From a question that was not answered to a report, in the same place.
    pub(crate) fn becomes_report(&mut self) {
        if let Some(place) = &self.place {
            self.shared
                .order
                .lock()
                .report_instead(&place.stream, place.number);
        }
        self.attempts = 0;
    }

    /// Tells, until it is told or given up. Says whether the endpoint may know of it.
    pub(crate) async fn deliver(mut self) -> bool {
        let _queued: Held = self.shared.metrics.queued();
        let mut hurried = 0;
        self.turn().await;
        loop {
            let result = self.call(Purpose::Tell, self.shared.options.timeout).await;
            let result = result.and_then(|answer| self.taken(&answer));
            self.shared.note(result.err());
            let Err(failure) = result else {
                self.shared.metrics.delivered(self.kind);
                return true;
            };
            let Some(pause) = self.pause(failure) else {
                self.give_up(failure);
                return self.may_be_known;
            };
            let shutdown = &self.shared.shutdown;
            if shutdown.is_cancelled() {
                hurried += 1;
                if hurried == LAST_ATTEMPTS {
                    self.give_up(failure);
                    return self.may_be_known;
                }
                sleep(pause.min(FIRST_PAUSE)).await;
            } else {
                let _ = timeout(pause, shutdown.cancelled()).await;
            }
        }
    }

    /// Whatever the late answer to a question says, it has arrived.
    fn taken(&self, answer: &Answer) -> Result<(), Failure> {
        match delivered(answer.status) {
            Err(_) if self.kind.end().is_some() => verdict(answer.status, &answer.body).map(|_| ()),
            result => result,
        }
    }

    fn give_up(&self, failure: Failure) {
        self.shared.metrics.dropped(if failure.is_passing() {
            Dropped::GaveUp
        } else {
            Dropped::NotTaken
        });
        tracing::debug!(event = self.kind.label(), id = self.id, reason = %failure, "an event was given up");
    }

    async fn turn(&self) {
        if let Some(place) = &self.place {
            place.turn().await;
        }
    }

    /// The pause before the next attempt, if there is to be one.
    fn pause(&self, failure: Failure) -> Option<Duration> {
        let random = self.shared.options.random;
        failure
            .is_passing()
            .then(|| self.shared.retry.pause(self.attempts, random()))?
    }

    async fn call(&mut self, purpose: Purpose, limit: Duration) -> Result<Answer, Failure> {
        self.attempts += 1;
        let shared = &self.shared;
        let request = self.request().map_err(|error| {
            tracing::error!(%error, "an event cannot be sent");
            Failure::BadAnswer
        })?;
        let slot = match purpose {
            Purpose::Ask => shared.asking.slot_within(limit / SLOT_SHARE).await?,
            Purpose::Tell => shared.telling.slot().await?,
        };
        let _calling = shared.metrics.calling(purpose);
        let begun = Instant::now();
        let result = slot.send(request, limit).await;
        shared.metrics.took(self.kind, begun.elapsed());
        self.may_be_known |= result
            .as_ref()
            .err()
            .is_none_or(|failure| failure.may_have_arrived());
        result
    }

    /// Signed at the time it is sent: an endpoint that looks at the time takes a late attempt too.
    fn request(&self) -> Result<Request<Bytes>, hyper::http::Error> {
        let options = &self.shared.options;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(options.uri.clone())
            .header(CONTENT_TYPE, JSON)
            .header(USER_AGENT, AGENT)
            .header(EVENT_HEADER, self.kind.label())
            .header(ID_HEADER, &self.id)
            .header(ATTEMPT_HEADER, self.attempts);
        if let Some(secret) = &options.secret {
            let code = signature(secret, since_1970().as_secs(), &self.body);
            request = request.header(SIGNATURE_HEADER, code);
        }
        request.body(self.body.clone())
    }
}

impl Shared {
    /// Counts and logs what did not come off.
    pub(crate) fn note_failure(&self, failure: Failure) {
        self.note(Some(failure));
    }

    fn note(&self, failure: Option<Failure>) {
        if let Some(failure) = failure {
            self.metrics.failed(failure);
        }
        let line = self.trouble.lock().note(failure, self.started.elapsed());
        let endpoint = self.options.uri.host().unwrap_or_default();
        match (line, failure) {
            (Some(Line::Failing { left_out }), Some(failure)) => {
                tracing::warn!(endpoint, left_out, "the hook (hooks.url) failed: {failure}");
            }
            (Some(Line::Working), _) => tracing::info!(endpoint, "the hook works again"),
            _ => {}
        }
    }
}
