use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// ffmpeg 9.0, libx265 Main, 1920x1080 at 30.
const X265_1080: &str = "01016000000090000000000078f000fcfdf8f800000f03200001001840010c01ffff016000000300900000030000030078959409210001002b420101016000000300900000030000030078a003c0801107cb965654a4c2f0168080000003008000000f0422000100064401c073c189";
/// ffmpeg 9.0, libx265 Main 10 with scaling lists, 640x360 at 25.
const X265_MAIN10: &str = "0102200000009000000000003ff000fcfdfafa00000f03200001001840010c01ffff02200000030090000003000003003f959809210001002b42010102200000030090000003000003003fa005020169365959a49395e02d01000003000100000300190822000100074401c172b46240";
/// ffmpeg 9.0, libx265 4:4:4, high tier, 322x242 at 60000/1001, temporal layers.
const X265_444: &str = "0124080000009e080000000099f000fcfff8f800001b03200001001d40010c04ffff2408000003009e0800000300009900009594aca5650240210001002f4201042408000003009e08000003000099000090014901f39e7cb2b29594acb24995e02d0100000303e90000ea600822000100084401c172860c4624";
/// ffmpeg 5.1, libx265 Main in MP4, 426x240 at 25.
const X265_OLD: &str = "0101600000009000000000003cf000fcfdf8f800000f03200001001840010c01ffff01600000030090000003000003003c959809210001002b42010101600000030090000003000003003ca00d880f1c9e5959a4932bc05a02000003000200000300321022000100074401c172b46240";
/// ffmpeg 9.0, kvazaar, 720x576 at 25.
const KVAZAAR: &str = "010160000000800000000000baf000fcfdf8f800001303200001001b40010c02ffff0160000003008000000300000300ba000008110240210001002c4201020160000003008000000300000300ba0000a005a200905a0811924cab0101000003000100000300190822000100084401c062460a6480";

const ALL: [&str; 5] = [X265_1080, X265_MAIN10, X265_444, X265_OLD, KVAZAAR];

#[track_caller]
fn check(record: &str, string: &str, size: (u32, u32), rate: f64) {
    let config = HevcConfig::parse(&hex(record)).unwrap();
    assert_eq!(config.codec_string(), string);
    let geometry = config.geometry().unwrap();
    assert_eq!((geometry.width, geometry.height), size);
    assert!(
        (geometry.frame_rate.unwrap() - rate).abs() < 0.001,
        "{geometry:?}"
    );
    assert_eq!((config.vps.len(), config.sps.len(), config.pps.len()), (1, 1, 1));
    assert_eq!(config.nal_length_size, 4);
}

#[test]
fn records_of_real_encoders() {
    check(X265_1080, "hvc1.1.6.L120.90", (1920, 1080), 30.0);
    check(X265_MAIN10, "hvc1.2.4.L63.90", (640, 360), 25.0);
    check(X265_444, "hvc1.4.10.H153.9E.8", (322, 242), 59.94);
    check(X265_OLD, "hvc1.1.6.L60.90", (426, 240), 25.0);
    check(KVAZAAR, "hvc1.1.6.L186.80", (720, 576), 25.0);
}

#[test]
fn records_are_rewritten_with_the_same_meaning() {
    for record in ALL {
        let record = hex(record);
        let config = HevcConfig::parse(&record).unwrap();
        let mut rewritten = config.to_record();
        assert_eq!(HevcConfig::parse(&rewritten).unwrap(), config);
        // ffmpeg does not claim that the arrays are complete; without that bit all bytes agree.
        let mut at = 23;
        for _ in 0..rewritten[22] {
            rewritten[at] &= 0x7F;
            at += 5 + usize::from(u16::from_be_bytes([rewritten[at + 3], rewritten[at + 4]]));
        }
        assert_eq!(rewritten, record);
    }
}

#[test]
fn odd_records_are_read() {
    let mut record = hex(X265_1080);
    let full = HevcConfig::parse(&record).unwrap();
    record[0] = 0;
    assert_eq!(HevcConfig::parse(&record).unwrap(), full, "version 0");
    record.extend_from_slice(&[1, 2, 3]);
    assert_eq!(HevcConfig::parse(&record).unwrap(), full, "trailing bytes");
    record[22] = 9;
    assert!(
        HevcConfig::parse(&record[..record.len() - 3]).is_ok(),
        "too many arrays announced"
    );
    let bare = HevcConfig::parse(&record[..23]).unwrap();
    assert!(bare.sps.is_empty() && bare.geometry().is_none());
    assert_eq!(bare.codec_string(), "hvc1.1.6.L120.90");
    record[0] = 2;
    assert!(matches!(
        HevcConfig::parse(&record),
        Err(MediaError::Invalid { .. })
    ));
}

