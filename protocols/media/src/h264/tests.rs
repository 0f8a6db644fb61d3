use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// ffmpeg 5.1, libx264 baseline, 1920x1080 at 30.
const X264_BASELINE_1080: &str =
    "0142c028ffe100196742c028da01e0089f970110000003001000000303c0f1832a01000468ce0fc8";
/// ffmpeg 9.0, libx264 High, 1920x1080 at 30, B-frames.
const X264_HIGH_1080: &str =
    "01640028ffe1001b67640028acd940780227e5c044000003000400000300f03c60c65801000468ee0fcbfdf8f800";
/// ffmpeg 5.1, libx264 High, 1280x720 at 30000/1001.
const X264_HIGH_720: &str =
    "0164001fffe100186764001facd9405005bb011000003e90000ea600f183196001000668ebe3cb22c0fdf8f800";
/// ffmpeg 5.1, libx264 High 10, 320x240 at 25.
const X264_HIGH10: &str =
    "016e000dffe10019676e000da6cd94141fb011000003000100000300320f14299601000668ebe3cb22c0fdfafa00";
/// ffmpeg 9.0, libx264 High 4:4:4 Predictive, 320x240 at 25.
const X264_444: &str =
    "01f4000dffe1001967f4000d919b28283f6022000003000200000300641e28532c01000668ebe3c44844fff8f800";
/// ffmpeg 9.0, libopenh264, 1920x1080.
const OPENH264_1080: &str = "0142c028ffe100106742c0288c680780227e5c040784423501000468ce3c80";

#[track_caller]
fn check(record: &str, string: &str, size: (u32, u32), rate: Option<f64>) -> AvcConfig {
    let record = hex(record);
    let config = AvcConfig::parse(&record).unwrap();
    assert_eq!(config.codec_string(), string);
    let geometry = config.geometry().unwrap();
    assert_eq!((geometry.width, geometry.height), size);
    match rate {
        Some(rate) => assert!(
            (geometry.frame_rate.unwrap() - rate).abs() < 0.001,
            "{geometry:?}"
        ),
        None => assert_eq!(geometry.frame_rate, None),
    }
    assert_eq!(config.nal_length_size, 4);
    assert_eq!(
        config.to_record(),
        record,
        "the record is rewritten byte for byte"
    );
    config
}

#[test]
fn records_of_real_encoders() {
    check(X264_BASELINE_1080, "avc1.42C028", (1920, 1080), Some(30.0));
    check(X264_HIGH_1080, "avc1.640028", (1920, 1080), Some(30.0));
    check(X264_HIGH_720, "avc1.64001F", (1280, 720), Some(29.97));
    let high10 = check(X264_HIGH10, "avc1.6E000D", (320, 240), Some(25.0));
    assert_eq!(high10.high.unwrap().bit_depth_luma_minus8, 2);
    let full_chroma = check(X264_444, "avc1.F4000D", (320, 240), Some(25.0));
    assert_eq!(full_chroma.high.unwrap().chroma_format, 3);
    check(OPENH264_1080, "avc1.42C028", (1920, 1080), None);
}

