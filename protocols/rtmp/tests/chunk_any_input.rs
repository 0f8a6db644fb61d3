//! What holds for every message, every interleaving and every input.

mod chunks;

use std::collections::VecDeque;

use bytes::BytesMut;
use chunks::{Seen, read_pieces, seen, set_chunk_size};
use proptest::{collection::vec, prelude::*, sample::Index};
use spillway_rtmp::chunk::{ChunkHead, ChunkReader, ChunkWriter, ReaderOptions};

/// Timestamps around every edge of their encoding.
fn timestamp() -> impl Strategy<Value = u32> {
    prop_oneof![
        0u32..200,
        0xFF_FFF0u32..0x100_0010,
        0x7FFF_FF00u32..0x8000_0100,
        0xFFFF_FF00u32..,
        any::<u32>()
    ]
}

fn known_type() -> impl Strategy<Value = u8> {
    prop_oneof![Just(3u8), Just(4), Just(8), Just(9), Just(18), Just(20)]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..4, 100usize..300, 0usize..3000]
}

/// One chunk stream's messages: timestamp, type, message stream id, body.
fn messages() -> impl Strategy<Value = Vec<(u32, u8, u32, Vec<u8>)>> {
    let body = length().prop_flat_map(|length| vec(any::<u8>(), length));
    vec((timestamp(), known_type(), 0u32..3, body), 1..6)
}

fn chunk_stream_id() -> impl Strategy<Value = u32> {
    prop_oneof![3u32..64, 64u32..320, 320u32..65_600]
}

/// Cuts the one message that a writer wrote into the chunks it consists of.
fn cut(mut message: &[u8], payload: usize, chunk_size: usize) -> VecDeque<Vec<u8>> {
    let chunks = payload.div_ceil(chunk_size).max(1);
    // Every continuation has the same head, so its length follows from what the message is longer than its parts.
    let basic = match message[0] & 0x3f {
        0 => 2,
        1 => 3,
        _ => 1,
    };
    let fields = [11, 7, 3, 0][usize::from(message[0] >> 6)];
    let heads = message.len() - payload;
    let extended = if heads == basic + fields + (chunks - 1) * basic {
        0
    } else {
        4
    };
    assert_eq!(
        heads,
        basic + fields + extended + (chunks - 1) * (basic + extended)
    );
    let (mut head, mut left) = (basic + fields + extended, payload);
    let mut cut = VecDeque::new();
    while cut.len() < chunks {
        let (chunk, rest) = message.split_at(head + left.min(chunk_size));
        cut.push_back(chunk.to_vec());
        left -= left.min(chunk_size);
        (head, message) = (basic + extended, rest);
    }
    cut
}

proptest! {
    #[test]
    fn what_a_writer_wrote_is_read_however_it_is_interleaved_and_split(
        streams in vec((chunk_stream_id(), messages()), 1..5),
        chunk_size in prop_oneof![1u32..40, Just(128), 100u32..5000, Just(0x7FFF_FFFF)],
        compress in any::<bool>(),
        turns in vec(any::<Index>(), 50),
        pieces in vec(1usize..700, 1..20),
    ) {
        let mut writer = if compress { ChunkWriter::compressing() } else { ChunkWriter::new() };
        writer.set_chunk_size(chunk_size);
        let mut queues: Vec<(u32, VecDeque<Vec<u8>>)> = Vec::new();
        let mut expected: Vec<(u32, Vec<Seen>)> = Vec::new();
        for (id, messages) in streams {
            if queues.iter().any(|(other, _)| *other == id) {
                continue;
            }
            let (mut queue, mut seen) = (VecDeque::new(), Vec::new());
            for (timestamp, type_id, message_stream_id, body) in messages {
                let mut out = BytesMut::new();
                writer.write(&mut out, id, timestamp, type_id, message_stream_id, &body).unwrap();
                queue.extend(cut(&out, body.len(), chunk_size as usize));
                seen.push((id, timestamp, type_id, message_stream_id, body));
            }
            queues.push((id, queue));
            expected.push((id, seen));
        }

        let mut bytes = set_chunk_size(chunk_size);
        let mut turns = turns.iter().cycle();
        while !queues.is_empty() {
            let turn = turns.next().unwrap().index(queues.len());
            match queues[turn].1.pop_front() {
                Some(chunk) => bytes.extend(chunk),
                None => { queues.remove(turn); }
            }
        }

        let (mut rest, mut pieces, mut cut) = (&bytes[..], pieces.iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*pieces.next().unwrap()).min(rest.len()));
            cut.push(piece);
            rest = after;
        }
        let (messages, result) = read_pieces(ReaderOptions::default(), cut);
        prop_assert_eq!(result, Ok(()));
        for (id, expected) in expected {
            let of_stream: Vec<_> = messages.iter().filter(|message| message.0 == id).cloned().collect();
            prop_assert_eq!(of_stream, expected);
        }
    }

    #[test]
    fn a_rendered_head_and_its_continuations_are_what_the_writer_writes(
        id in 2u8..64,
        timestamp in timestamp(),
        type_id in any::<u8>(),
        message_stream_id in any::<u32>(),
        other_stream in any::<u32>(),
        body in vec(any::<u8>(), 0..1000),
    ) {
        let mut written = BytesMut::new();
        ChunkWriter::new()
            .write(&mut written, id.into(), timestamp, type_id, message_stream_id, &body)
            .unwrap();
        let head = ChunkHead::render(id, timestamp, type_id, other_stream, body.len() as u32)
            .with_message_stream(message_stream_id);
        let mut rendered = head.head().to_vec();
        for (index, slice) in body.chunks(128).enumerate() {
            if index > 0 {
                rendered.extend_from_slice(head.continuation());
            }
            rendered.extend_from_slice(slice);
        }
        prop_assert_eq!(&rendered[..], &written[..]);
    }

    #[test]
    fn no_bytes_make_the_reader_panic_or_hold_much_more_than_they_are(
        bytes in vec(prop_oneof![2 => 0u8..8, 1 => any::<u8>()], 0..4000),
        options in (0usize..20, 0usize..8),
        piece in 1usize..600,
    ) {
        let options = ReaderOptions { head_room: options.0, tail_room: options.1, ..ReaderOptions::default() };
        let mut reader = ChunkReader::new(options);
        let mut received = 0;
        'all: for mut piece in bytes.chunks(piece) {
            received += piece.len();
            loop {
                match reader.read(&mut piece) {
                    Ok(Some(message)) => {
                        let (_, _, _, _, body) = seen(&message);
                        prop_assert!(body.len() <= received);
                    }
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            // 256 KiB over all chunk streams and 4 KiB on each may be reserved ahead; a buffer doubles as it grows.
            prop_assert!(reader.bytes_held() <= (256 << 10) + 64 * (4096 + 28) + 2 * received);
        }
    }

    #[test]
    fn any_bytes_are_read_alike_however_they_are_split(
        bytes in vec(prop_oneof![3 => 0u8..8, 1 => 0xc0u8..0xc8, 1 => any::<u8>()], 0..600),
        at in any::<Index>(),
        piece in 1usize..50,
    ) {
        let whole = read_pieces(ReaderOptions::default(), [&bytes[..]]);
        prop_assert_eq!(read_pieces(ReaderOptions::default(), bytes.chunks(piece)), whole.clone());
        let (first, second) = bytes.split_at(at.index(bytes.len() + 1));
        prop_assert_eq!(read_pieces(ReaderOptions::default(), [first, second]), whole);
    }
}
