//! What must hold of the wire parsers whatever the bytes: no panic, bounded memory, the same result in any split, and
//! what was written reads back.
//!
//! The same functions serve the fuzz targets and, over the committed corpus, a plain test of the workspace.

#![forbid(unsafe_code)]

mod command;
mod config;
mod http;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use spillway_amf::{AmfError, Value, amf0 as amf0_codec, amf3 as amf3_codec};
use spillway_flv::{AudioHeader, ScriptData, TagReader, VideoHeader, audio, sample, video};
use spillway_hls::{Packager, PackagerOptions, Segment};
use spillway_media::aac::AacConfig;
use spillway_media::codec::CodecConfig;
use spillway_media::h264::{self, AvcConfig};
use spillway_media::hevc::{self, HevcConfig};
use spillway_media::{Sample, TrackKind, mp3, nal};
use spillway_rtmp::chunk::{ChunkReader, ReaderOptions};
use spillway_rtmp::handshake::{ClientHandshake, ServerHandshake};
use spillway_rtmp::limits::ReaderLimits;
use spillway_rtmp::session::server::{ServerEvent, ServerOptions, ServerSession};
use spillway_ts::walk::Walker;

pub use command::command;
pub use config::config;
pub use http::http;

/// A target: its name and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, in the order of `fuzz_targets/`.
pub const TARGETS: [Target; 15] = [
    ("aac_config", aac_config),
    ("amf0", amf0),
    ("amf3", amf3),
    ("avc_config", avc_config),
    ("chunk", chunk),
    ("command", command),
    ("config", config),
    ("flv_audio", flv_audio),
    ("flv_file", flv_file),
    ("flv_video", flv_video),
    ("handshake", handshake),
    ("hevc_config", hevc_config),
    ("http", http),
    ("server_session", server_session),
    ("ts_packager", ts_packager),
];

/// The first byte says how the rest is cut.
fn pieces(data: &[u8]) -> Vec<&[u8]> {
    match data.split_first() {
        None => Vec::new(),
        Some((0, rest)) => vec![rest],
        Some((size, rest)) => rest.chunks(usize::from(*size)).collect(),
    }
}

/// Both sides of the handshake: little output for whatever input.
pub fn handshake(data: &[u8]) {
    const MOST_OUTPUT: usize = 2 * (1 + 1536 + 1536);
    let mut out = BytesMut::new();
    let mut server = ServerHandshake::new(1);
    for piece in pieces(data) {
        let mut rest = piece;
        if !matches!(server.read(&mut rest, &mut out), Ok(false)) {
            break;
        }
    }
    assert!(out.len() <= MOST_OUTPUT, "server wrote {} bytes", out.len());
    for digest in [false, true] {
        let mut out = BytesMut::new();
        let mut client = ClientHandshake::start(1, digest, &mut out);
        for piece in pieces(data) {
            let mut rest = piece;
            if !matches!(client.read(&mut rest, &mut out), Ok(false)) {
                break;
            }
        }
        assert!(out.len() <= MOST_OUTPUT, "client wrote {} bytes", out.len());
    }
}

const CHUNK_LIMITS: ReaderLimits = ReaderLimits {
    max_message_bytes: 1 << 20,
    max_chunk_streams: 16,
    max_partial_bytes: 2 << 20,
    tiny_chunk_bytes: 32,
    max_tiny_chunks: 1 << 16,
};
/// A reader may reserve this much ahead of the bytes that came, for each chunk stream.
const RESERVE_AHEAD: usize = 2 * 65_536 + 64;

