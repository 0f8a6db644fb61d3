//! [`TsMuxer`]: samples in, the packets of whole segments out.

use bytes::Bytes;
use mpeg2ts::es::StreamType;
use spillway_media::codec::CodecConfig;
use spillway_media::sample::{Sample, TrackKind};

use crate::audio::{AudioFormat, AudioPacker, GatheredPes};
use crate::error::TsError;
use crate::es::{self, AccessUnit, ParameterSets, VideoFormat};
use crate::packet::{Continuity, PID_AUDIO, PID_VIDEO, Start, push_pcr, push_pes};
use crate::pes::PesHeader;
use crate::psi::{ProgramMap, TABLES_BYTES, Tables};
use crate::times::{OFFSET_TICKS, PCR_LEAD_TICKS, VideoTimes, stamp, ticks_of_ms};

/// Bytes after which a part of a segment is closed and the next begun: growing one buffer further would copy
/// it again and again.
pub const PART_BYTES: usize = 256 * 1024;

/// Room beyond [`PART_BYTES`] for the frame that crosses the border.
const PART_SLACK_BYTES: usize = 16 * 1024;

/// Clock references are written at most this far apart (the standard's bound is 100 ms): 90 ms.
const PCR_STEP_TICKS: i64 = 8_100;

/// Clock references inserted to bridge one gap at most: 128 bridge 11.5 s. A larger gap starts the clock anew.
const MAX_BRIDGE_PACKETS: i64 = 128;

/// NAL units held back for the next picture (SEI or parameter sets sent on their own) at most, in bytes.
const MAX_HELD_BYTES: usize = 64 * 1024;
/// The same in NAL units.
const MAX_HELD_UNITS: usize = 64;

/// Which track's times drive the program clock of a segment, and on which PID it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSource {
    /// A segment with moving pictures: the clock comes with them.
    Video,
    /// Video is part of the program but stands still: audio times drive the clock on the video PID.
    StalledVideo {
        /// How far audio was ahead of video when video last came: the clock stays that far behind audio.
        audio_ahead_ticks: i64,
    },
    /// An audio-only program.
    Audio,
}

/// The bytes of one segment: the tables, then the packets, never joined.
#[derive(Debug, Clone)]
pub struct TsSegment {
    /// The bytes in order.
    pub parts: Vec<Bytes>,
    /// Their sum.
    pub bytes: u64,
    /// Whether the declared streams differ from those of the segment before: players need a discontinuity.
    pub program_changed: bool,
}

#[derive(Debug)]
struct VideoTrack {
    format: VideoFormat,
    stream_type: StreamType,
    sets: ParameterSets,
    held: Vec<Bytes>,
}

#[derive(Debug)]
struct AudioTrack {
    format: AudioFormat,
    stream_type: StreamType,
}

/// Writes samples as one MPEG-TS program, cut into segments by the caller.
///
/// Call [`begin_segment`](Self::begin_segment), push samples in decode order, then
/// [`end_segment`](Self::end_segment). Counters and clocks run on over the borders. Tables are rendered at the
/// end, when it is known which tracks really had samples.
#[derive(Debug)]
pub struct TsMuxer {
    video: Option<VideoTrack>,
    audio: Option<AudioTrack>,
    tables: Tables,
    video_counter: Continuity,
    audio_counter: Continuity,
    times: VideoTimes,
    packer: AudioPacker,
    source: ClockSource,
    last_pcr: Option<i64>,
    clock_break: bool,
    segment_needs_pcr: bool,
    segment_needs_access: bool,
    parts: Vec<Bytes>,
    open: Vec<u8>,
    closed_bytes: usize,
    part_hint: usize,
    last_map: Option<ProgramMap>,
}

impl Default for TsMuxer {
    fn default() -> Self {
        Self::new()
    }
}

impl TsMuxer {
    /// A muxer without tracks.
    pub fn new() -> Self {
        Self {
            video: None,
            audio: None,
            tables: Tables::new(),
            video_counter: Continuity::new(),
            audio_counter: Continuity::new(),
            times: VideoTimes::default(),
            packer: AudioPacker::default(),
            source: ClockSource::Audio,
            last_pcr: None,
            clock_break: false,
            segment_needs_pcr: true,
            segment_needs_access: true,
            parts: Vec::new(),
            open: Vec::new(),
            closed_bytes: 0,
            part_hint: PART_SLACK_BYTES,
            last_map: None,
        }
    }

