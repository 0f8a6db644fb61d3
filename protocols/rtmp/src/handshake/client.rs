//! The client's side.

use bytes::{BufMut, BytesMut};

use super::{
    PACKET_BYTES, Packet, VERSION, check_version, collect,
    digest::{self, Layout, Signer},
    filler::Filler,
    skip,
};
use crate::error::HandshakeError;

/// The version in C1 when it carries a digest: that of the Flash Player whose form of handshake it is.
const SIGNED_VERSION: [u8; 4] = [9, 0, 124, 2];

/// The client's side of one handshake.
///
/// Sends C2 when S1 is complete, without waiting for S2: some servers hold S2 back until they have C2.
#[derive(Debug)]
pub struct ClientHandshake {
    state: State,
    filler: Filler,
}

#[derive(Debug)]
enum State {
    Version,
    S1(Vec<u8>),
    S2 { bytes_left: usize },
}

impl ClientHandshake {
    /// Appends C0 and C1 to `out`. With `digest`, C1 is signed as Flash Player signs it, which a few servers ask for
    /// before they send H.264. `seed` makes the bytes that should look random; they protect nothing.
    pub fn start(seed: u64, digest: bool, out: &mut BytesMut) -> ClientHandshake {
        let mut filler = Filler(seed);
        let mut c1 = [0; PACKET_BYTES];
        filler.fill(&mut c1[8..]);
        if digest {
            c1[4..8].copy_from_slice(&SIGNED_VERSION);
            digest::sign(&mut c1, Layout::DigestFirst, Signer::Player);
        }
        out.reserve(1 + PACKET_BYTES);
        out.put_u8(VERSION);
        out.put(&c1[..]);
        ClientHandshake {
            state: State::Version,
            filler,
        }
    }

    /// Consumes `input` from the front and appends what must be sent to `out`. `false` asks for more input; `true`
    /// says that the handshake is done, and what follows it is left in `input`.
    ///
    /// The content of S2 is not checked.
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
                    self.state = State::S1(Vec::with_capacity(PACKET_BYTES));
                }
                State::S1(s1) => {
                    if !collect(s1, input) {
                        return Ok(false);
                    }
                    if let Some(s1) = s1.first_chunk() {
                        answer(s1, &mut self.filler, out);
                    }
                    self.state = State::S2 {
                        bytes_left: PACKET_BYTES,
                    };
                }
                State::S2 { bytes_left } => return Ok(skip(bytes_left, input)),
            }
        }
    }
}

/// Appends C2: signed for the server's digest where S1 carries one, a copy of S1 otherwise.
fn answer(s1: &Packet, filler: &mut Filler, out: &mut BytesMut) {
    let mut c2 = *s1;
    if let Some((_, digest)) = digest::find(s1, Signer::Server) {
        filler.fill(&mut c2);
        digest::sign_answer(&mut c2, &digest, Signer::Player);
    }
    out.put(&c2[..]);
}
