use super::*;
use proptest::prelude::*;

#[track_caller]
fn parse(body: &[u8]) -> AudioHeader {
    let header = AudioHeader::parse(body).unwrap();
    assert!(header.data_at <= header.data_end && header.data_end <= body.len());
    assert_eq!(
        &header.data(&Bytes::copy_from_slice(body))[..],
        header.data_of(body)
    );
    header
}

#[track_caller]
fn every_cut_is_refused(body: &[u8], header_len: usize) {
    for end in 1..header_len {
        let result = AudioHeader::parse(&body[..end]);
        assert!(
            matches!(result, Err(FlvError::Truncated { .. })),
            "cut at {end}: {result:?}"
        );
    }
}

#[test]
fn an_empty_body_is_silence() {
    assert_eq!(AudioHeader::parse(&[]), Err(FlvError::EmptyBody));
}

#[test]
fn legacy_aac_whatever_its_rate_bits_say() {
    for first in [0xAF, 0xAE, 0xA2, 0xA0] {
        let start = parse(&[first, 0, 0x12, 0x10]);
        assert_eq!(
            (start.codec, start.packet),
            (Some(Codec::Aac), AudioPacket::SequenceStart)
        );
        assert_eq!((start.data_at, start.data_end, start.enhanced), (2, 4, false));
        assert_eq!(parse(&[first, 1, 0x21]).packet, AudioPacket::Frame);
    }
    let empty = parse(&[0xAF, 0]);
    assert_eq!(
        (empty.packet, empty.data_at, empty.data_end),
        (AudioPacket::SequenceStart, 2, 2)
    );
    assert_eq!(parse(&[0xAF, 7]).packet, AudioPacket::Other(7));
    every_cut_is_refused(&[0xAF, 1], 2);
}

#[test]
fn legacy_formats_without_a_packet_type() {
    for (format, codec) in [
        (0, Some(Codec::Pcm)),
        (1, Some(Codec::Adpcm)),
        (2, Some(Codec::Mp3)),
        (3, Some(Codec::Pcm)),
        (4, Some(Codec::Nellymoser)),
        (5, Some(Codec::Nellymoser)),
        (6, Some(Codec::Nellymoser)),
        (7, Some(Codec::G711A)),
        (8, Some(Codec::G711U)),
        (11, Some(Codec::Speex)),
        (12, None),
        (13, Some(Codec::Opus)),
        (14, Some(Codec::Mp3)),
        (15, None),
    ] {
        let header = parse(&[format << 4 | 2, 0, 9]);
        assert_eq!(
            (header.codec, header.packet, header.data_at),
            (codec, AudioPacket::Frame, 1),
            "{format}"
        );
        assert_eq!(parse(&[format << 4]).codec, codec, "a body of the header alone");
    }
}

#[test]
fn enhanced_messages_of_ffmpeg() {
    let start = parse(b"\x90OpusOpusHead\x01\x01");
    assert_eq!(
        (start.codec, start.packet),
        (Some(Codec::Opus), AudioPacket::SequenceStart)
    );
    assert_eq!(
        (start.data_at, start.enhanced, start.fourcc),
        (5, true, Some(*b"Opus"))
    );
    let layout = parse(b"\x94mp4a\x01\x06\x00\x00\x00\x3f");
    assert_eq!(
        (layout.codec, layout.packet),
        (Some(Codec::Aac), AudioPacket::MultichannelConfig)
    );
    let empty = parse(b"\x90ac-3");
    assert_eq!(
        (empty.codec, empty.data_at, empty.data_end),
        (Some(Codec::Ac3), 5, 5)
    );
    for (fourcc, codec) in [
        (*b"fLaC", Codec::Flac),
        (*b"ec-3", Codec::Eac3),
        (*b".mp3", Codec::Mp3),
        (*b"mp4a", Codec::Aac),
    ] {
        let body = [&[0x91][..], &fourcc, &[7]].concat();
        let frame = parse(&body);
        assert_eq!(
            (frame.codec, frame.packet, frame.data_at),
            (Some(codec), AudioPacket::Frame, 5)
        );
        every_cut_is_refused(&body, 5);
    }
    assert_eq!(parse(b"\x92Opus").packet, AudioPacket::SequenceEnd);
    assert_eq!(parse(b"\x91zzzz\x01").codec, None);
    for packet_type in [3, 6, 8, 9, 15] {
        assert_eq!(
            parse(&[0x90 | packet_type, b'O', b'p', b'u', b's']).packet,
            AudioPacket::Other(packet_type)
        );
    }
}

