//! [`Writer`]: turns a publisher's messages into framed, time-repaired frames in the ring.

use std::sync::Arc;
use std::time::Duration;

use spillway_amf::{Value, amf0};
use spillway_flv::audio::{AudioHeader, AudioPacket};
use spillway_flv::metadata::Metadata;
use spillway_flv::sample;
use spillway_flv::script::ScriptData;
use spillway_flv::tag::{HEAD_LEN, TAIL_LEN, TagType};
use spillway_flv::video::{VideoHeader, VideoPacket};
use spillway_media::codec::{Codec, CodecConfig};
use spillway_media::h264;
use spillway_media::sample::TrackKind;
use spillway_media::time::Timeline;

use tokio::time::Instant;

use crate::frame::{Frame, FrameInfo, Role};
use crate::init::{Init, Track};
use crate::options::History;
use crate::repair;
use crate::ring::{Meta, RingLimits, RingWriter};
use crate::stream::unix_ms;

/// How long the second track may keep viewers waiting before the stream is taken to have just one.
const SECOND_TRACK_WAIT: Duration = Duration::from_millis(1000);
/// The same when the publisher's metadata announced only the track that was seen.
const ANNOUNCED_TRACK_WAIT: Duration = Duration::from_millis(300);
/// The same when its video has begun in the middle of a GOP, or only announced itself by a sequence header.
const FIRST_KEY_WAIT: Duration = Duration::from_secs(10);
/// How far apart the join points of a stream without video are.
const AUDIO_JOIN_INTERVAL_MS: i64 = 1000;

/// When a message arrived, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) unix_ms: u64,
}

impl Arrival {
    pub(crate) fn now() -> Self {
        Self {
            at: Instant::now(),
            unix_ms: unix_ms(),
        }
    }

    /// Now, by this moment's relation of the clocks: one clock read instead of two, and a wall clock that is set
    /// anew does not make time jump.
    pub(crate) fn later(self) -> Self {
        let at = Instant::now();
        let passed_ms = u64::try_from(at.duration_since(self.at).as_millis()).unwrap_or(u64::MAX);
        Self {
            at,
            unix_ms: self.unix_ms.saturating_add(passed_ms),
        }
    }
}

/// What a message came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// In the ring.
    Stored,
    /// In the ring, and worth sending at once.
    Urgent,
    /// Left out on purpose: a repeated header, silence, an end-of-sequence mark.
    Ignored,
    /// Not understood.
    Malformed,
}

/// What is known of an epoch's tracks.
#[derive(Debug, Default)]
struct Probe {
    first_media: Option<Instant>,
    video_seen: bool,
    /// There is video, but no frame of it that anyone can use yet.
    video_promised: bool,
    audio_seen: bool,
    decided: bool,
    announced: Option<(bool, bool)>,
}

/// The writing side of a stream.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: RingWriter<Arc<Frame>>,
    history: History,
    timeline: Timeline,
    epoch: u64,
    init: Arc<Init>,
    init_is_new: bool,
    metadata: Option<Metadata>,
    probe: Probe,
    awaiting_key: bool,
    /// Tracks that announced themselves in this epoch and were not seen in time: they may still come.
    dormant: [Option<Track>; 2],
    /// The newest input time of each kind and what it was mapped to.
    mapped: [Option<(u32, i64)>; 2],
    /// The size of the lengths the publisher puts before NAL units; viewers always get 4.
    nal_length_size: u8,
    last_audio_join_ms: Option<i64>,
    last_key_ms: Option<i64>,
    gop_ms: u64,
    discontinuities: u64,
}

impl Writer {
    pub(crate) fn new(limits: RingLimits, history: History) -> Self {
        let mut ring = RingWriter::new(limits);
        ring.need(history.needed_ms(0));
        Self {
            ring,
            history,
            timeline: Timeline::default(),
            epoch: 0,
            init: Arc::default(),
            init_is_new: false,
            metadata: None,
            probe: Probe::default(),
            awaiting_key: true,
            dormant: [None, None],
            mapped: [None, None],
            nal_length_size: 4,
            last_audio_join_ms: None,
            last_key_ms: None,
            gop_ms: 0,
            discontinuities: 0,
        }
    }

