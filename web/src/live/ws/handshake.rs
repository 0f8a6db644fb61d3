//! The opening handshake (RFC 6455 §4.2).

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, request};
use axum::response::Response;
use sha1::{Digest, Sha1};

use crate::http::answer;

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// A key is 16 bytes in base64.
const KEY_CHARS: usize = 24;

/// Whether the request asks for a WebSocket; header names and values in any case, `Connection` as a list
/// (Firefox sends `keep-alive, Upgrade`).
pub(crate) fn is_asked(request: &request::Parts) -> bool {
    request.method == Method::GET
        && request.version == Version::HTTP_11
        && has_token(&request.headers, &CONNECTION, "upgrade")
        && has_token(&request.headers, &UPGRADE, "websocket")
}

/// The 101, or the refusal of a broken handshake.
pub(crate) fn answer(headers: &HeaderMap) -> Response {
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|v| v.as_bytes() != b"13")
    {
        let mut response = answer::error(
            StatusCode::UPGRADE_REQUIRED,
            "only WebSocket version 13 is spoken\n",
        );
        response
            .headers_mut()
            .insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return response;
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .map(HeaderValue::as_bytes)
        .filter(|key| is_key(key));
    let Some(accept) = key.and_then(|key| HeaderValue::from_str(&accept_of(key)).ok()) else {
        return answer::error(
            StatusCode::BAD_REQUEST,
            "Sec-WebSocket-Key is missing or broken\n",
        );
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let out = response.headers_mut();
    out.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    out.insert(UPGRADE, HeaderValue::from_static("websocket"));
    out.insert(SEC_WEBSOCKET_ACCEPT, accept);
    out.insert(CACHE_CONTROL, answer::NO_STORE);
    if let Some(protocol) = first_protocol(headers) {
        out.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

/// A client that names sub-protocols fails the connection unless one of them is chosen.
fn first_protocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let first = offered.split(',').next()?.trim();
    (!first.is_empty()).then(|| HeaderValue::from_str(first).ok())?
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let values = headers.get_all(name);
    values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(token))
}

fn is_key(key: &[u8]) -> bool {
    let alphabet = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    key.len() == KEY_CHARS
        && key
            .strip_suffix(b"==")
            .is_some_and(|body| body.iter().all(alphabet))
}

fn accept_of(key: &[u8]) -> String {
    base64(&Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = (0..3).fold(0_u32, |acc, i| {
            acc << 8 | u32::from(chunk.get(i).copied().unwrap_or(0))
        });
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= chunk.len() {
                char::from(ALPHABET[index])
            } else {
                '='
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(connection: &'static str, upgrade: &'static str) -> request::Parts {
        let request = axum::http::Request::get("/live/a.flv")
            .header("connection", connection)
            .header("UPGRADE", upgrade)
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_rfcs_example_key_gives_the_rfcs_accept() {
        let parts = asked("Upgrade", "websocket");
        let response = answer(&parts.headers);
        assert_eq!(response.status(), 101);
        assert_eq!(
            response.headers()["sec-websocket-accept"],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn base64_pads() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foo"), "Zm9v");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }

    #[test]
    fn upgrade_headers_are_read_as_lists_in_any_case() {
        assert!(is_asked(&asked("keep-alive, Upgrade", "WebSocket")));
        assert!(is_asked(&asked("UPGRADE", "websocket")));
        assert!(!is_asked(&asked("keep-alive", "websocket")));
        assert!(!is_asked(&asked("Upgrade", "h2c")));
    }

    #[test]
    fn broken_handshakes_are_refused() {
        let mut parts = asked("Upgrade", "websocket");
        parts
            .headers
            .insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("short"));
        assert_eq!(answer(&parts.headers).status(), 400);
        parts
            .headers
            .insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("8"));
        let refusal = answer(&parts.headers);
        assert_eq!(refusal.status(), 426);
        assert_eq!(refusal.headers()["sec-websocket-version"], "13");
    }

    #[test]
    fn a_sub_protocol_is_echoed_only_if_asked() {
        let mut parts = asked("Upgrade", "websocket");
        parts
            .headers
            .insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("flv, other"));
        assert_eq!(answer(&parts.headers).headers()["sec-websocket-protocol"], "flv");
    }
}
