use super::*;
use proptest::prelude::*;

#[track_caller]
fn parse(body: &[u8]) -> VideoHeader {
    let header = VideoHeader::parse(body).unwrap();
    assert!(header.data_at <= header.data_end && header.data_end <= body.len());
    assert_eq!(
        &header.data(&Bytes::copy_from_slice(body))[..],
        header.data_of(body)
    );
    header
}

/// Cut anywhere inside its header, a body is an error and never something else.
#[track_caller]
fn every_cut_is_refused(body: &[u8], header_len: usize) {
    for end in 1..header_len {
        let result = VideoHeader::parse(&body[..end]);
        assert!(
            matches!(result, Err(FlvError::Truncated { .. })),
            "cut at {end}: {result:?}"
        );
    }
    assert_eq!(VideoHeader::parse(&[]), Err(FlvError::EmptyBody));
}

#[test]
fn legacy_h264() {
    let start = parse(&[0x17, 0, 0, 0, 0, 1, 0x42]);
    assert_eq!(
        (start.codec, start.packet, start.key),
        (Some(Codec::Avc), VideoPacket::SequenceStart, false)
    );
    assert_eq!(
        (start.data_at, start.data_end, start.enhanced, start.fourcc),
        (5, 7, false, None)
    );
    let key = parse(&[0x17, 1, 0, 0, 0x43, 9]);
    assert_eq!(
        (key.packet, key.key, key.cts_ms, key.disposable),
        (VideoPacket::Frame, true, 67, false)
    );
    let inter = parse(&[0x27, 1, 0xFF, 0xFF, 0xFE, 9]);
    assert_eq!(
        (inter.key, inter.cts_ms),
        (false, -2),
        "composition time is signed"
    );
    assert!(parse(&[0x37, 1, 0, 0, 0]).disposable);
    assert!(parse(&[0x47, 1, 0, 0, 0]).key, "a generated key frame");
    every_cut_is_refused(&[0x17, 1, 0, 0, 0], 5);
}

#[test]
fn legacy_end_of_sequence_is_no_key_frame() {
    for body in [&[0x17, 2, 0, 0, 0][..], &[0x17, 2]] {
        let end = parse(body);
        assert_eq!(
            (end.packet, end.key, end.data_at),
            (VideoPacket::SequenceEnd, false, body.len())
        );
    }
    assert_eq!(parse(&[0x17, 9, 0, 0, 0]).packet, VideoPacket::Other(9));
}

#[test]
fn an_empty_sequence_header_is_one() {
    let start = parse(&[0x17, 0, 0, 0, 0]);
    assert_eq!(
        (start.packet, start.data_at, start.data_end),
        (VideoPacket::SequenceStart, 5, 5)
    );
}

#[test]
fn private_codec_ids() {
    assert_eq!(parse(&[0x1C, 0, 0, 0, 0, 1]).codec, Some(Codec::Hevc));
    let frame = parse(&[0x2C, 1, 0, 0, 5, 1]);
    assert_eq!(
        (frame.codec, frame.cts_ms, frame.data_at),
        (Some(Codec::Hevc), 5, 5)
    );
    assert_eq!(parse(&[0x1D, 1, 0, 0, 0, 1]).codec, Some(Codec::Av1));
}

#[test]
fn old_codecs_have_one_byte() {
    for (id, codec) in [
        (2, Codec::Sorenson),
        (3, Codec::ScreenVideo),
        (4, Codec::Vp6),
        (5, Codec::Vp6Alpha),
        (6, Codec::ScreenVideo2),
    ] {
        let header = parse(&[0x10 | id, 0, 0]);
        assert_eq!(
            (header.codec, header.packet, header.key),
            (Some(codec), VideoPacket::Frame, true)
        );
        assert_eq!((header.data_at, legacy_codec_id(codec)), (1, Some(id)));
    }
    let unknown = parse(&[0x1F, 1]);
    assert_eq!((unknown.codec, unknown.data_at), (None, 1));
    assert_eq!(parse(&[0x10]).codec, None);
}

#[test]
fn legacy_commands_name_no_codec() {
    for body in [&[0x57, 0][..], &[0x57, 1], &[0x57], &[0x50, 0]] {
        let command = parse(body);
        assert_eq!(
            (command.packet, command.codec, command.key),
            (VideoPacket::Command, None, false)
        );
    }
}

