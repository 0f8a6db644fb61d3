//! What a hostile peer cannot do. Numbers are those of the project's interop notes, section 3.

mod chunks;

use chunks::{AUDIO, VIDEO, abort, body, read_pieces, read_with, set_chunk_size, type0, type1, type2, type3};
use spillway_rtmp::{
    chunk::{ChunkReader, ReaderOptions},
    error::ChunkError,
    limits::ReaderLimits,
};

fn with_limits(limits: ReaderLimits) -> ReaderOptions {
    ReaderOptions {
        limits,
        ..ReaderOptions::default()
    }
}

fn with_head_room() -> ReaderOptions {
    ReaderOptions {
        head_room: 11,
        tail_room: 4,
        ..ReaderOptions::default()
    }
}

/// S1
#[test]
fn lengths_without_bodies_hold_little_memory() {
    let mut reader = ChunkReader::new(with_head_room());
    for csid in 2..64 {
        let head = type0(csid, 0, VIDEO, 1, 0xFF_FFFF, &[csid; 128]);
        assert_eq!(reader.read(&mut &head[..]), Ok(None));
    }
    assert!(reader.bytes_held() < 1 << 20, "{} bytes", reader.bytes_held());
}

/// S1
#[test]
fn a_connection_that_delivered_one_large_message_cannot_hold_many_times_that() {
    let mut reader = ChunkReader::new(with_head_room());
    let large = 4 << 20;
    let bytes = [
        set_chunk_size(0x7FFF_FFFF),
        type0(2, 0, VIDEO, 1, large, &vec![1; large as usize]),
    ]
    .concat();
    assert!(reader.read(&mut &bytes[..]).unwrap().is_some());
    for csid in 3..64 {
        reader
            .read(&mut &type0(csid, 0, VIDEO, 1, large, b"")[..])
            .unwrap();
    }
    assert!(reader.bytes_held() < 9 << 20, "{} bytes", reader.bytes_held());
}

/// S1
#[test]
fn bytes_of_incomplete_messages_are_bounded_over_all_chunk_streams() {
    let limits = ReaderLimits {
        max_partial_bytes: 1 << 20,
        ..ReaderLimits::default()
    };
    let mut bytes = set_chunk_size(50_000);
    for csid in 3..64 {
        bytes.extend(type0(csid, 0, VIDEO, 1, 0xFF_FFFF, &vec![csid; 50_000]));
    }
    let mut reader = ChunkReader::new(with_limits(limits));
    let mut error = None;
    let mut received = 0;
    for mut piece in bytes.chunks(1000) {
        received += piece.len();
        if let Err(refused) = reader.read(&mut piece) {
            error = Some(refused);
            break;
        }
        assert!(reader.bytes_held() <= 1 << 20);
    }
    assert!(
        matches!(
            error,
            Some(ChunkError::PeerTooMuchPartial { limit: 1_048_576, .. })
        ),
        "{error:?}"
    );
    assert!(received > 800_000, "refused after only {received} bytes");
}

/// S1
#[test]
fn a_message_over_the_limit_is_refused_by_its_head() {
    let limits = ReaderLimits {
        max_message_bytes: 1000,
        ..ReaderLimits::default()
    };
    let fits = [set_chunk_size(4096), type0(6, 0, VIDEO, 1, 1000, &body(1000))].concat();
    assert_eq!(read_with(with_limits(limits), &fits).0.len(), 1);
    for head in [type0(6, 0, VIDEO, 1, 1001, b""), type1(2, 0, VIDEO, 1001, b"")] {
        let (_, result) = read_with(with_limits(limits), &head);
        assert_eq!(
            result,
            Err(ChunkError::MessageTooLong {
                length: 1001,
                limit: 1000
            })
        );
    }
}

/// S2
#[test]
fn a_walk_over_the_chunk_stream_ids_ends_at_the_limit() {
    let mut bytes = Vec::new();
    for id in 0u16..1000 {
        let [low, high] = id.to_le_bytes();
        bytes.extend([1, low, high, 0, 0, 0, 0, 0, 0, AUDIO, 1, 0, 0, 0]);
    }
    let (messages, result) = read_pieces(ReaderOptions::default(), [&bytes[..]]);
    assert_eq!(messages.len(), 64);
    let Err(ChunkError::PeerTooManyChunkStreams { limit: 64, place }) = result else {
        panic!("{result:?}")
    };
    assert_eq!((place.chunk_stream_id, place.offset), (128, 64 * 14));
}

/// S3
#[test]
fn a_huge_chunk_size_reserves_nothing() {
    let mut reader = ChunkReader::new(ReaderOptions::default());
    let bytes = [
        set_chunk_size(0x7FFF_FFFF),
        type0(6, 0, VIDEO, 1, 0xFF_FFFF, b"abc"),
    ]
    .concat();
    assert_eq!(reader.read(&mut &bytes[..]), Ok(None));
    assert_eq!(reader.chunk_size(), 0xFF_FFFF);
    assert!(reader.bytes_held() <= 64 << 10);
}

