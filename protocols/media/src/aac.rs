//! AAC: the AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2) and ADTS (§1.A.3).

use bytes::Bytes;

use crate::bits::BitReader;
use crate::error::MediaError;

mod adts;

pub use adts::{ADTS_HEADER_LEN, AdtsHeader, StrippedAdts, strip_adts};

/// AAC Low Complexity.
pub const OBJECT_AAC_LC: u8 = 2;
/// Spectral band replication ("HE-AAC").
pub const OBJECT_SBR: u8 = 5;
/// Parametric stereo ("HE-AAC v2").
pub const OBJECT_PS: u8 = 29;

/// `samplingFrequencyIndex` that says a 24-bit rate follows.
pub const EXPLICIT_RATE_INDEX: u8 = 15;

/// Samples a second by `samplingFrequencyIndex` (ISO/IEC 14496-3 table 1.18).
const SAMPLE_RATES: [u32; 13] = [
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
];

/// `syncExtensionType` in front of backward compatible SBR signalling.
const SYNC_SBR: u32 = 0x2B7;
/// `syncExtensionType` in front of backward compatible PS signalling.
const SYNC_PS: u32 = 0x548;

/// What an AAC sequence header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AacConfig {
    /// `audioObjectType` of the core codec: 2 for LC, also under SBR and PS.
    pub object_type: u8,
    /// Core sample rate. With SBR, explicit or implicit, a decoder puts out twice this.
    pub sample_rate: u32,
    /// Core channels, 0 when the config does not tell.
    pub channels: u8,
    /// `channelConfiguration`; 0 means a program config element counts the channels.
    pub channel_config: u8,
    /// `samplingFrequencyIndex` of the core; 15 means the rate is spelled out.
    pub sampling_index: u8,
    /// SBR is signalled, in front (object type 5 or 29) or behind (sync extension). Implicit SBR
    /// cannot be seen here.
    pub explicit_sbr: bool,
    /// Parametric stereo is signalled.
    pub ps: bool,
    /// Rate after SBR, when signalled.
    pub extension_sample_rate: Option<u32>,
    /// Samples per channel one raw frame decodes to at the core rate: 1024 or 960, for AAC-LD and
    /// ELD 512 or 480.
    pub frame_samples: u32,
    /// The AudioSpecificConfig as it came, for MP4's decoder config descriptor.
    pub raw: Bytes,
}

impl AacConfig {
    /// Reads an `AudioSpecificConfig`. Damage after the channel configuration costs only the
    /// fields behind it, since encoders pad and cut the tail.
    ///
    /// # Errors
    /// [`MediaError::OutOfBits`] when it ends before the channel configuration;
    /// [`MediaError::Invalid`] for object type 0, a reserved sampling index or a rate of 0.
    pub fn parse(config: &[u8]) -> Result<Self, MediaError> {
        let mut bits = BitReader::new(config);
        let mut object_type = read_object_type(&mut bits)?;
        let (sampling_index, sample_rate) = read_rate(&mut bits)?;
        let channel_config = bits.byte(4)?;
        let ps = object_type == OBJECT_PS;
        let explicit_sbr = ps || object_type == OBJECT_SBR;
        let mut extension_sample_rate = None;
        if explicit_sbr {
            extension_sample_rate = Some(read_rate(&mut bits)?.1);
            object_type = read_object_type(&mut bits)?;
        }
        if object_type == 0 {
            return Err(MediaError::Invalid {
                what: "AAC audioObjectType",
                value: 0,
            });
        }
        let mut parsed = Self {
            object_type,
            sample_rate,
            channels: channels_of(channel_config),
            channel_config,
            sampling_index,
            explicit_sbr,
            ps,
            extension_sample_rate,
            frame_samples: frame_samples(object_type, false),
            raw: Bytes::copy_from_slice(config),
        };
        let tail = parsed.read_general_audio(&mut bits);
        if tail.is_ok() && !parsed.explicit_sbr {
            // Absent or cut: then nothing is signalled.
            let _absent = parsed.read_sync_extension(&mut bits);
        }
        Ok(parsed)
    }

    /// Makes a config from the three fields of a two-byte `AudioSpecificConfig`.
    ///
    /// # Errors
    /// As [`Self::parse`], for an escaped or zero object type and a reserved or explicit rate.
    pub fn from_parts(object_type: u8, sampling_index: u8, channel_config: u8) -> Result<Self, MediaError> {
        let word = u16::from(object_type & 31) << 11
            | u16::from(sampling_index & 15) << 7
            | u16::from(channel_config & 15) << 3;
        Self::parse(&word.to_be_bytes())
    }

