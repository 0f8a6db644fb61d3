//! Whole segments, read back by the strict walker and by the `mpeg2ts` crate.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use bytes::Bytes;
use mpeg2ts::pes::{PesPacketReader, ReadPesPacket};
use mpeg2ts::ts::TsPacketReader;
use proptest::prelude::*;
use spillway_media::aac::AacConfig;
use spillway_media::codec::{Codec, CodecConfig};
use spillway_media::h264::AvcConfig;
use spillway_media::mp3::FrameHeader;
use spillway_media::sample::{Sample, TrackKind};
use spillway_ts::walk::{Segment, Walker, stamp_difference};
use spillway_ts::{ClockSource, PID_AUDIO, PID_VIDEO, TsError, TsMuxer, TsSegment};

const SPS: &[u8] = &[0x67, 0x64, 0x00, 0x1F, 0xAC, 0xD9, 0x40, 0x50, 0x05, 0xBB, 0x01];
const PPS: &[u8] = &[0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC0];

fn avc() -> CodecConfig {
    CodecConfig::Avc(
        AvcConfig::from_parameter_sets(vec![Bytes::from_static(SPS)], vec![Bytes::from_static(PPS)]).unwrap(),
    )
}

fn aac(asc: &[u8]) -> CodecConfig {
    CodecConfig::Aac(AacConfig::parse(asc).unwrap())
}

/// 44.1 kHz stereo AAC-LC.
fn aac_44100() -> CodecConfig {
    aac(&[0x12, 0x10])
}

fn avcc(units: &[&[u8]]) -> Bytes {
    let mut out = Vec::new();
    for unit in units {
        out.extend_from_slice(&(unit.len() as u32).to_be_bytes());
        out.extend_from_slice(unit);
    }
    out.into()
}

fn picture(dts_ms: i64, cts_ms: i32, key: bool, size: usize) -> Sample {
    let mut unit = vec![if key { 0x65 } else { 0x41 }];
    unit.extend((0..size.max(1)).map(|i| (i % 251) as u8 | 1));
    Sample {
        kind: TrackKind::Video,
        dts_ms,
        cts_ms,
        key,
        data: avcc(&[&unit]),
    }
}

fn sound(dts_ms: i64, size: usize) -> Sample {
    let data = vec![0x21; size.max(1)].into();
    Sample {
        kind: TrackKind::Audio,
        dts_ms,
        cts_ms: 0,
        key: true,
        data,
    }
}

fn push(muxer: &mut TsMuxer, sample: &Sample) {
    match sample.kind {
        TrackKind::Video => {
            let unit = muxer.read_video(sample).unwrap();
            muxer.push_video(&unit, sample).unwrap();
        }
        TrackKind::Audio => {
            muxer.push_audio(sample).unwrap();
        }
    }
}

fn bytes(segment: &TsSegment) -> Vec<u8> {
    let joined = segment.parts.concat();
    assert_eq!(joined.len() as u64, segment.bytes);
    joined
}

fn av_muxer() -> TsMuxer {
    let mut muxer = TsMuxer::new();
    muxer.set_video(Some(&avc())).unwrap();
    muxer.set_audio(Some(&aac_44100())).unwrap();
    muxer
}

/// Two seconds of 25 fps video with 44.1 kHz AAC from `start_ms` on.
fn two_seconds(muxer: &mut TsMuxer, start_ms: i64) -> Vec<u8> {
    muxer.begin_segment(ClockSource::Video);
    let mut samples: Vec<Sample> = (0..50)
        .map(|n| {
            picture(
                start_ms + n * 40,
                if n % 3 == 0 { 80 } else { 0 },
                n == 0,
                900 + n as usize,
            )
        })
        .collect();
    samples.extend((0..86).map(|n| sound(start_ms + n * 1024 * 1000 / 44_100, 180)));
    samples.sort_by_key(|sample| (sample.dts_ms, sample.kind));
    samples.iter().for_each(|sample| push(muxer, sample));
    bytes(&muxer.end_segment(true, true))
}

