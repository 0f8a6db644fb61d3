//! Short answers: errors that a cache must forget at once, and a redirect.

use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use spillway_access::Refusal;

/// Never stored: answers that are wrong a moment later.
pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// Stored, but asked for again each time.
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// An error with a line of text. Costs no lock, no log line and no allocation of note: some players ask for a
/// missing segment a hundred times a second.
pub(crate) fn error(status: StatusCode, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(CACHE_CONTROL, NO_STORE);
    response
}

/// 404.
pub(crate) fn not_found() -> Response {
    error(StatusCode::NOT_FOUND, "not found\n")
}

/// 503 with the seconds after which to ask again.
pub(crate) fn unavailable(text: &'static str, retry_after_s: u64) -> Response {
    let mut response = error(StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(RETRY_AFTER, retry_after_s.into());
    response
}

/// 401, 403, 429 or 503 for who may not do what it asks, with what to do about it.
pub(crate) fn denied(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.reason.status()).unwrap_or(StatusCode::FORBIDDEN);
    let mut response = error(status, "");
    *response.body_mut() = Body::from(format!("{}\n", refusal.text));
    let headers = response.headers_mut();
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = refusal.retry_after_s {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// 405 for everything but reading.
pub(crate) fn method_not_allowed(allow: &'static str) -> Response {
    let mut response = error(
        StatusCode::METHOD_NOT_ALLOWED,
        "only GET and HEAD are answered here\n",
    );
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// 308 to a relative address.
pub(crate) fn redirect(location: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else {
        return not_found();
    };
    let mut response = error(StatusCode::PERMANENT_REDIRECT, "");
    response.headers_mut().insert(LOCATION, location);
    response
}
