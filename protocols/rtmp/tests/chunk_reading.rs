//! What publishers put on the wire, read as they mean it. Numbers are those of the project's interop notes.

mod chunks;

use chunks::{
    AUDIO, DATA, VIDEO, abort, body, read, read_pieces, read_to_error, set_chunk_size, type0, type1, type2,
    type3,
};
use spillway_rtmp::{
    chunk::{ChunkReader, MessageHeader, ReaderOptions},
    error::{ChunkError, ChunkPlace},
};

/// 9: Adobe, FFmpeg, newer librtmp.
#[test]
fn an_extended_timestamp_repeated_in_continuations_is_no_payload() {
    let (body, timestamp) = (body(300), 0x0102_0304u32);
    let field = timestamp.to_be_bytes();
    let bytes = [
        type0(6, timestamp, VIDEO, 1, 300, &body[..128]),
        type3(6, &[&field[..], &body[128..256]].concat()),
        type3(6, &[&field[..], &body[256..]].concat()),
        type1(6, 40, VIDEO, 1, b"x"),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [
            (6, timestamp, VIDEO, 1, body),
            (6, timestamp + 40, VIDEO, 1, b"x".to_vec())
        ]
    );
}

/// 9: older librtmp, OBS before 30.1.
#[test]
fn an_extended_timestamp_missing_in_continuations_is_tolerated() {
    let timestamp = 0x0102_0304;
    for start in [&b""[..], &[1], &[1, 2], &[1, 2, 3]] {
        // The payload of a continuation may begin as the timestamp does, and be shorter than it.
        let mut body = body(257);
        body[128..128 + start.len()].copy_from_slice(start);
        let bytes = [
            type0(6, timestamp, VIDEO, 1, 257, &body[..128]),
            type3(6, &body[128..256]),
            type3(6, &body[256..]),
            type0(4, 0, AUDIO, 1, 1, b"a"),
        ]
        .concat();
        assert_eq!(
            read(&bytes),
            [(6, timestamp, VIDEO, 1, body), (4, 0, AUDIO, 1, b"a".to_vec())]
        );
    }
}

/// 9, 11: a peer that was seen to leave the field out may leave it out in new messages too.
#[test]
fn a_peer_that_omits_the_field_may_omit_it_in_new_messages_of_type_3() {
    let (long, delta) = (body(130), 0x0100_0000u32);
    let first = [
        type0(4, 0, VIDEO, 1, 130, &long[..128]),
        type3(4, &long[128..]),
        type2(4, delta, &long[..128]),
        type3(4, &long[128..]),
    ]
    .concat();
    for field in [&[][..], &delta.to_be_bytes()] {
        let bytes = [
            &first[..],
            &type3(4, &[field, &long[..128]].concat()),
            &type3(4, &long[128..]),
        ]
        .concat();
        let times: Vec<u32> = read(&bytes).iter().map(|message| message.1).collect();
        assert_eq!(times, [0, delta, 2 * delta]);
    }
}

/// 10: ffmpeg -output_ts_offset 20000.
#[test]
fn an_extended_timestamp_of_type_1_or_2_is_a_delta() {
    let bytes = [
        type0(6, 5, VIDEO, 1, 1, b"a"),
        type1(6, 20_000_000, VIDEO, 2, b"bc"),
        type2(6, 0xFF_FFFF, b"de"),
    ]
    .concat();
    let times: Vec<u32> = read(&bytes).iter().map(|message| message.1).collect();
    assert_eq!(times, [5, 20_000_005, 20_000_005 + 0xFF_FFFF]);
}

/// 11
#[test]
fn a_new_message_of_type_3_with_an_extended_timestamp_adds_the_delta_again() {
    let delta = 0x0100_0000u32;
    let bytes = [
        type0(6, 10, VIDEO, 1, 1, b"a"),
        type2(6, delta, b"b"),
        type3(6, &[&delta.to_be_bytes()[..], b"c"].concat()),
        type2(6, 40, b"d"),
        type3(6, b"e"),
    ]
    .concat();
    let seen = read(&bytes);
    let times: Vec<u32> = seen.iter().map(|message| message.1).collect();
    assert_eq!(
        times,
        [10, 10 + delta, 10 + 2 * delta, 50 + 2 * delta, 90 + 2 * delta]
    );
    assert_eq!(seen[2].4, b"c");
}

