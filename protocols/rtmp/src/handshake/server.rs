//! The server's side.

use bytes::BytesMut;

use crate::error::HandshakeError;

/// The server's side of one handshake.
#[derive(Debug)]
pub struct ServerHandshake {
    seed: u64,
}

impl ServerHandshake {
    /// A handshake at its start. `seed` makes the bytes that should look random; they protect nothing.
    pub fn new(seed: u64) -> ServerHandshake {
        ServerHandshake { seed }
    }

    /// Consumes `input` from the front and appends what must be sent to `out`; `true` once the handshake is done.
    /// Bytes after the handshake stay in `input`.
    ///
    /// # Errors
    /// What the peer speaks is not RTMP version 3.
    pub fn read(&mut self, input: &mut &[u8], out: &mut BytesMut) -> Result<bool, HandshakeError> {
        let _ = (input, out, self.seed);
        Ok(false)
    }
}
