//! HLS segments, window and playlists (pure).
