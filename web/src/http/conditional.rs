//! `If-None-Match` (RFC 9110 §13.1.2) and 304.

use axum::body::Body;
use axum::http::header::{IF_NONE_MATCH, IF_RANGE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

/// An entity tag in its quoted form, whether or not the source had quotes.
pub(crate) fn quoted(tag: &str, suffix: &str) -> String {
    let bare = tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"');
    format!("\"{bare}{suffix}\"")
}

/// Whether `If-None-Match` names `etag` (weak comparison) or is `*`.
pub(crate) fn none_match(headers: &HeaderMap, etag: &str) -> bool {
    let wanted = etag.trim_start_matches("W/");
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| {
            value
                .split(',')
                .map(str::trim)
                .any(|tag| tag == "*" || tag.trim_start_matches("W/") == wanted)
        })
}

/// Whether a `Range` may be answered with a part (RFC 9110 §13.1.5): no `If-Range`, or one that names `etag`
/// strongly. Dates never match: the media here has none.
pub(crate) fn range_allowed(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get(IF_RANGE)
        .is_none_or(|value| value.as_bytes() == etag.as_bytes())
}

/// 304 in place of `response`: its headers without those of a body.
pub(crate) fn not_modified(mut response: Response) -> Response {
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    *response.body_mut() = Body::empty();
    for header in ["content-type", "content-length", "content-encoding"] {
        response.headers_mut().remove(header);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn tags_compare_weakly_and_in_lists() {
        let mut headers = HeaderMap::new();
        assert!(!none_match(&headers, "\"a\""));
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"x\", W/\"a\""));
        assert!(none_match(&headers, "\"a\""));
        assert!(!none_match(&headers, "\"b\""));
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        assert!(none_match(&headers, "\"b\""));
    }

    #[test]
    fn tags_get_their_quotes_once() {
        assert_eq!(quoted("a-1", ""), "\"a-1\"");
        assert_eq!(quoted("\"a-1\"", "-gz"), "\"a-1-gz\"");
        assert_eq!(quoted("W/\"a\"", ""), "\"a\"");
    }

    #[test]
    fn if_range_is_strong() {
        let mut headers = HeaderMap::new();
        assert!(range_allowed(&headers, "\"a\""));
        headers.insert(IF_RANGE, HeaderValue::from_static("\"a\""));
        assert!(range_allowed(&headers, "\"a\""));
        headers.insert(IF_RANGE, HeaderValue::from_static("W/\"a\""));
        assert!(!range_allowed(&headers, "\"a\""));
    }
}
