//! Chunks made by hand, and reading them in every way.
#![allow(dead_code, reason = "each test file uses its part")]

use spillway_rtmp::{
    chunk::{ChunkReader, Message, ReaderOptions},
    error::ChunkError,
};

pub(crate) const AUDIO: u8 = 8;
pub(crate) const VIDEO: u8 = 9;
pub(crate) const DATA: u8 = 18;

/// What a test wants to know of a message: chunk stream id, timestamp, type, message stream id and body.
pub(crate) type Seen = (u32, u32, u8, u32, Vec<u8>);

fn time(field: u32) -> Vec<u8> {
    field.min(0xFF_FFFF).to_be_bytes()[1..].to_vec()
}

fn extended(field: u32) -> Vec<u8> {
    if field >= 0xFF_FFFF {
        field.to_be_bytes().to_vec()
    } else {
        Vec::new()
    }
}

/// A chunk of type 0 on a chunk stream below 64.
pub(crate) fn type0(
    csid: u8,
    timestamp: u32,
    type_id: u8,
    msid: u32,
    length: u32,
    payload: &[u8],
) -> Vec<u8> {
    let length = &length.to_be_bytes()[1..];
    [
        &[csid][..],
        &time(timestamp),
        length,
        &[type_id],
        &msid.to_le_bytes(),
        &extended(timestamp),
        payload,
    ]
    .concat()
}

/// A chunk of type 1.
pub(crate) fn type1(csid: u8, delta: u32, type_id: u8, length: u32, payload: &[u8]) -> Vec<u8> {
    let length = &length.to_be_bytes()[1..];
    [
        &[0x40 | csid][..],
        &time(delta),
        length,
        &[type_id],
        &extended(delta),
        payload,
    ]
    .concat()
}

/// A chunk of type 2.
pub(crate) fn type2(csid: u8, delta: u32, payload: &[u8]) -> Vec<u8> {
    [&[0x80 | csid][..], &time(delta), &extended(delta), payload].concat()
}

/// A chunk of type 3 without an extended timestamp.
pub(crate) fn type3(csid: u8, payload: &[u8]) -> Vec<u8> {
    [&[0xc0 | csid][..], payload].concat()
}

/// A SetChunkSize message on chunk stream 2.
pub(crate) fn set_chunk_size(chunk_size: u32) -> Vec<u8> {
    type0(2, 0, 1, 0, 4, &chunk_size.to_be_bytes())
}

/// An Abort message on chunk stream 2.
pub(crate) fn abort(csid: u32) -> Vec<u8> {
    type0(2, 0, 2, 0, 4, &csid.to_be_bytes())
}

/// Bytes that differ from each other and from chunk heads.
pub(crate) fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + 17) as u8).collect()
}

pub(crate) fn seen(message: &Message) -> Seen {
    let header = message.header;
    assert_eq!(header.length as usize, message.body().len());
    (
        header.chunk_stream_id,
        header.timestamp_ms,
        header.type_id,
        header.message_stream_id,
        message.body().to_vec(),
    )
}

/// Reads pieces with a new reader; what was returned before an error is kept.
pub(crate) fn read_pieces<'a>(
    options: ReaderOptions,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Seen>, Result<(), ChunkError>) {
    let mut reader = ChunkReader::new(options);
    let mut messages = Vec::new();
    for mut piece in pieces {
        loop {
            match reader.read(&mut piece) {
                Ok(Some(message)) => messages.push(seen(&message)),
                Ok(None) => break,
                Err(error) => return (messages, Err(error)),
            }
        }
        assert!(piece.is_empty(), "the reader leaves input");
    }
    (messages, Ok(()))
}

/// Reads bytes whole, split at every byte and byte by byte, which must all give the same.
pub(crate) fn read_with(options: ReaderOptions, bytes: &[u8]) -> (Vec<Seen>, Result<(), ChunkError>) {
    let whole = read_pieces(options, [bytes]);
    assert_eq!(read_pieces(options, bytes.chunks(1)), whole, "byte by byte");
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(read_pieces(options, [first, second]), whole, "split at {at}");
    }
    whole
}

/// As [`read_with`] default options, without an error.
pub(crate) fn read(bytes: &[u8]) -> Vec<Seen> {
    let (messages, result) = read_with(ReaderOptions::default(), bytes);
    assert_eq!(result, Ok(()));
    messages
}

/// As [`read_with`] default options, to an error.
pub(crate) fn read_to_error(bytes: &[u8]) -> ChunkError {
    read_with(ReaderOptions::default(), bytes)
        .1
        .expect_err("these bytes are to be refused")
}
