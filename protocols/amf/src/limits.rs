//! What one AMF message may cost. No real client comes near these.

/// How many objects and arrays may be open inside each other.
///
/// Real messages reach 4 (metadata with track maps); the bound keeps every later walk over a value shallow.
pub const MAX_DEPTH: usize = 32;

/// How many values one message may hold, nested ones included.
///
/// Bounds the memory of a message of one-byte values at well under a megabyte.
pub const MAX_VALUES: usize = 4096;
