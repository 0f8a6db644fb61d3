//! HLS: one packager per stream and the store its output is served from.
//!
//! [`HlsStore`] answers requests. The first request of a live stream starts its packager, one task that reads the
//! ring like any viewer (`task`); what it makes is rendered once per change (`view`) and swapped in whole, so
//! requests never wait for the packager once there is something to play.

mod entry;
mod store;
mod task;
mod view;

pub use store::{HlsError, HlsStore};
pub use view::{PlaylistBody, SegmentBody};
