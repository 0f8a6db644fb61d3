//! A stream made on the spot: H.264 and AAC in form, stamps and filler in content.

use crate::clock::SECOND_NS;
use crate::scan::{AUDIO_STAMP_AT, Track};
use crate::stamp::{STAMP_LEN, Stamp};

/// Samples in one AAC frame.
const AAC_FRAME_SAMPLES: u64 = 1024;
/// Sampling rate of the audio track, in hertz.
const AUDIO_RATE_HZ: u64 = 44_100;
/// How much bigger a key frame is than another frame.
const KEY_FRAME_WEIGHT: u64 = 5;
/// FLV head of a raw AAC frame, 44.1 kHz stereo.
const AUDIO_HEAD: [u8; AUDIO_STAMP_AT] = [0xAF, 0x01];
/// AudioSpecificConfig of AAC-LC, 44.1 kHz, stereo, behind its FLV head.
pub const AUDIO_SEQUENCE_HEADER: [u8; 4] = [0xAF, 0x00, 0x12, 0x10];
/// AVCDecoderConfigurationRecord of an x264 stream, High profile 3.1, 1280 × 720, behind its FLV head.
pub const VIDEO_SEQUENCE_HEADER: [u8; 52] = [
    0x17, 0x00, 0x00, 0x00, 0x00, 0x01, 0x64, 0x00, 0x1f, 0xff, 0xe1, 0x00, 0x1a, 0x67, 0x64, 0x00, 0x1f,
    0xac, 0xd9, 0x40, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00, 0x00, 0x03, 0x03,
    0x20, 0xf1, 0x83, 0x19, 0x60, 0x01, 0x00, 0x06, 0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0, 0xfd, 0xf8, 0xf8,
    0x00,
];
/// Smallest payload behind a stamp, in bytes.
const MIN_FILLER_LEN: usize = 1;
/// How far frame sizes wander about their mean, in per cent.
const SIZE_SWING_PERCENT: u64 = 10;
/// Length of the filler that payloads are cut from, in bytes.
const FILLER_LEN: usize = 1 << 20;

/// What a generated stream looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamShape {
    /// Both tracks together, in bits per second.
    pub bits_per_second: u64,
    /// Share of the audio track, in bits per second; 0 for none.
    pub audio_bits_per_second: u64,
    /// Video frames per second; 0 for no video.
    pub frames_per_second: u64,
    /// Frames from one key frame to the next.
    pub gop_frames: u64,
    /// B frames between two others.
    pub b_frames: u64,
}

impl StreamShape {
    /// Messages per second, both tracks.
    pub fn messages_per_second(&self) -> f64 {
        let audio = match self.audio_bits_per_second {
            0 => 0.0,
            _ => AUDIO_RATE_HZ as f64 / AAC_FRAME_SAMPLES as f64,
        };
        self.frames_per_second as f64 + audio
    }
}

/// Makes one stream's frames in the order of their times.
#[derive(Debug)]
pub struct Generator {
    shape: StreamShape,
    stream: u32,
    filler: std::sync::Arc<[u8]>,
    next_video: u64,
    next_audio: u64,
}

/// One generated frame, but for its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// The track it belongs to.
    pub track: Track,
    /// Decoding time in milliseconds.
    pub dts_ms: u32,
}

/// A video frame's place in its group of pictures.
#[derive(Debug, Clone, Copy)]
struct Place {
    key: bool,
    disposable: bool,
    /// Composition time, in frames.
    delay_frames: u64,
}

impl Generator {
    /// A generator for the stream with number `stream`. `filler` is shared by all; see [`filler`].
    pub fn new(shape: StreamShape, stream: u32, filler: std::sync::Arc<[u8]>) -> Self {
        Self {
            shape,
            stream,
            filler,
            next_video: 0,
            next_audio: 0,
        }
    }

    /// When the next frame is due, in nanoseconds from the start of the stream.
    pub fn due_ns(&self) -> u64 {
        self.next_track().1
    }

