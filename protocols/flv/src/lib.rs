//! FLV tags and their audio and video headers, legacy and enhanced (pure).
//!
//! The same bodies travel in RTMP messages and in FLV tags, so this crate serves both. Header
//! views ([`VideoHeader`], [`AudioHeader`]) say what a body is and where its codec data lies,
//! without copying; [`sample`] turns sequence headers into configs; [`tag`] frames bodies for
//! HTTP-FLV and [`ws`] for WebSockets; [`Metadata`] edits onMetaData before it is relayed.
//!
//! An error concerns one message only. Nothing here is a reason to end a connection.

pub mod audio;
mod enhanced;
pub mod error;
pub mod metadata;
pub mod reader;
pub mod sample;
pub mod script;
pub mod tag;
pub mod video;
pub mod ws;

pub use audio::{AudioHeader, AudioPacket};
pub use error::FlvError;
pub use metadata::Metadata;
pub use reader::{Tag, TagReader};
pub use script::ScriptData;
pub use tag::TagType;
pub use video::{VideoHeader, VideoPacket};
