//! Why AMF bytes could not be read.

/// Why AMF bytes could not be read. Offsets count from the start of the slice that was given to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmfError {
    /// The bytes end inside a value.
    #[error(
        "AMF data ends at byte {offset}, inside a value; the sender cut the message or lied about a length"
    )]
    Truncated {
        /// Where the bytes ended.
        offset: usize,
    },
    /// A marker that the specification does not define, or reserves.
    #[error("byte {marker:#04x} at {offset} is no AMF type marker that can be read; drop the message")]
    UnknownMarker {
        /// The byte found.
        marker: u8,
        /// Where it was.
        offset: usize,
    },
    /// More objects and arrays inside each other than [`MAX_DEPTH`](crate::limits::MAX_DEPTH).
    #[error(
        "AMF value at byte {offset} is nested deeper than {} levels; drop the message",
        crate::limits::MAX_DEPTH
    )]
    TooDeep {
        /// Where the level too many was opened.
        offset: usize,
    },
    /// More values than [`MAX_VALUES`](crate::limits::MAX_VALUES) in one message.
    #[error(
        "AMF message holds more than {} values (at byte {offset}); drop the message",
        crate::limits::MAX_VALUES
    )]
    TooManyValues {
        /// Where the value too many starts.
        offset: usize,
    },
    /// A reference to an earlier value. They are refused: each would copy its target again.
    #[error("AMF reference at byte {offset}; references are not supported, drop the message")]
    Reference {
        /// Where the reference is.
        offset: usize,
    },
    /// An AMF3 object that serialises itself: its length cannot be known.
    #[error(
        "externalizable AMF3 object at byte {offset}; its format is private to its class, drop the message"
    )]
    Externalizable {
        /// Where the object starts.
        offset: usize,
    },
}

impl AmfError {
    /// Whether the message asks for more than the [limits](crate::limits) give, and is not just broken.
    pub fn is_over_limit(&self) -> bool {
        matches!(self, Self::TooDeep { .. } | Self::TooManyValues { .. })
    }
}
