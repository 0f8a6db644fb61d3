//! The server's side.

use bytes::{BufMut, BytesMut};

use super::{
    PACKET_BYTES, Packet, VERSION, check_version, collect,
    digest::{self, Signer},
    filler::Filler,
    skip,
};
use crate::error::HandshakeError;

/// The version in S1 when it carries a digest. Players check digests where its first byte is 3 or more.
const SIGNED_VERSION: [u8; 4] = [4, 5, 0, 1];

/// The server's side of one handshake.
///
/// Answers S0, S1 and S2 together as soon as C1 is complete: some clients wait for S2 before they send C2, others
/// send C2 before they read S2. Holds at most one packet.
#[derive(Debug)]
pub struct ServerHandshake {
    state: State,
    filler: Filler,
}

#[derive(Debug)]
enum State {
    Version,
    C1(Vec<u8>),
    C2 { bytes_left: usize },
}

impl ServerHandshake {
    /// A handshake at its start. `seed` makes the bytes that should look random; they protect nothing.
    pub fn new(seed: u64) -> ServerHandshake {
        ServerHandshake {
            state: State::Version,
            filler: Filler(seed),
        }
    }

    /// Consumes `input` from the front and appends what must be sent to `out`. `false` asks for more input; `true`
    /// says that the handshake is done, and what follows it is left in `input`.
    ///
    /// The content of C2 is not checked: clients send copies, variations, digests and zeros.
    ///
    /// # Errors
    /// The peer does not speak RTMP version 3; its first byte is enough to know.
    pub fn read(&mut self, input: &mut &[u8], out: &mut BytesMut) -> Result<bool, HandshakeError> {
        loop {
            match &mut self.state {
                State::Version => {
                    let Some((version, rest)) = input.split_first() else {
                        return Ok(false);
                    };
                    check_version(*version)?;
                    *input = rest;
                    self.state = State::C1(Vec::with_capacity(PACKET_BYTES));
                }
                State::C1(c1) => {
                    if !collect(c1, input) {
                        return Ok(false);
                    }
                    if let Some(c1) = c1.first_chunk() {
                        answer(c1, &mut self.filler, out);
                    }
                    self.state = State::C2 {
                        bytes_left: PACKET_BYTES,
                    };
                }
                State::C2 { bytes_left } => return Ok(skip(bytes_left, input)),
            }
        }
    }
}

/// Appends S0, S1 and S2.
///
/// A client that signed C1 gets S1 signed in the same layout and S2 signed for its digest. Any other client gets a
/// version of zero in S1, without which players would look for digests, and its own C1 back as S2, which some compare.
fn answer(c1: &Packet, filler: &mut Filler, out: &mut BytesMut) {
    let mut s1 = [0; PACKET_BYTES];
    filler.fill(&mut s1[8..]);
    let mut s2 = *c1;
    if let Some((layout, digest)) = digest::find(c1, Signer::Player) {
        s1[4..8].copy_from_slice(&SIGNED_VERSION);
        digest::sign(&mut s1, layout, Signer::Server);
        filler.fill(&mut s2);
        digest::sign_answer(&mut s2, &digest, Signer::Server);
    }
    out.reserve(1 + 2 * PACKET_BYTES);
    out.put_u8(VERSION);
    out.put(&s1[..]);
    out.put(&s2[..]);
}