fn walk_all(segments: &[Vec<u8>]) -> Vec<Segment> {
    let mut walker = Walker::new();
    segments
        .iter()
        .map(|segment| walker.segment(segment, false).unwrap())
        .collect()
}

/// The payload bytes by stream id as the `mpeg2ts` crate reads them.
fn read_by_mpeg2ts(stream: &[u8]) -> HashMap<u8, Vec<Vec<u8>>> {
    let mut reader = PesPacketReader::new(TsPacketReader::new(stream));
    let mut all: HashMap<u8, Vec<Vec<u8>>> = HashMap::new();
    while let Some(packet) = reader.read_pes_packet().unwrap() {
        all.entry(packet.header.stream_id.as_u8())
            .or_default()
            .push(packet.data);
    }
    all
}

#[test]
fn segments_of_one_stream_keep_every_rule_across_their_borders() {
    let mut muxer = av_muxer();
    let segments: Vec<_> = (0..5).map(|n| two_seconds(&mut muxer, n * 2000)).collect();
    for segment in walk_all(&segments) {
        assert_eq!(
            segment
                .streams
                .iter()
                .map(|(pid, kind)| (*pid, *kind))
                .collect::<Vec<_>>(),
            [(PID_VIDEO, 0x1B), (PID_AUDIO, 0x0F)]
        );
        assert_eq!((segment.pcr_pid, segment.pmt_version), (PID_VIDEO, 0));
        assert_eq!(segment.of(PID_VIDEO).count(), 50);
        assert!(segment.of(PID_VIDEO).next().unwrap().random_access);
    }
}

#[test]
fn another_reader_sees_the_same_payload() {
    let mut muxer = av_muxer();
    let segments: Vec<_> = (0..2).map(|n| two_seconds(&mut muxer, n * 2000)).collect();
    let ours = walk_all(&segments);
    let theirs = read_by_mpeg2ts(&segments.concat());
    for (pid, stream_id) in [(PID_VIDEO, 0xE0), (PID_AUDIO, 0xC0)] {
        let ours: Vec<Vec<u8>> = ours
            .iter()
            .flat_map(|s| s.of(pid))
            .map(|pes| pes.data.clone())
            .collect();
        assert_eq!(theirs[&stream_id], ours);
    }
}

#[test]
fn audio_times_are_counted_and_audio_ends_with_its_segment() {
    let mut muxer = av_muxer();
    let segments: Vec<_> = (0..10).map(|n| two_seconds(&mut muxer, n * 2000)).collect();
    for segment in walk_all(&segments) {
        let audio: Vec<_> = segment.of(PID_AUDIO).collect();
        let frames: usize = audio.iter().map(|pes| pes.data.len() / 187).sum();
        assert_eq!(frames, 86);
        for pair in audio.windows(2) {
            let frames = (pair[0].data.len() / 187) as i64;
            let exact = frames * 1024 * 90_000 / 44_100;
            assert!((stamp_difference(pair[1].pts, pair[0].pts) - exact).abs() <= 1);
            assert!(stamp_difference(pair[1].pts, pair[0].pts) <= 9_000);
        }
    }
}

#[test]
fn stamps_wrap_at_33_bits_without_a_seam() {
    let mut muxer = av_muxer();
    let start_ms = ((1i64 << 33) - 5 * 90_000) / 90 - 1000;
    let segments: Vec<_> = (0..5)
        .map(|n| two_seconds(&mut muxer, start_ms + n * 2000))
        .collect();
    let walked = walk_all(&segments);
    let stamps: Vec<u64> = walked
        .iter()
        .flat_map(|s| s.of(PID_VIDEO))
        .map(|pes| pes.dts)
        .collect();
    assert!(stamps.iter().any(|dts| *dts < 90_000) && stamps.iter().any(|dts| *dts > (1 << 33) - 90_000));
}

