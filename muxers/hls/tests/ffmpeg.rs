//! Real encodings through the packager, decoded by ffmpeg: no continuity error, no damaged packet, every frame there.
//! Skipped where ffmpeg is not installed.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use bytes::Bytes;
use common::{Pipeline, START_UNIX_MS};
use spillway_media::aac::AacConfig;
use spillway_media::codec::CodecConfig;
use spillway_media::h264::AvcConfig;
use spillway_media::hevc::HevcConfig;
use spillway_media::mp3::FrameHeader;
use spillway_media::nal;
use spillway_media::sample::{Sample, TrackKind};

const VIDEO: &str = "testsrc=s=320x180:r=25:d=9";
const AUDIO: &str = "sine=f=440:r=44100:d=9";

fn run(program: &str, args: &[&str]) -> Option<Output> {
    Command::new(program).arg("-hide_banner").args(args).output().ok()
}

fn scratch(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("spillway-hls-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Encodes into `file` of a fresh folder, `None` without ffmpeg.
fn encode(file: &Path, args: &[&str]) -> Option<Vec<u8>> {
    let path = file.to_str().unwrap();
    let mut all = vec![
        "-v", "error", "-y", "-f", "lavfi", "-i", VIDEO, "-f", "lavfi", "-i", AUDIO,
    ];
    all.extend_from_slice(args);
    all.push(path);
    let output = run("ffmpeg", &all)?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(std::fs::read(file).unwrap())
}

enum Tag {
    Config(TrackKind, CodecConfig),
    Sample(Sample),
}

/// The tags of an FLV file, as far as these tests need them.
fn flv_tags(file: &[u8]) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = &file[13..];
    while rest.len() >= 15 {
        let length = usize::from(rest[1]) << 16 | usize::from(rest[2]) << 8 | usize::from(rest[3]);
        let dts_ms = i64::from(u32::from_be_bytes([rest[7], rest[4], rest[5], rest[6]]));
        let body = &rest[11..11 + length];
        tags.extend(match rest[0] {
            9 => video_tag(body, dts_ms),
            8 => audio_tag(body, dts_ms),
            _ => vec![],
        });
        rest = &rest[15 + length..];
    }
    tags
}

fn video_tag(body: &[u8], dts_ms: i64) -> Vec<Tag> {
    match body[1] {
        0 => vec![Tag::Config(
            TrackKind::Video,
            CodecConfig::Avc(AvcConfig::parse(&body[5..]).unwrap()),
        )],
        1 => {
            let cts_ms = i32::from_be_bytes([body[2], body[3], body[4], 0]) >> 8;
            let data = Bytes::copy_from_slice(&body[5..]);
            vec![Tag::Sample(Sample {
                kind: TrackKind::Video,
                dts_ms,
                cts_ms,
                key: body[0] >> 4 == 1,
                data,
            })]
        }
        _ => vec![],
    }
}

fn audio_tag(body: &[u8], dts_ms: i64) -> Vec<Tag> {
    let sample = |at: usize| {
        let data = Bytes::copy_from_slice(&body[at..]);
        Tag::Sample(Sample {
            kind: TrackKind::Audio,
            dts_ms,
            cts_ms: 0,
            key: true,
            data,
        })
    };
    match (body[0] >> 4, body[1]) {
        (10, 0) => vec![Tag::Config(
            TrackKind::Audio,
            CodecConfig::Aac(AacConfig::parse(&body[2..]).unwrap()),
        )],
        (10, _) => vec![sample(2)],
        (2, _) => {
            let header = FrameHeader::parse(&body[1..]).unwrap();
            vec![Tag::Config(TrackKind::Audio, CodecConfig::Mp3(header)), sample(1)]
        }
        _ => vec![],
    }
}

struct Packaged {
    joined: Vec<u8>,
    pictures: usize,
    seconds: f64,
}

fn package(tags: Vec<Tag>) -> Packaged {
    let mut pipeline = Pipeline::new();
    let mut pictures = 0;
    for tag in tags {
        match tag {
            Tag::Config(kind, config) => pipeline.packager.set_config(kind, Some(Arc::new(config))),
            Tag::Sample(sample) => {
                pictures += usize::from(sample.kind == TrackKind::Video);
                pipeline.feed_at(&sample, START_UNIX_MS.saturating_add_signed(sample.dts_ms));
            }
        }
    }
    pipeline.finish();
    assert!(pipeline.cuts.len() >= 4 && pipeline.discontinuities().is_empty());
    let joined = pipeline
        .cuts
        .iter()
        .flat_map(|cut| cut.segment.parts.concat())
        .collect();
    let seconds = pipeline.cuts.iter().map(|cut| cut.ms).sum::<f64>() / 1000.0;
    Packaged {
        joined,
        pictures,
        seconds,
    }
}

/// Reads at debug level, where alone ffmpeg tells of continuity errors; then decodes strictly.
fn assert_decodes(folder: &Path, packaged: &Packaged) {
    let file = folder.join("joined.ts");
    std::fs::write(&file, &packaged.joined).unwrap();
    let path = file.to_str().unwrap();
    // Through a pipe, so that it does not seek to the end, into the middle of a packet, to guess a duration.
    let args = "-hide_banner -v debug -f mpegts -i pipe:0 -map 0 -c copy -f null -";
    let input = std::fs::File::open(&file).unwrap();
    let demuxed = Command::new("ffmpeg")
        .args(args.split(' '))
        .stdin(input)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&demuxed.stderr);
    for complaint in [
        "Continuity check failed",
        "PES packet size mismatch",
        "corrupt",
        "non monotonically",
    ] {
        let line = log.lines().find(|line| line.contains(complaint));
        assert!(line.is_none(), "{}", line.unwrap_or_default());
    }
    let decoded = run(
        "ffmpeg",
        &[
            "-v",
            "warning",
            "-xerror",
            "-err_detect",
            "explode",
            "-i",
            path,
            "-map",
            "0",
            "-f",
            "null",
            "-",
        ],
    )
    .unwrap();
    let log = String::from_utf8_lossy(&decoded.stderr);
    assert!(decoded.status.success() && log.trim().is_empty(), "{log}");
    let probe = run(
        "ffprobe",
        &[
            "-v",
            "error",
            "-select_streams",
            "v",
            "-count_frames",
            "-show_entries",
            "stream=nb_read_frames",
            "-of",
            "csv=p=0",
            path,
        ],
    )
    .unwrap();
    let counted = String::from_utf8_lossy(&probe.stdout);
    let frames: usize = counted
        .lines()
        .next()
        .unwrap()
        .trim()
        .trim_end_matches(',')
        .parse()
        .unwrap();
    assert_eq!(frames, packaged.pictures);
    assert!(
        (packaged.seconds - packaged.pictures as f64 / 25.0).abs() < 0.05,
        "{}",
        packaged.seconds
    );
}

