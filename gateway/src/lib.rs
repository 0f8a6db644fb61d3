//! Spillway: a live media gateway. RTMP in; RTMP, HTTP-FLV, WebSocket-FLV and HLS out.
//!
//! [`Gateway::start`] runs everything from one [`Config`](spillway_config::Config); the binary adds the
//! command line, logs and signals.

mod auth;
mod certificates;
mod cgroup;
pub mod cli;
mod demo;
mod doors;
mod error;
mod gateway;
mod limits;
mod listeners;
mod log_lines;
mod net;
mod options;
mod random;
mod rtmp;
mod run;
mod scheduler;
mod service_manager;
mod telemetry;
mod workers;

pub use demo::DEMO_STREAM;
pub use error::StartError;
pub use gateway::{Gateway, StartOptions};
pub use listeners::Addresses;
pub use run::run;
