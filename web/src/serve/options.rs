//! [`ServeOptions`]: the bounds of one HTTP listener.

use std::sync::Arc;
use std::time::Duration;

use spillway_hub::PerIp;
use spillway_net::Door;
use tokio::sync::Semaphore;

use super::counters::ServeCounters;

/// The options of one HTTP listener.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The listener's name in logs, for example `http` or `admin`.
    pub name: &'static str,
    /// What a connection must show before it is served: a PROXY header, a TLS handshake, or nothing.
    pub door: Door,
    /// A permit for each connection that may be open, shared with other listeners if need be; further ones get
    /// a short 503. Each costs a socket and about 10 KiB.
    pub slots: Arc<Semaphore>,
    /// A bound on the connections of one address, shared with other listeners if need be; further ones get a short
    /// 503.
    pub per_ip: PerIp,
    /// How long a request's header may take, counted from the connection's start or from the end of the
    /// previous answer, so it is also the keep-alive idle time. It should exceed two HLS target durations,
    /// else each playlist poll reconnects.
    pub header_timeout: Duration,
    /// The bytes a request's header may have; more is answered 431. At least 8 KiB are allowed.
    pub max_header_bytes: usize,
    /// How long a write may stay pending without any progress before the connection is closed.
    pub stall_timeout: Duration,
    /// How long connections may go on after the shutdown signal before they are cut.
    pub drain: Duration,
    /// Where the listener counts.
    pub counters: Arc<ServeCounters>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            name: "http",
            door: Door::open("http"),
            slots: Arc::new(Semaphore::new(65_536)),
            per_ip: PerIp::default(),
            header_timeout: Duration::from_secs(30),
            max_header_bytes: 16 * 1024,
            stall_timeout: Duration::from_secs(15),
            drain: Duration::from_secs(10),
            counters: Arc::default(),
        }
    }
}