#[test]
fn big_pictures_have_no_length_and_small_ones_have() {
    let mut muxer = av_muxer();
    muxer.begin_segment(ClockSource::Video);
    push(&mut muxer, &picture(0, 0, true, 3_000_000));
    push(&mut muxer, &picture(40, 0, false, 10));
    let segment = muxer.end_segment(true, false);
    assert!(segment.parts.len() > 1);
    let walked = Walker::new().segment(&bytes(&segment), false).unwrap();
    assert_eq!(walked.pes.len(), 2);
    assert!(walked.pes[0].data.len() > 3_000_000);
}

#[test]
fn slow_video_gets_clock_packets_between_its_frames() {
    let mut muxer = TsMuxer::new();
    muxer.set_video(Some(&avc())).unwrap();
    muxer.begin_segment(ClockSource::Video);
    (0..5).for_each(|n| push(&mut muxer, &picture(n * 1000, 0, n == 0, 500)));
    let walked = Walker::new()
        .segment(&bytes(&muxer.end_segment(true, false)), false)
        .unwrap();
    assert!(walked.pcrs.len() > 40);
}

#[test]
fn negative_composition_times_keep_presentation_at_its_place() {
    let mut muxer = av_muxer();
    muxer.begin_segment(ClockSource::Video);
    for (n, cts) in [0, -40, 40, -40, 40].into_iter().enumerate() {
        push(&mut muxer, &picture(n as i64 * 40, cts, n == 0, 100));
    }
    let walked = Walker::new()
        .segment(&bytes(&muxer.end_segment(true, false)), false)
        .unwrap();
    let pts: Vec<i64> = walked
        .pes
        .iter()
        .map(|pes| (pes.pts as i64 - 90_000) / 90)
        .collect();
    assert_eq!(pts, [0, 0, 120, 80, 200]);
}

#[test]
fn audio_alone_carries_the_clock_and_is_an_access_point() {
    let mut muxer = TsMuxer::new();
    muxer.set_audio(Some(&aac_44100())).unwrap();
    let mut walker = Walker::new();
    for segment in 0..4i64 {
        muxer.begin_segment(ClockSource::Audio);
        (0..86).for_each(|n| push(&mut muxer, &sound((segment * 86 + n) * 1024 * 1000 / 44_100, 180)));
        let walked = walker
            .segment(&bytes(&muxer.end_segment(false, true)), false)
            .unwrap();
        assert_eq!(walked.pcr_pid, PID_AUDIO);
        assert!(!walked.streams.contains_key(&PID_VIDEO));
    }
}

#[test]
fn standing_video_leaves_the_clock_running_on_its_pid() {
    let mut muxer = av_muxer();
    let mut walker = Walker::new();
    walker.segment(&two_seconds(&mut muxer, 0), false).unwrap();
    muxer.begin_segment(ClockSource::StalledVideo { audio_ahead_ticks: 0 });
    (0..86).for_each(|n| push(&mut muxer, &sound(2000 + n * 1024 * 1000 / 44_100, 180)));
    let walked = walker
        .segment(&bytes(&muxer.end_segment(true, true)), false)
        .unwrap();
    assert_eq!(walked.pcr_pid, PID_VIDEO);
    assert!(walked.pcrs.len() > 15);
    assert!(muxer.is_late(2500 * 90));
    assert!(!muxer.is_late(4100 * 90));
}

#[test]
fn a_new_timeline_is_marked_in_the_clock() {
    let mut muxer = av_muxer();
    let mut walker = Walker::new();
    walker.segment(&two_seconds(&mut muxer, 500_000), false).unwrap();
    muxer.discontinuity();
    assert!(!muxer.is_late(0));
    walker.segment(&two_seconds(&mut muxer, 0), true).unwrap();
}