    /// `GASpecificConfig()` (ISO/IEC 14496-3 §4.4.1).
    fn read_general_audio(&mut self, bits: &mut BitReader<'_>) -> Result<(), MediaError> {
        if !matches!(self.object_type, 1..=4 | 6 | 7 | 17 | 19..=23) {
            return Err(MediaError::Invalid {
                what: "AAC audioObjectType",
                value: u64::from(self.object_type),
            });
        }
        self.frame_samples = frame_samples(self.object_type, bits.bit()?);
        if bits.bit()? {
            bits.skip(14)?;
        }
        let extension = bits.bit()?;
        if self.channel_config == 0 {
            self.channels = read_program_config(bits)?;
        }
        if matches!(self.object_type, 6 | 20) {
            bits.skip(3)?;
        }
        if extension {
            match self.object_type {
                22 => bits.skip(16)?,
                17 | 19 | 20 | 23 => bits.skip(3)?,
                _ => {}
            }
            bits.skip(1)?;
        }
        Ok(())
    }

    /// Backward compatible signalling behind the config (§1.6.5.2).
    fn read_sync_extension(&mut self, bits: &mut BitReader<'_>) -> Result<(), MediaError> {
        if bits.remaining() < 16 || bits.bits(11)? != SYNC_SBR || read_object_type(bits)? != OBJECT_SBR {
            return Ok(());
        }
        if !bits.bit()? {
            return Ok(());
        }
        let (_, rate) = read_rate(bits)?;
        self.explicit_sbr = true;
        self.extension_sample_rate = Some(rate);
        if bits.remaining() >= 12 && bits.bits(11)? == SYNC_PS {
            self.ps = bits.bit()?;
        }
        Ok(())
    }

    /// The RFC 6381 string. `mp4a.40.5` and `.29` only when signalled (interop case 104).
    pub fn codec_string(&self) -> String {
        let object_type = match (self.ps, self.explicit_sbr) {
            (true, _) => OBJECT_PS,
            (false, true) => OBJECT_SBR,
            (false, false) => self.object_type,
        };
        format!("mp4a.40.{object_type}")
    }

    /// The ADTS header for one raw frame of `payload_len` bytes: core object type and rate, MPEG-4,
    /// no CRC. `None` when ADTS cannot carry the track: object types over 4, an explicit rate,
    /// a program config element or more than 8 channels, frames of 960 samples (interop cases 104
    /// to 106), or a frame over 8,184 bytes.
    pub fn adts_header(&self, payload_len: usize) -> Option<[u8; ADTS_HEADER_LEN]> {
        if !(1..=4).contains(&self.object_type)
            || self.frame_samples != 1024
            || usize::from(self.sampling_index) >= SAMPLE_RATES.len()
            || !(1..=7).contains(&self.channel_config)
        {
            return None;
        }
        adts::header(
            self.object_type,
            self.sampling_index,
            self.channel_config,
            payload_len,
        )
    }
}

/// `GetAudioObjectType()`: 5 bits, or 6 more behind the escape.
fn read_object_type(bits: &mut BitReader<'_>) -> Result<u8, MediaError> {
    let value = bits.byte(5)?;
    if value == 31 {
        Ok(32 + bits.byte(6)?)
    } else {
        Ok(value)
    }
}

/// Sampling index and rate.
fn read_rate(bits: &mut BitReader<'_>) -> Result<(u8, u32), MediaError> {
    let index = bits.byte(4)?;
    let rate = if index == EXPLICIT_RATE_INDEX {
        bits.bits(24)?
    } else {
        let value = u64::from(index);
        *SAMPLE_RATES.get(usize::from(index)).ok_or(MediaError::Invalid {
            what: "AAC sampling index",
            value,
        })?
    };
    if rate == 0 {
        return Err(MediaError::Invalid {
            what: "AAC sample rate",
            value: 0,
        });
    }
    Ok((index, rate))
}

/// Channels by `channelConfiguration` (table 1.19); 0 when reserved or in a program config element.
const fn channels_of(channel_config: u8) -> u8 {
    match channel_config {
        1..=6 => channel_config,
        7 | 12 | 14 => 8,
        11 => 7,
        13 => 24,
        _ => 0,
    }
}

/// Samples of one frame by object type and `frameLengthFlag`.
const fn frame_samples(object_type: u8, short: bool) -> u32 {
    match (object_type, short) {
        (23 | 39, false) => 512,
        (23 | 39, true) => 480,
        (_, false) => 1024,
        (_, true) => 960,
    }
}

