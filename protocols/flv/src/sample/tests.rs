use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// ffmpeg 9.0, libx264 High, 1920x1080: the whole sequence header message.
const AVC_START: &str =
    "170000000001640028ffe1001b67640028acd940780227e5c044000003000400000300f03c60c65801000468ee0fcbfdf8f800";
/// ffmpeg 9.0, kvazaar, 1920x1080: the whole enhanced sequence start message.
const HEVC_START: &str = "9068766331010160000000800000000000baf000fcfdf8f800001303200001001b40010c02ffff0160000003008000000300000300ba000004021024210001002d4201020160000003008000000300000300ba0000a003c08010e5b04021924cab01010000030001000003001e0822000100084401c062460a6480";

#[test]
fn video_configs_of_both_header_forms() {
    let legacy = hex(AVC_START);
    let config = config_of_video(&legacy).unwrap();
    assert_eq!(config.codec_string().as_deref(), Some("avc1.640028"));
    let geometry = config.geometry().unwrap();
    assert_eq!((geometry.width, geometry.height), (1920, 1080));
    let enhanced = [b"\x90avc1", &legacy[5..]].concat();
    assert_eq!(config_of_video(&enhanced).unwrap(), config);
    let track = [b"\x96\x00avc1\x00", &legacy[5..]].concat();
    assert_eq!(config_of_video(&track).unwrap(), config);

    let enhanced = hex(HEVC_START);
    let config = config_of_video(&enhanced).unwrap();
    assert_eq!(config.codec(), Codec::Hevc);
    let geometry = config.geometry().unwrap();
    assert_eq!((geometry.width, geometry.height), (1920, 1080));
    let private = [&[0x1C, 0, 0, 0, 0], &enhanced[5..]].concat();
    assert_eq!(config_of_video(&private).unwrap(), config);
}

#[test]
fn video_configs_that_are_not_there() {
    let empty = |codec| Err::<CodecConfig, _>(FlvError::EmptyConfig { codec });
    assert_eq!(config_of_video(&[0x17, 0, 0, 0, 0]), empty(Codec::Avc));
    assert_eq!(config_of_video(b"\x90hvc1"), empty(Codec::Hevc));
    assert_eq!(config_of_video(b"\x90zzzz\x01"), Err(FlvError::UnknownCodec));
    assert!(matches!(
        config_of_video(&[0x17, 0, 0, 0, 0, 1]),
        Err(FlvError::Config {
            codec: Codec::Avc,
            ..
        })
    ));
    assert_eq!(
        config_of_video(b"\x90av01\x81\x00\x0c\x00"),
        Ok(CodecConfig::Other(Codec::Av1))
    );
    assert_eq!(
        config_of_video(&[0x12, 0]),
        Ok(CodecConfig::Other(Codec::Sorenson))
    );
}

#[test]
fn audio_configs() {
    let legacy = config_of_audio(&hex("af00121056e500")).unwrap();
    assert_eq!(legacy.codec_string().as_deref(), Some("mp4a.40.2"));
    assert_eq!(config_of_audio(b"\x90mp4a\x12\x10\x56\xe5\x00").unwrap(), legacy);
    assert_eq!(
        config_of_audio(&[0xAF, 0]),
        Err(FlvError::EmptyConfig { codec: Codec::Aac })
    );
    assert!(matches!(
        config_of_audio(&[0xAF, 0, 0]),
        Err(FlvError::Config {
            codec: Codec::Aac,
            ..
        })
    ));
    let CodecConfig::Mp3(mp3) = config_of_audio(&hex("2efffb50c40000")).unwrap() else {
        panic!("not MP3")
    };
    assert_eq!((mp3.sample_rate, mp3.channels), (44_100, 1));
    assert_eq!(
        config_of_audio(b"\x91.mp3"),
        Err(FlvError::EmptyConfig { codec: Codec::Mp3 })
    );
    assert_eq!(
        config_of_audio(&[0x72, 0xD5]),
        Ok(CodecConfig::Other(Codec::G711A))
    );
    assert_eq!(config_of_audio(b"\x90Opus"), Ok(CodecConfig::Other(Codec::Opus)));
}