#[test]
fn every_truncation_is_an_error_or_a_shorter_config() {
    let record = hex(X265_1080);
    for end in 0..record.len() {
        if let Err(error) = HevcConfig::parse(&record[..end]) {
            assert!(
                matches!(error, MediaError::Truncated { .. }),
                "cut at {end}: {error}"
            );
        }
    }
    assert!(HevcConfig::parse(&record[..22]).is_err());
}

#[test]
fn other_arrays_are_left_out() {
    let mut record = hex(X265_1080);
    record[22] = 4;
    record.extend_from_slice(&[NAL_PREFIX_SEI, 0, 1, 0, 3, 0x4E, 1, 5]);
    assert_eq!(
        HevcConfig::parse(&record).unwrap(),
        HevcConfig::parse(&hex(X265_1080)).unwrap()
    );
}

#[test]
fn damage_behind_the_size_costs_the_frame_rate_only() {
    let config = HevcConfig::parse(&hex(X265_1080)).unwrap();
    let sps = config.sps[0].slice(..config.sps[0].len() - 12);
    let cut = HevcConfig::from_parameter_sets(vec![], vec![sps], vec![]).unwrap();
    let geometry = cut.geometry().unwrap();
    assert_eq!(
        (geometry.width, geometry.height, geometry.frame_rate),
        (1920, 1080, None)
    );
}

#[test]
fn annex_b_parameter_sets_in_place_of_the_record() {
    let wanted = HevcConfig::parse(&hex(X265_444)).unwrap();
    let mut stream = Vec::new();
    for set in [&wanted.vps[0], &wanted.sps[0], &wanted.pps[0]] {
        stream.extend_from_slice(&[0, 0, 0, 1]);
        stream.extend_from_slice(set);
    }
    assert_eq!(HevcConfig::parse(&stream).unwrap(), wanted);
    assert!(HevcConfig::parse(&[0, 0, 1, 0x46, 1]).is_err());
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
    let stale = HevcConfig::parse(&hex(X265_OLD)).unwrap();
    let fresh = HevcConfig::parse(&hex(X265_1080)).unwrap();
    let key = access_unit(&[&fresh.vps[0], &fresh.sps[0], &fresh.pps[0], &[0x26, 1, 0x80]]);
    let merged = stale.with_in_band(&key).unwrap();
    assert_eq!(merged, fresh);
    assert_eq!(merged.with_in_band(&key), None);
    assert_eq!(stale.with_in_band(&access_unit(&[&[0x26, 1, 0x80]])), None);
}

#[test]
fn access_units_are_told_apart() {
    for (unit, irap, slice) in [
        ([0x26, 1, 0x80], true, true),  // IDR_W_RADL
        ([0x28, 1, 0x80], true, true),  // IDR_N_LP
        ([0x2A, 1, 0x80], true, true),  // CRA
        ([0x20, 1, 0x80], true, true),  // BLA_W_LP
        ([0x02, 1, 0x80], false, true), // TRAIL_R
        ([0x4E, 1, 0x80], false, false),
    ] {
        let data = access_unit(&[&[0x46, 1, 0x50], &unit]);
        assert_eq!(
            (is_irap_access_unit(&data, 4), has_slice(&data, 4)),
            (irap, slice),
            "{unit:x?}"
        );
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(data: Vec<u8>, size: u8) {
        if let Ok(config) = HevcConfig::parse(&data) {
            let _ = (config.geometry(), config.codec_string(), config.with_in_band(&data));
            let _ = HevcConfig::parse(&config.to_record());
        }
        let _ = (is_irap_access_unit(&data, size), has_slice(&data, size));
    }

    #[test]
    fn damaged_parameter_sets_never_panic(which in 0usize..5, damage: Vec<(u8, u8)>) {
        let mut record = hex(ALL[which]);
        for (at, value) in damage {
            let at = usize::from(at) % record.len();
            record[at] = value;
        }
        if let Ok(config) = HevcConfig::parse(&record) {
            let _ = (config.geometry(), config.codec_string(), config.to_record());
        }
    }

    #[test]
    fn random_sps_never_panics(body: Vec<u8>) {
        let sps = [&[0x42, 1, 1, 1, 0x60, 0, 0, 3, 0, 0x90, 0, 0, 3, 0, 0, 3, 0, 0x78][..], &body].concat();
        let config = HevcConfig::from_parameter_sets(vec![], vec![sps.into()], vec![]).unwrap();
        let _ = (config.geometry(), config.to_record());
    }
}