/// 12: FMLE; also with the timestamp extended.
#[test]
fn a_new_message_of_type_3_behind_type_0_adds_the_timestamp_of_that() {
    let bytes = [type0(4, 26, AUDIO, 1, 1, b"a"), type3(4, b"b"), type3(4, b"c")].concat();
    let times: Vec<u32> = read(&bytes).iter().map(|message| message.1).collect();
    assert_eq!(times, [26, 52, 78]);

    let timestamp = 0x0200_0000u32;
    let again = type3(4, &[&timestamp.to_be_bytes()[..], b"b"].concat());
    let bytes = [type0(4, timestamp, AUDIO, 1, 1, b"a"), again].concat();
    assert_eq!(read(&bytes)[1], (4, 2 * timestamp, AUDIO, 1, b"b".to_vec()));
}

/// 13: the reader follows the specification; the timeline behind it absorbs the drift.
#[test]
fn librtmps_type_3_for_an_equal_time_is_read_by_the_specification() {
    let bytes = [type0(4, 0, AUDIO, 1, 1, b"a"), type2(4, 23, b"b"), type3(4, b"c")].concat();
    let times: Vec<u32> = read(&bytes).iter().map(|message| message.1).collect();
    assert_eq!(times, [0, 23, 46]);
}

/// 14, S6
#[test]
fn types_1_and_2_may_continue_a_message_and_change_nothing_of_it() {
    let body = body(300);
    for (second, third) in [
        (
            type1(6, 40, VIDEO, 300, &body[128..256]),
            type2(6, 40, &body[256..]),
        ),
        (
            type1(6, 40, AUDIO, 0xFF_FFFF, &body[128..256]),
            type1(6, 40, VIDEO, 1, &body[256..]),
        ),
        (
            type2(6, 0x0100_0000, &body[128..256]),
            type1(6, 0, VIDEO, 0, &body[256..]),
        ),
    ] {
        let bytes = [
            type0(6, 1000, VIDEO, 1, 1, b"a"),
            type1(6, 40, VIDEO, 300, &body[..128]),
            second,
            third,
            type3(6, &body[..128]),
            type3(6, &body[128..256]),
            type3(6, &body[256..]),
        ]
        .concat();
        assert_eq!(
            read(&bytes),
            [
                (6, 1000, VIDEO, 1, b"a".to_vec()),
                (6, 1040, VIDEO, 1, body.clone()),
                (6, 1080, VIDEO, 1, body.clone())
            ]
        );
    }
}

/// 15
#[test]
fn type_0_amid_a_message_gives_that_message_up() {
    let body = body(200);
    let bytes = [
        type0(6, 0, VIDEO, 1, 1000, &body[..128]),
        type0(6, 40, VIDEO, 1, 200, &body[..128]),
        type3(6, &body[128..]),
    ]
    .concat();
    assert_eq!(read(&bytes), [(6, 40, VIDEO, 1, body)]);

    let mut reader = ChunkReader::new(ReaderOptions::default());
    reader.read(&mut &bytes[..]).unwrap();
    assert_eq!((reader.abandoned_messages(), reader.bytes_held()), (1, 0));
}

/// 15
#[test]
fn giving_up_message_after_message_is_fatal_but_now_and_then_is_not() {
    let given_up = type0(6, 0, VIDEO, 1, 1000, &body(128));
    let complete = type0(6, 0, VIDEO, 1, 1, b"a");
    let now_and_then = [&given_up.repeat(3)[..], &complete].concat().repeat(5);
    assert_eq!(read(&now_and_then).len(), 5);
    let error = read_to_error(&given_up.repeat(5));
    assert!(
        matches!(error, ChunkError::PeerAbandonedMessages { count: 4, .. }),
        "{error}"
    );
}

