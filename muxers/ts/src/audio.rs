//! Audio frames gathered into PES packets.

use bytes::Bytes;
use spillway_media::aac::{self, AacConfig};
use spillway_media::codec::CodecConfig;
use spillway_media::mp3;

use crate::clock::AudioClock;
use crate::error::TsError;

/// Media time gathered into one PES packet: 100 ms. One frame per packet would cost a third of an audio
/// stream's bytes; 100 ms keeps the clock reference of an audio-only program within its bound.
pub(crate) const PES_SPAN_TICKS: i64 = 9_000;

/// Payload of one PES packet at most, so that its 16-bit length always fits.
const MAX_PES_BYTES: usize = 60_000;

/// How far two frames may be apart to share a PES packet; rounding is at most one tick.
const CONTIGUOUS_TICKS: i64 = 2;

/// The framing of an audio track in the transport stream.
#[derive(Debug, Clone)]
pub(crate) enum AudioFormat {
    /// Raw AAC frames that get ADTS headers.
    Aac(Box<AacConfig>),
    /// MPEG audio frames as they are.
    Mp3,
}

impl AudioFormat {
    /// The format for a configuration that can be carried.
    pub(crate) fn of(config: &CodecConfig) -> Result<Self, TsError> {
        match config {
            CodecConfig::Aac(aac) if aac.adts_header(0).is_none() => Err(TsError::PeerAdtsImpossible),
            CodecConfig::Aac(aac) => Ok(Self::Aac(Box::new(aac.clone()))),
            CodecConfig::Mp3(_) => Ok(Self::Mp3),
            other => Err(TsError::of_config(other.codec())),
        }
    }

    /// The frames of one message.
    pub(crate) fn frames(&self, data: &Bytes) -> Result<Vec<AudioFrame>, TsError> {
        let damaged = TsError::PeerDamagedAudioFrame { bytes: data.len() };
        let frames: Vec<_> = match self {
            Self::Aac(config) => match aac::strip_adts(data) {
                // Some encoders put ADTS where raw frames belong (interop case 103).
                Some(stripped) => stripped
                    .frames
                    .into_iter()
                    .filter_map(|raw| aac_frame(config, raw))
                    .collect(),
                None => aac_frame(config, data.clone()).into_iter().collect(),
            },
            Self::Mp3 => mp3::frames(data)
                .map(|(header, frame)| AudioFrame {
                    header: None,
                    data: data.slice_ref(frame),
                    samples: header.samples_per_frame,
                    sample_rate: header.sample_rate,
                })
                .collect(),
        };
        if frames.is_empty() {
            Err(damaged)
        } else {
            Ok(frames)
        }
    }

    /// The sampling rate that times are counted in; MP3 frames say it themselves.
    pub(crate) fn sample_rate(&self, data: &[u8]) -> u32 {
        match self {
            Self::Aac(config) => config.sample_rate,
            Self::Mp3 => mp3::FrameHeader::parse(data).map_or(0, |header| header.sample_rate),
        }
    }
}

fn aac_frame(config: &AacConfig, data: Bytes) -> Option<AudioFrame> {
    let header = config.adts_header(data.len()).filter(|_| !data.is_empty())?;
    Some(AudioFrame {
        header: Some(header),
        data,
        samples: config.frame_samples,
        sample_rate: config.sample_rate,
    })
}

/// One audio frame to write.
#[derive(Debug, Clone)]
pub(crate) struct AudioFrame {
    header: Option<[u8; 7]>,
    data: Bytes,
    samples: u32,
    sample_rate: u32,
}

impl AudioFrame {
    pub(crate) fn duration_ticks(&self) -> i64 {
        i64::from(self.samples) * 90_000 / i64::from(self.sample_rate.max(1))
    }

    fn bytes(&self) -> usize {
        self.data.len() + self.header.map_or(0, |header| header.len())
    }
}

/// The PES packet being gathered, and the clock that times its frames.
#[derive(Debug, Default)]
pub(crate) struct AudioPacker {
    clock: AudioClock,
    payload: Vec<u8>,
    start_ticks: i64,
    end_ticks: i64,
}

/// A gathered PES payload with the time of its first frame.
#[derive(Debug)]
pub(crate) struct GatheredPes {
    pub(crate) pts_ticks: i64,
    pub(crate) payload: Vec<u8>,
}

impl AudioPacker {
    /// The time the next frame will get, see [`AudioClock::peek`].
    pub(crate) fn peek(&self, stamped_ticks: i64, sample_rate: u32) -> i64 {
        self.clock.peek(stamped_ticks, sample_rate)
    }

    /// Times a frame and adds it. Returns the packet before it when the frame does not go into it.
    pub(crate) fn add(&mut self, frame: &AudioFrame, stamped_ticks: i64) -> (i64, Option<GatheredPes>) {
        let ticks = self
            .clock
            .advance(stamped_ticks, frame.samples, frame.sample_rate);
        let apart = ticks.saturating_sub(self.end_ticks).saturating_abs() > CONTIGUOUS_TICKS;
        let end = ticks.saturating_add(frame.duration_ticks());
        let long = end.saturating_sub(self.start_ticks) > PES_SPAN_TICKS;
        let big = self.payload.len() + frame.bytes() > MAX_PES_BYTES;
        let before = if apart || long || big { self.take() } else { None };
        if self.payload.is_empty() {
            self.start_ticks = ticks;
        }
        if let Some(header) = &frame.header {
            self.payload.extend_from_slice(header);
        }
        self.payload.extend_from_slice(&frame.data);
        self.end_ticks = end;
        (ticks, before)
    }

    /// The gathered packet if it began `PES_SPAN_TICKS` or more before `now_ticks`.
    pub(crate) fn take_due(&mut self, now_ticks: i64) -> Option<GatheredPes> {
        (now_ticks.saturating_sub(self.start_ticks) >= PES_SPAN_TICKS)
            .then(|| self.take())
            .flatten()
    }

    /// The gathered packet, if any.
    pub(crate) fn take(&mut self) -> Option<GatheredPes> {
        if self.payload.is_empty() {
            return None;
        }
        let capacity = self.payload.len();
        let payload = std::mem::replace(&mut self.payload, Vec::with_capacity(capacity));
        Some(GatheredPes {
            pts_ticks: self.start_ticks,
            payload,
        })
    }

    /// A new timeline: times are anchored anew. What is gathered stays until it is taken.
    pub(crate) fn reset(&mut self) {
        self.clock.reset();
    }
}
