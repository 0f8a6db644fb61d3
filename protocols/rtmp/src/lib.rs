//! RTMP 1.0 and Enhanced RTMP: handshake, chunk stream, messages, server and client sessions (pure).

pub mod chunk;
pub mod command;
pub mod error;
pub mod ertmp;
pub mod handshake;
pub mod limits;
pub mod message;
pub mod name;
pub mod session;
