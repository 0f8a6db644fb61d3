//! AMF0 and AMF3 values, bounded in depth and size (pure).
//!
//! The reader never reserves memory by a number on the wire, never recurses and keeps the order of properties.
//! What it accepts is bounded by [`limits`].

pub mod amf0;
pub mod amf3;
mod cursor;
pub mod error;
pub mod limits;
mod text;
pub mod value;

pub use error::AmfError;
pub use value::Value;
