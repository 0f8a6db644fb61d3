//! RTMP chunks: reading and writing.

use super::{Material, Work};
use crate::generator::StreamShape;
use bytes::BytesMut;
use spillway_flv::TagType;
use spillway_rtmp::chunk::{ChunkReader, ChunkWriter, OUT_CHUNK_SIZE, ReaderOptions};
use spillway_rtmp::message::chunk_stream;
use spillway_rtmp::session::{HEAD_ROOM, TAIL_ROOM};
use std::hint::black_box;

/// The size of chunks that OBS sends.
const OBS_CHUNK_SIZE: u32 = 4_096;
/// The bytes a connection gets from its socket at a time.
const ARRIVAL_BYTES: usize = 16_384;
/// The message stream of the first `createStream`.
const MESSAGE_STREAM_ID: u32 = 1;

fn written(material: &Material, writer: &mut ChunkWriter, out: &mut BytesMut) {
    for message in &material.messages {
        let chunk_stream_id = match message.kind {
            TagType::Audio => chunk_stream::AUDIO,
            _ => chunk_stream::VIDEO,
        };
        writer
            .write(
                out,
                chunk_stream_id,
                message.timestamp_ms,
                message.kind as u8,
                MESSAGE_STREAM_ID,
                &message.body,
            )
            .expect("no message is too long");
    }
}

/// A publisher's bytes to messages: chunks as OBS cuts them, with the shortest heads that do, in arrivals of 16 KiB.
#[derive(Debug)]
pub struct ChunkReading {
    bytes: BytesMut,
    reader: ChunkReader,
    messages: u64,
}

impl ChunkReading {
    /// Reads a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let material = Material::new(shape);
        let mut writer = ChunkWriter::compressing();
        writer.set_chunk_size(OBS_CHUNK_SIZE);
        let mut bytes = BytesMut::new();
        written(&material, &mut writer, &mut bytes);
        let mut reader = ChunkReader::new(ReaderOptions {
            head_room: HEAD_ROOM,
            tail_room: TAIL_ROOM,
            ..ReaderOptions::default()
        });
        reader.set_chunk_size(OBS_CHUNK_SIZE);
        let mut work = Self {
            bytes,
            reader,
            messages: material.count(),
        };
        work.pass();
        work
    }

    /// The bytes of a pass.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl Work for ChunkReading {
    fn pass(&mut self) {
        let mut messages = 0;
        for mut arrived in self.bytes.chunks(ARRIVAL_BYTES) {
            while let Some(message) = self.reader.read(&mut arrived).expect("valid chunks") {
                black_box(message.into_buf());
                messages += 1;
            }
        }
        assert_eq!(messages, self.messages);
    }

    fn items(&self) -> u64 {
        self.messages
    }
}

/// Messages to bytes, in chunks of the size that Spillway sends.
#[derive(Debug)]
pub struct ChunkWriting {
    material: Material,
    writer: ChunkWriter,
    out: BytesMut,
}

impl ChunkWriting {
    /// Writes a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut writer = ChunkWriter::new();
        writer.set_chunk_size(OUT_CHUNK_SIZE);
        let mut work = Self {
            material: Material::new(shape),
            writer,
            out: BytesMut::new(),
        };
        work.pass();
        work
    }

    /// The bytes of a pass.
    pub fn bytes(&self) -> u64 {
        self.out.len() as u64
    }
}

impl Work for ChunkWriting {
    fn pass(&mut self) {
        self.out.clear();
        written(&self.material, &mut self.writer, &mut self.out);
        black_box(&self.out);
    }

    fn items(&self) -> u64 {
        self.material.count()
    }
}
