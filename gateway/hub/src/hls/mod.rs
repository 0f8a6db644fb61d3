//! HLS: one packager per stream and the store its output is served from.

use std::sync::Arc;

use bytes::Bytes;

use crate::hub::WeakHub;
use crate::key::StreamKey;
use crate::options::HlsOptions;
use crate::stream::Stream;

/// A rendered playlist.
#[derive(Debug)]
pub struct PlaylistBody {
    /// Text.
    pub text: Bytes,
    /// Gzip.
    pub gzip: Bytes,
    /// ETag.
    pub etag: String,
    /// Max age.
    pub max_age_ms: u32,
}
/// A segment.
#[derive(Debug, Clone)]
pub struct SegmentBody {
    /// Parts.
    pub parts: Arc<[Bytes]>,
    /// Length.
    pub bytes: u64,
    /// ETag.
    pub etag: String,
    /// Max age.
    pub max_age_s: u32,
}
/// Error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HlsError {
    /// 404
    #[error("not found")]
    NotFound,
    /// 503
    #[error("not ready")]
    NotReady {
        /// Seconds.
        retry_after_s: u32,
    },
}

/// The HLS outputs of all streams.
#[derive(Debug)]
pub struct HlsStore {
    hub: WeakHub,
    options: HlsOptions,
}

impl HlsStore {
    pub(crate) fn new(hub: WeakHub, options: HlsOptions) -> Self {
        Self { hub, options }
    }
    /// .
    pub async fn multivariant(&self, _key: &StreamKey) -> Result<Arc<PlaylistBody>, HlsError> {
        Err(HlsError::NotFound)
    }
    /// .
    pub async fn multivariant_outer(&self, _key: &StreamKey) -> Result<Arc<PlaylistBody>, HlsError> {
        Err(HlsError::NotFound)
    }
    /// .
    pub async fn media(&self, _key: &StreamKey) -> Result<Arc<PlaylistBody>, HlsError> {
        Err(HlsError::NotFound)
    }
    /// .
    pub fn segment(&self, _key: &StreamKey, _file: &str) -> Option<SegmentBody> {
        None
    }
    /// .
    pub fn bytes(&self) -> u64 {
        0
    }

    /// A publisher took the stream (called on each start and take-over).
    pub(crate) fn stream_started(&self, stream: &Arc<Stream>) {
        let _ = (stream, &self.hub, &self.options, self.hub.upgrade());
    }

    /// The stream is over and out of the registry.
    pub(crate) fn stream_ended(&self, stream: &Arc<Stream>) {
        let _ = stream;
    }

    /// Called four times a second.
    pub(crate) fn sweep(&self) {}
}