#[test]
fn enhanced_messages_of_real_encoders() {
    // ffmpeg 9.0: HEVC start, metadata, frame with and without composition time; AV1; VP9.
    let start = parse(b"\x90hvc1\x01\x01\x60");
    assert_eq!(
        (start.codec, start.packet, start.key),
        (Some(Codec::Hevc), VideoPacket::SequenceStart, false)
    );
    assert_eq!(
        (start.data_at, start.enhanced, start.fourcc),
        (5, true, Some(*b"hvc1"))
    );
    let metadata = parse(b"\xD4hvc1\x02\x00\x09colorInfo");
    assert_eq!(
        (metadata.packet, metadata.codec, metadata.key),
        (VideoPacket::Metadata, Some(Codec::Hevc), false)
    );
    let key = parse(b"\x91hvc1\x00\x00\x43\x00\x00\x22\x2f");
    assert_eq!(
        (key.packet, key.key, key.cts_ms, key.data_at),
        (VideoPacket::Frame, true, 67, 8)
    );
    let inter = parse(b"\xA1hvc1\xFF\xFF\xD8\x00");
    assert_eq!((inter.key, inter.cts_ms), (false, -40));
    let untimed = parse(b"\xA3hvc1\x00\x00\x00\x01");
    assert_eq!(
        (untimed.packet, untimed.cts_ms, untimed.data_at),
        (VideoPacket::Frame, 0, 5)
    );
    let av1 = parse(b"\x91av01\x12\x00\x0a");
    assert_eq!(
        (av1.codec, av1.key, av1.cts_ms, av1.data_at),
        (Some(Codec::Av1), true, 0, 5)
    );
    assert_eq!(parse(b"\xA1vp09\xa6").data_at, 5);
    every_cut_is_refused(b"\x91hvc1\x00\x00\x43", 8);
    every_cut_is_refused(b"\x93hvc1", 5);
}

#[test]
fn obs_oddities() {
    // Metadata with frame type 0; SequenceEnd of five bytes with frame type 2.
    assert_eq!(parse(b"\x84hvc1\x02").packet, VideoPacket::Metadata);
    let end = parse(b"\xA2hvc1");
    assert_eq!(
        (end.packet, end.key, end.data_at, end.data_end),
        (VideoPacket::SequenceEnd, false, 5, 5)
    );
    assert!(
        !parse(b"\x81hvc1\x00\x00\x00\x01").key,
        "frame type 0 is no key frame"
    );
}

#[test]
fn other_enhanced_packets() {
    assert_eq!(parse(b"\x95av01\x80").packet, VideoPacket::Mpeg2TsSequenceStart);
    for packet_type in 8..16 {
        assert_eq!(
            parse(&[0x90 | packet_type, b'a', b'v', b'0', b'1']).packet,
            VideoPacket::Other(packet_type)
        );
    }
    let unknown = parse(b"\x91zzzz\x01\x02\x03\x04");
    assert_eq!(
        (unknown.codec, unknown.fourcc, unknown.data_at),
        (None, Some(*b"zzzz"), 5)
    );
    for codec in [*b"avc1", *b"vvc1"] {
        let body = [&[0x91][..], &codec, &[0, 0, 7, 1]].concat();
        assert_eq!(parse(&body).cts_ms, 7);
    }
}

#[test]
fn enhanced_commands_have_no_fourcc() {
    for packet_type in [0, 1, 2, 3, 5, 6] {
        let command = parse(&[0xD0 | packet_type, 1]);
        assert_eq!(
            (command.packet, command.codec, command.key),
            (VideoPacket::Command, None, false)
        );
        assert_eq!((command.data_at, command.data_end), (1, 2));
    }
    every_cut_is_refused(&[0xD1, 0], 2);
}

