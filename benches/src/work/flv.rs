//! FLV: tags and the heads of bodies.

use super::{Material, Work};
use crate::generator::StreamShape;
use spillway_flv::tag::{TAIL_LEN, finish};
use spillway_flv::{AudioHeader, TagType, VideoHeader};
use std::hint::black_box;

/// Messages to complete tags. Each buffer is taken out of its tag again for the next pass, which moves its bytes
/// once within the cache.
#[derive(Debug)]
pub struct TagFinishing {
    material: Material,
    buffers: Vec<Vec<u8>>,
}

impl TagFinishing {
    /// Finishes a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let material = Material::new(shape);
        Self {
            buffers: material.buffers(),
            material,
        }
    }
}

impl Work for TagFinishing {
    fn pass(&mut self) {
        for (buffer, message) in self.buffers.iter_mut().zip(&self.material.messages) {
            let tag = finish(std::mem::take(buffer), message.kind, message.timestamp_ms);
            *buffer = Vec::from(black_box(tag));
            buffer.truncate(buffer.len() - TAIL_LEN);
        }
    }

    fn items(&self) -> u64 {
        self.material.count()
    }
}

/// The heads of audio and video bodies; each video body also in its Enhanced RTMP form.
#[derive(Debug)]
pub struct HeaderParsing {
    bodies: Vec<(TagType, Vec<u8>)>,
}

impl HeaderParsing {
    /// Parses a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut bodies = Vec::new();
        for message in Material::new(shape).messages {
            if message.kind == TagType::Video {
                bodies.push((TagType::Video, enhanced(&message.body)));
            }
            bodies.push((message.kind, message.body));
        }
        Self { bodies }
    }
}

/// A legacy AVC frame as Enhanced RTMP would carry it: FourCC `avc1`, coded frames with a composition time.
fn enhanced(body: &[u8]) -> Vec<u8> {
    let frame_type = body.first().map_or(0x20, |first| first & 0xF0);
    let mut enhanced = vec![0x80 | frame_type | 1];
    enhanced.extend_from_slice(b"avc1");
    enhanced.extend_from_slice(body.get(2..).unwrap_or_default());
    enhanced
}

impl Work for HeaderParsing {
    fn pass(&mut self) {
        for (kind, body) in &self.bodies {
            let body = black_box(body.as_slice());
            if *kind == TagType::Video {
                black_box(VideoHeader::parse(body).expect("a valid head"));
            } else {
                black_box(AudioHeader::parse(body).expect("a valid head"));
            }
        }
    }

    fn items(&self) -> u64 {
        self.bodies.len() as u64
    }
}
