//! [`Rope`]: a body of shared parts with an exact length, never joined or copied.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The bytes `range` of a list of shared parts, as a response body.
///
/// It holds the parts until it ends, so an answer under way is complete even when its segment has left the
/// window meanwhile.
pub(crate) struct Rope {
    parts: Arc<[Bytes]>,
    next: usize,
    skip: u64,
    left: u64,
    count: Option<Box<dyn Fn(u64) + Send>>,
}

impl Rope {
    /// The part `range` of `parts`; what lies beyond their end is left out.
    pub(crate) fn new(parts: Arc<[Bytes]>, range: Range<u64>) -> Self {
        let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = range.end.min(total);
        Self {
            parts,
            next: 0,
            skip: range.start,
            left: end.saturating_sub(range.start),
            count: None,
        }
    }

    /// Tells `count` of the bytes that are handed on.
    pub(crate) fn counted(self, count: impl Fn(u64) + Send + 'static) -> Self {
        Self {
            count: Some(Box::new(count)),
            ..self
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        while self.left > 0 {
            let part = self.parts.get(self.next)?;
            self.next += 1;
            let length = part.len() as u64;
            if self.skip >= length {
                self.skip -= length;
                continue;
            }
            let start = self.skip as usize;
            let end = length.min(self.skip.saturating_add(self.left)) as usize;
            self.skip = 0;
            self.left -= (end - start) as u64;
            if let Some(count) = &self.count {
                count((end - start) as u64);
            }
            return Some(part.slice(start..end));
        }
        None
    }
}

impl Body for Rope {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn collect(range: Range<u64>) -> (u64, Vec<u8>) {
        let parts: Arc<[Bytes]> = [&b"abc"[..], b"", b"d", b"efgh"]
            .into_iter()
            .map(Bytes::from_static)
            .collect();
        let rope = Rope::new(parts, range);
        let length = rope.size_hint().exact().unwrap();
        (length, rope.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn every_range_is_exact() {
        let whole = b"abcdefgh";
        for start in 0..=8_usize {
            for end in start..=8 {
                let (length, body) = collect(start as u64..end as u64).await;
                assert_eq!(body, &whole[start..end]);
                assert_eq!(length, body.len() as u64);
            }
        }
    }

    #[tokio::test]
    async fn a_range_beyond_the_end_is_cut() {
        assert_eq!(collect(6..100).await, (2, b"gh".to_vec()));
        assert_eq!(collect(50..100).await, (0, Vec::new()));
    }

    #[test]
    fn parts_are_shared_and_not_copied() {
        let part = Bytes::from(vec![7; 1000]);
        let mut rope = Rope::new([part.clone()].into_iter().collect(), 10..20);
        assert_eq!(rope.take().unwrap().as_ptr(), part[10..].as_ptr());
    }
}