    pub(crate) fn ring(&self) -> &RingWriter<Arc<Frame>> {
        &self.ring
    }

    pub(crate) fn init(&self) -> &Arc<Init> {
        &self.init
    }

    /// What [`Writer::init`] is, if it changed since the last call.
    pub(crate) fn take_new_init(&mut self) -> Option<Arc<Init>> {
        std::mem::take(&mut self.init_is_new).then(|| self.init.clone())
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The tracks are known: viewers can be told what there is.
    pub(crate) fn decided(&self) -> bool {
        self.probe.decided
    }

    /// The media time between the newest two key frames.
    pub(crate) fn gop_ms(&self) -> u64 {
        self.gop_ms
    }

    /// Timestamp jumps repaired so far.
    pub(crate) fn discontinuities(&self) -> u64 {
        self.discontinuities
    }

    /// A new publisher begins: its clock is unrelated to the old one's, its first video frame that anyone
    /// can use is its first key frame. The tracks stay as they are until it shows others.
    pub(crate) fn start_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.timeline.start_epoch();
        self.probe = Probe::default();
        self.awaiting_key = true;
        self.metadata = None;
        self.dormant = [None, None];
        self.mapped = [None, None];
        self.nal_length_size = 4;
        self.last_key_ms = None;
    }

    /// Takes one message: `buf` is [`HEAD_LEN`] bytes of room and then the body.
    pub(crate) fn push(&mut self, kind: TagType, timestamp_ms: u32, buf: Vec<u8>, now: Arrival) -> Outcome {
        let outcome = match kind {
            TagType::Video => self.video(timestamp_ms, buf, now),
            TagType::Audio => self.audio(timestamp_ms, buf, now),
            TagType::Script => self.script(body_of(&buf), now),
        };
        self.decide(now);
        outcome
    }

    fn video(&mut self, timestamp_ms: u32, buf: Vec<u8>, now: Arrival) -> Outcome {
        let body = body_of(&buf);
        let Ok(header) = VideoHeader::parse(body) else {
            return Outcome::Malformed;
        };
        if header.multitrack || header.track_id != 0 {
            return self.side_info(TagType::Video, timestamp_ms, buf, now);
        }
        match header.packet {
            VideoPacket::Command | VideoPacket::SequenceEnd => Outcome::Ignored,
            VideoPacket::SequenceStart | VideoPacket::Mpeg2TsSequenceStart => match header.codec {
                Some(codec) => self.video_header(&header, codec, buf, now),
                None => Outcome::Malformed,
            },
            VideoPacket::Frame => match header.codec {
                Some(codec) => self.video_frame(&header, codec, timestamp_ms, buf, now),
                None => Outcome::Malformed,
            },
            _ => self.side_info(TagType::Video, timestamp_ms, buf, now),
        }
    }

    fn video_header(&mut self, header: &VideoHeader, codec: Codec, buf: Vec<u8>, now: Arrival) -> Outcome {
        let body = body_of(&buf);
        if header.data_of(body).is_empty() {
            return Outcome::Ignored; // parameter sets follow in band (interop case 86)
        }
        let config = sample::video_config(header, body).ok();
        if let Some(CodecConfig::Avc(avc)) = &config {
            self.nal_length_size = avc.nal_length_size;
        }
        let four_byte = config
            .as_ref()
            .filter(|_| !header.enhanced)
            .and_then(repair::h264_header);
        match four_byte {
            Some(body) => self.made_header(TagType::Video, codec, &body, now),
            None => self.header(TagType::Video, codec, config, buf, now),
        }
    }