/// Messages as (type, time, length) and whether the input was refused.
fn read_chunks<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<(u8, u32, Vec<u8>)>, bool) {
    let mut reader = ChunkReader::new(ReaderOptions {
        head_room: 11,
        tail_room: 4,
        limits: CHUNK_LIMITS,
    });
    let mut messages = Vec::new();
    let mut fed = 0;
    for piece in pieces {
        let mut rest = piece;
        fed += piece.len();
        loop {
            match reader.read(&mut rest) {
                Ok(Some(message)) => {
                    let (type_id, time) = (message.header.type_id, message.header.timestamp_ms);
                    assert!(message.body().len() <= fed, "a message longer than all input");
                    let buf = message.into_buf();
                    assert_eq!(buf[..11], [0; 11], "head room is zero");
                    messages.push((type_id, time, buf[11..].to_vec()));
                }
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
        assert!(rest.is_empty(), "input left over without a message");
        let most = fed + CHUNK_LIMITS.max_chunk_streams * RESERVE_AHEAD;
        assert!(
            reader.bytes_held() <= most,
            "holds {} bytes after {fed}",
            reader.bytes_held()
        );
    }
    (messages, false)
}

/// The chunk stream: memory follows the bytes that came, and the split does not matter.
pub fn chunk(data: &[u8]) {
    let (messages, refused) = read_chunks(pieces(data));
    let whole = data.get(1..).unwrap_or_default();
    let (in_one, in_one_refused) = read_chunks([whole]);
    assert_eq!(
        (messages, refused),
        (in_one, in_one_refused),
        "another result by another split"
    );
}

fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Object(list) | Value::EcmaArray(list) => {
            list.iter().map(|(_, value)| count_values(value)).sum()
        }
        Value::StrictArray(list) => list.iter().map(count_values).sum::<usize>(),
        Value::TypedObject { properties, .. } => {
            properties.iter().map(|(_, value)| count_values(value)).sum()
        }
        _ => 0,
    }
}

fn written(value: &Value, write: fn(&Value, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn reads_back(data: &[u8], read: fn(&mut &[u8]) -> Result<Value, AmfError>, write: fn(&Value, &mut Vec<u8>)) {
    let mut rest = data;
    let Ok(value) = read(&mut rest) else { return };
    assert!(
        count_values(&value) <= spillway_amf::limits::MAX_VALUES + 1,
        "{} values",
        count_values(&value)
    );
    let first = written(&value, write);
    let Ok(again) = read(&mut first.as_slice()) else {
        panic!("what was written for {value:?} does not read: {first:?}");
    };
    // NaN is not equal to itself: the bytes are compared, not the values.
    assert_eq!(first, written(&again, write), "{value:?} read back as {again:?}");
}

/// AMF0: bounded, and what was written reads back.
pub fn amf0(data: &[u8]) {
    let _ = amf0_codec::read_all(data);
    let _ = amf0_codec::read_lenient(data);
    let _ = ScriptData::parse(data);
    let _ = ScriptData::parse_amf3(data);
    reads_back(data, amf0_codec::read, amf0_codec::write);
}

/// AMF3: bounded, and what was written reads back.
pub fn amf3(data: &[u8]) {
    reads_back(data, amf3_codec::read, amf3_codec::write);
}

/// Video tag bodies, legacy and enhanced.
pub fn flv_video(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    if let Ok(header) = VideoHeader::parse(data) {
        assert!(
            header.data_at <= data.len(),
            "data at {} of {}",
            header.data_at,
            data.len()
        );
        assert_eq!(header.data(&body), header.data_of(data));
        let _ = sample::video_config(&header, data);
    }
    if let Ok(tracks) = video::tracks(data) {
        for track in tracks {
            let _ = track;
        }
    }
    let _ = sample::config_of_video(data);
    for size in [1, 2, 4] {
        let _ = sample::access_unit(&body, size);
    }
}

/// Audio tag bodies, legacy and enhanced.
pub fn flv_audio(data: &[u8]) {
    let body = Bytes::copy_from_slice(data);
    if let Ok(header) = AudioHeader::parse(data) {
        assert!(
            header.data_at <= data.len(),
            "data at {} of {}",
            header.data_at,
            data.len()
        );
        assert_eq!(header.data(&body), header.data_of(data));
        let _ = sample::audio_config(&header, data);
    }
    if let Ok(tracks) = audio::tracks(data) {
        for track in tracks {
            let _ = track;
        }
    }
    let _ = sample::config_of_audio(data);
    let _ = mp3::FrameHeader::parse(data);
    for (header, frame) in mp3::frames(data) {
        assert!(!frame.is_empty() && header.frame_bytes > 0);
    }
}

fn read_tags<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<spillway_flv::Tag>, bool) {
    let mut reader = TagReader::new(1 << 20);
    let mut tags = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        loop {
            match reader.read(&mut rest) {
                Ok(Some(tag)) => tags.push(tag),
                Ok(None) => break,
                Err(_) => return (tags, true),
            }
        }
    }
    (tags, false)
}

/// An FLV byte stream: the split does not matter.
pub fn flv_file(data: &[u8]) {
    let in_pieces = read_tags(pieces(data));
    let in_one = read_tags([data.get(1..).unwrap_or_default()]);
    assert_eq!(in_pieces, in_one, "another result by another split");
}