#[test]
fn mod_ex_prefixes_are_skipped_and_read() {
    // Nano offset 0x01E240 = 123,456 ns in front of CodedFramesX.
    let body = b"\x97\x02\x01\xE2\x40\x03hvc1\x05";
    let header = parse(body);
    assert_eq!(
        (header.packet, header.mod_ex, header.nano_offset),
        (VideoPacket::Frame, true, 123_456)
    );
    assert_eq!((header.key, header.data_at), (true, 10));
    every_cut_is_refused(body, 10);
    // An unknown kind of one byte, then a nano offset with spare data, then frames with a time.
    let body = b"\xA7\x00\xAA\x57\x04\x00\x00\x05\xEE\xEE\x01avc1\x00\x00\x09\x01";
    let header = parse(body);
    assert_eq!((header.nano_offset, header.cts_ms, header.data_at), (5, 9, 18));
    every_cut_is_refused(body, 18);
    // Too little data for an offset, and an offset over a millisecond.
    assert_eq!(parse(b"\x97\x01\x01\x02\x03hvc1").nano_offset, 0);
    assert_eq!(parse(b"\x97\x02\xFF\xFF\xFF\x03hvc1").nano_offset, 999_999);
    assert!(!parse(b"\x93hvc1").mod_ex);
}

#[test]
fn mod_ex_with_a_16_bit_size() {
    let mut body = vec![0x97, 0xFF, 0x01, 0x2B];
    body.extend_from_slice(&[7; 300]);
    body.push(0x13);
    body.extend_from_slice(b"hvc1\x01");
    let header = parse(&body);
    assert_eq!(
        (header.data_at, header.nano_offset),
        (309, 0),
        "kind 1 is not an offset"
    );
    every_cut_is_refused(&body, 309);
}

#[test]
fn mod_ex_in_front_of_commands_and_multitrack() {
    let command = parse(b"\xD7\x00\x00\x01\x01");
    assert_eq!((command.packet, command.mod_ex), (VideoPacket::Command, true));
    let track = parse(b"\x97\x00\x00\x06\x03hvc1\x02\x09");
    assert_eq!(
        (track.multitrack, track.mod_ex, track.track_id, track.data_at),
        (true, true, 2, 10)
    );
    let endless = [0x97u8, 0, 0, 7, 0, 0, 7, 0, 0, 7, 0];
    assert!(matches!(
        VideoHeader::parse(&endless),
        Err(FlvError::Truncated { .. })
    ));
}

fn all(body: &[u8]) -> Vec<(u8, Option<Codec>, i32, Vec<u8>)> {
    let headers = tracks(body).unwrap().map(Result::unwrap);
    headers
        .map(|h| (h.track_id, h.codec, h.cts_ms, h.data_of(body).to_vec()))
        .collect()
}

#[test]
fn one_track_as_obs_and_ffmpeg_send_it() {
    let body = b"\x96\x01avc1\x03\x00\x00\x28\x65\x88";
    let header = parse(body);
    assert_eq!(
        (header.multitrack, header.track_id, header.codec),
        (true, 3, Some(Codec::Avc))
    );
    assert_eq!((header.key, header.cts_ms, header.data_at), (true, 40, 10));
    assert_eq!(all(body), [(3, Some(Codec::Avc), 40, vec![0x65, 0x88])]);
    every_cut_is_refused(body, 10);
    let start = parse(b"\x96\x00hvc1\x01\x01\x02");
    assert_eq!(
        (start.packet, start.key, start.data_at),
        (VideoPacket::SequenceStart, false, 7)
    );
    assert_eq!(parse(b"\x96\x02av01\x01").packet, VideoPacket::SequenceEnd);
}

const MANY: &[u8] = b"\xA6\x11hvc1\x01\x00\x00\x04\x00\x00\x05\xAA\x00\x00\x00\x05\x00\x00\x06\xBB\xCC";

#[test]
fn many_tracks_of_one_codec() {
    let hevc = Some(Codec::Hevc);
    assert_eq!(
        all(MANY),
        [(1, hevc, 5, vec![0xAA]), (0, hevc, 6, vec![0xBB, 0xCC])]
    );
    let main = parse(MANY);
    assert_eq!(
        (main.track_id, main.cts_ms),
        (0, 6),
        "track 0 is the one that counts"
    );
    for end in 1..MANY.len() {
        // Cut between the tracks it is a shorter message.
        assert_eq!(
            VideoHeader::parse(&MANY[..end]).is_ok(),
            end == 14,
            "cut at {end}"
        );
    }
}