fn check_flv(name: &str, args: &[&str]) {
    let folder = scratch(name);
    let mut all = args.to_vec();
    all.extend_from_slice(&["-f", "flv"]);
    if let Some(file) = encode(&folder.join("in.flv"), &all) {
        assert_decodes(&folder, &package(flv_tags(&file)));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn h264_and_aac_decode() {
    check_flv(
        "plain",
        &[
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-tune",
            "zerolatency",
            "-g",
            "25",
            "-c:a",
            "aac",
        ],
    );
}

#[test]
fn b_frames_and_slices_decode() {
    check_flv(
        "bframes",
        &[
            "-c:v",
            "libx264",
            "-preset",
            "fast",
            "-bf",
            "3",
            "-g",
            "50",
            "-x264-params",
            "aud=1:slices=4",
            "-c:a",
            "aac",
        ],
    );
}

#[test]
fn in_band_parameter_sets_decode() {
    check_flv(
        "inband",
        &[
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-g",
            "25",
            "-bsf:v",
            "dump_extra=freq=keyframe",
            "-c:a",
            "aac",
            "-ar",
            "44100",
        ],
    );
}

#[test]
fn mp3_decodes() {
    check_flv(
        "mp3",
        &[
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-g",
            "25",
            "-c:a",
            "libmp3lame",
        ],
    );
}

#[test]
fn big_pictures_decode() {
    check_flv(
        "big",
        &[
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-qp",
            "1",
            "-g",
            "25",
            "-s",
            "960x540",
            "-c:a",
            "aac",
        ],
    );
}

#[test]
fn hevc_decodes() {
    let folder = scratch("hevc");
    let args = [
        "-an",
        "-c:v",
        "libx265",
        "-preset",
        "ultrafast",
        "-x265-params",
        "log-level=none:keyint=25:aud=1:bframes=0",
    ];
    let mp4 = folder.join("in.mp4");
    if let Some(file) = encode(&mp4, &[&args[..], &["-t", "9", "-tag:v", "hvc1"]].concat()) {
        let at = file.windows(4).position(|window| window == b"hvcC").unwrap();
        let length = u32::from_be_bytes(file[at - 4..at].try_into().unwrap()) as usize;
        let config = HevcConfig::parse(&file[at + 4..at - 4 + length]).unwrap();
        let raw = folder.join("in.hevc");
        let copied = run(
            "ffmpeg",
            &[
                "-v",
                "error",
                "-y",
                "-i",
                mp4.to_str().unwrap(),
                "-c",
                "copy",
                "-f",
                "hevc",
                raw.to_str().unwrap(),
            ],
        );
        assert!(copied.unwrap().status.success());
        let mut tags = vec![Tag::Config(TrackKind::Video, CodecConfig::Hevc(config))];
        tags.extend(
            hevc_samples(&std::fs::read(&raw).unwrap())
                .into_iter()
                .map(Tag::Sample),
        );
        assert_decodes(&folder, &package(tags));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Access units of an Annex B stream with delimiters, 25 a second.
fn hevc_samples(raw: &[u8]) -> Vec<Sample> {
    let mut units: Vec<(bool, Vec<u8>)> = Vec::new();
    for unit in nal::annex_b(raw) {
        let kind = unit[0] >> 1 & 0x3F;
        if kind == 35 || units.is_empty() {
            units.push((false, Vec::new()));
        }
        if let Some((key, data)) = units.last_mut() {
            *key |= (16..=21).contains(&kind);
            data.extend_from_slice(&(unit.len() as u32).to_be_bytes());
            data.extend_from_slice(unit);
        }
    }
    let sample = |(n, (key, data)): (usize, (bool, Vec<u8>))| Sample {
        kind: TrackKind::Video,
        dts_ms: n as i64 * 40,
        cts_ms: 0,
        key,
        data: data.into(),
    };
    units.into_iter().enumerate().map(sample).collect()
}
