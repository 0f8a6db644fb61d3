//! The handshake (RTMP 1.0 §5.2), plain and with digests, from both sides.

mod digest;

pub mod client;
pub mod server;

pub use client::ClientHandshake;
pub use server::ServerHandshake;