/// H.264 configuration records and access units.
pub fn avc_config(data: &[u8]) {
    for size in [1, 2, 4] {
        let _ = h264::is_idr_access_unit(data, size);
        let _ = h264::has_recovery_point(data, size);
        if let Ok(unit) = nal::to_four_byte_lengths(data, size) {
            assert!(
                nal::is_length_prefixed(&unit, 4) || unit.is_empty(),
                "own framing is not understood"
            );
        }
    }
    let annex_b = nal::annex_b_to_length_prefixed(data);
    assert!(
        annex_b.len() <= data.len() * 2 + 4,
        "{} bytes became {}",
        data.len(),
        annex_b.len()
    );
    let Ok(config) = AvcConfig::parse(data) else {
        return;
    };
    let _ = (
        config.codec_string(),
        config.geometry(),
        config.with_in_band(data),
    );
    let again = AvcConfig::parse(&config.to_record()).expect("an own record");
    assert_eq!(
        config.to_record(),
        again.to_record(),
        "the record does not read back"
    );
}

/// HEVC configuration records and access units.
pub fn hevc_config(data: &[u8]) {
    for size in [1, 2, 4] {
        let _ = hevc::is_irap_access_unit(data, size);
    }
    let Ok(config) = HevcConfig::parse(data) else {
        return;
    };
    let _ = (
        config.codec_string(),
        config.geometry(),
        config.with_in_band(data),
    );
    let again = HevcConfig::parse(&config.to_record()).expect("an own record");
    assert_eq!(
        config.to_record(),
        again.to_record(),
        "the record does not read back"
    );
}

/// AudioSpecificConfig.
pub fn aac_config(data: &[u8]) {
    let Ok(config) = AacConfig::parse(data) else {
        return;
    };
    let _ = config.codec_string();
    for length in [0, 1, 8184, 8185, usize::MAX] {
        if let Some(header) = config.adts_header(length) {
            let written =
                usize::from(header[3] & 3) << 11 | usize::from(header[4]) << 3 | usize::from(header[5]) >> 5;
            assert_eq!(written, length + 7, "frame length of an ADTS header");
        }
    }
}

/// Of a real stream: SPS and PPS.
const AVC_RECORD: &[u8] = include_bytes!("../corpus/avc_config/plain");
/// Of a real stream: AAC-LC.
const AAC_RECORD: &[u8] = include_bytes!("../corpus/aac_config/plain");
/// Bytes of a command in front of each frame: what and how, time to the one before, composition time, length.
const COMMAND_BYTES: usize = 6;

/// Any frames in any order of time: segments that a strict reader takes.
pub fn ts_packager(data: &[u8]) {
    let options = PackagerOptions {
        target_ms: 1000,
        max_segment_ms: 3000,
        max_segment_bytes: 1 << 20,
    };
    let mut packager = Packager::new(options);
    let avc = AvcConfig::parse(AVC_RECORD).expect("a good record");
    let aac = AacConfig::parse(AAC_RECORD).expect("a good record");
    packager.set_config(TrackKind::Video, Some(Arc::new(CodecConfig::Avc(avc))));
    packager.set_config(TrackKind::Audio, Some(Arc::new(CodecConfig::Aac(aac))));
    let mut walker = Walker::new();
    let mut last = [-1_i64; 2];
    let mut now = 0_i64;
    let mut any_content = false;
    let mut rest = data;
    while let Some((command, tail)) = rest.split_at_checked(COMMAND_BYTES) {
        let length = usize::from(u16::from_be_bytes([command[4], command[5]])).min(tail.len());
        let (payload, tail) = tail.split_at(length);
        rest = tail;
        let kind = if command[0] & 1 == 0 {
            TrackKind::Video
        } else {
            TrackKind::Audio
        };
        now += i64::from(u16::from_be_bytes([command[1], command[2]]) & 0x0fff);
        let track = usize::from(command[0] & 1);
        last[track] = now.max(last[track] + 1);
        let key = command[0] & 2 != 0;
        any_content |= command[0] & 5 == 4;
        let sample = Sample {
            kind,
            dts_ms: last[track],
            cts_ms: i32::from(command[3] as i8) * 8,
            key: key || kind == TrackKind::Audio,
            data: payload_of(kind, key, command[0] & 4 != 0, payload),
        };
        if command[0] & 8 != 0 {
            check_segment(packager.finish(), &mut walker, any_content);
        }
        let arrived = 1_700_000_000_000 + u64::try_from(last[track]).unwrap_or_default();
        check_segment(packager.push(&sample, arrived), &mut walker, any_content);
        assert!(
            packager.open_bytes() <= (1 << 20) + (1 << 18),
            "the open segment holds {}",
            packager.open_bytes()
        );
    }
    check_segment(packager.finish(), &mut walker, any_content);
}

