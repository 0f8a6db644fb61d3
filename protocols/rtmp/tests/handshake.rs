//! Handshakes with clients and servers of several minds.

use bytes::BytesMut;
use proptest::prelude::*;
use spillway_rtmp::{
    error::HandshakeError,
    handshake::{ClientHandshake, PACKET_BYTES, ServerHandshake},
};

const FFMPEG_C0C1: &[u8] = include_bytes!("data/ffmpeg_5_1_c0c1.bin");
const NGINX_S0S1S2: &[u8] = include_bytes!("data/nginx_rtmp_1_2_s0s1s2.bin");

fn serve(mut input: &[u8]) -> (bool, BytesMut, usize) {
    let mut out = BytesMut::new();
    let done = ServerHandshake::new(1)
        .read(&mut input, &mut out)
        .expect("the input is RTMP");
    (done, out, input.len())
}

fn simple_c0c1() -> Vec<u8> {
    let mut c0c1 = vec![3];
    c0c1.extend_from_slice(&[0, 0, 1, 2, 0, 0, 0, 0]);
    c0c1.extend((8..PACKET_BYTES).map(|at| (at * 7) as u8));
    c0c1
}

#[test]
fn a_simple_client_gets_a_zero_version_and_its_own_packet_back() {
    let c0c1 = simple_c0c1();
    let (done, out, _) = serve(&c0c1);
    assert!(!done);
    assert_eq!(out.len(), 1 + 2 * PACKET_BYTES);
    assert_eq!(out[0], 3);
    assert_eq!(out[5..9], [0; 4]);
    assert_eq!(out[1 + PACKET_BYTES..], c0c1[1..]);
}

#[test]
fn a_version_without_a_valid_digest_is_answered_like_a_simple_client() {
    let mut c0c1 = FFMPEG_C0C1.to_vec();
    c0c1[1000] ^= 1;
    let (_, out, _) = serve(&c0c1);
    assert_eq!(out[5..9], [0; 4]);
    assert_eq!(out[1 + PACKET_BYTES..], c0c1[1..]);
}

#[test]
fn the_digest_of_ffmpeg_is_recognised_and_answered_with_digests() {
    let (_, out, _) = serve(FFMPEG_C0C1);
    assert!(out[5] >= 3, "players look for digests from version 3 on");
    assert_ne!(out[1 + PACKET_BYTES..], FFMPEG_C0C1[1..]);

    // A client of ours that finds the server's digest signs C2; otherwise it would copy S1.
    let mut c2 = BytesMut::new();
    let mut client = ClientHandshake::start(2, true, &mut BytesMut::new());
    assert!(client.read(&mut &out[..], &mut c2).unwrap());
    assert_ne!(c2[..], out[1..1 + PACKET_BYTES]);
}

#[test]
fn the_digest_of_nginx_rtmp_is_recognised_and_answered_with_a_digest() {
    let mut c2 = BytesMut::new();
    let mut client = ClientHandshake::start(2, true, &mut BytesMut::new());
    assert!(client.read(&mut &NGINX_S0S1S2[..], &mut c2).unwrap());
    assert_eq!(c2.len(), PACKET_BYTES);
    assert_ne!(c2[..], NGINX_S0S1S2[1..1 + PACKET_BYTES]);
}

#[test]
fn everything_in_one_segment_is_taken_and_the_rest_left() {
    let mut input = simple_c0c1();
    input.extend_from_slice(&[0; PACKET_BYTES]);
    input.extend_from_slice(b"first chunk");
    let (done, out, left) = serve(&input);
    assert!(done);
    assert_eq!((out.len(), left), (1 + 2 * PACKET_BYTES, b"first chunk".len()));
}

#[test]
fn the_server_answers_before_c2_and_the_client_before_s2() {
    let (_, s0s1s2, _) = serve(&simple_c0c1());
    let mut out = BytesMut::new();
    let mut client = ClientHandshake::start(3, false, &mut out);
    assert_eq!((out.len(), &out[5..9]), (1 + PACKET_BYTES, &[0; 4][..]));
    out.clear();
    let (s0s1, s2) = s0s1s2.split_at(1 + PACKET_BYTES);
    assert!(!client.read(&mut &s0s1[..], &mut out).unwrap());
    assert_eq!(out[..], s0s1[1..]);
    assert!(!client.read(&mut &s2[..100], &mut out).unwrap());
    assert!(client.read(&mut &s2[100..], &mut out).unwrap());
}

