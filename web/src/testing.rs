//! A hub fed with synthetic frames, for tests.

use std::time::Duration;

use spillway_hub::{Hub, HubOptions, Protocol, Publisher, SessionInfo, StreamKey, TagType};

/// avcC of a 64x48 picture, as x264 makes it.
const AVC_CONFIG: &[u8] = &[
    0x01, 0x42, 0xC0, 0x0A, 0xFF, 0xE1, 0x00, 0x15, 0x67, 0x42, 0xC0, 0x0A, 0xDA, 0x11, 0xEC, 0x04, 0x40,
    0x00, 0x00, 0x03, 0x00, 0x40, 0x00, 0x00, 0x0C, 0x83, 0xC4, 0x89, 0xA8, 0x01, 0x00, 0x04, 0x68, 0xCE,
    0x0F, 0xC8,
];
/// AAC-LC, 44,100 Hz, stereo.
const AAC_CONFIG: &[u8] = &[0x12, 0x10];
pub(crate) const FRAME_MS: u32 = 40;

/// A hub that gives up soon.
pub(crate) fn hub() -> Hub {
    Hub::new(HubOptions {
        linger: Duration::from_millis(100),
        play_wait: Duration::from_millis(300),
        ..HubOptions::default()
    })
}

pub(crate) fn key(path: &str) -> StreamKey {
    StreamKey::parse(path).unwrap()
}

/// A publisher of synthetic H.264 and AAC.
pub(crate) struct Source {
    publisher: Publisher,
    at_ms: u32,
}

impl Source {
    /// Publishes sequence headers and one GOP.
    pub(crate) fn start(hub: &Hub, path: &str) -> Self {
        let info = SessionInfo::new(Protocol::Rtmp, ([127, 0, 0, 1], 1).into());
        let mut source = Self {
            publisher: hub.publish(key(path), info).unwrap(),
            at_ms: 0,
        };
        source.push(TagType::Video, &[&[0x17, 0, 0, 0, 0], AVC_CONFIG].concat());
        source.push(TagType::Audio, &[&[0xAF, 0], AAC_CONFIG].concat());
        source.gop(5);
        source
    }

    /// A key frame and `frames - 1` others, each with an audio frame.
    pub(crate) fn gop(&mut self, frames: usize) {
        self.gop_of(frames, 200);
    }

    /// The same with pictures of about this size.
    pub(crate) fn gop_of(&mut self, frames: usize, picture_bytes: usize) {
        for index in 0..frames {
            let (first, nal) = if index == 0 { (0x17, 0x65) } else { (0x27, 0x41) };
            let picture = vec![self.at_ms as u8; picture_bytes];
            let length = (1 + picture.len() as u32).to_be_bytes();
            let body = [&[first, 1, 0, 0, 0][..], &length, &[nal], &picture].concat();
            self.push(TagType::Video, &body);
            self.push(
                TagType::Audio,
                &[&[0xAF, 1][..], &[self.at_ms as u8; 200]].concat(),
            );
            self.at_ms += FRAME_MS;
        }
    }

    fn push(&mut self, kind: TagType, body: &[u8]) {
        let buf = [&[0; 11], body].concat();
        self.publisher.push(kind, self.at_ms, buf).unwrap();
    }
}