#[test]
fn mod_ex_prefixes_are_skipped_and_read() {
    let body = b"\x97\x02\x00\x01\x00\x01mp4a\x21";
    let frame = parse(body);
    assert_eq!(
        (frame.mod_ex, frame.nano_offset, frame.packet),
        (true, 256, AudioPacket::Frame)
    );
    assert_eq!(frame.data_at, 10);
    every_cut_is_refused(body, 10);
    let chain = b"\x97\x00\x00\xF7\x00\x00\x05\x01Opus\x02\x11";
    let track = parse(chain);
    assert_eq!((track.multitrack, track.track_id, track.data_at), (true, 2, 13));
    every_cut_is_refused(chain, 13);
}

fn all(body: &[u8]) -> Vec<(u8, Option<Codec>, Vec<u8>)> {
    let headers = tracks(body).unwrap().map(Result::unwrap);
    headers
        .map(|h| (h.track_id, h.codec, h.data_of(body).to_vec()))
        .collect()
}

#[test]
fn one_track() {
    let body = b"\x95\x01mp4a\x01\x21\x10";
    assert_eq!(all(body), [(1, Some(Codec::Aac), vec![0x21, 0x10])]);
    assert_eq!(parse(body).packet, AudioPacket::Frame);
    every_cut_is_refused(body, 7);
    // ffmpeg 9.0 sends the speaker layout of further tracks the same way.
    let layout = parse(b"\x95\x04Opus\x01\x01\x01\x00\x00\x00\x04");
    assert_eq!(
        (layout.packet, layout.track_id),
        (AudioPacket::MultichannelConfig, 1)
    );
}

#[test]
fn many_tracks_of_one_codec() {
    let body = b"\x95\x11Opus\x02\x00\x00\x01\xAA\x00\x00\x00\x02\xBB\xCC";
    assert_eq!(
        all(body),
        [
            (2, Some(Codec::Opus), vec![0xAA]),
            (0, Some(Codec::Opus), vec![0xBB, 0xCC])
        ]
    );
    assert_eq!(parse(body).track_id, 0);
    for end in 1..body.len() {
        // Cut between the tracks it is a shorter message.
        assert_eq!(
            AudioHeader::parse(&body[..end]).is_ok(),
            end == 11,
            "cut at {end}"
        );
    }
}

#[test]
fn many_tracks_of_many_codecs() {
    let body = b"\x95\x20mp4a\x00\x00\x00\x02\x12\x10Opus\x01\x00\x00\x00";
    assert_eq!(
        all(body),
        [
            (0, Some(Codec::Aac), vec![0x12, 0x10]),
            (1, Some(Codec::Opus), vec![])
        ]
    );
    assert_eq!(parse(body).packet, AudioPacket::SequenceStart);
    every_cut_is_refused(body, 12);
    assert!(tracks(&body[..14]).unwrap().nth(1).unwrap().is_err());
}

#[test]
fn sizes_and_forbidden_forms() {
    assert!(matches!(
        AudioHeader::parse(b"\x95\x11Opus\x00\xFF\xFF\xFF"),
        Err(FlvError::Truncated { .. })
    ));
    assert_eq!(
        AudioHeader::parse(b"\x95\x41Opus\x00"),
        Err(FlvError::MultitrackType { value: 4 })
    );
    assert_eq!(
        AudioHeader::parse(b"\x95\x05Opus\x00"),
        Err(FlvError::MultitrackPacket { value: 5 })
    );
    assert_eq!(
        AudioHeader::parse(b"\x95\x17Opus\x00"),
        Err(FlvError::MultitrackPacket { value: 7 })
    );
    assert_eq!(
        parse(b"\x95\x06Opus\x00").packet,
        AudioPacket::Other(6),
        "6 is multitrack in video only"
    );
}

#[test]
fn heads_that_are_made_are_read_back() {
    for packet in [AudioPacket::SequenceStart, AudioPacket::Frame] {
        let header = parse(&aac_head(packet));
        assert_eq!((header.codec, header.packet), (Some(Codec::Aac), packet));
    }
}

proptest! {
    #[test]
    fn random_bodies_never_panic(mut body: Vec<u8>, packet_type: u8) {
        for enhanced in [false, true] {
            if let (Some(byte), true) = (body.first_mut(), enhanced) {
                *byte = 0x90 | packet_type & 0x0F;
            }
            if let Ok(headers) = tracks(&body) {
                let mut end = 0;
                for header in headers.flatten() {
                    prop_assert!(end <= header.data_at && header.data_at <= header.data_end);
                    prop_assert!(header.data_end <= body.len());
                    end = header.data_end;
                }
            }
            let _ = AudioHeader::parse(&body);
        }
    }
}