#[test]
fn any_content_of_c2_is_accepted() {
    for filler in [0u8, 0x55, 0xff] {
        let mut input = FFMPEG_C0C1.to_vec();
        input.extend_from_slice(&[filler; PACKET_BYTES]);
        assert!(serve(&input).0);
    }
}

#[test]
fn other_protocols_are_told_apart_by_their_first_byte() {
    let fails = |first: u8| {
        let server = ServerHandshake::new(1)
            .read(&mut &[first][..], &mut BytesMut::new())
            .unwrap_err();
        let mut client = ClientHandshake::start(1, false, &mut BytesMut::new());
        assert_eq!(client.read(&mut &[first][..], &mut BytesMut::new()), Err(server));
        server
    };
    assert_eq!(fails(0x16), HandshakeError::PeerTls);
    for first in b"PGOH" {
        assert_eq!(fails(*first), HandshakeError::PeerHttp);
    }
    for version in [6, 8, 9] {
        assert_eq!(fails(version), HandshakeError::PeerEncrypted { version });
    }
    for version in [0, 1, 2, 4, 32, 255] {
        assert_eq!(fails(version), HandshakeError::PeerVersion { version });
    }
}

#[test]
fn nothing_is_sent_before_c1_is_complete() {
    let c0c1 = simple_c0c1();
    let (done, out, _) = serve(&c0c1[..c0c1.len() - 1]);
    assert!(!done && out.is_empty());
}

#[test]
fn a_handshake_split_at_every_byte_is_the_same() {
    let mut input = FFMPEG_C0C1.to_vec();
    input.extend_from_slice(&[7; PACKET_BYTES]);
    input.push(0x03);
    let (_, whole, _) = serve(&input);
    for at in 0..=input.len() {
        let (mut server, mut out) = (ServerHandshake::new(1), BytesMut::new());
        let (mut first, mut second) = input.split_at(at);
        let early = server.read(&mut first, &mut out).unwrap();
        assert_eq!(early, at >= input.len() - 1);
        assert!(early || first.is_empty());
        assert!(server.read(&mut second, &mut out).unwrap());
        assert_eq!(first.len() + second.len(), 1);
        assert_eq!(out, whole, "split at {at}");
    }
}

proptest! {
    #[test]
    fn our_client_and_our_server_agree_whatever_the_pieces(
        seeds in any::<(u64, u64)>(),
        digest in any::<bool>(),
        pieces in prop::collection::vec(1usize..2000, 1..20),
    ) {
        let (mut to_server, mut to_client) = (BytesMut::new(), BytesMut::new());
        let mut client = ClientHandshake::start(seeds.0, digest, &mut to_server);
        let mut server = ServerHandshake::new(seeds.1);
        let (mut server_done, mut client_done) = (false, false);
        for piece in pieces.iter().cycle().take(20_000) {
            let from_client = to_server.split_to((*piece).min(to_server.len()));
            server_done |= server.read(&mut &from_client[..], &mut to_client).unwrap();
            let from_server = to_client.split_to((*piece).min(to_client.len()));
            client_done |= client.read(&mut &from_server[..], &mut to_server).unwrap();
        }
        prop_assert!(server_done && client_done && to_server.is_empty() && to_client.is_empty());
    }

    #[test]
    fn no_input_makes_the_server_panic_or_answer_twice(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        let mut input = vec![3];
        input.extend_from_slice(&bytes);
        let (mut server, mut out) = (ServerHandshake::new(5), BytesMut::new());
        for piece in input.chunks(1000) {
            server.read(&mut &piece[..], &mut out).unwrap();
        }
        prop_assert_eq!(out.len(), if input.len() > PACKET_BYTES { 1 + 2 * PACKET_BYTES } else { 0 });
    }
}
