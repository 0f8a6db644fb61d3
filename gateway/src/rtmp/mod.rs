//! RTMP: the listener and its sessions.

mod exit;
mod input;
mod player;
mod session;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use spillway_hub::{Hub, Limit, PerIp};
use spillway_rtmp::limits::ReaderLimits;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use spillway_net::LogBudget;

use crate::auth::Gate;

/// The pause after a failed `accept`, doubled up to a second: out of descriptors, others must close first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The bounds of RTMP sessions.
#[derive(Debug, Clone)]
pub(crate) struct RtmpOptions {
    /// How long handshake and first commands may take.
    pub(crate) handshake_timeout: Duration,
    /// How long a publisher may send no media before it has sent any.
    pub(crate) first_media_timeout: Duration,
    /// How long a publisher may send no media.
    pub(crate) idle_timeout: Duration,
    /// How long a peer may take no byte.
    pub(crate) stall_timeout: Duration,
    /// The bounds of what a peer may make us hold.
    pub(crate) limits: ReaderLimits,
}

/// What all RTMP sessions share.
pub(crate) struct Rtmp {
    pub(crate) hub: Hub,
    pub(crate) gate: Arc<Gate>,
    pub(crate) options: RtmpOptions,
    pub(crate) log_budget: Arc<LogBudget>,
}

/// What a connection needs to be let in: a permit out of all, and a place out of its address's.
pub(crate) type Admission = (Arc<Semaphore>, PerIp);

/// Accepts connections until `shutdown`; sessions are counted in `tasks` and hold their `admission`.
pub(crate) async fn listen(
    rtmp: Arc<Rtmp>,
    listener: TcpListener,
    (slots, per_ip): Admission,
    tasks: TaskTracker,
    shutdown: CancellationToken,
) {
    let mut pause = ACCEPT_PAUSE;
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => {
                pause = ACCEPT_PAUSE;
                let stats = rtmp.hub.stats();
                stats.connections_total.add(1);
                let Ok(slot) = slots.clone().try_acquire_owned() else {
                    stats.refused(Limit::Connections);
                    tracing::debug!(%peer, "connection refused: limits.max_connections is reached");
                    continue;
                };
                let Some(place) = per_ip.take(peer.ip()) else {
                    stats.refused(Limit::ConnectionsPerIp);
                    if let Some(left_out) = rtmp.log_budget.take() {
                        tracing::warn!(
                            %peer, left_out, "connection refused: its address has as many as limits.max_connections_per_ip allows"
                        );
                    }
                    continue;
                };
                if let Err(error) = spillway_web::tune(&socket) {
                    tracing::debug!(%peer, %error, "socket options refused");
                }
                let session = run(rtmp.clone(), socket, peer, shutdown.clone());
                tasks.spawn(async move {
                    session.await;
                    drop((slot, place));
                });
            }
            Err(error) if spillway_web::is_of_one_connection(&error) => rtmp.hub.stats().accept_errors.add(1),
            Err(error) => {
                rtmp.hub.stats().accept_errors.add(1);
                if pause == ACCEPT_PAUSE {
                    tracing::warn!(%error, "RTMP accept failed; trying again");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// Runs one session.
async fn run(rtmp: Arc<Rtmp>, socket: TcpStream, peer: SocketAddr, shutdown: CancellationToken) {
    let hub = rtmp.hub.clone();
    alone(&hub, peer, session::serve(rtmp, socket, peer, shutdown)).await;
}

/// Counts a connection for as long as its session runs; a panic in it ends only itself.
async fn alone(hub: &Hub, peer: SocketAddr, session: impl Future<Output = ()>) {
    hub.stats().rtmp_connections.add(1);
    if AssertUnwindSafe(session).catch_unwind().await.is_err() {
        hub.stats().panics.add(1);
        tracing::error!(%peer, "an RTMP session panicked; its connection is closed");
    }
    hub.stats().rtmp_connections.sub(1);
}

#[cfg(test)]
mod tests {
    use spillway_hub::{EndReason, HubOptions, Protocol, SessionInfo, StreamKey};

    use super::*;

    #[tokio::test]
    async fn a_session_that_panics_ends_alone_gives_its_stream_back_and_is_counted() {
        let hub = Hub::new(HubOptions::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 9));
        let publish = |name| {
            let info = SessionInfo::new(Protocol::Rtmp, peer);
            hub.publish(StreamKey::parse(name).unwrap(), info).unwrap()
        };
        let other = publish("live/other");
        let publisher = publish("live/a");
        let stream = publisher.stream().clone();
        alone(&hub, peer, async move {
            let _owner = publisher;
            panic!("a test");
        })
        .await;
        assert_eq!(hub.stats().panics.get(), 1);
        assert_eq!(hub.stats().rtmp_connections.get(), 0);
        assert_eq!(hub.stats().publisher_ends(EndReason::Internal), 1);
        assert_eq!(stream.phase(), spillway_hub::Phase::Away);
        assert_eq!(other.stream().phase(), spillway_hub::Phase::Live);
    }
}
