//! Timestamps: unwrapping the wire's 32-bit counter and repairing a publisher's timeline.

mod timeline;
mod unwrap;

pub use timeline::{DEFAULT_FRAME_MS, MAX_FRAME_MS, Mapped, Timeline, TimelineOptions};
pub use unwrap::{Unwrap32, wrapped_delta_ms};
