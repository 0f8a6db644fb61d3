//! [`Hooks`]: asks the endpoint, and tells it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Uri;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{Terms, Verdict};
use crate::cache::{CacheKey, DecisionCache};
use crate::client::{Client, ClientOptions, is_callable};
use crate::connector::ClientError;
use crate::event::{EventKind, Guest};
use crate::failure::Failure;
use crate::lease::Lease;
use crate::metrics::{Drop, HookMetrics, Outcome};
use crate::order::{Order, Turn};
use crate::outgoing::Outgoing;
use crate::schedule::RetrySchedule;
use crate::session::Session;
use crate::trouble::Trouble;

/// The longest answer taken; a decision has a few hundred bytes.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// The most answers kept: about 200 bytes each.
const MAX_CACHED: usize = 10_000;

/// The first pause before another attempt.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Which events are sent, and to whom, within which bounds.
#[derive(Clone)]
pub struct HookOptions {
    /// The endpoint.
    pub uri: Uri,
    /// Signs each event; without it they are not signed.
    pub secret: Option<Vec<u8>>,
    /// A file of certificate authorities (PEM) to trust in place of the system's.
    pub ca_file: Option<std::path::PathBuf>,
    /// The events that are sent.
    pub events: Vec<EventKind>,
    /// How long a decision may take, with all its attempts; and each attempt to tell something.
    pub timeout: Duration,
    /// Attempts after the first.
    pub retries: u32,
    /// Whether those get in of whom the endpoint says nothing.
    pub fail_open: bool,
    /// How long an answer about a viewer is good for the same question.
    pub cache: Duration,
    /// The most calls at a time, of each kind: questions, and the rest.
    pub max_in_flight: usize,
    /// The most sessions that the endpoint knows of, with those whose end is not delivered. Each has room for its end
    /// from its start on, so that no end is lost for want of room.
    pub max_sessions: usize,
    /// Spreads attempts, and names this process.
    pub random: fn() -> u64,
}

impl fmt::Debug for HookOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookOptions")
            .field("uri", &self.uri.host())
            .finish_non_exhaustive()
    }
}

/// Why there can be no hook.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HookError {
    /// The address cannot be called.
    #[error("it has to be an http or https address with a host, without user and password")]
    Address,
    /// Its client cannot be made.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// Its metrics cannot be made.
    #[error("its metrics cannot be made: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Somebody let in.
#[derive(Debug)]
pub struct Granted {
    /// On these terms.
    pub terms: Terms,
    /// Held for as long as the session runs: with it ends what the endpoint knows of.
    pub lease: Lease,
}

/// Somebody not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The endpoint refused, perhaps with words for the peer.
    Refused(Option<String>),
    /// The endpoint gave no answer that counts.
    Failed(Failure),
}

/// Asks the endpoint, and tells it. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Hooks(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: HookOptions,
    pub(crate) retry: RetrySchedule,
    pub(crate) metrics: HookMetrics,
    pub(crate) asking: Client,
    pub(crate) telling: Client,
    pub(crate) order: Mutex<Order>,
    pub(crate) trouble: Mutex<Trouble>,
    cache: Mutex<DecisionCache>,
    cache_secret: [u8; 16],
    sessions: Arc<Semaphore>,
    instance: u64,
    next_id: AtomicU64,
    pub(crate) started: Instant,
    pub(crate) tasks: TaskTracker,
    pub(crate) runtime: Handle,
    pub(crate) shutdown: CancellationToken,
}

impl Hooks {
    /// Sends nothing yet. Its tasks are counted in `tasks`; once `shutdown` is cancelled, each event has few attempts left. It must
    /// be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`HookError`] when the address cannot be called, or is https and there is nobody to trust.
    pub fn new(
        options: HookOptions,
        tasks: TaskTracker,
        shutdown: CancellationToken,
    ) -> Result<Self, HookError> {
        if !is_callable(&options.uri) {
            return Err(HookError::Address);
        }
        let client = ClientOptions {
            https: options.uri.scheme_str() == Some("https"),
            ca_file: options.ca_file.clone(),
            connect_timeout: options.timeout,
            max_body: MAX_ANSWER_BYTES,
            max_in_flight: options.max_in_flight,
        };
        let random = options.random;
        let halves = [random().to_be_bytes(), random().to_be_bytes()];
        let mut cache_secret = [0; 16];
        cache_secret.copy_from_slice(halves.as_flattened());
        Ok(Self(Arc::new(Shared {
            retry: RetrySchedule {
                retries: options.retries,
                first: FIRST_PAUSE,
                // Whoever waits for a report that is tried again sees it tried again.
                longest: (options.timeout / 2).max(FIRST_PAUSE),
            },
            metrics: HookMetrics::new()?,
            asking: Client::new(&client)?,
            telling: Client::new(&client)?,
            order: Mutex::default(),
            trouble: Mutex::default(),
            cache: Mutex::new(DecisionCache::new(options.cache, MAX_CACHED)),
            cache_secret,
            sessions: Arc::new(Semaphore::new(options.max_sessions)),
            instance: random(),
            next_id: AtomicU64::new(1),
            started: Instant::now(),
            tasks,
            runtime: Handle::current(),
            shutdown,
            options,
        })))
    }

    /// What is counted.
    pub fn metrics(&self) -> &HookMetrics {
        &self.0.metrics
    }

    /// Whether events of this kind are sent.
    pub fn sends(&self, kind: EventKind) -> bool {
        self.0.options.events.contains(&kind)
    }

