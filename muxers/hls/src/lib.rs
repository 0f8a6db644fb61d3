//! HLS segments, window and playlists (pure).
//!
//! [`Packager`] takes samples and gives back finished MPEG-TS segments; [`Window`] says which of them a playlist
//! lists and which are still served; [`playlist`] renders text from a [`Snapshot`]; [`check`] reads playlists
//! strictly and compares successive ones.

mod boundary;
pub mod check;
mod date;
mod packager;
pub mod playlist;
mod segment;
mod tracks;
mod window;

pub use packager::{Packager, PackagerOptions, Skipped};
pub use segment::{Segment, SegmentTracks, TrackInfo};
pub use window::{ListedSegment, Snapshot, Window, WindowOptions};