#[test]
fn the_map_follows_the_tracks() {
    let mut muxer = av_muxer();
    let mut walker = Walker::new();
    muxer.begin_segment(ClockSource::Video);
    push(&mut muxer, &picture(0, 0, true, 10));
    let first = muxer.end_segment(true, false);
    assert!(!first.program_changed);
    assert_eq!(walker.segment(&bytes(&first), false).unwrap().streams.len(), 1);
    muxer.begin_segment(ClockSource::Video);
    push(&mut muxer, &picture(40, 0, true, 10));
    push(&mut muxer, &sound(40, 10));
    let second = muxer.end_segment(true, true);
    assert!(second.program_changed);
    let walked = walker.segment(&bytes(&second), true).unwrap();
    assert_eq!((walked.streams.len(), walked.pmt_version), (2, 1));
}

#[test]
fn codecs_map_to_stream_types_or_are_refused() {
    let mut muxer = TsMuxer::new();
    for codec in [Codec::Av1, Codec::Vp9, Codec::Sorenson] {
        assert_eq!(
            muxer.set_video(Some(&CodecConfig::Other(codec))),
            Err(TsError::PeerUnsupportedCodec(codec))
        );
    }
    for codec in [
        Codec::Opus,
        Codec::Flac,
        Codec::G711A,
        Codec::Speex,
        Codec::Nellymoser,
    ] {
        assert_eq!(
            muxer.set_audio(Some(&CodecConfig::Other(codec))),
            Err(TsError::PeerUnsupportedCodec(codec))
        );
    }
    assert!(!muxer.carries(TrackKind::Audio) && !muxer.carries(TrackKind::Video));
    // An explicit rate of 43 kHz: index 15.
    let explicit = aac(&[0x17, 0x80, 0x53, 0xFC, 0x10]);
    assert_eq!(muxer.set_audio(Some(&explicit)), Err(TsError::PeerAdtsImpossible));
}

#[test]
fn mp3_keeps_its_frames_and_its_type() {
    for (head, frame_bytes, stream_type) in [
        ([0xFF, 0xFB, 0x50, 0xC4], 208, 0x03),
        ([0xFF, 0xF3, 0x40, 0xC4], 0, 0x04),
    ] {
        let header = FrameHeader::parse(&head).unwrap();
        let mut frame = head.to_vec();
        frame.resize(header.frame_bytes, 0x55);
        assert!(frame_bytes == 0 || frame.len() == frame_bytes);
        let mut muxer = TsMuxer::new();
        muxer.set_audio(Some(&CodecConfig::Mp3(header))).unwrap();
        muxer.begin_segment(ClockSource::Audio);
        for n in 0..20i64 {
            let data = if n == 3 {
                [frame.clone(), frame.clone()].concat()
            } else {
                frame.clone()
            };
            let dts_ms = n * i64::from(header.samples_per_frame) * 1000 / i64::from(header.sample_rate);
            push(
                &mut muxer,
                &Sample {
                    kind: TrackKind::Audio,
                    dts_ms,
                    cts_ms: 0,
                    key: true,
                    data: data.into(),
                },
            );
        }
        let walked = Walker::new()
            .segment(&bytes(&muxer.end_segment(false, true)), false)
            .unwrap();
        assert_eq!(walked.streams[&PID_AUDIO], stream_type);
        let total: usize = walked.pes.iter().map(|pes| pes.data.len()).sum();
        assert_eq!(total, 21 * frame.len());
    }
}

#[test]
fn adts_in_place_of_raw_aac_is_not_wrapped_twice() {
    let CodecConfig::Aac(config) = aac_44100() else {
        unreachable!()
    };
    let frame = [&config.adts_header(50).unwrap()[..], &[0x21; 50]].concat();
    let mut muxer = TsMuxer::new();
    muxer.set_audio(Some(&aac_44100())).unwrap();
    muxer.begin_segment(ClockSource::Audio);
    let data = frame.clone().into();
    push(
        &mut muxer,
        &Sample {
            kind: TrackKind::Audio,
            dts_ms: 0,
            cts_ms: 0,
            key: true,
            data,
        },
    );
    let walked = Walker::new()
        .segment(&bytes(&muxer.end_segment(false, true)), false)
        .unwrap();
    assert_eq!(walked.pes[0].data, frame);
}