    /// Makes the next frame, sent at `sent_ns`, in `body`.
    pub fn make(&mut self, sent_ns: u64, body: &mut Vec<u8>) -> Made {
        let (track, media_ns) = self.next_track();
        let dts_ms = (media_ns / 1_000_000) as u32;
        body.clear();
        let (sequence, key, len) = match track {
            Track::Audio => {
                body.extend_from_slice(&AUDIO_HEAD);
                let len = self.shape.audio_bits_per_second * AAC_FRAME_SAMPLES / AUDIO_RATE_HZ / 8;
                (self.next_audio, false, len)
            }
            Track::Video => self.video_head(body),
        };
        let stamp_at = body.len();
        let len = (len as usize).max(stamp_at + STAMP_LEN + MIN_FILLER_LEN);
        self.fill(sequence, len, body);
        if track == Track::Video {
            let nal_len = (len - NAL_LENGTH_END) as u32;
            if let Some(field) = body.get_mut(NAL_LENGTH_END - 4..NAL_LENGTH_END) {
                field.copy_from_slice(&nal_len.to_be_bytes());
            }
        }
        let stamp = Stamp {
            stream: self.stream,
            sequence: sequence as u32,
            dts_ms,
            sent_ns,
            key,
        };
        stamp.write(body.get_mut(stamp_at..).unwrap_or_default());
        match track {
            Track::Audio => self.next_audio += 1,
            Track::Video => self.next_video += 1,
        }
        Made { track, dts_ms }
    }

    fn next_track(&self) -> (Track, u64) {
        let shape = &self.shape;
        let audio_ns = match shape.audio_bits_per_second {
            0 => u64::MAX,
            _ => scaled(self.next_audio, AAC_FRAME_SAMPLES * SECOND_NS, AUDIO_RATE_HZ),
        };
        let video_ns = match shape.frames_per_second {
            0 => u64::MAX,
            rate => scaled(self.next_video, SECOND_NS, rate),
        };
        if video_ns <= audio_ns {
            (Track::Video, video_ns)
        } else {
            (Track::Audio, audio_ns)
        }
    }

    /// Writes everything in front of the stamp; the NAL length is filled in later. Returns number,
    /// key and body length.
    fn video_head(&self, body: &mut Vec<u8>) -> (u64, bool, u64) {
        let place = self.place();
        let rate = self.shape.frames_per_second.max(1);
        let cts_ms = (place.delay_frames * 1000 / rate) as u32;
        let [_, c0, c1, c2] = cts_ms.to_be_bytes();
        let first = if place.key { 0x17 } else { 0x27 };
        let (nal_head, slice_head) = match place {
            Place { key: true, .. } => (0x65, 0x88),
            Place { disposable: true, .. } => (0x01, 0x9F),
            Place { .. } => (0x41, 0x9A),
        };
        body.extend_from_slice(&[first, 0x01, c0, c1, c2, 0, 0, 0, 0, nal_head, slice_head]);
        (self.next_video, place.key, self.video_len(place.key))
    }

    fn place(&self) -> Place {
        let gop = self.shape.gop_frames.max(1);
        let b_frames = self.shape.b_frames;
        let index = self.next_video % gop;
        let reorder = u64::from(b_frames > 0);
        if index == 0 {
            return Place {
                key: true,
                disposable: false,
                delay_frames: reorder,
            };
        }
        let group = b_frames + 1;
        let in_last_group = (index - 1) / group == (gop - 1) / group;
        if b_frames == 0 || in_last_group {
            // What is left of the GOP is too short for another group: P frames in display order.
            return Place {
                key: false,
                disposable: false,
                delay_frames: reorder,
            };
        }
        let first_of_group = (index - 1).is_multiple_of(group);
        let delay_frames = if first_of_group { group } else { 0 };
        Place {
            key: false,
            disposable: !first_of_group,
            delay_frames,
        }
    }

