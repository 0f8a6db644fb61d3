//! Sessions: one connection's dialogue, handshake included, without sockets and clocks.
//!
//! A session is fed with what the socket gave (`read`) and leaves what the socket is to get in
//! `output`. Both sides work alike:
//!
//! 1. Call `read` with the received bytes until it returns `Ok(None)`; each `Some` is an event.
//!    After an `accept_…` call it again, with no bytes if there are none: events may have waited.
//! 2. After each `read` and after each call that answers something, take everything out of
//!    `output` and send it.
//! 3. At an error or at the end of the connection, send what is left in `output` and drop the
//!    session.
//!
//! Any split of the input gives the same events and the same output.

pub mod client;
pub mod error;
mod link;
pub mod server;

pub use client::{ClientEvent, ClientMode, ClientOptions, ClientSession};
pub use error::SessionError;
pub use server::{
    ConnectInfo, PlayRefusal, PublishRefusal, RequestId, ServerEvent, ServerOptions, ServerSession,
};

use crate::message::type_id;

/// Zero bytes in front of the body in the buffer of every media event: room for an FLV tag head.
pub const HEAD_ROOM: usize = 11;
/// Spare capacity behind the body: room for an FLV tag's trailing size.
pub const TAIL_ROOM: usize = 4;

/// What a media message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// An audio message, type 8.
    Audio,
    /// A video message, type 9.
    Video,
    /// A data message in AMF0, type 18: metadata, cue points and the like.
    Data,
    /// A data message of type 15: a selector byte, then AMF0 that may switch to AMF3.
    DataAmf3,
}

impl MediaKind {
    /// The kind carried by messages of type `type_id`; `None` if it is no media type.
    pub fn from_type_id(type_id: u8) -> Option<Self> {
        Some(match type_id {
            type_id::AUDIO => Self::Audio,
            type_id::VIDEO => Self::Video,
            type_id::DATA => Self::Data,
            type_id::DATA_AMF3 => Self::DataAmf3,
            _ => return None,
        })
    }

    /// The message type id that carries this kind.
    pub fn type_id(self) -> u8 {
        match self {
            Self::Audio => type_id::AUDIO,
            Self::Video => type_id::VIDEO,
            Self::Data => type_id::DATA,
            Self::DataAmf3 => type_id::DATA_AMF3,
        }
    }
}
