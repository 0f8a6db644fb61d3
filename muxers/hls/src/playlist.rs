//! Playlist text from snapshots: pure functions.

pub mod media;
pub mod multivariant;
pub mod query;
