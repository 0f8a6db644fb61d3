//! RTMP 1.0 and Enhanced RTMP: handshake, chunk stream, messages, server and client sessions (pure).
