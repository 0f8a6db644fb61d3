//! `/api/v1/streams`: the streams as read-only JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use spillway_hub::{DropReason, Hub, Phase, Protocol, Stream, StreamSnapshot, TrackSnapshot};

/// `/api/v1/streams`.
pub(super) fn streams(hub: &Hub) -> String {
    let streams: Vec<_> = hub.streams().iter().map(|stream| Entry::of(stream)).collect();
    json(&BTreeMap::from([("streams", streams)]))
}

/// `/api/v1/streams/{app}/{name}`.
pub(super) fn stream(stream: &Stream) -> String {
    json(&Entry::of(stream))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[derive(Serialize)]
struct Entry {
    name: String,
    phase: &'static str,
    phase_seconds: f64,
    /// Publishers so far.
    epoch: u64,
    publisher: Option<Publisher>,
    video: Option<Track>,
    audio: Option<Track>,
    /// What outputs leave out, in words.
    omitted: Vec<String>,
    bitrate_in_bps: u64,
    bytes_in: u64,
    messages_in: u64,
    malformed_messages: u64,
    timestamp_discontinuities: u64,
    last_media_seconds: Option<f64>,
    gop_seconds: f64,
    ring_bytes: u64,
    flush_interval_seconds: f64,
    viewers: BTreeMap<&'static str, u64>,
    bytes_out: BTreeMap<&'static str, u64>,
    dropped_frames: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct Publisher {
    session: String,
    protocol: &'static str,
    peer: String,
}

#[derive(Serialize)]
struct Track {
    codec: &'static str,
    codec_string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_rate: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<u8>,
}

impl Track {
    fn of(track: TrackSnapshot) -> Self {
        let geometry = track.geometry;
        Self {
            codec: track.codec,
            codec_string: track.codec_string,
            width: geometry.map(|g| g.width),
            height: geometry.map(|g| g.height),
            frame_rate: geometry.and_then(|g| g.frame_rate),
            sample_rate: track.sample_rate,
            channels: track.channels,
        }
    }
}

impl Entry {
    fn of(stream: &Stream) -> Self {
        let snapshot: StreamSnapshot = stream.snapshot();
        let publisher = stream.publisher().map(|info| Publisher {
            session: info.id.to_string(),
            protocol: info.protocol.label(),
            peer: info.peer.to_string(),
        });
        let viewers = Protocol::ALL
            .iter()
            .map(|p| p.label())
            .zip(snapshot.viewers)
            .collect();
        let bytes_out = Protocol::ALL
            .iter()
            .map(|p| p.label())
            .zip(snapshot.bytes_out)
            .collect();
        let dropped_frames = DropReason::ALL
            .iter()
            .map(|r| r.label())
            .zip(snapshot.drops)
            .collect();
        Self {
            name: snapshot.key,
            phase: phase_label(snapshot.phase),
            phase_seconds: snapshot.phase_age.as_secs_f64(),
            epoch: snapshot.epoch,
            publisher,
            video: snapshot.video.map(Track::of),
            audio: snapshot.audio.map(Track::of),
            omitted: snapshot.omitted,
            bitrate_in_bps: snapshot.bitrate_in_bps,
            bytes_in: snapshot.bytes_in,
            messages_in: snapshot.messages_in,
            malformed_messages: snapshot.malformed,
            timestamp_discontinuities: snapshot.discontinuities,
            last_media_seconds: snapshot.last_media_age.map(|age| age.as_secs_f64()),
            gop_seconds: snapshot.gop_ms as f64 / 1000.0,
            ring_bytes: snapshot.ring_bytes,
            flush_interval_seconds: snapshot.flush_interval.as_secs_f64(),
            viewers,
            bytes_out,
            dropped_frames,
        }
    }
}

fn phase_label(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Live => "live",
        Phase::Away => "away",
        Phase::Ended => "ended",
        Phase::Shutdown => "shutdown",
    }
}
