//! FLV over WebSocket (RFC 6455), on the same URL as HTTP-FLV.
//!
//! Written here because a general WebSocket library copies each message once per viewer: outgoing media is
//! `[frame head][tag]` straight from the stream's own buffer.

pub(super) mod handshake;
mod inbound;
mod outbound;
mod session;

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use hyper_util::rt::TokioIo;
use spillway_hub::Hub;
use tracing::debug;

use super::connection_of;
use crate::access::{Pass, Visit};
use crate::http::answer;

/// Answers 101 at once and runs the session on the upgraded connection: whether the stream exists is said by
/// the close code, because a proxy or player may not wait for a late 101.
pub(super) fn start(hub: &Hub, visit: Visit, pass: Pass, mut parts: Parts) -> Response {
    let response = handshake::answer(&parts.headers);
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let Some(upgrade) = parts.extensions.remove::<hyper::upgrade::OnUpgrade>() else {
        return answer::error(
            StatusCode::UPGRADE_REQUIRED,
            "this connection cannot be upgraded\n",
        );
    };
    let connection = connection_of(&parts.extensions);
    let (hub, info) = (hub.clone(), visit.session);
    connection.clone().spawn(async move {
        match upgrade.await {
            Ok(upgraded) => {
                let socket = connection.transport().map(|transport| transport.socket.clone());
                session::run(TokioIo::new(upgraded), socket, hub, visit, pass).await;
            }
            Err(error) => debug!(session = %info.id, %error, "upgrade failed"),
        }
        drop(connection);
    });
    response
}

#[cfg(test)]
mod tests;