    /// Sets, changes or removes the video track. Call it between segments.
    ///
    /// # Errors
    /// [`TsError::PeerUnsupportedCodec`]: the track is left out and the stream goes on without it.
    pub fn set_video(&mut self, config: Option<&CodecConfig>) -> Result<(), TsError> {
        self.video = None;
        let Some(config) = config else { return Ok(()) };
        let (hevc, nal_length_size, stream_type) = match config {
            CodecConfig::Avc(avc) => (false, avc.nal_length_size, StreamType::H264),
            CodecConfig::Hevc(hevc) => (true, hevc.nal_length_size, StreamType::H265),
            other => return Err(TsError::of_config(other.codec())),
        };
        let format = VideoFormat {
            hevc,
            nal_length_size,
        };
        self.video = Some(VideoTrack {
            format,
            stream_type,
            sets: ParameterSets::of(config),
            held: Vec::new(),
        });
        Ok(())
    }

    /// Sets, changes or removes the audio track. Call it between segments.
    ///
    /// # Errors
    /// [`TsError::PeerUnsupportedCodec`] or [`TsError::PeerAdtsImpossible`]: the track is left out and the
    /// stream goes on without it.
    pub fn set_audio(&mut self, config: Option<&CodecConfig>) -> Result<(), TsError> {
        self.audio = None;
        self.packer.reset();
        let Some(config) = config else { return Ok(()) };
        let format = AudioFormat::of(config)?;
        let stream_type = match config {
            CodecConfig::Mp3(header) if header.mpeg1 => StreamType::Mpeg1Audio,
            CodecConfig::Mp3(_) => StreamType::Mpeg2HalvedSampleRateAudio,
            _ => StreamType::AdtsAac,
        };
        self.audio = Some(AudioTrack { format, stream_type });
        Ok(())
    }

    /// Whether samples of this track can be written.
    pub fn carries(&self, kind: TrackKind) -> bool {
        match kind {
            TrackKind::Video => self.video.is_some(),
            TrackKind::Audio => self.audio.is_some(),
        }
    }

