//! RTMP commands.