#[test]
fn odd_records_are_read() {
    let record = hex(X264_HIGH_1080);
    let full = AvcConfig::parse(&record).unwrap();
    let no_tail = AvcConfig::parse(&record[..record.len() - 4]).unwrap();
    assert_eq!(
        (no_tail.high, &no_tail.sps, &no_tail.pps),
        (None, &full.sps, &full.pps)
    );
    let mut trailing = record.clone();
    trailing.extend_from_slice(&[1, 2, 3]);
    assert_eq!(AvcConfig::parse(&trailing).unwrap(), full);
    let no_sets = AvcConfig::parse(&[1, 0x64, 0, 0x1F, 0xFF, 0xE0, 0]).unwrap();
    assert!(no_sets.sps.is_empty() && no_sets.pps.is_empty() && no_sets.geometry().is_none());
    assert_eq!(no_sets.codec_string(), "avc1.64001F");
    let no_pps_count = AvcConfig::parse(&record[..8 + 27]).unwrap();
    assert_eq!((no_pps_count.sps.len(), no_pps_count.pps.len()), (1, 0));
    let short_lengths = AvcConfig::parse(&[1, 0x64, 0, 0x1F, 0xFE, 0xE0, 0]).unwrap();
    assert_eq!(short_lengths.nal_length_size, 3);
    assert_eq!(short_lengths.to_record()[4], 0xFF);
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_config() {
    let record = hex(X264_HIGH_1080);
    for end in 0..record.len() {
        match AvcConfig::parse(&record[..end]) {
            Ok(config) => assert!(end >= 35 && config.sps.len() == 1, "cut at {end}"),
            Err(error) => assert!(
                matches!(error, MediaError::Truncated { .. }),
                "cut at {end}: {error}"
            ),
        }
    }
    assert!(matches!(
        AvcConfig::parse(&[9; 20]),
        Err(MediaError::Invalid { .. })
    ));
}

#[test]
fn the_codec_string_follows_the_sps_and_not_the_record() {
    let mut record = hex(X264_HIGH_720);
    record[1..4].copy_from_slice(&[0x42, 0xE0, 0x0A]);
    assert_eq!(AvcConfig::parse(&record).unwrap().codec_string(), "avc1.64001F");
}

#[test]
fn a_refused_sps_costs_the_geometry_only() {
    let mut record = hex(X264_HIGH_1080);
    for byte in &mut record[12..24] {
        *byte = 0xFF;
    }
    let config = AvcConfig::parse(&record).unwrap();
    assert_eq!(config.geometry(), None);
    assert_eq!(config.codec_string(), "avc1.640028");
}

#[test]
fn annex_b_parameter_sets_in_place_of_the_record() {
    let wanted = AvcConfig::parse(&hex(X264_HIGH_1080)).unwrap();
    let mut stream = vec![0, 0, 0, 1];
    stream.extend_from_slice(&wanted.sps[0]);
    stream.extend_from_slice(&[0, 0, 0, 1]);
    stream.extend_from_slice(&wanted.pps[0]);
    assert_eq!(AvcConfig::parse(&stream).unwrap(), wanted);
    assert!(AvcConfig::parse(&[0, 0, 1, 9, 0x10]).is_err());
}

fn access_unit(units: &[&[u8]]) -> Vec<u8> {
    let mut data = Vec::new();
    for unit in units {
        data.extend_from_slice(&(unit.len() as u32).to_be_bytes());
        data.extend_from_slice(unit);
    }
    data
}

#[test]
fn in_band_sets_replace_stale_ones() {
    let stale = AvcConfig::parse(&hex(X264_HIGH_720)).unwrap();
    let fresh = AvcConfig::parse(&hex(X264_BASELINE_1080)).unwrap();
    let key = access_unit(&[&[9, 0x10], &fresh.sps[0], &fresh.pps[0], &[0x65, 0x88]]);
    let merged = stale.with_in_band(&key).unwrap();
    assert_eq!(
        (&merged.sps, &merged.pps, merged.high),
        (&fresh.sps, &fresh.pps, None)
    );
    assert_eq!(merged.codec_string(), "avc1.42C028");
    assert_eq!(
        merged.with_in_band(&key),
        None,
        "the same sets again are nothing new"
    );
    assert_eq!(stale.with_in_band(&access_unit(&[&[0x65, 0x88]])), None);
}

#[test]
fn a_second_pps_is_added_and_not_put_over_the_first() {
    let config = AvcConfig::parse(&hex(X264_HIGH_720)).unwrap();
    let other_id = [0x68, 0b0101_1000, 0x80];
    let merged = config.with_in_band(&access_unit(&[&other_id, &[0x65]])).unwrap();
    assert_eq!(
        merged.pps,
        [config.pps[0].clone(), Bytes::copy_from_slice(&other_id)]
    );
    assert_eq!((merged.sps, merged.high), (config.sps, config.high));
}

#[test]
fn access_units_are_told_apart() {
    let idr = access_unit(&[&[9, 0xF0], &[0x67, 1], &[0x65, 0x88]]);
    let inter = access_unit(&[&[9, 0xF0], &[0x41, 0x9A]]);
    let bare = access_unit(&[&[9, 0xF0], &[6, 5, 1, 9, 0x80]]);
    assert!(is_idr_access_unit(&idr, 4) && has_slice(&idr, 4));
    assert!(!is_idr_access_unit(&inter, 4) && has_slice(&inter, 4));
    assert!(!is_idr_access_unit(&bare, 4) && !has_slice(&bare, 4));
    // The damaged tail does not hide what came before it.
    let damaged = [&idr[..], &[0xFF; 6]].concat();
    assert!(is_idr_access_unit(&damaged, 4));
}

#[test]
fn recovery_points_are_found_behind_other_sei_messages() {
    let user_data = [6, 5, 2, 0xAA, 0xBB, 6, 1, 0xC4, 0x80];
    assert!(has_recovery_point(&access_unit(&[&user_data, &[0x41, 0x9A]]), 4));
    let long = [&[6, 5, 0xFF, 1][..], &[0xAA; 256], &[6, 1, 0xC4, 0x80]].concat();
    assert!(has_recovery_point(&access_unit(&[&long]), 4));
    assert!(!has_recovery_point(&access_unit(&[&[6, 5, 2, 6, 6, 0x80]]), 4));
    assert!(!has_recovery_point(&access_unit(&[&[6, 0xFF, 0xFF], &[6]]), 4));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(data: Vec<u8>, size: u8) {
        if let Ok(config) = AvcConfig::parse(&data) {
            let _ = (config.geometry(), config.codec_string(), config.with_in_band(&data));
            drop(AvcConfig::parse(&config.to_record()));
        }
        let _ = (is_idr_access_unit(&data, size), has_recovery_point(&data, size), has_slice(&data, size));
    }

    #[test]
    fn damaged_parameter_sets_never_panic(which in 0usize..6, damage: Vec<(u8, u8)>) {
        let all = [X264_BASELINE_1080, X264_HIGH_1080, X264_HIGH_720, X264_HIGH10, X264_444, OPENH264_1080];
        let mut record = hex(all[which]);
        for (at, value) in damage {
            let at = usize::from(at) % record.len();
            record[at] = value;
        }
        if let Ok(config) = AvcConfig::parse(&record) {
            let _ = (config.geometry(), config.codec_string(), config.with_in_band(&record));
        }
    }

    #[test]
    fn random_sps_never_panics(body: Vec<u8>) {
        let sps = [&[0x67, 0x64, 0, 0x28][..], &body].concat();
        if let Ok(config) = AvcConfig::from_parameter_sets(vec![sps.into()], vec![]) {
            let _ = config.geometry();
        }
    }
}
