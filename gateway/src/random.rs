//! Numbers that no peer can guess, from the standard library's per-process random keys.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number.
pub(crate) fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A key of 32 hexadecimal digits.
pub(crate) fn key() -> String {
    format!("{:016x}{:016x}", number(), number())
}