/// 16: librtmp begins chunk stream 2 with type 1.
#[test]
fn a_chunk_stream_may_begin_with_type_1() {
    let bytes = [
        type1(2, 7, 4, 6, &[0, 3, 0, 0, 0, 0]),
        type3(2, &[0, 7, 1, 2, 3, 4]),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [
            (2, 7, 4, 0, vec![0, 3, 0, 0, 0, 0]),
            (2, 14, 4, 0, vec![0, 7, 1, 2, 3, 4])
        ]
    );
}

/// 16
#[test]
fn types_2_and_3_without_history_are_an_error_that_says_where() {
    let first = type0(3, 9, 20, 0, 2, b"ab");
    for (chunk_type, chunk) in [(2, type2(33, 0, b"x")), (3, type3(33, b"x"))] {
        let previous = MessageHeader {
            chunk_stream_id: 3,
            timestamp_ms: 9,
            type_id: 20,
            message_stream_id: 0,
            length: 2,
        };
        let place = ChunkPlace {
            offset: 14,
            chunk_stream_id: 33,
            chunk_type,
            chunk_size: 128,
            previous: Some(previous),
        };
        let error = read_to_error(&[&first[..], &chunk].concat());
        assert_eq!(error, ChunkError::PeerNoHistory(place));
        let text = error.to_string();
        assert!(
            text.contains("byte 14, chunk type") && text.contains("chunk stream 33"),
            "{text}"
        );
        assert!(
            text.contains("after message type 20 of 2 bytes on chunk stream 3"),
            "{text}"
        );
    }
}

/// 17
#[test]
fn chunk_stream_ids_of_two_and_three_bytes_are_read_and_mean_the_same_stream() {
    let fields = [0, 0, 1, 0, 0, 1, AUDIO, 1, 0, 0, 0];
    let bytes = [
        &[&[0x00, 0][..], &fields, b"a"].concat()[..],
        &[0xc1, 0, 0, b'b'],
        &[&[0x01, 0xff, 0xff][..], &fields, b"c"].concat(),
        &[0xc1, 0xff, 0xff, b'd'],
        &[&[0x01, 2, 1][..], &fields, b"e"].concat(),
        &[&[0x00, 255][..], &fields, b"f"].concat(),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [
            (64, 1, AUDIO, 1, b"a".to_vec()),
            (64, 2, AUDIO, 1, b"b".to_vec()),
            (65_599, 1, AUDIO, 1, b"c".to_vec()),
            (65_599, 2, AUDIO, 1, b"d".to_vec()),
            (322, 1, AUDIO, 1, b"e".to_vec()),
            (319, 1, AUDIO, 1, b"f".to_vec()),
        ]
    );
}

/// 18
#[test]
fn messages_interleaved_chunk_by_chunk_come_out_whole() {
    let (video, audio, data) = (body(300), body(200), body(129));
    let bytes = [
        type0(6, 40, VIDEO, 1, 300, &video[..128]),
        type0(4, 41, AUDIO, 1, 200, &audio[..128]),
        type3(6, &video[128..256]),
        type0(5, 42, DATA, 1, 129, &data[..128]),
        type3(4, &audio[128..]),
        type3(6, &video[256..]),
        type3(5, &data[128..]),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [
            (4, 41, AUDIO, 1, audio),
            (6, 40, VIDEO, 1, video),
            (5, 42, DATA, 1, data)
        ]
    );
}

/// 19: OBS.
#[test]
fn one_chunk_stream_may_alternate_between_kinds() {
    let bytes = [
        type0(4, 0, DATA, 1, 2, b"md"),
        type1(4, 0, VIDEO, 3, b"vid"),
        type1(4, 10, AUDIO, 2, b"au"),
        type1(4, 5, VIDEO, 3, b"eo."),
        type3(4, b"vid"),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [
            (4, 0, DATA, 1, b"md".to_vec()),
            (4, 0, VIDEO, 1, b"vid".to_vec()),
            (4, 10, AUDIO, 1, b"au".to_vec()),
            (4, 15, VIDEO, 1, b"eo.".to_vec()),
            (4, 20, VIDEO, 1, b"vid".to_vec()),
        ]
    );
}