    /// Looks into a video sample.
    ///
    /// # Errors
    /// [`TsError::PeerNoConfig`] without a video track, and those of [`AccessUnit::parse`].
    pub fn read_video<'a>(&self, sample: &'a Sample) -> Result<AccessUnit<'a>, TsError> {
        let track = self.video.as_ref().ok_or(TsError::PeerNoConfig)?;
        AccessUnit::parse(&sample.data, track.format)
    }

    /// The media time in 90 kHz ticks that an audio sample will get: counted, not stamped.
    pub fn audio_ticks(&self, sample: &Sample) -> i64 {
        let stamped = ticks_of_ms(sample.dts_ms);
        match &self.audio {
            Some(track) => self.packer.peek(stamped, track.format.sample_rate(&sample.data)),
            None => stamped,
        }
    }

    /// Whether a picture of this decoding time would come after the clock has passed it (only possible after
    /// audio drove the clock).
    pub fn is_late(&self, dts_ticks: i64) -> bool {
        !self.clock_break
            && self
                .last_pcr
                .is_some_and(|pcr| pcr > dts_ticks.saturating_sub(PCR_LEAD_TICKS - PCR_STEP_TICKS))
    }

    /// A new timeline: times have no relation to those before. Call it between segments.
    pub fn discontinuity(&mut self) {
        self.times.reset();
        self.packer.reset();
        self.clock_break = self.last_pcr.is_some();
    }

    /// Opens a segment.
    pub fn begin_segment(&mut self, source: ClockSource) {
        self.source = source;
        self.segment_needs_pcr = true;
        self.segment_needs_access = true;
        if self.open.capacity() == 0 {
            self.open = Vec::with_capacity(self.part_hint.min(PART_BYTES + PART_SLACK_BYTES));
        }
    }

    /// Bytes of the open segment so far, tables included.
    pub fn segment_bytes(&self) -> u64 {
        (TABLES_BYTES + self.closed_bytes + self.open.len()) as u64
    }

    /// Writes a picture. Without one (only SEI, parameter sets) the units are held for the next and `false` is
    /// returned.
    ///
    /// # Errors
    /// [`TsError::PeerNoConfig`] without a video track.
    pub fn push_video(&mut self, unit: &AccessUnit<'_>, sample: &Sample) -> Result<bool, TsError> {
        let Some(mut track) = self.video.take() else {
            return Err(TsError::PeerNoConfig);
        };
        track.sets.update(unit);
        let written = unit.has_picture();
        if written {
            self.write_picture(&track, unit, sample);
            track.held.clear();
        } else {
            track.hold(unit);
        }
        self.video = Some(track);
        self.close_part_if_full();
        Ok(written)
    }

    fn write_picture(&mut self, track: &VideoTrack, unit: &AccessUnit<'_>, sample: &Sample) {
        let media_ticks = ticks_of_ms(sample.dts_ms);
        if let Some(pes) = self.packer.take_due(media_ticks) {
            self.write_audio(&pes);
        }
        let access_point = unit.is_refresh() || sample.key;
        let mut rope = es::rope(unit, &track.held, &track.sets, track.format, access_point);
        let (pts, dts) = self.times.next(sample.dts_ms, sample.cts_ms);
        let payload: usize = rope.iter().map(|slice| slice.len()).sum();
        let header = PesHeader::video(stamp(pts), stamp(dts), payload);
        if let Some(slot) = rope.first_mut() {
            *slot = header.as_slice();
        }
        let mut start = self.clock(media_ticks.saturating_sub(PCR_LEAD_TICKS), PID_VIDEO);
        start.random_access = access_point;
        self.segment_needs_access = false;
        push_pes(&mut self.open, PID_VIDEO, &mut self.video_counter, start, &rope);
    }

    /// Writes an audio sample; it reaches the packets at the latest at the segment's end. Returns the media
    /// time in ticks of its first frame.
    ///
    /// # Errors
    /// [`TsError::PeerNoConfig`] without an audio track; [`TsError::PeerDamagedAudioFrame`] for an empty or
    /// oversized frame.
    pub fn push_audio(&mut self, sample: &Sample) -> Result<i64, TsError> {
        let track = self.audio.as_ref().ok_or(TsError::PeerNoConfig)?;
        let frames = track.format.frames(&sample.data)?;
        let mut stamped = ticks_of_ms(sample.dts_ms);
        let mut first = None;
        for frame in &frames {
            let (ticks, before) = self.packer.add(frame, stamped);
            first.get_or_insert(ticks);
            if let Some(pes) = before {
                self.write_audio(&pes);
            }
            stamped = stamped.saturating_add(frame.duration_ticks());
        }
        self.close_part_if_full();
        Ok(first.unwrap_or(stamped))
    }

    fn write_audio(&mut self, pes: &GatheredPes) {
        let clock_ticks = pes.pts_ticks.saturating_sub(PCR_LEAD_TICKS);
        let start = match self.source {
            ClockSource::Video => {
                // A segment that did not begin with a picture: its first packet needs the clock all the same.
                if let Some(last) = self
                    .last_pcr
                    .filter(|_| self.segment_needs_pcr && !self.clock_break)
                {
                    self.push_clock(last.saturating_add(1));
                }
                Start::default()
            }
            ClockSource::Audio => {
                let mut start = self.clock(clock_ticks, PID_AUDIO);
                start.random_access = self.segment_needs_access;
                self.segment_needs_access = false;
                start
            }
            ClockSource::StalledVideo { audio_ahead_ticks } => {
                self.push_clock(clock_ticks.saturating_sub(audio_ahead_ticks.max(0)));
                Start::default()
            }
        };
        let header = PesHeader::audio(stamp(pes.pts_ticks), pes.payload.len());
        push_pes(
            &mut self.open,
            PID_AUDIO,
            &mut self.audio_counter,
            start,
            &[header.as_slice(), &pes.payload],
        );
    }

    /// Writes a clock reference on the video PID in a packet of its own.
    fn push_clock(&mut self, ticks: i64) {
        let start = self.clock(ticks, PID_VIDEO);
        if let Some(base) = start.pcr {
            push_pcr(
                &mut self.open,
                PID_VIDEO,
                self.video_counter,
                base,
                start.discontinuity,
            );
        }
    }

    /// The clock reference for a packet at `ticks`, bridging a gap before it by packets of their own.
    fn clock(&mut self, ticks: i64, pid: u16) -> Start {
        let near = |last: i64| {
            let gap = ticks.saturating_sub(last);
            let behind = self.segment_needs_pcr && gap < -PCR_STEP_TICKS;
            !behind && gap <= MAX_BRIDGE_PACKETS * PCR_STEP_TICKS
        };
        let Some(last) = self.last_pcr.filter(|last| !self.clock_break && near(*last)) else {
            let discontinuity = self.last_pcr.replace(ticks).is_some();
            self.segment_needs_pcr = false;
            self.clock_break = false;
            return Start {
                random_access: false,
                discontinuity,
                pcr: Some(pcr_base(ticks)),
            };
        };
        let ticks = if self.segment_needs_pcr {
            ticks.max(last.saturating_add(1))
        } else {
            ticks
        };
        let gap = ticks.saturating_sub(last);
        if gap <= 0 {
            return Start::default();
        }
        let counter = if pid == PID_VIDEO {
            self.video_counter
        } else {
            self.audio_counter
        };
        let steps = gap / PCR_STEP_TICKS + i64::from(gap % PCR_STEP_TICKS != 0);
        for step in 1..steps {
            let between = last.saturating_add((gap / steps).saturating_mul(step));
            push_pcr(&mut self.open, pid, counter, pcr_base(between), false);
        }
        self.last_pcr = Some(ticks);
        self.segment_needs_pcr = false;
        Start {
            random_access: false,
            discontinuity: false,
            pcr: Some(pcr_base(ticks)),
        }
    }

    /// Ends the segment. `video` and `audio` say which tracks the tables declare; a track that is not carried
    /// is never declared.
    pub fn end_segment(&mut self, video: bool, audio: bool) -> TsSegment {
        if let Some(pes) = self.packer.take() {
            self.write_audio(&pes);
        }
        let map = ProgramMap {
            video: self
                .video
                .as_ref()
                .filter(|_| video)
                .map(|track| track.stream_type),
            audio: self
                .audio
                .as_ref()
                .filter(|_| audio)
                .map(|track| track.stream_type),
        };
        let program_changed = self.last_map.replace(map).is_some_and(|last| last != map);
        let tables = self.tables.render(map);
        self.close_part();
        let mut parts = std::mem::take(&mut self.parts);
        parts.insert(0, Bytes::copy_from_slice(&tables));
        let bytes = (TABLES_BYTES + std::mem::take(&mut self.closed_bytes)) as u64;
        // An eighth more than this one: the next segment of a steady stream then fits without growing.
        self.part_hint = usize::try_from(bytes + bytes / 8).unwrap_or(PART_BYTES);
        TsSegment {
            parts,
            bytes,
            program_changed,
        }
    }

    fn close_part_if_full(&mut self) {
        if self.open.len() >= PART_BYTES {
            self.close_part();
            self.open = Vec::with_capacity(PART_BYTES + PART_SLACK_BYTES);
        }
    }

    fn close_part(&mut self) {
        let mut part = std::mem::take(&mut self.open);
        if part.is_empty() {
            return;
        }
        if part.capacity() - part.len() > part.len() / 4 {
            part.shrink_to_fit();
        }
        self.closed_bytes += part.len();
        self.parts.push(Bytes::from(part));
    }
}

impl VideoTrack {
    fn hold(&mut self, unit: &AccessUnit<'_>) {
        for nal_unit in &unit.rest {
            let held: usize = self.held.iter().map(Bytes::len).sum();
            if self.held.len() < MAX_HELD_UNITS && held + nal_unit.len() <= MAX_HELD_BYTES {
                self.held.push(Bytes::copy_from_slice(nal_unit));
            }
        }
    }
}

fn pcr_base(ticks: i64) -> u64 {
    // Unlike a stamp, a clock reference of 0 means nothing special.
    ticks.saturating_add(OFFSET_TICKS) as u64 & crate::pes::STAMP_MASK
}