    /// A sequence header that the publisher did not send so.
    fn made_header(&mut self, kind: TagType, codec: Codec, body: &[u8], now: Arrival) -> Outcome {
        let config = match kind {
            TagType::Video => sample::config_of_video(body),
            _ => sample::config_of_audio(body),
        };
        self.header(kind, codec, config.ok(), with_head_room(body), now)
    }

    fn video_frame(
        &mut self,
        header: &VideoHeader,
        codec: Codec,
        timestamp_ms: u32,
        buf: Vec<u8>,
        now: Arrival,
    ) -> Outcome {
        self.probe.first_media.get_or_insert(now.at);
        self.probe.video_promised = true;
        if self.init.video.as_ref().is_none_or(|t| t.codec != codec)
            && !self.wake_track(TrackKind::Video, codec, now)
        {
            self.set_track(TrackKind::Video, Some(bare_track(codec)), now);
        }
        let mut buf = buf;
        if codec == Codec::Avc && !header.enhanced {
            let config = self.init.video.as_ref().map(|t| &*t.config);
            let repaired = repair::h264_frame(config, self.nal_length_size, header, buf);
            if let Some(body) = repaired.header {
                self.made_header(TagType::Video, codec, &body, now);
            }
            buf = repaired.buf;
        }
        let config = self.init.video.as_ref().map(|t| t.config.clone());
        let data = body_of(&buf).get(header.data_at..).unwrap_or_default();
        if data.is_empty() {
            return Outcome::Ignored;
        }
        let key = header.key || is_idr(config.as_deref(), data);
        if self.awaiting_key && !key {
            return Outcome::Ignored;
        }
        self.awaiting_key = false;
        self.saw(TrackKind::Video, now);
        let dts_ms = self.map_time(TrackKind::Video, timestamp_ms);
        if key && let Some(last) = self.last_key_ms.replace(dts_ms) {
            self.gop_ms = u64::try_from(dts_ms - last).unwrap_or(0);
            self.ring.need(self.history.needed_ms(self.gop_ms));
        }
        let frame = FrameInfo {
            epoch: self.epoch,
            kind: TagType::Video,
            role: Role::Media,
            key,
            dts_ms,
            cts_ms: header.cts_ms,
            data_at: header.data_at,
            arrived_unix_ms: now.unix_ms,
            config,
            init: key.then(|| self.init.clone()),
        };
        self.store(frame, buf);
        if key { Outcome::Urgent } else { Outcome::Stored }
    }

    fn audio(&mut self, timestamp_ms: u32, buf: Vec<u8>, now: Arrival) -> Outcome {
        let body = body_of(&buf);
        if body.is_empty() {
            return Outcome::Ignored;
        }
        let Ok(header) = AudioHeader::parse(body) else {
            return Outcome::Malformed;
        };
        if header.multitrack || header.track_id != 0 {
            return self.side_info(TagType::Audio, timestamp_ms, buf, now);
        }
        match header.packet {
            AudioPacket::SequenceEnd => Outcome::Ignored,
            AudioPacket::SequenceStart => match header.codec {
                Some(codec) => self.header(
                    TagType::Audio,
                    codec,
                    sample::audio_config(&header, body).ok(),
                    buf,
                    now,
                ),
                None => Outcome::Malformed,
            },
            AudioPacket::Frame => match header.codec {
                Some(codec) => self.audio_frame(&header, codec, timestamp_ms, buf, now),
                None => Outcome::Malformed,
            },
            _ => self.side_info(TagType::Audio, timestamp_ms, buf, now),
        }
    }

