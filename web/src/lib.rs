//! HTTP: FLV, WebSocket-FLV, HLS, the players' page, metrics and probes.
//!
//! [`live_router`] is what viewers reach, [`admin_router`] what operators reach; [`serve`] runs either on a
//! listener. Media is never copied per viewer: bodies are views of the hub's own buffers.

mod access;
mod admin;
mod assets;
mod http;
mod live;
mod serve;
#[cfg(test)]
mod testing;

pub use access::{AccessCounters, Gatekeeper, HlsSessions, Lease, Pass, Visit};
pub use admin::{
    AdminAccess, AdminState, CpuGroup, ProcessState, Readiness, SchedulerDelay, Throttling, admin_router,
};
pub use axum::Router;
pub use live::{HlsGuests, LiveAccess, LiveOptions, LiveState, live_router};
pub use serve::{
    Connection, ServeCounters, ServeOptions, ServeSnapshot, StallGuard, is_of_one_connection, serve, tune,
};
