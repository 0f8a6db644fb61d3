//! The client's side.

use bytes::BytesMut;

use crate::error::HandshakeError;

/// The client's side of one handshake.
#[derive(Debug)]
pub struct ClientHandshake {
    digest: bool,
}

impl ClientHandshake {
    /// Appends C0 and C1 to `out`. `seed` makes the bytes that should look random; they protect nothing.
    pub fn start(seed: u64, digest: bool, out: &mut BytesMut) -> ClientHandshake {
        let _ = (seed, out);
        ClientHandshake { digest }
    }

    /// Consumes `input` from the front and appends what must be sent to `out`; `true` once the handshake is done.
    /// Bytes after the handshake stay in `input`.
    ///
    /// # Errors
    /// What the peer speaks is not RTMP version 3.
    pub fn read(&mut self, input: &mut &[u8], out: &mut BytesMut) -> Result<bool, HandshakeError> {
        let _ = (input, out, self.digest);
        Ok(false)
    }
}
