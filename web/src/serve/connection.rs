//! [`Connection`]: what a handler may know of and hold on the connection its request came by.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use spillway_hub::Place;
use spillway_net::ClientAddr;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::counters::ServeCounters;

/// The connection a request came by; the accept loop puts it into the request's extensions.
///
/// Its slot under `max_connections` is free again once the last clone is gone, so an upgraded connection keeps
/// one for as long as it runs.
#[derive(Debug, Clone)]
pub struct Connection {
    inner: Arc<Inner>,
    /// Of this request: a proxy's connection carries those of many clients.
    client: ClientAddr,
    /// The place that this client's request takes under `max_connections_per_ip`.
    _place: Option<Arc<Place>>,
}

/// The socket below hyper, for answers that are written past it.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) socket: Arc<TcpStream>,
    /// How often hyper has written everything it held.
    pub(super) flushes: Arc<AtomicU64>,
    pub(crate) stall_timeout: Duration,
}

impl Transport {
    /// Waits until hyper has written what it holds. It must be awaited in an answer's body.
    ///
    /// This leans on two things in hyper. It flushes whenever a body keeps it waiting, which `yield_now` does
    /// once each time. And it flushes the socket only when its own buffer is empty, unless its `pipeline_flush`
    /// is on: that holds answers back while further requests are waiting, so it must stay off
    /// (`accept::http_builder`). Seeing a flush instead of only giving hyper the time for one is what keeps the
    /// bytes apart should it ever poll a body twice in between.
    pub(crate) async fn flushed(&self) {
        let before = self.flushes.load(Ordering::Relaxed);
        loop {
            tokio::task::yield_now().await;
            let flushed = self.flushes.load(Ordering::Relaxed) != before;
            if flushed || self.socket.writable().await.is_err() {
                return;
            }
        }
    }
}

#[derive(Debug)]
struct Inner {
    client: ClientAddr,
    /// Whether the client showed a certificate that the listener asks for.
    certified: bool,
    transport: Option<Transport>,
    stalled: Arc<AtomicBool>,
    asked: AtomicBool,
    tasks: Tasks,
    counters: Arc<ServeCounters>,
    _slot: Option<(OwnedSemaphorePermit, Place)>,
}

/// The tasks of one listener: awaited by the drain, cut at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    pub(super) tracker: TaskTracker,
    pub(super) kill: CancellationToken,
}

impl Tasks {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let kill = self.kill.clone();
        self.tracker.spawn(async move {
            let _cut = kill.run_until_cancelled_owned(task).await;
        });
    }
}

impl Connection {
    pub(super) fn new(
        client: ClientAddr,
        certified: bool,
        transport: Option<Transport>,
        stalled: Arc<AtomicBool>,
        tasks: Tasks,
        counters: Arc<ServeCounters>,
        slot: impl Into<Option<(OwnedSemaphorePermit, Place)>>,
    ) -> Self {
        counters.opened();
        let inner = Arc::new(Inner {
            client,
            certified,
            transport,
            stalled,
            asked: AtomicBool::new(false),
            tasks,
            counters,
            _slot: slot.into(),
        });
        Self {
            inner,
            client,
            _place: None,
        }
    }

    /// The same connection for a request of this client, whom a trusted proxy speaks for and who takes `place`.
    pub(super) fn for_client(&self, client: ClientAddr, place: Place) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            client,
            _place: Some(Arc::new(place)),
        }
    }

    /// Whether the client showed a certificate that the listener asks for (mTLS).
    pub fn is_certified(&self) -> bool {
        self.inner.certified
    }

    /// The client of this request: the peer, unless a trusted proxy names another. Unspecified when the request did
    /// not come through [`serve`](crate::serve).
    pub fn client(&self) -> ClientAddr {
        self.client
    }

    /// The client's address, as [`Connection::client`] says.
    pub fn peer(&self) -> SocketAddr {
        self.client.address()
    }

    /// The client of the connection as a whole.
    pub(super) fn own_client(&self) -> ClientAddr {
        self.inner.client
    }

    /// The socket, when the request came through [`serve`](crate::serve) over plain TCP.
    pub(crate) fn transport(&self) -> Option<&Transport> {
        self.inner.transport.as_ref()
    }

    /// Whether the connection was failed because its peer took no byte for the stall time-out.
    pub fn stalled(&self) -> bool {
        self.inner.stalled.load(Ordering::Relaxed)
    }

    /// Notes that the peer took no byte for the stall time-out from what was written past hyper.
    pub(crate) fn note_stalled(&self) {
        self.inner.stalled.store(true, Ordering::Relaxed);
    }

    /// Notes that a request came by it.
    pub(super) fn note_request(&self) {
        self.inner.asked.store(true, Ordering::Relaxed);
    }

    /// Whether a whole request head ever came by it.
    pub(super) fn was_asked(&self) -> bool {
        self.inner.asked.load(Ordering::Relaxed)
    }

    /// Runs the connection's work, or the rest of it after an upgrade; the listener's drain waits for it. A
    /// panic ends only this task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let connection = self.clone();
        self.inner.tasks.spawn(async move {
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                connection.inner.counters.panicked();
                let peer = connection.peer();
                error!(%peer, "a request handler panicked; its connection is closed");
            }
        });
    }
}

impl Default for Connection {
    fn default() -> Self {
        let client = ClientAddr::default();
        Self::new(
            client,
            false,
            None,
            Arc::default(),
            Tasks::default(),
            Arc::default(),
            None,
        )
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.stalled.load(Ordering::Relaxed) {
            self.counters.stalled();
        }
        self.counters.closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn nothing_goes_past_hyper_before_it_has_flushed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let flushes = Arc::new(AtomicU64::new(3));
        let transport = Transport {
            socket: Arc::new(socket),
            flushes: flushes.clone(),
            stall_timeout: Duration::from_secs(1),
        };
        let waiting = tokio::spawn(async move { transport.flushed().await });
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        flushes.store(4, Ordering::Relaxed);
        waiting.await.unwrap();
    }
}
