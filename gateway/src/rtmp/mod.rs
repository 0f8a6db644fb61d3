//! RTMP: the listener and its sessions.

mod exit;
mod io;
mod player;
mod session;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use spillway_hub::{Hub, Limit, PerIp, Place};
use spillway_net::{ClientAddr, Door, Entry, LogBudget, Socket};
use spillway_rtmp::limits::ReaderLimits;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

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

/// One RTMP listener.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// What a connection must show before its session begins.
    pub(crate) door: Door,
}

/// What a connection needs to be let in: a permit out of all, and a place out of its address's.
pub(crate) type Admission = (Arc<Semaphore>, PerIp);

/// Accepts connections until `shutdown`; sessions are counted in `tasks` and hold their `admission`.
pub(crate) async fn listen(
    rtmp: Arc<Rtmp>,
    listener: Listener,
    (slots, per_ip): Admission,
    tasks: TaskTracker,
    shutdown: CancellationToken,
) {
    let Listener {
        socket: listener,
        door,
    } = listener;
    let entrance = Arc::new(Entrance { door, per_ip });
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
                // Whom a PROXY header names is known only after it.
                let place = if entrance.door.proxy_protocol {
                    None
                } else {
                    let Some(place) = entrance.place(&rtmp, entrance.door.client_of(peer)) else {
                        continue;
                    };
                    Some(place)
                };
                if let Err(error) = spillway_web::tune(&socket) {
                    tracing::debug!(%peer, %error, "socket options refused");
                }
                let arrival = Arrival { socket, peer, place };
                let connection = run(rtmp.clone(), entrance.clone(), arrival, shutdown.clone());
                tasks.spawn(async move {
                    connection.await;
                    drop(slot);
                });
            }
            Err(error) if spillway_web::is_of_one_connection(&error) => rtmp.hub.stats().accept_errors.add(1),
            Err(error) => {
                rtmp.hub.stats().accept_errors.add(1);
                if pause == ACCEPT_PAUSE {
                    tracing::warn!(listener = entrance.door.name, %error, "accept failed; trying again");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
}

/// What lies between `accept` and a session.
struct Entrance {
    door: Door,
    per_ip: PerIp,
}

impl Entrance {
    /// A place out of the client's; a trusted proxy that names nobody brings many clients and is not counted.
    fn place(&self, rtmp: &Rtmp, client: ClientAddr) -> Option<Place> {
        let per_ip = if self.door.trusted.contains(client.ip()) {
            &PerIp::default()
        } else {
            &self.per_ip
        };
        let place = per_ip.take(client.ip());
        if place.is_none() {
            rtmp.hub.stats().refused(Limit::ConnectionsPerIp);
            if let Some(left_out) = rtmp.log_budget.take() {
                tracing::warn!(
                    peer = %client, left_out, "connection refused: its address has as many as limits.max_connections_per_ip allows"
                );
            }
        }
        place
    }
}

/// An accepted connection, with its address's place as far as the address is known.
struct Arrival {
    socket: TcpStream,
    peer: SocketAddr,
    place: Option<Place>,
}

/// Runs one connection.
async fn run(rtmp: Arc<Rtmp>, entrance: Arc<Entrance>, arrival: Arrival, shutdown: CancellationToken) {
    let hub = rtmp.hub.clone();
    alone(&hub, arrival.peer, enter(rtmp, &entrance, arrival, shutdown)).await;
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

/// Lets the connection in, if it shows what the door wants, and serves it.
async fn enter(rtmp: Arc<Rtmp>, entrance: &Entrance, arrival: Arrival, shutdown: CancellationToken) {
    let Arrival { socket, peer, place } = arrival;
    let door = &entrance.door;
    if door.is_open() {
        let socket = Socket::from(Entry::Plain(socket));
        session::serve(rtmp, socket, door.client_of(peer), shutdown).await;
        return drop(place);
    }
    // A handshake takes more room than the session after it.
    let admitted = tokio::select! {
        () = shutdown.cancelled() => return,
        admitted = Box::pin(door.admit(socket, peer)) => admitted,
    };
    if let Some((entry, client)) = admitted
        && let Some(_place) = place.or_else(|| entrance.place(&rtmp, client))
    {
        session::serve(rtmp, entry.into(), client, shutdown).await;
    }
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