/// 20: cameras.
#[test]
fn control_messages_count_on_every_chunk_stream_and_message_stream() {
    let body = body(200);
    let bytes = [
        type0(5, 0, 1, 7, 4, &[0, 0, 0, 200]),
        type0(6, 0, VIDEO, 1, 200, &body),
    ]
    .concat();
    assert_eq!(read(&bytes), [(6, 0, VIDEO, 1, body)]);
}

/// 21, S5
#[test]
fn a_chunk_size_set_amid_a_message_counts_from_its_next_chunk() {
    let body = body(1000);
    for (chunk_size, end) in [(300, 428), (64, 192), (4, 132), (872, 1000), (0x7FFF_FFFF, 1000)] {
        let mut bytes = [
            type0(6, 0, VIDEO, 1, 1000, &body[..128]),
            set_chunk_size(chunk_size),
            type3(6, &body[128..end]),
            set_chunk_size(4096),
        ]
        .concat();
        if end < body.len() {
            bytes.extend(type3(6, &body[end..]));
        }
        assert_eq!(read(&bytes), [(6, 0, VIDEO, 1, body.clone())], "{chunk_size}");
    }
}

/// 22
#[test]
fn chunk_sizes_beyond_any_message_are_taken() {
    let body = body(5000);
    for chunk_size in [5000, 65_536, 16_777_215, 134_217_728, 2_147_483_647] {
        let bytes = [set_chunk_size(chunk_size), type0(6, 0, VIDEO, 1, 5000, &body)].concat();
        let (messages, result) = read_pieces(ReaderOptions::default(), bytes.chunks(997));
        assert_eq!(
            (messages, result),
            (vec![(6, 0, VIDEO, 1, body.clone())], Ok(())),
            "{chunk_size}"
        );
    }
}

/// 22, S8
#[test]
fn chunk_sizes_that_are_none_are_refused() {
    for chunk_size in [0, 0x8000_0000, u32::MAX] {
        assert_eq!(
            read_to_error(&set_chunk_size(chunk_size)),
            ChunkError::PeerChunkSize { chunk_size }
        );
    }
    for length in 0..4 {
        let short = type0(2, 0, 1, 0, length, &body(length as usize));
        assert_eq!(
            read_to_error(&short),
            ChunkError::PeerShortSetChunkSize {
                length: length as usize
            }
        );
    }
    let long = [
        type0(2, 0, 1, 0, 5, &[0, 0, 0, 200, 9]),
        type0(6, 0, VIDEO, 1, 150, &body(150)),
    ]
    .concat();
    assert_eq!(read(&long).len(), 1);
}

/// 23: OBS before connect, GStreamer after publish.
#[test]
fn the_chunk_size_may_be_set_at_any_time_and_often() {
    let (long, short) = (body(3000), body(100));
    let mut bytes = [set_chunk_size(4096), type0(3, 0, 20, 0, 3000, &long)].concat();
    bytes.extend(
        [
            set_chunk_size(64),
            set_chunk_size(128),
            type0(6, 0, VIDEO, 1, 100, &short),
        ]
        .concat(),
    );
    bytes.extend(
        [
            set_chunk_size(50),
            type2(6, 40, &short[..50]),
            type3(6, &short[50..]),
        ]
        .concat(),
    );
    let expected = vec![
        (3, 0, 20, 0, long),
        (6, 0, VIDEO, 1, short.clone()),
        (6, 40, VIDEO, 1, short),
    ];
    assert_eq!(
        read_pieces(ReaderOptions::default(), bytes.chunks(7)),
        (expected, Ok(()))
    );
}

/// 26
#[test]
fn messages_of_no_length_are_returned_and_keep_the_timing() {
    let bytes = [
        type0(4, 10, AUDIO, 1, 0, b""),
        type2(4, 23, b""),
        type3(4, b""),
        type1(4, 23, AUDIO, 2, b"ab"),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [
            (4, 10, AUDIO, 1, vec![]),
            (4, 33, AUDIO, 1, vec![]),
            (4, 56, AUDIO, 1, vec![]),
            (4, 79, AUDIO, 1, b"ab".to_vec())
        ]
    );
}

