//! What can be wrong with codec bytes.

use thiserror::Error;

/// A codec header, parameter set or access unit that cannot be read. The fault is always the
/// sender's; the caller decides whether it costs one message or one track, never the process.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The bytes ended inside a field.
    #[error("{what} ends after {have} bytes where {need} are needed; the sender cut it short")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes needed to read on.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// A bit reader was asked for more bits than are left.
    #[error("{wanted} bits wanted at bit {at}, but the data ends first; the sender cut it short")]
    OutOfBits {
        /// Bits that were asked for.
        wanted: u32,
        /// Bit position of the read.
        at: usize,
    },
    /// An exponential-Golomb code with more than 31 leading zeros.
    #[error("exp-Golomb code at bit {at} does not fit 32 bits; the parameter set is damaged")]
    ExpGolombTooLong {
        /// Bit position where the code starts.
        at: usize,
    },
    /// A field has a value its specification forbids.
    #[error("{what} is {value}, which its specification does not allow; check the encoder")]
    Invalid {
        /// Name of the field.
        what: &'static str,
        /// The value found.
        value: u64,
    },
    /// A length-prefixed NAL unit reaches past the end of its access unit.
    #[error("NAL unit at byte {at} declares {declared} bytes but {left} are left; drop this access unit")]
    NalOverrun {
        /// Offset of the length field.
        at: usize,
        /// The declared length.
        declared: u64,
        /// Bytes left after the length field.
        left: usize,
    },
}
