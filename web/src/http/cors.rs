//! CORS on every answer: a player on another site sees an answer without it as "status 0", a 404 included.

use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

const PRIVATE_NETWORK_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_NETWORK_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const TIMING: HeaderName = HeaderName::from_static("timing-allow-origin");

const ANYONE: HeaderValue = HeaderValue::from_static("*");

/// Puts the headers that belong on every answer of the public listener.
pub(crate) async fn on_every_answer(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Content-Length, Content-Range, Date, Age, ETag, Retry-After"),
    );
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    headers.insert(TIMING, ANYONE);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The answer to OPTIONS: 204, good for a day.
pub(crate) fn preflight(request: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD, OPTIONS"),
    );
    headers.insert(
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "Range, If-Range, If-None-Match, Authorization, Accept, Cache-Control, Content-Type, Origin, \
             X-Requested-With",
        ),
    );
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    if request.contains_key(PRIVATE_NETWORK_ASKED) {
        headers.insert(PRIVATE_NETWORK_ALLOWED, HeaderValue::from_static("true"));
    }
    response
}