/// 27
#[test]
fn abort_drops_a_message_and_keeps_the_header_of_its_chunk_stream() {
    let body = body(200);
    let bytes = [
        type0(6, 40, VIDEO, 1, 200, &body[..128]),
        type0(4, 40, AUDIO, 1, 1, b"a"),
        abort(6),
        type2(6, 40, &body[..128]),
        type3(6, &body[128..]),
    ]
    .concat();
    assert_eq!(
        read(&bytes),
        [(4, 40, AUDIO, 1, b"a".to_vec()), (6, 80, VIDEO, 1, body)]
    );

    let mut reader = ChunkReader::new(ReaderOptions::default());
    let bytes = [type0(6, 0, VIDEO, 1, 9000, &[0; 128]), abort(6)].concat();
    assert_eq!(reader.read(&mut &bytes[..]), Ok(None));
    assert_eq!((reader.bytes_held(), reader.abandoned_messages()), (0, 0));
}

/// 27, S8
#[test]
fn an_abort_that_names_nothing_does_nothing() {
    let body = body(200);
    for nothing in [
        abort(77),
        abort(2),
        abort(u32::MAX),
        type0(2, 0, 2, 0, 3, &[0, 0, 6]),
        type0(2, 0, 2, 0, 0, b""),
    ] {
        let bytes = [
            type0(6, 0, VIDEO, 1, 200, &body[..128]),
            nothing,
            type3(6, &body[128..]),
        ]
        .concat();
        assert_eq!(read(&bytes), [(6, 0, VIDEO, 1, body.clone())]);
    }
}

/// 28
#[test]
fn unknown_types_are_returned_for_the_session_to_skip() {
    for type_id in [0, 7, 10, 16, 19, 0x55, 0xff] {
        let bytes = [type0(3, 0, type_id, 0, 3, b"???"), type0(4, 0, AUDIO, 1, 1, b"a")].concat();
        assert_eq!(read(&bytes.repeat(20)).len(), 40);
    }
}

/// 28
#[test]
fn unknown_types_in_a_row_are_lost_framing() {
    let error = read_to_error(&type0(3, 0, 0x55, 0, 1, b"?").repeat(20));
    assert!(
        matches!(
            error,
            ChunkError::PeerDesynchronised {
                type_id: 0x55,
                count: 8,
                ..
            }
        ),
        "{error}"
    );
}

/// 29
#[test]
fn zero_fill_is_lost_framing() {
    let bytes = [type0(6, 0, VIDEO, 1, 1, b"a"), vec![0; 1000]].concat();
    let error = read_to_error(&bytes);
    assert!(
        matches!(
            error,
            ChunkError::PeerDesynchronised {
                type_id: 0,
                count: 3,
                ..
            }
        ),
        "{error}"
    );
    // The DJI padding, found where a chunk head should be.
    let padding = [1, 0, 0, 0, 0, 0, 0, 0, 0].repeat(50);
    read_to_error(&[type0(6, 0, VIDEO, 1, 1, b"a"), padding].concat());
}

/// 74
#[test]
fn timestamps_wrap_at_two_to_the_32() {
    let near = u32::MAX - 10;
    let bytes = [type0(6, near, VIDEO, 1, 1, b"a"), type2(6, 40, b"b")].concat();
    assert_eq!(read(&bytes)[1].1, 29);
}

#[test]
fn head_room_is_zeroed_and_tail_room_spared_without_another_allocation() {
    let options = ReaderOptions {
        head_room: 11,
        tail_room: 4,
        ..ReaderOptions::default()
    };
    for length in [0usize, 1, 128, 5000, 65_536, 300_000] {
        let body = body(length);
        let bytes = [
            set_chunk_size(0x7FFF_FFFF),
            type0(6, 0, VIDEO, 1, length as u32, &body),
        ]
        .concat();
        let message = ChunkReader::new(options).read(&mut &bytes[..]).unwrap().unwrap();
        assert_eq!(message.body(), body);
        let buf = message.into_buf();
        assert_eq!(buf[..11], [0; 11]);
        assert_eq!(buf[11..], body);
        assert!(buf.capacity() >= buf.len() + 4, "{length}");
    }
}