    fn audio_frame(
        &mut self,
        header: &AudioHeader,
        codec: Codec,
        timestamp_ms: u32,
        buf: Vec<u8>,
        now: Arrival,
    ) -> Outcome {
        let mut buf = buf;
        if codec == Codec::Aac && !header.enhanced {
            let config = self.init.audio.as_ref().map(|t| &*t.config);
            let repaired = repair::aac_frame(config, header.data_at, buf);
            if let Some(body) = repaired.header {
                self.made_header(TagType::Audio, codec, &body, now);
            }
            buf = repaired.buf;
        }
        let body = body_of(&buf);
        if body.len() <= header.data_at {
            return Outcome::Ignored;
        }
        if self.init.audio.as_ref().is_none_or(|t| t.codec != codec)
            && !self.wake_track(TrackKind::Audio, codec, now)
        {
            if codec == Codec::Aac {
                return Outcome::Ignored; // raw AAC means nothing before its AudioSpecificConfig
            }
            let config = sample::audio_config(header, body).unwrap_or(CodecConfig::Other(codec));
            let track = Track {
                codec,
                config: Arc::new(config),
                header: None,
            };
            self.set_track(TrackKind::Audio, Some(track), now);
        }
        self.saw(TrackKind::Audio, now);
        let dts_ms = self.map_time(TrackKind::Audio, timestamp_ms);
        let join = self.audio_joins(dts_ms);
        let frame = FrameInfo {
            epoch: self.epoch,
            kind: TagType::Audio,
            role: Role::Media,
            key: false,
            dts_ms,
            cts_ms: 0,
            data_at: header.data_at,
            arrived_unix_ms: now.unix_ms,
            config: self.init.audio.as_ref().map(|t| t.config.clone()),
            init: join.then(|| self.init.clone()),
        };
        self.store(frame, buf);
        Outcome::Stored
    }

    /// Without video, decoding may start at any audio frame; one a second is a join point.
    fn audio_joins(&mut self, dts_ms: i64) -> bool {
        let audio_only = !self.probe.video_seen && (self.init.video.is_none() || self.probe.decided);
        let due = self
            .last_audio_join_ms
            .is_none_or(|last| dts_ms - last >= AUDIO_JOIN_INTERVAL_MS);
        if audio_only && due {
            self.last_audio_join_ms = Some(dts_ms);
        }
        audio_only && due
    }

    /// A sequence header: stored, and part of [`Init`] from here on, unless it repeats the one before.
    fn header(
        &mut self,
        kind: TagType,
        codec: Codec,
        config: Option<CodecConfig>,
        buf: Vec<u8>,
        now: Arrival,
    ) -> Outcome {
        let (track_kind, current) = match kind {
            TagType::Video => (TrackKind::Video, &self.init.video),
            _ => (TrackKind::Audio, &self.init.audio),
        };
        let repeated = current.as_ref().is_some_and(|track| {
            track.codec == codec && track.header.as_ref().is_some_and(|h| h.body() == body_of(&buf))
        });
        self.probe.video_promised |= kind == TagType::Video;
        if repeated {
            return Outcome::Ignored;
        }
        let config = Arc::new(config.unwrap_or(CodecConfig::Other(codec)));
        let mut frame = self.at_now(kind, Role::Header, now);
        frame.config = Some(config.clone());
        if let Some((_, dts_ms)) = self.mapped[index_of(track_kind)] {
            frame.dts_ms = dts_ms;
        }
        let frame = self.store(frame, buf);
        self.set_track(
            track_kind,
            Some(Track {
                codec,
                config,
                header: Some(frame),
            }),
            now,
        );
        Outcome::Stored
    }

    fn side_info(&mut self, kind: TagType, timestamp_ms: u32, buf: Vec<u8>, now: Arrival) -> Outcome {
        let mut frame = self.at_now(kind, Role::SideInfo, now);
        frame.dts_ms = self.beside(kind, timestamp_ms);
        self.store(frame, buf);
        Outcome::Stored
    }