#[test]
fn frames_and_side_information_are_no_configs() {
    let none = |codec| Err::<CodecConfig, _>(FlvError::NotAConfig { codec });
    assert_eq!(config_of_audio(&hex("af01dc004c6176")), none(Codec::Aac));
    assert_eq!(
        config_of_audio(&hex("946d70346101060000003f")),
        none(Codec::Aac),
        "speaker layout of ffmpeg 9.0"
    );
    assert_eq!(config_of_audio(&hex("944f707573010100000004")), none(Codec::Opus));
    assert_eq!(config_of_audio(b"\x90.mp3"), none(Codec::Mp3));
    assert_eq!(
        config_of_video(&[0x17, 1, 0, 0, 0, 1, 0x64, 0, 0x28]),
        none(Codec::Avc)
    );
    assert_eq!(config_of_video(b"\x92hvc1"), none(Codec::Hevc));
    assert_eq!(config_of_video(b"\xD4av01\x02"), none(Codec::Av1));
}

#[test]
fn data_is_a_slice_of_the_same_buffer() {
    let body = Bytes::from(hex("2701000021000000010a"));
    let header = VideoHeader::parse(&body).unwrap();
    let data = header.data(&body);
    assert_eq!(data.as_ptr(), body[5..].as_ptr());
    assert_eq!(access_unit(&data, 4).unwrap().as_ptr(), data.as_ptr());
    let body = Bytes::from_static(&[0xAF, 1, 0x21]);
    let data = AudioHeader::parse(&body).unwrap().data(&body);
    assert_eq!(data.as_ptr(), body[2..].as_ptr());
}

#[test]
fn annex_b_bodies_are_told_from_short_units() {
    let annex_b = Bytes::from_static(&[0, 0, 0, 1, 0x67, 0x64, 0, 0, 0, 1, 0x65, 0x88]);
    assert!(is_annex_b(&annex_b, 4));
    assert_eq!(
        access_unit(&annex_b, 4).unwrap()[..],
        [0, 0, 0, 2, 0x67, 0x64, 0, 0, 0, 2, 0x65, 0x88]
    );
    let one_byte_unit = Bytes::from_static(&[0, 0, 0, 1, 0x0C, 0, 0, 0, 2, 0x65, 0x88]);
    assert!(!is_annex_b(&one_byte_unit, 4));
    assert!(!is_annex_b(&[], 4));
}

#[test]
fn other_length_sizes_are_rewritten_and_damage_is_refused() {
    let wanted = [0, 0, 0, 2, 0x65, 0x88];
    assert_eq!(
        access_unit(&Bytes::from_static(&[2, 0x65, 0x88]), 1).unwrap()[..],
        wanted
    );
    assert_eq!(
        access_unit(&Bytes::from_static(&[0, 2, 0x65, 0x88]), 2).unwrap()[..],
        wanted
    );
    assert!(matches!(
        access_unit(&Bytes::from_static(&[0, 0, 0, 9, 0x65]), 4),
        Err(MediaError::NalOverrun { .. })
    ));
}

#[test]
fn made_sequence_headers_are_read_back() {
    for body in [hex(AVC_START), hex("af00121056e500")] {
        let config = match body[0] {
            0x17 => config_of_video(&body).unwrap(),
            _ => config_of_audio(&body).unwrap(),
        };
        assert_eq!(legacy_sequence_header(&config).unwrap(), body);
    }
    assert_eq!(legacy_sequence_header(&CodecConfig::Other(Codec::Opus)), None);
}

proptest! {
    #[test]
    fn random_bodies_never_panic(body: Vec<u8>, size: u8) {
        let _ = (config_of_video(&body), config_of_audio(&body));
        let _ = access_unit(&Bytes::from(body), size);
    }
}