/// One whole slice around the payload, or the payload as it came.
fn payload_of(kind: TrackKind, key: bool, raw: bool, payload: &[u8]) -> Bytes {
    if raw || kind == TrackKind::Audio {
        return Bytes::copy_from_slice(payload);
    }
    let mut unit = u32::try_from(payload.len() + 1)
        .unwrap_or_default()
        .to_be_bytes()
        .to_vec();
    unit.push(if key { 0x65 } else { 0x41 });
    let mut zeros = 0;
    for byte in payload {
        // No start code inside: what emulation prevention is for (H.264 §7.4.1).
        let byte = if zeros >= 2 { byte | 4 } else { *byte };
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        unit.push(byte);
    }
    Bytes::from(unit)
}

/// Rules of what is inside an access unit: the publisher's bytes, which may hold start codes where none may be, are
/// passed on as they came.
const CONTENT_RULES: [&str; 4] = ["T16", "T17", "T19", "T26"];

fn check_segment(segment: Option<Segment>, walker: &mut Walker, any_content: bool) {
    let Some(segment) = segment else { return };
    let bytes = segment.parts.concat();
    assert_eq!(bytes.len() as u64, segment.bytes, "the parts' sum");
    if let Err(violation) = walker.segment(&bytes, segment.discontinuity) {
        let by_content = any_content && CONTENT_RULES.contains(&violation.rule);
        assert!(by_content, "{violation}");
    }
}

/// What a session may hold for each byte received, and beside them: reservations ahead of what came (256 KiB, and
/// 4 KiB for each chunk stream), answers that wait, and its own tables.
const HELD_PER_BYTE: usize = 4;
const HELD_BESIDE: usize = 512 << 10;

/// A whole server session over any bytes: what it holds and what it answers stay within the budget.
pub fn server_session(data: &[u8]) {
    server_session_weighed(data, &|| 0);
}

/// The same where `weigh` tells how many bytes this process has allocated.
pub fn server_session_weighed(data: &[u8], weigh: &dyn Fn() -> usize) {
    let options = ServerOptions {
        limits: CHUNK_LIMITS,
        out_limit_bytes: 64 << 10,
        held_media_bytes: 256 << 10,
        ..ServerOptions::default()
    };
    let Some((decide, rest)) = data.split_first() else {
        return;
    };
    let pieces = pieces(rest);
    let before = weigh();
    let mut session = ServerSession::new(options);
    let mut fed = 0;
    if decide & 1 == 0 {
        let hello = [&[3][..], &[0; 2 * 1536]].concat();
        let mut input = hello.as_slice();
        while matches!(session.read(&mut input), Ok(Some(_))) {}
        fed = hello.len();
    }
    for piece in pieces {
        let mut input = piece;
        fed += piece.len();
        loop {
            let event = match session.read(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    let _ = error.to_string();
                    return;
                }
            };
            if answer(&mut session, &event, *decide, fed).is_err() {
                return;
            }
        }
        let output = session.output().len();
        assert!(
            output <= options.out_limit_bytes + (16 << 10),
            "{output} bytes of answers wait"
        );
        if decide & 2 != 0 {
            session.output().clear();
        }
        let most = HELD_PER_BYTE * fed + HELD_BESIDE;
        let held = session.bytes_held();
        assert!(held <= most, "says it holds {held} bytes after {fed}");
        let held = weigh().saturating_sub(before);
        assert!(held <= most, "holds {held} bytes after {fed}");
    }
}

fn answer(
    session: &mut ServerSession,
    event: &ServerEvent,
    decide: u8,
    fed: usize,
) -> Result<(), spillway_rtmp::session::SessionError> {
    match event {
        ServerEvent::PublishRequested { request, stream } => {
            assert!(stream.path.len() <= fed * 3 + 16, "a path longer than the input");
            if decide & 4 == 0 {
                session.accept_publish(*request)?;
            }
        }
        ServerEvent::PlayRequested { request, .. } if decide & 8 == 0 => {
            session.accept_play(*request)?;
        }
        ServerEvent::Media { buf, .. } => {
            assert!(buf.len() <= fed + 11, "{} bytes of media from {fed}", buf.len());
        }
        _ => {}
    }
    Ok(())
}