    fn script(&mut self, body: &[u8], now: Arrival) -> Outcome {
        let Some(script) = ScriptData::parse(body) else {
            return Outcome::Ignored;
        };
        if script.is_metadata() {
            let Some(mut metadata) = Metadata::from_script(&script) else {
                return Outcome::Ignored;
            };
            self.probe.announced = Some(announced_tracks(&metadata));
            metadata.clean();
            self.metadata = Some(metadata);
            if self.probe.decided {
                self.refresh_metadata(now);
            }
            return Outcome::Stored;
        }
        if self.awaiting_key && !self.probe.decided {
            return Outcome::Ignored;
        }
        let frame = self.at_now(TagType::Script, Role::Script, now);
        self.store(frame, with_head_room(&script_body(&script)));
        Outcome::Stored
    }

    fn saw(&mut self, kind: TrackKind, now: Arrival) {
        self.probe.first_media.get_or_insert(now.at);
        match kind {
            TrackKind::Video => self.probe.video_seen = true,
            TrackKind::Audio => self.probe.audio_seen = true,
        }
    }

    fn map_time(&mut self, kind: TrackKind, timestamp_ms: u32) -> i64 {
        let mapped = self.timeline.map(kind, timestamp_ms);
        self.discontinuities += u64::from(mapped.discontinuity);
        self.mapped[index_of(kind)] = Some((timestamp_ms, mapped.dts_ms));
        mapped.dts_ms
    }

    /// The time of something that goes with a track without being a frame of it: as far from the track's
    /// newest frame as the publisher's clock says, within a second.
    fn beside(&self, kind: TagType, timestamp_ms: u32) -> i64 {
        let kind = if kind == TagType::Video {
            TrackKind::Video
        } else {
            TrackKind::Audio
        };
        let Some((input_ms, dts_ms)) = self.mapped[index_of(kind)] else {
            return self.timeline.now();
        };
        let ahead_ms = timestamp_ms.wrapping_sub(input_ms).cast_signed();
        dts_ms
            + i64::from(if (0..=1000).contains(&ahead_ms) {
                ahead_ms
            } else {
                0
            })
    }

    /// Settles which tracks there are as soon as both were seen, or the wait for the second is over.
    fn decide(&mut self, now: Arrival) {
        let Some(first) = self.probe.first_media.filter(|_| !self.probe.decided) else {
            return;
        };
        let seen = (self.probe.video_seen, self.probe.audio_seen);
        let wait = match self.probe.announced {
            _ if seen == (true, true) => Duration::ZERO,
            _ if self.probe.video_promised && !seen.0 => FIRST_KEY_WAIT,
            Some(announced) if announced == seen => ANNOUNCED_TRACK_WAIT,
            _ => SECOND_TRACK_WAIT,
        };
        if now.at.duration_since(first) < wait {
            return;
        }
        self.probe.decided = true;
        for (kind, seen) in [(TrackKind::Video, seen.0), (TrackKind::Audio, seen.1)] {
            if !seen {
                let unseen = self.track(kind).clone();
                let of_this_epoch =
                    |track: &Track| track.header.as_ref().is_some_and(|h| h.epoch() == self.epoch);
                self.dormant[index_of(kind)] = unseen.filter(of_this_epoch);
                self.set_track(kind, None, now);
            }
        }
        self.refresh_metadata(now);
    }

    /// Brings back a track that announced itself and was given up, now that its media comes; says whether
    /// there was one.
    fn wake_track(&mut self, kind: TrackKind, codec: Codec, now: Arrival) -> bool {
        let Some(track) = self.dormant[index_of(kind)]
            .take()
            .filter(|track| track.codec == codec)
        else {
            return false;
        };
        let Some(header) = track.header else { return false };
        let config = (*track.config).clone();
        self.header(
            header.kind(),
            codec,
            Some(config),
            with_head_room(header.body()),
            now,
        );
        true
    }

    fn track(&self, kind: TrackKind) -> &Option<Track> {
        match kind {
            TrackKind::Video => &self.init.video,
            TrackKind::Audio => &self.init.audio,
        }
    }

