//! What the load tool (`spillway-load`) and the reference floor (`floor`) are made of.
//!
//! Publishers send frames that carry a [`stamp::Stamp`]: sequence number, time of sending and a
//! checksum. Players find the stamps in what a server delivers and so measure delay, loss and
//! damage without sharing memory with the publishers; only the monotonic clock is common.
//!
//! [`work`] is what the Criterion benches and the instruction counts measure, and [`gate`] keeps those counts.

pub mod clip;
pub mod clock;
pub mod compare;
pub mod error;
pub mod gate;
pub mod generator;
pub mod host;
pub mod meter;
pub mod options;
pub mod player;
pub mod publisher;
pub mod report;
pub mod run;
pub mod scan;
pub mod server;
pub mod stamp;
pub mod trace;
pub mod url;
pub mod work;
