//! Players of FLV over HTTP and over WebSocket.

use super::Turn;
use super::flv::FlvScan;
use super::http::{Body, HeadReader};
use super::ws::WsScan;
use crate::error::LoadError;
use crate::meter::Watch;
use crate::url::Target;
use std::sync::Arc;

/// What carries the FLV.
#[derive(Debug)]
enum Carrier {
    Http(Body),
    Ws(WsScan),
}

/// One HTTP-FLV or WS-FLV player.
#[derive(Debug)]
pub(crate) struct LivePlayer {
    target: Arc<Target>,
    websocket: bool,
    head: HeadReader,
    carrier: Option<Carrier>,
    flv: FlvScan,
}

impl LivePlayer {
    /// A player of `target`, over WebSocket or plain HTTP.
    pub(crate) fn new(target: Arc<Target>, websocket: bool) -> Self {
        Self {
            target,
            websocket,
            head: HeadReader::default(),
            carrier: None,
            flv: FlvScan::default(),
        }
    }

    /// The first bytes to send.
    pub(crate) fn hello(&self, out: &mut Vec<u8>) {
        let Target { path, host_port, .. } = &*self.target;
        let upgrade = match self.websocket {
            true => {
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: c3BpbGx3YXktbG9hZC4uLg==\r\n"
            }
            false => "",
        };
        let agent = concat!("User-Agent: spillway-load/", env!("CARGO_PKG_VERSION"));
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host_port}\r\n{agent}\r\nAccept: */*\r\n{upgrade}\r\n");
        out.extend_from_slice(request.as_bytes());
    }

    /// Takes what was read from the socket.
    pub(crate) fn read(
        &mut self,
        mut input: &[u8],
        turn: &mut Turn<'_>,
        watch: &mut Watch,
    ) -> Result<(), LoadError> {
        if self.carrier.is_none() {
            let Some(head) = self.head.read(&mut input)? else {
                return Ok(());
            };
            self.carrier = Some(match (head.status, self.websocket) {
                (200, false) => Carrier::Http(Body::new(&head)),
                (101, true) => Carrier::Ws(WsScan::default()),
                (status, _) => return Err(LoadError::Refused(format!("HTTP status {status}"))),
            });
        }
        loop {
            let piece = match &mut self.carrier {
                Some(Carrier::Http(body)) => {
                    let piece = body.read(&mut input)?;
                    if piece.is_none() && body.done() {
                        return Err(LoadError::Closed);
                    }
                    piece
                }
                Some(Carrier::Ws(scan)) => scan.read(&mut input, turn.out)?,
                None => None,
            };
            let Some(piece) = piece else { return Ok(()) };
            self.flv.read(piece, &mut turn.moment, watch)?;
        }
    }
}
