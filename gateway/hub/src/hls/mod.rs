//! HLS: one packager per stream and the store its output is served from.

use std::sync::Arc;

use crate::hub::WeakHub;
use crate::options::HlsOptions;
use crate::stream::Stream;

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

    /// A publisher took the stream (called on each start and take-over).
    pub(crate) fn stream_started(&self, stream: &Arc<Stream>) {
        let _ = (stream, &self.hub, &self.options);
    }

    /// The stream is over and out of the registry.
    pub(crate) fn stream_ended(&self, stream: &Arc<Stream>) {
        let _ = stream;
    }

    /// Called four times a second.
    pub(crate) fn sweep(&self) {}
}
