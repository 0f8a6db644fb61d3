//! The chunk stream (RTMP 1.0 §5.3): messages cut into chunks, in both directions.

mod partial;
mod wire;

pub mod head;
pub mod message;
pub mod reader;
pub mod writer;

pub use head::{ChunkHead, OUT_CHUNK_SIZE};
pub use message::{Message, MessageHeader};
pub use reader::{ChunkReader, ReaderOptions};
pub use writer::ChunkWriter;

/// The chunk size both sides start with (RTMP 1.0 §5.4.1), in bytes.
pub const INITIAL_CHUNK_SIZE: u32 = 128;
