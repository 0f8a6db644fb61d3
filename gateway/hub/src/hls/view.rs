//! What requests are answered from: one state of a stream's window, rendered.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use spillway_hls::Snapshot;
use spillway_hls::playlist::multivariant::Variant;
use spillway_hls::playlist::{media, multivariant};

/// How long caches may keep a multivariant playlist: its tracks change with the publisher at most.
const MULTIVARIANT_MAX_AGE_MS: u32 = 10_000;

/// The media playlist beside the multivariant one.
const MEDIA_FILE: &str = "media.m3u8";

/// A rendered playlist, shared by all who ask for it.
#[derive(Debug)]
pub struct PlaylistBody {
    /// The text.
    pub text: Bytes,
    /// The text, compressed by gzip.
    pub gzip: Bytes,
    /// Names this state of the playlist, unquoted.
    pub etag: String,
    /// How long caches may keep it, in milliseconds.
    pub max_age_ms: u32,
}

impl PlaylistBody {
    fn new(text: String, etag: String, max_age_ms: u32) -> Arc<Self> {
        let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 2), Compression::default());
        // A Vec takes every write; without gzip the plain text is served.
        let gzip = encoder
            .write_all(text.as_bytes())
            .and_then(|()| encoder.finish())
            .unwrap_or_default();
        Arc::new(Self {
            text: text.into(),
            gzip: gzip.into(),
            etag,
            max_age_ms,
        })
    }
}

/// A segment to serve. Holding it keeps its bytes, whatever the window does meanwhile.
#[derive(Debug, Clone)]
pub struct SegmentBody {
    /// The bytes in order.
    pub parts: Arc<[Bytes]>,
    /// Their sum.
    pub bytes: u64,
    /// Names the segment, unquoted; its bytes never change.
    pub etag: String,
    /// How long it will still be served at least, in seconds.
    pub max_age_s: u32,
}

/// One state of a stream's output.
#[derive(Debug)]
pub(super) struct View {
    snapshot: Snapshot,
    /// `APP/NAME/media.m3u8`.
    pub(super) media: Arc<PlaylistBody>,
    /// `APP/NAME/index.m3u8`.
    pub(super) multivariant: Arc<PlaylistBody>,
    /// `APP/NAME.m3u8`.
    pub(super) multivariant_outer: Arc<PlaylistBody>,
}

impl View {
    /// The segment of this file name.
    pub(super) fn segment(&self, file: &str) -> Option<SegmentBody> {
        let found = self.snapshot.find(file)?;
        let newest = self
            .snapshot
            .segments
            .last()
            .map_or(found.msn, |newest| newest.msn);
        let served = self.snapshot.segments.len() as u64;
        let left = served.saturating_sub(newest.saturating_sub(found.msn)).max(1);
        let seconds = left.saturating_mul(u64::from(self.snapshot.target_duration_s));
        Some(SegmentBody {
            parts: found.segment.parts.clone(),
            bytes: found.segment.bytes,
            etag: found.name.clone(),
            max_age_s: u32::try_from(seconds).unwrap_or(u32::MAX),
        })
    }
}

/// Renders views; keeps what stays the same from one to the next.
#[derive(Debug, Default)]
pub(super) struct Renderer {
    variant: Option<Variant>,
    multivariant: Option<(Arc<PlaylistBody>, Arc<PlaylistBody>)>,
    version: u64,
}

impl Renderer {
    /// Renders a window. `name` is the stream's own name, `prefix` makes ETags unique for the process.
    pub(super) fn render(&mut self, snapshot: Snapshot, name: &str, prefix: &str) -> View {
        self.version += 1;
        let version = self.version;
        let max_age_ms = snapshot.target_duration_s.saturating_mul(500);
        let media = PlaylistBody::new(
            media::render(&snapshot),
            format!("{prefix}m{version}"),
            max_age_ms,
        );
        let (inner, outer) = self.multivariant(&snapshot, name, prefix);
        View {
            snapshot,
            media,
            multivariant: inner,
            multivariant_outer: outer,
        }
    }

    /// Bit rates are measured anew: the playlist begins a new list.
    pub(super) fn forget(&mut self) {
        self.variant = None;
    }

    fn multivariant(
        &mut self,
        snapshot: &Snapshot,
        name: &str,
        prefix: &str,
    ) -> (Arc<PlaylistBody>, Arc<PlaylistBody>) {
        let before = self.variant.clone();
        let variant = self.variant.get_or_insert_with(|| Variant::measure(snapshot));
        variant.refresh(snapshot);
        if let Some(rendered) = self
            .multivariant
            .as_ref()
            .filter(|_| before.as_ref() == Some(variant))
        {
            return rendered.clone();
        }
        let body = |uri: &str, kind: &str| {
            let etag = format!("{prefix}{kind}{}", self.version);
            PlaylistBody::new(multivariant::render(variant, uri), etag, MULTIVARIANT_MAX_AGE_MS)
        };
        let folder = name.rsplit('/').next().unwrap_or(name);
        let outer = format!("{}/{MEDIA_FILE}", percent_encoded(folder));
        self.multivariant
            .insert((body(MEDIA_FILE, "v"), body(&outer, "o")))
            .clone()
    }
}

/// A path segment as a URI may carry it (RFC 3986 §3.3), a colon encoded too: a relative reference must not begin
/// like a scheme.
fn percent_encoded(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(
                    char::from_digit(u32::from(digit), 16)
                        .unwrap_or('0')
                        .to_ascii_uppercase(),
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_relative_references() {
        assert_eq!(percent_encoded("cam-1_a.b~"), "cam-1_a.b~");
        assert_eq!(percent_encoded("a b?c#d:e"), "a%20b%3Fc%23d%3Ae");
        assert_eq!(percent_encoded("你"), "%E4%BD%A0");
    }
}