    fn video_len(&self, key: bool) -> u64 {
        let shape = &self.shape;
        let gop = shape.gop_frames.max(1);
        let video_bits = shape.bits_per_second.saturating_sub(shape.audio_bits_per_second);
        let gop_bytes = video_bits * gop / shape.frames_per_second.max(1) / 8;
        let unit = gop_bytes / (KEY_FRAME_WEIGHT + gop - 1);
        let mean = if key { unit * KEY_FRAME_WEIGHT } else { unit };
        let swing = 100 - SIZE_SWING_PERCENT + mixed(self.next_video) % (2 * SIZE_SWING_PERCENT + 1);
        mean * swing / 100
    }

    /// Extends `body` to `len` bytes with filler that differs from frame to frame.
    fn fill(&self, sequence: u64, len: usize, body: &mut Vec<u8>) {
        let mut at = (mixed(sequence) % FILLER_LEN as u64) as usize;
        while body.len() < len {
            let rest = self.filler.get(at..).unwrap_or_default();
            let taken = rest.len().min(len - body.len());
            body.extend_from_slice(rest.get(..taken).unwrap_or_default());
            at = 0;
        }
    }
}

/// Where the NAL unit's length ends in a video body.
const NAL_LENGTH_END: usize = 9;

/// The filler for [`Generator::new`]: bytes without zeroes, so that no start code arises.
pub fn filler() -> std::sync::Arc<[u8]> {
    (0..FILLER_LEN as u64)
        .map(|at| (mixed(at) as u8).max(1))
        .collect()
}

fn scaled(count: u64, numerator: u64, denominator: u64) -> u64 {
    (u128::from(count) * u128::from(numerator) / u128::from(denominator)) as u64
}

/// A hash of `value`; the finaliser of SplitMix64.
fn mixed(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{BodyScan, Finding};

    const SHAPE: StreamShape = StreamShape {
        bits_per_second: 237_000,
        audio_bits_per_second: 64_000,
        frames_per_second: 25,
        gop_frames: 50,
        b_frames: 0,
    };

    fn made(shape: StreamShape, frames: usize) -> Vec<(Made, Vec<u8>)> {
        let mut generator = Generator::new(shape, 0, filler());
        let mut body = Vec::new();
        (0..frames)
            .map(|_| (generator.make(7, &mut body), body.clone()))
            .collect()
    }

    #[test]
    fn the_rate_is_the_one_asked_for() {
        let bytes: usize = made(SHAPE, 680).iter().map(|(_, body)| body.len()).sum();
        let bits_per_second = bytes as f64 * 8.0 / 680.0 * SHAPE.messages_per_second();
        assert!(
            (bits_per_second / 237_000.0 - 1.0).abs() < 0.03,
            "{bits_per_second}"
        );
    }

    #[test]
    fn every_frame_carries_an_intact_stamp_and_no_start_code() {
        for (made, body) in made(SHAPE, 300) {
            let found = BodyScan::whole(made.track, &body);
            assert!(
                matches!(found, Finding::Stamped { intact: true, .. }),
                "{found:?}"
            );
            let code = [0, 0];
            let nal = body.get(NAL_LENGTH_END..).unwrap();
            assert!(made.track == Track::Audio || !nal.windows(2).any(|pair| pair == code));
        }
    }

    #[test]
    fn presentation_times_with_b_frames_are_unique_and_never_before_decoding() {
        for (gop_frames, b_frames) in [(50, 2), (12, 3), (25, 1), (10, 2)] {
            let shape = StreamShape {
                gop_frames,
                b_frames,
                audio_bits_per_second: 0,
                ..SHAPE
            };
            let mut times: Vec<u32> = made(shape, 100)
                .iter()
                .map(|(made, body)| made.dts_ms + u32::from_be_bytes([0, body[2], body[3], body[4]]))
                .collect();
            times.sort_unstable();
            times.dedup();
            assert_eq!(times.len(), 100, "GOP {gop_frames}, {b_frames} B frames");
        }
    }
}
