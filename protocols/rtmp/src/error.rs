//! Why a handshake or a chunk stream could not be read.

use std::fmt;

use crate::chunk::MessageHeader;

/// Why a handshake failed. The connection cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The first byte belongs to a TLS record.
    #[error("peer speaks TLS to a plain RTMP port; use rtmp:// or connect to the RTMPS port")]
    PeerTls,
    /// The first byte is that of HTTP; RTMP tunnelled over HTTP starts like this too.
    #[error("peer speaks HTTP on an RTMP port; use the HTTP port (RTMPT is not supported)")]
    PeerHttp,
    /// The first byte announces RTMPE, the encrypted RTMP of Flash Player.
    #[error(
        "peer asks for RTMPE (version {version}), which is not supported; use rtmp:// instead of rtmpe://"
    )]
    PeerEncrypted {
        /// The byte received: 6, 8 or 9.
        version: u8,
    },
    /// The first byte is no version this crate speaks.
    #[error(
        "peer starts with RTMP version {version}, only version 3 is spoken here; check what connects to this port"
    )]
    PeerVersion {
        /// The byte received.
        version: u8,
    },
}

/// Where in the chunk stream something went wrong, for the log: framing is nearly always lost earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPlace {
    /// Bytes of the chunk stream read before this chunk.
    pub offset: u64,
    /// Chunk stream id of the chunk.
    pub chunk_stream_id: u32,
    /// Chunk type (fmt) of the chunk, 0 to 3.
    pub chunk_type: u8,
    /// The chunk size in force.
    pub chunk_size: u32,
    /// The message of the chunk before it, on whatever chunk stream.
    pub previous: Option<MessageHeader>,
}

impl fmt::Display for ChunkPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChunkPlace {
            offset,
            chunk_stream_id,
            chunk_type,
            chunk_size,
            previous,
        } = self;
        write!(
            f,
            "byte {offset}, chunk type {chunk_type} on chunk stream {chunk_stream_id}, chunk size {chunk_size}, "
        )?;
        match previous {
            Some(MessageHeader {
                chunk_stream_id,
                type_id,
                length,
                ..
            }) => {
                write!(
                    f,
                    "after message type {type_id} of {length} bytes on chunk stream {chunk_stream_id}"
                )
            }
            None => f.write_str("first chunk"),
        }
    }
}

/// Why a chunk stream could not be read or written. A reader that returned one cannot go on; close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// A message longer than the limit is announced, or is to be written.
    #[error(
        "message of {length} bytes is longer than the limit of {limit}; send smaller frames or raise the limit"
    )]
    MessageTooLong {
        /// The length in bytes.
        length: u64,
        /// The limit in force.
        limit: u32,
    },
    /// A chunk stream begins with a chunk that refers to a previous one.
    #[error("peer refers to a chunk header that it never sent, framing was lost before ({0})")]
    PeerNoHistory(ChunkPlace),
    /// More chunk streams than the limit.
    #[error("peer uses more than {limit} chunk streams ({place})")]
    PeerTooManyChunkStreams {
        /// The limit in force.
        limit: usize,
        /// Where the one too many begins.
        place: ChunkPlace,
    },
    /// More bytes in incomplete messages than the limit.
    #[error("peer left messages of {bytes} bytes incomplete, the limit is {limit}")]
    PeerTooMuchPartial {
        /// Bytes that would have to be held.
        bytes: usize,
        /// The limit in force.
        limit: usize,
    },
    /// More tiny chunks than the limit.
    #[error(
        "peer sent more than {limit} tiny chunks (chunk size {chunk_size}); let it use a larger chunk size"
    )]
    PeerTooManyTinyChunks {
        /// The limit in force.
        limit: u64,
        /// The chunk size in force.
        chunk_size: u32,
    },
    /// SetChunkSize with 0 or with its top bit set.
    #[error("peer sets the chunk size to {chunk_size}; it must be 1 to 2147483647")]
    PeerChunkSize {
        /// The size received.
        chunk_size: u32,
    },
    /// SetChunkSize with less than the four bytes of a size.
    #[error("peer sent a SetChunkSize of {length} bytes; four are needed to follow its framing")]
    PeerShortSetChunkSize {
        /// Length of the body.
        length: usize,
    },
    /// Message after message on one chunk stream is begun anew before it is complete.
    #[error("peer began {count} messages in a row without completing one ({place})")]
    PeerAbandonedMessages {
        /// How many were begun in vain.
        count: u8,
        /// Where the last one was given up.
        place: ChunkPlace,
    },
    /// Messages that no peer sends: a run of zero bytes, or of unknown types.
    #[error(
        "peer sent {count} meaningless messages in a row (last type {type_id}), framing was lost before byte {offset} (chunk size {chunk_size})"
    )]
    PeerDesynchronised {
        /// How many in a row.
        count: u8,
        /// Type of the last one.
        type_id: u8,
        /// Bytes of the chunk stream read with it.
        offset: u64,
        /// The chunk size in force.
        chunk_size: u32,
    },
}