#[test]
fn sei_on_its_own_waits_for_the_next_picture() {
    let mut muxer = av_muxer();
    muxer.begin_segment(ClockSource::Video);
    push(&mut muxer, &picture(0, 0, true, 10));
    let lone = Sample {
        data: avcc(&[&[0x06, 0x05, 0x01, 0x02, 0x80]]),
        ..picture(20, 0, false, 1)
    };
    let unit = muxer.read_video(&lone).unwrap();
    assert!(!muxer.push_video(&unit, &lone).unwrap());
    push(&mut muxer, &picture(40, 0, false, 10));
    let walked = Walker::new()
        .segment(&bytes(&muxer.end_segment(true, false)), false)
        .unwrap();
    assert_eq!(walked.pes.len(), 2);
    assert!(
        walked.pes[1]
            .data
            .windows(5)
            .any(|window| window == [0x06, 0x05, 0x01, 0x02, 0x80])
    );
}

#[test]
fn samples_without_their_configuration_are_refused() {
    let mut muxer = TsMuxer::new();
    assert!(matches!(
        muxer.read_video(&picture(0, 0, true, 10)),
        Err(TsError::PeerNoConfig)
    ));
    assert!(matches!(
        muxer.push_audio(&sound(0, 10)),
        Err(TsError::PeerNoConfig)
    ));
    muxer.set_audio(Some(&aac_44100())).unwrap();
    assert!(matches!(
        muxer.push_audio(&sound(0, 9000)),
        Err(TsError::PeerDamagedAudioFrame { .. })
    ));
}

fn any_sample() -> impl Strategy<Value = (u8, i64, i32, Vec<u8>)> {
    (
        any::<u8>(),
        0i64..900,
        -3000i32..3000,
        prop::collection::vec(any::<u8>(), 0..600),
    )
}

proptest! {
    #[test]
    fn whatever_comes_in_the_packets_are_valid(script in prop::collection::vec(any_sample(), 1..120)) {
        let mut muxer = av_muxer();
        let mut walker = Walker::new();
        let mut now = 0;
        muxer.begin_segment(ClockSource::Video);
        push(&mut muxer, &picture(0, 0, true, 100));
        let mut bytes_in = 0u64;
        let (mut segments, mut samples) = (1u64, 1u64);
        for (kind, step, cts_ms, body) in script {
            now += 1 + step;
            bytes_in += body.len() as u64;
            samples += 1;
            match kind % 8 {
                0 => {
                    let segment = muxer.end_segment(true, true);
                    walker.segment(&bytes(&segment), false).unwrap();
                    muxer.begin_segment(ClockSource::Video);
                    segments += 1;
                    push(&mut muxer, &picture(now, cts_ms, true, body.len()));
                }
                1..=4 => {
                    let body = [&[0x41, 0x80], &body[..], &[0x80]].concat();
                    let sample = Sample { data: avcc(&[&body]), ..picture(now, cts_ms, false, 1) };
                    // Emulated start codes inside would be the sender's own mistake.
                    if !body.windows(3).any(|window| window[..2] == [0, 0] && window[2] <= 1) {
                        push(&mut muxer, &sample);
                    }
                }
                5 => {
                    let sample = Sample { data: body.into(), ..picture(now, cts_ms, kind & 8 != 0, 1) };
                    // Looked into only: what happens to parse as NAL units may be any bytes.
                    let _ = muxer.read_video(&sample);
                }
                _ => push(&mut muxer, &sound(now, body.len())),
            }
        }
        let segment = muxer.end_segment(true, true);
        let total = segment.bytes;
        walker.segment(&bytes(&segment), false).unwrap();
        // Each sample costs its bytes, at most three packets of heads and stuffing, and bridges to the clock.
        prop_assert!(total <= 188 * 2 * segments + bytes_in * 188 / 184 + samples * 188 * 16);
    }
}
