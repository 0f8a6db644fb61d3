//! [`Material`]: two seconds of a stream.

use crate::clock::MILLISECOND_NS;
use crate::generator::{AUDIO_SEQUENCE_HEADER, Generator, StreamShape, VIDEO_SEQUENCE_HEADER, filler};
use crate::scan::Track;
use bytes::Bytes;
use spillway_flv::TagType;
use spillway_flv::sample::{config_of_audio, config_of_video};
use spillway_flv::tag::{HEAD_LEN, TAIL_LEN};
use spillway_media::codec::CodecConfig;
use spillway_media::{Sample, TrackKind};
use std::sync::Arc;

/// The media time of a pass: one GOP.
pub const PASS_MS: u32 = 2_000;

/// 1080p30 at 6 Mbit/s with AAC, two B frames between others.
pub const HD: StreamShape = StreamShape {
    bits_per_second: 6_000_000,
    audio_bits_per_second: 128_000,
    frames_per_second: 30,
    gop_frames: 60,
    b_frames: 2,
};

/// The load tool's small stream: 237 kbit/s, 25 frames per second and AAC.
pub const SMALL: StreamShape = StreamShape {
    bits_per_second: 237_000,
    audio_bits_per_second: 64_000,
    frames_per_second: 25,
    gop_frames: 50,
    b_frames: 0,
};

/// Behind the FLV head of an AVC frame comes its data.
const VIDEO_DATA_AT: usize = 5;
/// The same for an AAC frame.
const AUDIO_DATA_AT: usize = 2;

/// One audio or video message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Audio or video.
    pub kind: TagType,
    /// Its time within the pass.
    pub timestamp_ms: u32,
    /// The payload.
    pub body: Vec<u8>,
}

impl Message {
    /// The message as a session hands it to the hub: behind room for an FLV head, before room for its tail.
    pub fn buffer(&self) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(HEAD_LEN + self.body.len() + TAIL_LEN);
        buffer.extend_from_slice(&[0; HEAD_LEN]);
        buffer.extend_from_slice(&self.body);
        buffer
    }
}

/// The messages of a pass, the first of them a key frame.
#[derive(Debug, Clone)]
pub struct Material {
    /// In the order they are sent.
    pub messages: Vec<Message>,
}

impl Material {
    /// Makes a stream of this shape. Its GOP must be [`PASS_MS`] long.
    pub fn new(shape: StreamShape) -> Self {
        let mut generator = Generator::new(shape, 0, filler());
        let mut messages = Vec::new();
        while generator.due_ns() < u64::from(PASS_MS) * MILLISECOND_NS {
            let mut body = Vec::new();
            let made = generator.make(0, &mut body);
            messages.push(Message {
                kind: match made.track {
                    Track::Audio => TagType::Audio,
                    Track::Video => TagType::Video,
                },
                timestamp_ms: made.dts_ms,
                body,
            });
        }
        Self { messages }
    }

    /// The sequence headers that come before it.
    pub fn headers() -> [Message; 2] {
        let header = |kind, body: &[u8]| Message {
            kind,
            timestamp_ms: 0,
            body: body.to_vec(),
        };
        [
            header(TagType::Video, &VIDEO_SEQUENCE_HEADER),
            header(TagType::Audio, &AUDIO_SEQUENCE_HEADER),
        ]
    }

    /// What those headers say: video, then audio.
    pub fn configs() -> [Arc<CodecConfig>; 2] {
        let video = config_of_video(&VIDEO_SEQUENCE_HEADER);
        let audio = config_of_audio(&AUDIO_SEQUENCE_HEADER);
        [video, audio].map(|config| Arc::new(config.expect("the generator's headers are valid")))
    }

    /// Fresh buffers with all messages; see [`Message::buffer`].
    pub fn buffers(&self) -> Vec<Vec<u8>> {
        self.messages.iter().map(Message::buffer).collect()
    }

    /// The messages as a packager gets them.
    pub fn samples(&self) -> Vec<Sample> {
        let sample = |message: &Message| {
            let video = message.kind == TagType::Video;
            let data_at = if video { VIDEO_DATA_AT } else { AUDIO_DATA_AT };
            let cts_ms = match message.body.get(2..VIDEO_DATA_AT) {
                Some(&[c2, c1, c0]) if video => i32::from_be_bytes([0, c2, c1, c0]),
                _ => 0,
            };
            Sample {
                kind: if video { TrackKind::Video } else { TrackKind::Audio },
                dts_ms: i64::from(message.timestamp_ms),
                cts_ms,
                key: video && message.body.first() == Some(&0x17),
                data: Bytes::copy_from_slice(message.body.get(data_at..).unwrap_or_default()),
            }
        };
        self.messages.iter().map(sample).collect()
    }

    /// How many messages there are.
    pub fn count(&self) -> u64 {
        self.messages.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_one_gop_of_the_rate_asked_for() {
        for shape in [HD, SMALL] {
            let material = Material::new(shape);
            let samples = material.samples();
            assert_eq!(samples.iter().filter(|sample| sample.key).count(), 1);
            assert!(samples[0].key);
            let bytes: usize = material.messages.iter().map(|message| message.body.len()).sum();
            let rate = bytes as f64 * 8.0 * 1000.0 / f64::from(PASS_MS);
            assert!((rate / shape.bits_per_second as f64 - 1.0).abs() < 0.03, "{rate}");
        }
    }
}
