//! HLS: playlists rendered once per change, segments as ropes of shared parts.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    REFERRER_POLICY, VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use spillway_hls::playlist::query::with_query;
use spillway_hub::hls::{HlsError, PlaylistBody, SegmentBody};
use spillway_hub::{Hub, Protocol, StreamKey};

use super::SHORT_OF_MEMORY;
use super::door::{self, LiveAccess};
use super::route::Target;
use crate::http::range::{self, Wanted};
use crate::http::rope::Rope;
use crate::http::{answer, conditional, encoding};

const PLAYLIST: HeaderValue = HeaderValue::from_static("application/vnd.apple.mpegurl");
const SEGMENT: HeaderValue = HeaderValue::from_static("video/mp2t");
/// Which caches may keep a segment.
const PUBLIC: &str = "public";
const PRIVATE: &str = "private";
const GZIP_SUFFIX: &str = "-gz";

/// A playlist or a segment; `target` names no other thing.
pub(super) async fn answer(
    hub: &Hub,
    access: Option<&LiveAccess>,
    target: Target<'_>,
    request: &Parts,
) -> Response {
    let (Target::Multivariant(stream)
    | Target::MultivariantOuter(stream)
    | Target::Media(stream)
    | Target::Segment { stream, .. }) = target
    else {
        return answer::not_found();
    };
    let Ok(key) = StreamKey::parse(stream) else {
        return answer::not_found();
    };
    let Some(access) = access else {
        return match target {
            Target::Segment { file, .. } => found_segment(hub, &key, file, PUBLIC, &request.headers),
            _ => found_playlist(hub, &key, target, &request.headers).await,
        };
    };
    let visit = door::visit(Protocol::Hls, &key, request);
    let ticket = match access.hls(hub, &visit, target).await {
        Ok(ticket) => ticket,
        Err(refusal) => return answer::denied(&refusal),
    };
    match (target, ticket) {
        (Target::Segment { file, .. }, None) => found_segment(hub, &key, file, PUBLIC, &request.headers),
        (Target::Segment { file, .. }, Some(_)) => found_segment(hub, &key, file, PRIVATE, &request.headers),
        (_, None) => found_playlist(hub, &key, target, &request.headers).await,
        (Target::Media(_), Some(ticket)) => {
            own_playlist(hub, &key, target, &access.segment_query(&visit, ticket)).await
        }
        (_, Some(ticket)) => own_playlist(hub, &key, target, &access.playlist_query(&visit, ticket)).await,
    }
}

fn found_segment(hub: &Hub, key: &StreamKey, file: &str, caches: &str, request: &HeaderMap) -> Response {
    match hub.hls().segment(key, file) {
        Some(segment) => self::segment(&segment, caches, request, counter(hub, key)),
        None => answer::not_found(),
    }
}

async fn found_playlist(hub: &Hub, key: &StreamKey, target: Target<'_>, request: &HeaderMap) -> Response {
    match rendered(hub, key, target).await {
        Ok(playlist) => self::playlist(&playlist, request),
        Err(error) => refusal(&error),
    }
}

async fn rendered(hub: &Hub, key: &StreamKey, target: Target<'_>) -> Result<Arc<PlaylistBody>, HlsError> {
    let store = hub.hls();
    match target {
        Target::Multivariant(_) => store.multivariant(key).await,
        Target::MultivariantOuter(_) => store.multivariant_outer(key).await,
        _ => store.media(key).await,
    }
}

/// The shared text with the viewer's own `query` on every address. Nobody may keep it: it holds the ticket.
async fn own_playlist(hub: &Hub, key: &StreamKey, target: Target<'_>, query: &str) -> Response {
    let shared = match rendered(hub, key, target).await {
        Ok(shared) => shared,
        Err(error) => return refusal(&error),
    };
    let own = with_query(std::str::from_utf8(&shared.text).unwrap_or_default(), query);
    let mut response = Response::new(Body::from(own));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PLAYLIST);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn refusal(error: &HlsError) -> Response {
    match error {
        HlsError::NotReady { retry_after_s } => answer::unavailable(
            "nothing to play yet; try again in a moment\n",
            u64::from(*retry_after_s),
        ),
        HlsError::ShortOfMemory { retry_after_s } => {
            answer::unavailable(SHORT_OF_MEMORY, u64::from(*retry_after_s))
        }
        _ => answer::not_found(),
    }
}

