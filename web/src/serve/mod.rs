//! The HTTP listener: an accept loop of our own on hyper's connections, because live media needs what
//! `axum::serve` has no knobs for: a header deadline, a stall time-out on writes, a connection cap and socket
//! options.

mod accept;
mod connection;
mod counters;
mod http2;
mod options;
mod socket;
mod stall;
mod tune;

pub use accept::serve;
pub use connection::Connection;
pub use counters::{ServeCounters, ServeSnapshot};
pub use options::ServeOptions;
pub use stall::StallGuard;
pub use tune::{is_of_one_connection, tune};

#[cfg(test)]
mod tests;
