//! Codecs, parameter sets, samples and time: the media vocabulary every other crate shares (pure).
//!
//! Nothing here reads a socket, a clock or a log. Parsers take bytes that any stranger may have
//! sent: they never panic, never allocate from a number on the wire, and an unreadable parameter
//! set means "unknown", not "refused".
//!
//! Entry points: [`CodecConfig`] for what a sequence header says, [`Sample`] for one coded frame,
//! [`nal`] for walking access units, [`Timeline`] for repairing a publisher's timestamps.

pub mod aac;
pub mod bits;
pub mod codec;
mod config;
pub mod error;
mod geometry;
pub mod h264;
pub mod hevc;
pub mod mp3;
pub mod nal;
pub mod sample;
pub mod time;

pub use codec::{Codec, CodecConfig, Geometry};
pub use error::MediaError;
pub use sample::{Sample, TrackKind};
pub use time::{Mapped, Timeline, TimelineOptions, Unwrap32};