/// A `Range` on a playlist is ignored: some players ask for `bytes=0-` of everything and take a 200.
fn playlist(playlist: &Arc<PlaylistBody>, request: &HeaderMap) -> Response {
    let gzip = encoding::accepts_gzip(request) && !playlist.gzip.is_empty();
    let (bytes, suffix) = if gzip {
        (&playlist.gzip, GZIP_SUFFIX)
    } else {
        (&playlist.text, "")
    };
    let etag = conditional::quoted(&playlist.etag, suffix);
    let mut response = Response::new(Body::from(bytes.clone()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PLAYLIST);
    headers.insert(CONTENT_LENGTH, bytes.len().into());
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(CACHE_CONTROL, freshness(playlist.max_age_ms));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    tagged(response, &etag, request)
}

/// Whole seconds, rounded down; less than one is none.
fn freshness(max_age_ms: u32) -> HeaderValue {
    match max_age_ms / 1000 {
        0 => answer::NO_CACHE,
        seconds => text(&format!("max-age={seconds}")),
    }
}

/// Counts the bytes of a segment as they are sent.
fn counter(hub: &Hub, key: &StreamKey) -> impl Fn(u64) + Send + 'static {
    let (hub, stream) = (hub.clone(), hub.stream(key));
    let hls = Protocol::Hls.index();
    move |bytes| {
        hub.stats().bytes_out[hls].add(bytes);
        if let Some(stream) = &stream {
            stream.stats().bytes_out[hls].add(bytes);
        }
    }
}

fn segment(
    segment: &SegmentBody,
    caches: &str,
    request: &HeaderMap,
    count: impl Fn(u64) + Send + 'static,
) -> Response {
    let etag = conditional::quoted(&segment.etag, "");
    let length = segment.bytes;
    let wanted = match range::wanted(request, length) {
        Wanted::Part(_) | Wanted::Unsatisfiable if !conditional::range_allowed(request, &etag) => Wanted::All,
        wanted => wanted,
    };
    let (status, range) = match wanted {
        Wanted::All => (StatusCode::OK, 0..length),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Unsatisfiable => return unsatisfiable(length),
    };
    let rope = Rope::new(Arc::clone(&segment.parts), range.clone()).counted(count);
    let mut response = Response::new(Body::new(rope));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, SEGMENT);
    headers.insert(CONTENT_LENGTH, (range.end - range.start).into());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let max_age = segment.max_age_s;
    headers.insert(
        CACHE_CONTROL,
        text(&format!("{caches}, max-age={max_age}, immutable")),
    );
    if status == StatusCode::PARTIAL_CONTENT {
        let last = range.end.saturating_sub(1);
        headers.insert(
            CONTENT_RANGE,
            text(&format!("bytes {}-{last}/{length}", range.start)),
        );
    }
    tagged(response, &etag, request)
}

fn unsatisfiable(length: u64) -> Response {
    let mut response = answer::error(StatusCode::RANGE_NOT_SATISFIABLE, "beyond the end\n");
    response
        .headers_mut()
        .insert(CONTENT_RANGE, text(&format!("bytes */{length}")));
    response
}

fn tagged(mut response: Response, etag: &str, request: &HeaderMap) -> Response {
    response.headers_mut().insert(ETAG, text(etag));
    if conditional::none_match(request, etag) {
        conditional::not_modified(response)
    } else {
        response
    }
}

fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::BodyExt;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn request(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(n, v)| (n.parse().unwrap(), HeaderValue::from_static(v)))
            .collect()
    }

    async fn body(response: Response) -> Bytes {
        response.into_body().collect().await.unwrap().to_bytes()
    }

    fn a_playlist() -> Arc<PlaylistBody> {
        Arc::new(PlaylistBody {
            text: Bytes::from_static(b"#EXTM3U\n"),
            gzip: Bytes::from_static(b"packed"),
            etag: "7-12".into(),
            max_age_ms: 1000,
        })
    }

    fn a_segment() -> SegmentBody {
        let parts = [Bytes::from_static(b"01234"), Bytes::from_static(b"56789")];
        SegmentBody {
            parts: parts.into(),
            bytes: 10,
            etag: "7-12".into(),
            max_age_s: 24,
        }
    }

    #[tokio::test]
    async fn playlists_are_typed_dated_and_sized_and_ignore_ranges() {
        let response = playlist(&a_playlist(), &request(&[("range", "bytes=0-")]));
        assert_eq!(response.status(), 200);
        let headers = response.headers();
        assert_eq!(headers["content-type"], "application/vnd.apple.mpegurl");
        assert_eq!(headers["content-length"], "8");
        assert_eq!(headers["cache-control"], "max-age=1");
        assert_eq!(headers["vary"], "Accept-Encoding");
        assert_eq!(body(response).await, "#EXTM3U\n");
    }

    #[tokio::test]
    async fn playlists_come_packed_to_those_who_take_it() {
        let response = playlist(
            &a_playlist(),
            &request(&[("accept-encoding", "gzip, deflate, br")]),
        );
        assert_eq!(response.headers()["content-encoding"], "gzip");
        assert_eq!(response.headers()["etag"], "\"7-12-gz\"");
        assert_eq!(response.headers()["content-length"], "6");
        assert_eq!(body(response).await, "packed");
    }

    #[tokio::test]
    async fn an_unchanged_playlist_is_304_with_its_caching_headers() {
        let response = playlist(&a_playlist(), &request(&[("if-none-match", "\"7-12\"")]));
        assert_eq!(response.status(), 304);
        assert_eq!(response.headers()["cache-control"], "max-age=1");
        assert_eq!(response.headers()["etag"], "\"7-12\"");
        assert!(body(response).await.is_empty());
        let changed = playlist(&a_playlist(), &request(&[("if-none-match", "\"7-11\"")]));
        assert_eq!(changed.status(), 200);
    }

    #[tokio::test]
    async fn segments_have_ranges() {
        for (range, status, content_range, bytes) in [
            ("bytes=0-", 206, "bytes 0-9/10", "0123456789"),
            ("bytes=3-6", 206, "bytes 3-6/10", "3456"),
            ("bytes=-1", 206, "bytes 9-9/10", "9"),
            ("bytes=10-", 416, "bytes */10", "beyond the end\n"),
        ] {
            let response = segment(&a_segment(), PUBLIC, &request(&[("range", range)]), |_| ());
            assert_eq!(response.status(), status, "{range}");
            assert_eq!(response.headers()["content-range"], content_range);
            if status == 206 {
                assert_eq!(
                    response.headers()["content-length"],
                    bytes.len().to_string().as_str()
                );
            } else {
                assert_eq!(response.headers()["cache-control"], "no-store");
            }
            assert_eq!(body(response).await, bytes);
        }
        for headers in [
            &[][..],
            &[("range", "bytes=0-1,4-5")],
            &[("range", "bytes=0-1"), ("if-range", "\"old\"")],
        ] {
            let response = segment(&a_segment(), PUBLIC, &request(headers), |_| ());
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["content-length"], "10");
            assert_eq!(response.headers()["content-type"], "video/mp2t");
            assert_eq!(
                response.headers()["cache-control"],
                "public, max-age=24, immutable"
            );
            assert!(!response.headers().contains_key("content-range"));
        }
    }

    #[tokio::test]
    async fn the_bytes_sent_are_counted_as_they_go() {
        let sent = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&sent);
        let count = move |bytes| {
            counter.fetch_add(bytes, Ordering::Relaxed);
        };
        let response = segment(&a_segment(), PUBLIC, &request(&[("range", "bytes=2-7")]), count);
        assert_eq!(sent.load(Ordering::Relaxed), 0);
        body(response).await;
        assert_eq!(sent.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn a_missing_playlist_is_never_stored() {
        let response = refusal(&HlsError::NotReady { retry_after_s: 2 });
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (503, &"2".parse().unwrap())
        );
        assert_eq!(response.headers()["cache-control"], "no-store");
        let response = refusal(&HlsError::NotFound);
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["cache-control"], "no-store");
    }
}
