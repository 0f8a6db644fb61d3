//! The chunk stream (RTMP 1.0 §5.3): messages cut into chunks, in both directions.

pub mod head;
pub mod reader;
pub mod writer;

pub use head::{ChunkHead, OUT_CHUNK_SIZE};
pub use reader::{ChunkReader, Message, MessageHeader, ReaderOptions};
pub use writer::ChunkWriter;