/// Counts the channels of a `program_config_element()` (§4.4.1.1).
fn read_program_config(bits: &mut BitReader<'_>) -> Result<u8, MediaError> {
    bits.skip(4 + 2 + 4)?;
    let (front, side, back) = (bits.byte(4)?, bits.byte(4)?, bits.byte(4)?);
    let (low_frequency, data, coupling) = (bits.byte(2)?, bits.byte(3)?, bits.byte(4)?);
    for mixdown_bits in [4, 4, 3] {
        if bits.bit()? {
            bits.skip(mixdown_bits)?;
        }
    }
    let mut channels = low_frequency;
    for _ in 0..front + side + back {
        channels += 1 + u8::from(bits.bit()?);
        bits.skip(4)?;
    }
    bits.skip(usize::from(low_frequency) * 4 + usize::from(data) * 4 + usize::from(coupling) * 5)?;
    bits.align();
    let comment_len = usize::from(bits.byte(8)?);
    bits.skip(comment_len * 8)?;
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn parse(config: &[u8]) -> AacConfig {
        AacConfig::parse(config).unwrap()
    }

    #[test]
    fn plain_configs_of_ffmpeg() {
        // ffmpeg's own encoder ends each with `56 e5 00`: SBR explicitly absent.
        for (config, rate, index, channels) in [
            ([0x12, 0x08, 0x56, 0xE5, 0x00], 44_100, 4, 1),
            ([0x12, 0x10, 0x56, 0xE5, 0x00], 44_100, 4, 2),
            ([0x12, 0x30, 0x56, 0xE5, 0x00], 44_100, 4, 6),
            ([0x13, 0x08, 0x56, 0xE5, 0x00], 24_000, 6, 1),
            ([0x15, 0x88, 0x56, 0xE5, 0x00], 8_000, 11, 1),
            ([0x10, 0x08, 0x56, 0xE5, 0x00], 96_000, 0, 1),
        ] {
            let parsed = parse(&config);
            assert_eq!(
                (parsed.sample_rate, parsed.sampling_index, parsed.channels),
                (rate, index, channels)
            );
            assert_eq!((parsed.object_type, parsed.frame_samples), (2, 1024));
            assert!(!parsed.explicit_sbr && !parsed.ps);
            assert_eq!(parsed.codec_string(), "mp4a.40.2");
            assert_eq!(&parsed.raw[..], config);
            assert!(parsed.adts_header(100).is_some());
        }
    }

    #[test]
    fn ffmpeg_writes_channel_config_12_for_seven_one() {
        let parsed = parse(&[0x12, 0x60, 0x56, 0xE5, 0x00]);
        assert_eq!((parsed.channel_config, parsed.channels), (12, 8));
        assert_eq!(parsed.adts_header(100), None, "ADTS has three bits for it");
        assert_eq!(parse(&[0x12, 0x38]).channels, 8);
    }

    #[test]
    fn he_aac_signalled_in_front() {
        // Object type 5, core 22,050 stereo, extension 44,100, then LC.
        let parsed = parse(&[0x2B, 0x92, 0x08, 0x00]);
        assert_eq!(
            (parsed.object_type, parsed.sample_rate, parsed.sampling_index),
            (2, 22_050, 7)
        );
        assert_eq!(
            (parsed.explicit_sbr, parsed.ps, parsed.extension_sample_rate),
            (true, false, Some(44_100))
        );
        assert_eq!(parsed.codec_string(), "mp4a.40.5");
        assert_eq!(parsed.frame_samples, 1024);
        let header = AdtsHeader::parse(&parsed.adts_header(10).unwrap()).unwrap();
        assert_eq!(
            (header.config.object_type, header.config.sample_rate),
            (2, 22_050)
        );
        // Object type 29, core 24,000 mono, extension 48,000.
        let parsed = parse(&[0xEB, 0x09, 0x88, 0x00]);
        assert_eq!(
            (parsed.object_type, parsed.sample_rate, parsed.channels),
            (2, 24_000, 1)
        );
        assert_eq!(
            (parsed.explicit_sbr, parsed.ps, parsed.extension_sample_rate),
            (true, true, Some(48_000))
        );
        assert_eq!(parsed.codec_string(), "mp4a.40.29");
    }

    #[test]
    fn he_aac_signalled_behind() {
        // LC 22,050 stereo, sync extension with SBR at 44,100.
        let parsed = parse(&[0x13, 0x90, 0x56, 0xE5, 0xA0]);
        assert_eq!((parsed.object_type, parsed.sample_rate), (2, 22_050));
        assert_eq!(
            (parsed.explicit_sbr, parsed.ps, parsed.extension_sample_rate),
            (true, false, Some(44_100))
        );
        // The same with PS behind it: 0x548 and a one.
        let parsed = parse(&[0x13, 0x88, 0x56, 0xE5, 0xA5, 0x48, 0x80]);
        assert_eq!((parsed.explicit_sbr, parsed.ps, parsed.channels), (true, true, 1));
        assert_eq!(parsed.codec_string(), "mp4a.40.29");
    }

    #[test]
    fn implicit_sbr_is_plain_lc() {
        let parsed = parse(&[0x13, 0x90]);
        assert!(!parsed.explicit_sbr);
        assert_eq!(parsed.codec_string(), "mp4a.40.2");
    }

    #[test]
    fn short_frames_are_not_for_adts() {
        let parsed = parse(&[0x12, 0x14]);
        assert_eq!(parsed.frame_samples, 960);
        assert_eq!(parsed.adts_header(100), None);
    }

    #[test]
    fn an_explicit_rate_is_read_and_not_for_adts() {
        // LC, index 15, rate 44,099, stereo.
        let parsed = parse(&[0x17, 0x80, 0x56, 0x21, 0x90]);
        assert_eq!(
            (parsed.sampling_index, parsed.sample_rate, parsed.channels),
            (15, 44_099, 2)
        );
        assert_eq!(parsed.adts_header(100), None);
    }

    #[test]
    fn a_program_config_element_counts_the_channels() {
        // LC 44,100, config 0; one centre, one pair in front, one pair behind, one LFE.
        let mut bits = String::from("00010" /* LC */);
        bits += "0100" /* 44,100 */;
        bits += "0000" /* channel config */;
        bits += "000" /* frame length, core coder, extension */;
        bits += concat!(
            "0000", "01", "0100", "0010", "0000", "0001", "01", "000", "0000", "000"
        );
        bits += concat!("00000", "10000", "10001", "0000");
        while !bits.len().is_multiple_of(8) {
            bits.push('0');
        }
        bits += "00000000" /* comment length */;
        let config: Vec<u8> = (0..bits.len())
            .step_by(8)
            .map(|at| u8::from_str_radix(&bits[at..at + 8], 2).unwrap())
            .collect();
        let parsed = parse(&config);
        assert_eq!(
            (parsed.channel_config, parsed.channels, parsed.frame_samples),
            (0, 6, 1024)
        );
        assert_eq!(parsed.adts_header(100), None);
        let cut = parse(&config[..4]);
        assert_eq!(cut.channels, 0, "a cut element leaves the count unknown");
    }

    #[test]
    fn escaped_and_other_object_types() {
        // Escape 31, then 6 bits: 42 (USAC), 48,000 stereo.
        let parsed = parse(&[0xF9, 0x46, 0x40]);
        assert_eq!(
            (parsed.object_type, parsed.sample_rate, parsed.channels),
            (42, 48_000, 2)
        );
        assert_eq!(parsed.adts_header(100), None);
        assert_eq!(parsed.codec_string(), "mp4a.40.42");
        assert_eq!(parse(&[0xB9, 0x90]).frame_samples, 512);
    }

    #[test]
    fn damaged_configs_are_refused() {
        assert!(matches!(AacConfig::parse(&[]), Err(MediaError::OutOfBits { .. })));
        assert!(matches!(
            AacConfig::parse(&[0x12]),
            Err(MediaError::OutOfBits { .. })
        ));
        assert!(matches!(
            AacConfig::parse(&[0x02, 0x10]),
            Err(MediaError::Invalid { .. })
        ));
        assert!(matches!(
            AacConfig::parse(&[0x16, 0x90]),
            Err(MediaError::Invalid { .. })
        ));
        assert!(matches!(
            AacConfig::parse(&[0x17, 0x80, 0, 0, 0x10]),
            Err(MediaError::Invalid { .. })
        ));
    }

    #[test]
    fn made_from_parts() {
        let made = AacConfig::from_parts(2, 4, 2).unwrap();
        assert_eq!(&made.raw[..], [0x12, 0x10]);
        assert_eq!((made.sample_rate, made.channels), (44_100, 2));
    }

    proptest! {
        #[test]
        fn random_configs_never_panic(data: Vec<u8>, payload_len in 0usize..20_000) {
            if let Ok(config) = AacConfig::parse(&data) {
                prop_assert!(config.sample_rate > 0 && config.frame_samples > 0);
                let _ = (config.adts_header(payload_len), config.codec_string());
            }
        }
    }
}
