//! The handshake (RTMP 1.0 §5.2) from both sides, plain and with the digests of Flash Player 9.
//!
//! Each side sends one byte of version and two packets of 1,536 bytes: (C0) C1 C2 from the client, (S0) S1 S2 from
//! the server. Nothing in them protects anything: the digests only prove that both sides know a published key.

mod digest;
mod filler;

pub mod client;
pub mod server;

pub use client::ClientHandshake;
pub use server::ServerHandshake;

/// Bytes in each of C1, C2, S1 and S2.
pub const PACKET_BYTES: usize = 1536;

/// The protocol version in C0 and S0.
pub const VERSION: u8 = 3;

/// C1, C2, S1 or S2.
type Packet = [u8; PACKET_BYTES];

/// What a first byte that is not [`VERSION`] says of the peer.
fn check_version(version: u8) -> Result<(), crate::error::HandshakeError> {
    use crate::error::HandshakeError;
    match version {
        VERSION => Ok(()),
        6 | 8 | 9 => Err(HandshakeError::PeerEncrypted { version }),
        0x16 => Err(HandshakeError::PeerTls),
        b'A'..=b'Z' => Err(HandshakeError::PeerHttp),
        _ => Err(HandshakeError::PeerVersion { version }),
    }
}

/// Moves bytes from the front of `input` to the end of `packet`, up to a whole packet; whether it is whole.
fn collect(packet: &mut Vec<u8>, input: &mut &[u8]) -> bool {
    let (taken, rest) = input.split_at(PACKET_BYTES.saturating_sub(packet.len()).min(input.len()));
    packet.extend_from_slice(taken);
    *input = rest;
    packet.len() == PACKET_BYTES
}

/// Skips bytes at the front of `input`, up to `left`, which is lowered; whether none is left to skip.
fn skip(left: &mut usize, input: &mut &[u8]) -> bool {
    let skipped = (*left).min(input.len());
    *left -= skipped;
    *input = input.get(skipped..).unwrap_or_default();
    *left == 0
}
