//! [`Lease`]: held for as long as a session runs; its end is what the endpoint is told.

use std::sync::OnceLock;

use tokio::sync::oneshot;

use crate::metrics::Drop as Dropped;
use crate::outgoing::Outgoing;
use crate::session::Session;

/// What is told when nobody says why a session ended.
const UNTOLD: &str = "client";

/// Held for as long as a session runs. Dropping it tells the endpoint of the end.
#[derive(Debug, Default)]
pub struct Lease {
    held: Option<Held>,
    reason: OnceLock<&'static str>,
}

#[derive(Debug)]
struct Held {
    session: Session,
    start: Start,
    renamed: Option<String>,
}

/// Whether the endpoint knows of the start.
#[derive(Debug)]
enum Start {
    /// It does, or may.
    Known,
    /// It is being told; the word says whether it does now, or may.
    Told(oneshot::Receiver<bool>),
}

impl Lease {
    /// Of a session that the endpoint is not to know of.
    pub fn none() -> Self {
        Self::default()
    }

    fn new(session: Session, start: Start, renamed: Option<String>) -> Self {
        let held = Held {
            session: session.begun(),
            start,
            renamed,
        };
        Self {
            held: Some(held),
            reason: OnceLock::new(),
        }
    }

    /// Of a session that the endpoint knows of, or may.
    pub(crate) fn known(session: Session, renamed: Option<String>) -> Self {
        Self::new(session, Start::Known, renamed)
    }

    /// Of a session that the endpoint is told of by `start`.
    pub(crate) fn started_by(session: Session, start: Outgoing) -> Self {
        let shared = session.shared.clone();
        let (told, may_be_known) = oneshot::channel();
        shared.tasks.spawn_on(
            async move {
                // Nobody listens once there is nothing to tell of the end.
                let _ = told.send(start.deliver().await);
            },
            &shared.runtime,
        );
        Self::new(session, Start::Told(may_be_known), None)
    }

    /// Says why the session ends, just before it does. The first word counts.
    pub fn note(&self, reason: &'static str) {
        self.reason.get_or_init(|| reason);
    }

    /// Ends the session with the reason that the endpoint is told.
    pub fn end(self, reason: &'static str) {
        self.note(reason);
    }

    fn finish(&mut self) {
        let Some(held) = self.held.take() else { return };
        let reason = self.reason.get().copied().unwrap_or(UNTOLD);
        // Now, and not in the task, so that it has its place before whatever comes next.
        let Some(end) = held.session.end(held.renamed.as_deref(), reason) else {
            return;
        };
        let shared = held.session.shared.clone();
        shared.tasks.spawn_on(held.tell(end), &shared.runtime);
    }
}

impl Held {
    /// The session holds its seat until its end is told.
    async fn tell(self, end: Outgoing) {
        if let Start::Told(may_be_known) = self.start
            && !may_be_known.await.unwrap_or(true)
        {
            self.session.shared.metrics.dropped(Dropped::NoStart);
            return;
        }
        end.deliver().await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.finish();
    }
}
