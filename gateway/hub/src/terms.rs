//! [`PublishTerms`]: what one publisher's stream may have.

/// What one publisher's stream may have, beside what holds for all; 0 sets no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublishTerms {
    /// What the publisher may send on average, in bits per second.
    pub bits_per_second: u64,
    /// Viewers over RTMP, HTTP-FLV and WebSocket-FLV together.
    pub max_viewers: usize,
}

/// The lower of two limits of which 0 is none.
pub(crate) fn lower<N: Ord + Default>(a: N, b: N) -> N {
    let none = N::default();
    if a == none || (b != none && b < a) { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::lower;

    #[test]
    fn zero_is_no_limit() {
        assert_eq!(
            [lower(0, 0), lower(0, 5), lower(5, 0), lower(5, 3), lower(3, 5)],
            [0, 5, 5, 3, 3]
        );
    }
}
