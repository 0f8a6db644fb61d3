//! What can be wrong with an FLV body or file.

use spillway_media::{Codec, MediaError};
use thiserror::Error;

/// A body or file that cannot be read. The fault is the sender's; drop the message (or, for the
/// file errors, the file) and go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlvError {
    /// A body of no bytes. For audio this is silence (E-RTMP v2); otherwise nothing.
    #[error("the message body is empty; for audio this means silence, for video it can be ignored")]
    EmptyBody,
    /// The body ended inside a header.
    #[error("{what} needs byte {need} of a body of {have}; the sender cut the message short")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes the body needs to have.
        need: usize,
        /// Bytes it has.
        have: usize,
    },
    /// A multitrack type the specification reserves.
    #[error("multitrack type {value} is reserved in Enhanced RTMP v2; drop this message")]
    MultitrackType {
        /// The value found.
        value: u8,
    },
    /// A multitrack message whose inner packet type is multitrack or ModEx again.
    #[error("packet type {value} may not be inside a multitrack message; drop this message")]
    MultitrackPacket {
        /// The inner packet type.
        value: u8,
    },
    /// A sequence header without a config (interop cases 86, 102).
    #[error("the {} sequence header is empty; take the config from the stream itself", codec.name())]
    EmptyConfig {
        /// The codec it announces.
        codec: Codec,
    },
    /// A message that names no codec this crate knows.
    #[error("the message names no known codec; relay it unchanged or drop it")]
    UnknownCodec,
    /// A message that carries no config: not a sequence start, nor a frame that describes itself.
    #[error("this {} message carries no config; wait for the sequence start", codec.name())]
    NotAConfig {
        /// The codec of the message.
        codec: Codec,
    },
    /// A config that its codec's parser refuses.
    #[error("the {} config cannot be read: {source}", codec.name())]
    Config {
        /// The codec.
        codec: Codec,
        /// What is wrong with it.
        source: MediaError,
    },
    /// A file that does not begin with a sane FLV header.
    #[error("no FLV file header at the start; this is not an FLV file")]
    NotFlv,
    /// A tag over the reader's limit.
    #[error("a tag declares {length} bytes, more than the limit of {limit}; raise the limit or fix the file")]
    TagTooLarge {
        /// The declared body length.
        length: u32,
        /// The reader's limit.
        limit: u32,
    },
}
