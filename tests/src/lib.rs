//! Harness of the end-to-end tests: starts the real binary, real publishers and real players, and looks only at
//! what comes out of the fixed outside interfaces.
//!
//! The helpers panic with a reason; each wait has a time-out that says what was waited for.

pub mod clip;
pub mod ffmpeg;
pub mod flv;
pub mod frames;
pub mod front;
pub mod gateway;
pub mod hls;
pub mod hook;
pub mod http;
pub mod jwt;
pub mod metrics;
pub mod network;
pub mod process;
pub mod proxy;
pub mod rtmp;
pub mod slow;
pub mod tls;
pub mod tools;
pub mod viewer;
pub mod wait;
pub mod ws;