    /// Renders the metadata for the tracks there are; viewers get it only when it differs.
    fn refresh_metadata(&mut self, now: Arrival) {
        let mut metadata = self.metadata.clone().unwrap_or_default();
        let codec = |track: &Option<Track>| track.as_ref().map(|t| t.codec);
        metadata.set_tracks(codec(&self.init.video), codec(&self.init.audio));
        let body = metadata.to_body();
        if self
            .init
            .metadata
            .as_ref()
            .is_some_and(|frame| frame.body() == body)
        {
            return;
        }
        let frame = self.at_now(TagType::Script, Role::Metadata, now);
        let frame = self.store(frame, with_head_room(&body));
        self.set_init(Init {
            metadata: Some(frame),
            ..(*self.init).clone()
        });
    }

    /// Changes a track; once viewers know the tracks, their metadata changes with them.
    fn set_track(&mut self, kind: TrackKind, track: Option<Track>, now: Arrival) {
        let mut init = (*self.init).clone();
        match kind {
            TrackKind::Video => init.video = track,
            TrackKind::Audio => init.audio = track,
        }
        self.set_init(init);
        if self.probe.decided {
            self.refresh_metadata(now);
        }
    }

    fn set_init(&mut self, init: Init) {
        self.init = Arc::new(init);
        self.init_is_new = true;
    }

    /// A frame that has no time of its own: it goes out at the newest time of the stream.
    fn at_now(&self, kind: TagType, role: Role, now: Arrival) -> FrameInfo {
        FrameInfo {
            epoch: self.epoch,
            kind,
            role,
            key: false,
            dts_ms: self.timeline.now(),
            cts_ms: 0,
            data_at: 0,
            arrived_unix_ms: now.unix_ms,
            config: None,
            init: None,
        }
    }

    fn store(&mut self, info: FrameInfo, buf: Vec<u8>) -> Arc<Frame> {
        let meta = Meta {
            dts_ms: info.dts_ms,
            bytes: buf.len() + TAIL_LEN,
            join: info.init.is_some(),
        };
        self.ring.push(meta, |seq| Arc::new(info.finish(seq, buf)))
    }
}

fn body_of(buf: &[u8]) -> &[u8] {
    buf.get(HEAD_LEN..).unwrap_or_default()
}

fn with_head_room(body: &[u8]) -> Vec<u8> {
    let mut buf = Vec::with_capacity(HEAD_LEN + body.len() + spillway_flv::tag::TAIL_LEN);
    buf.resize(HEAD_LEN, 0);
    buf.extend_from_slice(body);
    buf
}

/// Script data as viewers get it: without the publisher's `@setDataFrame`.
fn script_body(script: &ScriptData) -> Vec<u8> {
    let mut body = Vec::new();
    amf0::write(&Value::String(script.name.clone()), &mut body);
    for value in &script.values {
        amf0::write(value, &mut body);
    }
    body
}

/// Which tracks (video, audio) the publisher's metadata speaks of.
fn announced_tracks(metadata: &Metadata) -> (bool, bool) {
    let speaks_of = |names: &[&str]| {
        names.iter().any(|name| {
            metadata
                .get(name)
                .is_some_and(|value| value.as_f64() != Some(0.0))
        })
    };
    (
        speaks_of(&["videocodecid", "videodatarate", "width", "framerate"]),
        speaks_of(&[
            "audiocodecid",
            "audiodatarate",
            "audiosamplerate",
            "audiochannels",
        ]),
    )
}

fn index_of(kind: TrackKind) -> usize {
    match kind {
        TrackKind::Video => 0,
        TrackKind::Audio => 1,
    }
}

fn bare_track(codec: Codec) -> Track {
    Track {
        codec,
        config: Arc::new(CodecConfig::Other(codec)),
        header: None,
    }
}

/// Encoders that do not flag their key frames are seen through.
fn is_idr(config: Option<&CodecConfig>, data: &[u8]) -> bool {
    matches!(config, Some(CodecConfig::Avc(avc)) if h264::is_idr_access_unit(data, avc.nal_length_size))
}
