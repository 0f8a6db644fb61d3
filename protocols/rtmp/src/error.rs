//! Why a handshake or a chunk stream could not be read.

/// Why a handshake failed. The connection cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The first byte is a version this crate does not speak.
    #[error(
        "peer starts with RTMP version {version}; only version 3 is spoken here, check what connects to this port"
    )]
    PeerVersion {
        /// The byte received.
        version: u8,
    },
}

/// Why a chunk stream could not be read. Framing is lost; the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// A message longer than the limit was announced, or is to be written.
    #[error("message of {length} bytes is longer than the limit of {limit}")]
    MessageTooLong {
        /// The length announced.
        length: u32,
        /// The limit in force.
        limit: u32,
    },
}