/// S4
#[test]
fn a_chunk_size_of_one_works_until_its_budget_is_spent() {
    let body = body(400);
    let mut bytes = set_chunk_size(1);
    bytes.extend(type0(6, 0, VIDEO, 1, 400, &body[..1]));
    for byte in &body[1..] {
        bytes.extend(type3(6, &[*byte]));
    }
    let options = ReaderOptions::default();
    assert_eq!(
        read_pieces(options, bytes.chunks(13)),
        (vec![(6, 0, VIDEO, 1, body)], Ok(()))
    );

    let limits = ReaderLimits {
        max_tiny_chunks: 300,
        ..ReaderLimits::default()
    };
    let (_, result) = read_pieces(with_limits(limits), [&bytes[..]]);
    assert_eq!(
        result,
        Err(ChunkError::PeerTooManyTinyChunks {
            limit: 300,
            chunk_size: 1
        })
    );
}

/// S4
#[test]
fn short_messages_and_short_last_chunks_are_not_tiny_chunks() {
    let limits = ReaderLimits {
        max_tiny_chunks: 0,
        ..ReaderLimits::default()
    };
    let body = body(129);
    let bytes = [
        type0(4, 0, AUDIO, 1, 1, b"a"),
        type0(6, 0, VIDEO, 1, 129, &body[..128]),
        type3(6, &body[128..]),
    ]
    .concat();
    assert_eq!(read_with(with_limits(limits), &bytes).0.len(), 2);
}

/// S6
#[test]
fn the_length_of_a_message_is_fixed_by_its_first_chunk() {
    let body = body(300);
    for length in [0, 1, 128, 129, 299, 301, 0xFF_FFFF] {
        let bytes = [
            type0(6, 0, VIDEO, 1, 300, &body[..128]),
            type1(6, 0, VIDEO, length, &body[128..256]),
            type1(6, 0, VIDEO, length, &body[256..]),
            type0(6, 0, VIDEO, 1, 1, b"a"),
        ]
        .concat();
        let (messages, result) = read_with(ReaderOptions::default(), &bytes);
        assert_eq!(result, Ok(()));
        assert_eq!(messages[0].4, body);
        assert_eq!(messages.len(), 2);
    }
}

/// S1, 15, 27
#[test]
fn memory_of_dropped_messages_is_given_back() {
    let mut reader = ChunkReader::new(with_head_room());
    let head = type0(6, 0, VIDEO, 1, 60_000, &[0; 128]);
    for drop in [abort(6), [&head[..], &abort(6)].concat()] {
        for _ in 0..2000 {
            let bytes = [&head[..], &drop].concat();
            assert_eq!(reader.read(&mut &bytes[..]), Ok(None));
            assert_eq!(reader.bytes_held(), 0);
            let complete = type0(6, 0, VIDEO, 1, 1, b"a");
            assert!(reader.read(&mut &complete[..]).unwrap().is_some());
        }
    }
}

#[test]
fn the_chunk_size_set_from_outside_is_kept_in_its_range() {
    let mut reader = ChunkReader::new(ReaderOptions::default());
    reader.set_chunk_size(0);
    assert_eq!(reader.chunk_size(), 1);
    reader.set_chunk_size(u32::MAX);
    assert_eq!(reader.chunk_size(), 0xFF_FFFF);
    let bytes = [type0(6, 0, VIDEO, 1, 500, &body(500)), type2(6, 1, &body(500))].concat();
    assert_eq!(reader.read(&mut &bytes[..]).unwrap().unwrap().body(), body(500));
}

#[test]
fn lowered_limits_let_a_message_that_has_begun_be_completed() {
    let mut reader = ChunkReader::new(with_head_room());
    let large = 1 << 20;
    let mut bytes = set_chunk_size(0x7FFF_FFFF);
    bytes.extend(type0(5, 0, VIDEO, 1, large, &vec![1; large as usize]));
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    assert_eq!(reader.read(&mut &first[..]), Ok(None));
    let low = ReaderLimits {
        max_message_bytes: 1000,
        max_partial_bytes: 2000,
        ..ReaderLimits::default()
    };
    reader.set_limits(low);
    let message = reader.read(&mut &rest[..]).unwrap().expect("complete");
    assert_eq!(message.body().len(), large as usize);
    let too_long = type0(5, 0, VIDEO, 1, 1001, b"");
    assert_eq!(
        reader.read(&mut &too_long[..]),
        Err(ChunkError::MessageTooLong {
            length: 1001,
            limit: 1000
        })
    );
}

#[test]
fn lowered_and_raised_limits_bound_incomplete_messages() {
    let small = |reader: &mut ChunkReader, csid| {
        let head = type0(csid, 0, VIDEO, 1, 900, &[csid; 128]);
        reader.read(&mut &head[..])
    };
    let mut reader = ChunkReader::new(with_head_room());
    let limits = |max_partial_bytes| ReaderLimits {
        max_partial_bytes,
        ..ReaderLimits::default()
    };
    reader.set_limits(limits(2000));
    assert_eq!(
        [small(&mut reader, 3), small(&mut reader, 4)],
        [Ok(None), Ok(None)]
    );
    reader.set_limits(limits(3000));
    assert_eq!(small(&mut reader, 5), Ok(None));
    assert!(matches!(
        small(&mut reader, 6),
        Err(ChunkError::PeerTooMuchPartial { limit: 3000, .. })
    ));
}
