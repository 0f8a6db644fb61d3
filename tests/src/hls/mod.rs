//! HLS seen from outside: a strict playlist parser and a poller that checks each playlist against the one before.

mod playlist;
mod poller;

pub use playlist::{MediaPlaylist, Multivariant, Segment};
pub use poller::{Poller, Record, fetch_media, media_path};
