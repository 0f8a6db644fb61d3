//! [`StreamSnapshot`]: a stream as the API and the metrics show it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use spillway_media::codec::{CodecConfig, Geometry};

use crate::init::Track;
use crate::session::Protocol;
use crate::stats::DropReason;
use crate::stream::{Phase, Stream};

/// A track, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackSnapshot {
    /// The codec's name, such as `h264`.
    pub codec: &'static str,
    /// The RFC 6381 codec string, when the parameter sets are understood.
    pub codec_string: Option<String>,
    /// The display size and frame rate, for video whose parameter sets are understood.
    pub geometry: Option<Geometry>,
    /// Audio samples a second.
    pub sample_rate: Option<u32>,
    /// Audio channels.
    pub channels: Option<u8>,
}

impl TrackSnapshot {
    fn of(track: &Track) -> Self {
        let (sample_rate, channels) = match &*track.config {
            CodecConfig::Aac(aac) => (Some(aac.sample_rate), Some(aac.channels)),
            CodecConfig::Mp3(mp3) => (Some(mp3.sample_rate), Some(mp3.channels)),
            _ => (None, None),
        };
        let geometry = match &*track.config {
            CodecConfig::Avc(avc) => avc.geometry(),
            CodecConfig::Hevc(hevc) => hevc.geometry(),
            _ => None,
        };
        Self {
            codec: track.codec.name(),
            codec_string: track.config.codec_string(),
            geometry,
            sample_rate,
            channels,
        }
    }
}

/// A stream at one moment.
#[derive(Debug, Clone)]
pub struct StreamSnapshot {
    /// `app/name`.
    pub key: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// How many publishers it has had.
    pub epoch: u64,
    /// How long the phase has held.
    pub phase_age: Duration,
    /// The video track.
    pub video: Option<TrackSnapshot>,
    /// The audio track.
    pub audio: Option<TrackSnapshot>,
    /// Bits a second coming in.
    pub bitrate_in_bps: u64,
    /// Bytes of media received.
    pub bytes_in: u64,
    /// Media messages received.
    pub messages_in: u64,
    /// Bytes sent, by [`Protocol::index`].
    pub bytes_out: [u64; 4],
    /// Viewers now, by [`Protocol::index`]; HLS has none here.
    pub viewers: [u64; 4],
    /// Frames viewers did not get, in the order of [`DropReason::ALL`].
    pub drops: [u64; 2],
    /// Messages left out because they were not understood.
    pub malformed: u64,
    /// Timestamp jumps repaired.
    pub discontinuities: u64,
    /// The interval frames are flushed at.
    pub flush_interval: Duration,
    /// Bytes of media the ring holds.
    pub ring_bytes: u64,
    /// The media time between the newest key frames, in milliseconds.
    pub gop_ms: u64,
    /// See [`Stream::key_frame_age`].
    pub key_frame_age: Option<Duration>,
    /// How long ago the newest message came.
    pub last_media_age: Option<Duration>,
    /// What outputs leave out and why, in words.
    pub omitted: Vec<String>,
}

impl Stream {
    /// The stream at this moment.
    pub fn snapshot(&self) -> StreamSnapshot {
        let init = self.init();
        let stats = self.stats();
        StreamSnapshot {
            key: self.key().to_string(),
            phase: self.phase(),
            epoch: self.epoch(),
            phase_age: self.phase_age(),
            video: init.video.as_ref().map(TrackSnapshot::of),
            audio: init.audio.as_ref().map(TrackSnapshot::of),
            bitrate_in_bps: self.bitrate_bps.load(Ordering::Relaxed),
            bytes_in: stats.bytes_in.get(),
            messages_in: stats.messages_in.get(),
            bytes_out: Protocol::ALL.map(|p| stats.bytes_out[p.index()].get()),
            viewers: Protocol::ALL.map(|p| stats.viewers[p.index()].get()),
            drops: DropReason::ALL.map(|reason| stats.drops(reason)),
            malformed: stats.malformed.get(),
            discontinuities: stats.discontinuities.get(),
            flush_interval: self.flush_interval(),
            ring_bytes: self.ring_bytes(),
            gop_ms: self.gop_ms(),
            key_frame_age: self.key_frame_age(),
            last_media_age: self.last_media_age(),
            omitted: self.omitted.lock().clone(),
        }
    }
}