    /// Asks whether `guest` may go on. When it is let in, its end is told once the lease is dropped; that holds too when
    /// the asker does not wait for the answer.
    ///
    /// # Errors
    /// [`Denied`] when it is not let in.
    pub async fn ask(&self, guest: Guest) -> Result<Granted, Denied> {
        let kind = guest.kind;
        let cache_key = self.cache_key(&guest);
        let kept = cache_key.and_then(|key| self.0.cache.lock().get(&key, self.0.started.elapsed()));
        if let Some(verdict) = kept {
            self.0.metrics.cached();
            return self.by_cache(verdict, guest);
        }
        let Some(session) = Session::open(&self.0, guest) else {
            self.0.note_failure(Failure::TooManySessions);
            return self.0.without_answer(kind, Failure::TooManySessions, Lease::none);
        };
        let (reply, answer) = oneshot::channel();
        let shared = self.0.clone();
        // A task of its own, so that somebody who leaves while the endpoint is being asked leaves in good order.
        self.0.tasks.spawn_on(
            async move {
                // An asker that is gone drops the lease with the answer.
                let _ = reply.send(question(&shared, session, cache_key).await);
            },
            &self.0.runtime,
        );
        answer.await.unwrap_or(Err(Denied::Failed(Failure::Closed)))
    }

    /// Tells of somebody who is let in anyway.
    pub fn tell(&self, guest: Guest) -> Lease {
        if !self.sends(guest.kind) {
            return Lease::none();
        }
        match Session::open(&self.0, guest) {
            Some(session) => {
                let start = session.start(Turn::Report, false);
                Lease::started_by(session, start)
            }
            None => {
                self.0.metrics.dropped(Drop::NoRoom);
                Lease::none()
            }
        }
    }

    /// Answers about viewers are kept. Those about publishers are not: they are few, and each matters.
    fn cache_key(&self, guest: &Guest) -> Option<CacheKey> {
        let used = guest.kind == EventKind::Play && self.0.cache.lock().is_used();
        used.then(|| CacheKey::of(&self.0.cache_secret, guest))
    }

    fn by_cache(&self, verdict: Verdict, guest: Guest) -> Result<Granted, Denied> {
        match verdict {
            Verdict::Allow(terms) => {
                self.0.metrics.decided(guest.kind, Outcome::Allow);
                let lease = self.tell(guest);
                Ok(Granted { terms, lease })
            }
            Verdict::Refuse(reason) => {
                self.0.metrics.decided(guest.kind, Outcome::Refuse);
                Err(Denied::Refused(reason))
            }
        }
    }
}

async fn question(
    shared: &Arc<Shared>,
    session: Session,
    cache_key: Option<CacheKey>,
) -> Result<Granted, Denied> {
    let kind = session.guest.kind;
    let mut start = session.start(Turn::Ask, true);
    let result = start.ask().await.and_then(|verdict| fitting(kind, verdict));
    if let (Some(key), Ok(verdict)) = (cache_key, &result) {
        let now = shared.started.elapsed();
        shared.cache.lock().put(key, verdict.clone(), now);
    }
    match result {
        Ok(Verdict::Allow(terms)) => {
            shared.metrics.decided(kind, Outcome::Allow);
            let lease = Lease::known(session, terms.rename.clone());
            Ok(Granted { terms, lease })
        }
        Ok(Verdict::Refuse(reason)) => {
            shared.metrics.decided(kind, Outcome::Refuse);
            let words = reason.map(|reason| crate::text::without(&reason, session.guest.secrets()));
            Err(Denied::Refused(words))
        }
        Err(failure) if shared.options.fail_open => {
            shared.without_answer(kind, failure, || started_anyway(session, start))
        }
        Err(failure) => {
            if start.may_be_known() {
                Lease::known(session, None).end("hook_failed");
            }
            shared.without_answer(kind, failure, Lease::none)
        }
    }
}

/// Only what is published can have another name.
fn fitting(kind: EventKind, verdict: Verdict) -> Result<Verdict, Failure> {
    match verdict {
        Verdict::Allow(Terms { rename: Some(_), .. }) if kind != EventKind::Publish => {
            Err(Failure::BadAnswer)
        }
        verdict => Ok(verdict),
    }
}

/// The endpoint hears of it as soon as it can.
fn started_anyway(session: Session, mut start: Outgoing) -> Lease {
    if session.guest.kind == EventKind::Connect {
        return Lease::none();
    }
    start.becomes_report();
    Lease::started_by(session, start)
}

impl Shared {
    /// What the configuration says of those of whom the endpoint says nothing.
    fn without_answer(
        &self,
        kind: EventKind,
        failure: Failure,
        lease: impl FnOnce() -> Lease,
    ) -> Result<Granted, Denied> {
        if self.options.fail_open {
            self.metrics.decided(kind, Outcome::FailOpen);
            let terms = Terms::default();
            return Ok(Granted {
                terms,
                lease: lease(),
            });
        }
        self.metrics.decided(kind, Outcome::FailClosed);
        Err(Denied::Failed(failure))
    }

    /// A permit for one more session.
    pub(crate) fn seat(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        self.sessions.clone().try_acquire_owned().ok()
    }

    /// An id that no other process gives, nor this one again.
    pub(crate) fn id(&self) -> String {
        let number = self.next_id.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{number}", self.instance)
    }
}

#[cfg(test)]
mod tests;