#[test]
fn many_tracks_of_many_codecs() {
    let body = b"\x96\x21av01\x04\x00\x00\x02\xAA\xBBavc1\x07\x00\x00\x03\x00\x00\x09vp09\x09\x00\x00\x00";
    let wanted = [
        (4, Some(Codec::Av1), 0, vec![0xAA, 0xBB]),
        (7, Some(Codec::Avc), 9, vec![]),
        (9, Some(Codec::Vp9), 0, vec![]),
    ];
    assert_eq!(all(body), wanted);
    let first = parse(body);
    assert_eq!((first.track_id, first.data_at, first.data_end), (4, 10, 12));
    every_cut_is_refused(body, 12);
    for end in 12..body.len() {
        let whole = [12, 23].contains(&end);
        assert_eq!(VideoHeader::parse(&body[..end]).is_ok(), whole, "cut at {end}");
    }
}

#[test]
fn sizes_are_held_against_the_body() {
    let past_the_end = b"\x96\x11av01\x00\xFF\xFF\xFF\xAA";
    assert!(matches!(
        VideoHeader::parse(past_the_end),
        Err(FlvError::Truncated { need: 0x100_0009, .. })
    ));
    // A size that leaves no room for the composition time, with bytes of the next track behind it.
    let too_small = b"\x96\x11avc1\x00\x00\x00\x02\x00\x00\x01\x00\x00\x01\x00";
    assert!(matches!(
        VideoHeader::parse(too_small),
        Err(FlvError::Truncated { .. })
    ));
    let mut walk = tracks(too_small).unwrap();
    assert!(walk.next().unwrap().is_err());
    assert!(walk.next().is_none(), "nothing after an error");
    let zero = b"\x96\x12av01\x00\x00\x00\x00\x01\x00\x00\x00";
    assert_eq!(all(zero).len(), 2);
}

#[test]
fn forbidden_multitrack_forms_are_refused() {
    assert_eq!(
        VideoHeader::parse(b"\x96\x31hvc1\x00"),
        Err(FlvError::MultitrackType { value: 3 })
    );
    assert_eq!(
        VideoHeader::parse(b"\x96\x06hvc1\x00"),
        Err(FlvError::MultitrackPacket { value: 6 })
    );
    assert_eq!(
        VideoHeader::parse(b"\x96\x27hvc1\x00"),
        Err(FlvError::MultitrackPacket { value: 7 })
    );
    assert!(
        VideoHeader::parse(b"\x96\x05av01\x00").is_ok(),
        "5 is AV1's descriptor in video"
    );
}

#[test]
fn heads_that_are_made_are_read_back() {
    for (packet, key, cts_ms) in [
        (VideoPacket::SequenceStart, true, 0),
        (VideoPacket::Frame, true, 67),
        (VideoPacket::Frame, false, -40),
        (VideoPacket::SequenceEnd, true, 0),
    ] {
        let header = parse(&avc_head(packet, key, cts_ms));
        assert_eq!(
            (header.codec, header.packet, header.cts_ms),
            (Some(Codec::Avc), packet, cts_ms)
        );
        assert_eq!(header.key, key && packet == VideoPacket::Frame);
    }
}

#[test]
fn a_header_of_another_body_gives_no_data() {
    let header = parse(&[0x17, 1, 0, 0, 0, 9]);
    assert!(header.data(&Bytes::from_static(&[1, 2])).is_empty());
    assert!(header.data_of(&[1, 2]).is_empty());
}

proptest! {
    #[test]
    fn random_bodies_never_panic(mut body: Vec<u8>, first: u8) {
        for enhanced in [false, true] {
            if let (Some(byte), true) = (body.first_mut(), enhanced) {
                *byte = first | 0x80;
            }
            if let Ok(headers) = tracks(&body) {
                let mut end = 0;
                for header in headers.flatten() {
                    prop_assert!(end <= header.data_at && header.data_at <= header.data_end);
                    prop_assert!(header.data_end <= body.len());
                    end = header.data_end;
                }
            }
            let _ = VideoHeader::parse(&body);
        }
    }

    #[test]
    fn damaged_multitrack_bodies_never_panic(at in 0..MANY.len(), value: u8, end in 0..=MANY.len()) {
        let mut body = MANY.to_vec();
        body[at] = value;
        let _ = VideoHeader::parse(&body[..end]);
    }
}
