//! The digests that Flash Player 9 and later put into the handshake.
//!
//! C1 and S1 carry, at a place that four of their bytes name, an HMAC-SHA256 of their other bytes under a published
//! key. C2 and S2 end with an HMAC of their other bytes under a key made from the digest they answer.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{PACKET_BYTES, Packet};

/// Bytes in a digest.
const DIGEST_BYTES: usize = 32;

/// Bytes of C2 or S2 in front of its digest.
const ANSWERED_BYTES: usize = PACKET_BYTES - DIGEST_BYTES;

/// Number of places a digest can be at within its block of 764 bytes, four of which name the place.
const PLACES: usize = 728;

/// How many bytes of the player's key sign C1; the rest of it belongs to the key for C2.
const PLAYER_TEXT_BYTES: usize = 30;

/// How many bytes of the server's key sign S1; the rest of it belongs to the key for S2.
const SERVER_TEXT_BYTES: usize = 36;

const PLAYER_KEY: &[u8; 62] = b"Genuine Adobe Flash Player 001\
    \xF0\xEE\xC2\x4A\x80\x68\xBE\xE8\x2E\x00\xD0\xD1\x02\x9E\x7E\x57\
    \x6E\xEC\x5D\x2D\x29\x80\x6F\xAB\x93\xB8\xE6\x36\xCF\xEB\x31\xAE";

const SERVER_KEY: &[u8; 68] = b"Genuine Adobe Flash Media Server 001\
    \xF0\xEE\xC2\x4A\x80\x68\xBE\xE8\x2E\x00\xD0\xD1\x02\x9E\x7E\x57\
    \x6E\xEC\x5D\x2D\x29\x80\x6F\xAB\x93\xB8\xE6\x36\xCF\xEB\x31\xAE";

/// A digest.
pub(super) type Digest = [u8; DIGEST_BYTES];

/// Where in C1 and S1 the digest's block of 764 bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Behind time and version; the block of the key exchange follows.
    DigestFirst,
    /// Behind the block of the key exchange.
    KeyFirst,
}

impl Layout {
    const ALL: [Layout; 2] = [Layout::DigestFirst, Layout::KeyFirst];

    fn block(self) -> usize {
        match self {
            Layout::DigestFirst => 8,
            Layout::KeyFirst => 772,
        }
    }
}

/// The side that signs a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signer {
    /// Signs C1 and C2.
    Player,
    /// Signs S1 and S2.
    Server,
}

impl Signer {
    fn key(self) -> &'static [u8] {
        match self {
            Signer::Player => PLAYER_KEY,
            Signer::Server => SERVER_KEY,
        }
    }

    fn text(self) -> &'static [u8] {
        match self {
            Signer::Player => &PLAYER_KEY[..PLAYER_TEXT_BYTES],
            Signer::Server => &SERVER_KEY[..SERVER_TEXT_BYTES],
        }
    }
}

/// Finds a valid digest in C1 or S1, in either layout.
pub(super) fn find(packet: &Packet, signer: Signer) -> Option<(Layout, Digest)> {
    Layout::ALL.into_iter().find_map(|layout| {
        let (before, digest, after) = split(packet, layout);
        (hmac(signer.text(), &[before, after]) == digest).then_some((layout, digest))
    })
}

/// Puts the digest into C1 or S1, whose other bytes are final, and returns it.
pub(super) fn sign(packet: &mut Packet, layout: Layout, signer: Signer) -> Digest {
    let (before, _, after) = split(packet, layout);
    let digest = hmac(signer.text(), &[before, after]);
    let at = before.len();
    packet[at..at + DIGEST_BYTES].copy_from_slice(&digest);
    digest
}

/// Puts the digest at the end of C2 or S2, which answers the packet that carried the digest `answered`.
pub(super) fn sign_answer(packet: &mut Packet, answered: &Digest, signer: Signer) {
    let key = hmac(signer.key(), &[answered]);
    let (content, digest) = packet.split_at_mut(ANSWERED_BYTES);
    digest.copy_from_slice(&hmac(&key, &[content]));
}

/// A packet's bytes before its digest, the digest and the bytes behind it.
fn split(packet: &Packet, layout: Layout) -> (&[u8], Digest, &[u8]) {
    let block = layout.block();
    let sum: usize = packet[block..block + 4]
        .iter()
        .map(|byte| usize::from(*byte))
        .sum();
    let (before, rest) = packet.split_at(block + 4 + sum % PLACES);
    let (digest, after) = rest.split_at(DIGEST_BYTES);
    let mut copy = [0; DIGEST_BYTES];
    copy.copy_from_slice(digest);
    (before, copy, after)
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Digest {
    // HMAC takes a key of any length, so there is always one.
    Hmac::<Sha256>::new_from_slice(key).map_or([0; DIGEST_BYTES], |mut mac| {
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::filler::Filler;

    fn packet(seed: u64) -> Packet {
        let mut packet = [0; PACKET_BYTES];
        Filler(seed).fill(&mut packet);
        packet
    }

    #[test]
    fn a_signed_packet_is_found_in_its_layout_by_its_signer_only() {
        for seed in 0..200 {
            for layout in Layout::ALL {
                let mut packet = packet(seed);
                let digest = sign(&mut packet, layout, Signer::Player);
                assert_eq!(
                    find(&packet, Signer::Player),
                    Some((layout, digest)),
                    "seed {seed}"
                );
                assert_eq!(find(&packet, Signer::Server), None);
            }
        }
    }

    #[test]
    fn the_digest_stays_inside_its_block_whatever_its_place_bytes_say() {
        for byte in 0..=255 {
            for layout in Layout::ALL {
                let packet = [byte; PACKET_BYTES];
                let (before, _, after) = split(&packet, layout);
                assert!(before.len() >= layout.block() + 4);
                assert!(before.len() + DIGEST_BYTES <= layout.block() + 764);
                assert_eq!(before.len() + DIGEST_BYTES + after.len(), PACKET_BYTES);
            }
        }
    }

    #[test]
    fn random_and_constant_packets_carry_no_digest() {
        for seed in 0..50 {
            assert_eq!(find(&packet(seed), Signer::Player), None);
        }
        for byte in [0, 1, 0xff] {
            assert_eq!(find(&[byte; PACKET_BYTES], Signer::Player), None);
        }
    }

    #[test]
    fn a_changed_byte_anywhere_breaks_the_digest() {
        let mut packet = packet(7);
        sign(&mut packet, Layout::DigestFirst, Signer::Server);
        for at in (0..PACKET_BYTES).step_by(5) {
            packet[at] ^= 1;
            assert_eq!(find(&packet, Signer::Server), None, "byte {at}");
            packet[at] ^= 1;
        }
    }
}
