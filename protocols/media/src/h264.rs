//! H.264: the decoder configuration record (ISO/IEC 14496-15 §5.3.3) and access unit inspection
//! (H.264 §7.3, §7.4).

use std::collections::BTreeMap;

use bytes::Bytes;
use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::rbsp;

use crate::bits::BitReader;
use crate::error::MediaError;
use crate::geometry::Geometry;
use crate::nal;

/// Coded slice of a non-IDR picture.
pub const NAL_SLICE: u8 = 1;
/// Coded slice of an IDR picture.
pub const NAL_IDR: u8 = 5;
/// Supplemental enhancement information.
pub const NAL_SEI: u8 = 6;
/// Sequence parameter set.
pub const NAL_SPS: u8 = 7;
/// Picture parameter set.
pub const NAL_PPS: u8 = 8;
/// Access unit delimiter.
pub const NAL_AUD: u8 = 9;
/// End of sequence.
pub const NAL_END_OF_SEQUENCE: u8 = 10;
/// End of stream.
pub const NAL_END_OF_STREAM: u8 = 11;
/// Filler data.
pub const NAL_FILLER: u8 = 12;
/// SPS extension (alpha and auxiliary pictures).
pub const NAL_SPS_EXTENSION: u8 = 13;

/// SEI payload type of a recovery point (H.264 §D.2.8).
const SEI_RECOVERY_POINT: u32 = 6;
/// Most SPS the record's 5-bit count can hold.
const MAX_RECORD_SPS: usize = 31;
/// Most PPS the record's 8-bit count can hold.
const MAX_RECORD_PPS: usize = 255;

/// The NAL unit type of a unit's first byte.
pub const fn nal_type(first_byte: u8) -> u8 {
    first_byte & 0x1F
}

/// Whether a NAL unit type is a coded slice (types 1 to 5), the content of a picture.
pub const fn is_slice(nal_type: u8) -> bool {
    matches!(nal_type, NAL_SLICE..=NAL_IDR)
}

/// What an H.264 sequence header holds.
///
/// The parameter sets are copies, so that a config does not pin the message it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvcConfig {
    /// `AVCProfileIndication`.
    pub profile: u8,
    /// `profile_compatibility` (the constraint flags).
    pub compatibility: u8,
    /// `AVCLevelIndication`.
    pub level: u8,
    /// Bytes of the length in front of each NAL unit, 1..=4 as declared.
    pub nal_length_size: u8,
    /// Sequence parameter set NAL units without start code. May be empty (interop case 89).
    pub sps: Vec<Bytes>,
    /// Picture parameter set NAL units without start code. May be empty.
    pub pps: Vec<Bytes>,
    /// `chroma_format`, luma and chroma `bit_depth_minus8`, when the High profile tail is there.
    pub high: Option<HighFields>,
}

/// The tail of the record for High profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HighFields {
    /// `chroma_format`: 0 monochrome, 1 4:2:0, 2 4:2:2, 3 4:4:4.
    pub chroma_format: u8,
    /// `bit_depth_luma_minus8`.
    pub bit_depth_luma_minus8: u8,
    /// `bit_depth_chroma_minus8`.
    pub bit_depth_chroma_minus8: u8,
}

impl AvcConfig {
    /// Reads an `AVCDecoderConfigurationRecord`, or parameter sets as an Annex B byte stream,
    /// which some encoders put in its place (length size 4 is then assumed).
    ///
    /// Tolerated: no SPS or PPS, a missing High tail, bytes after the end, version 0, a length
    /// size of 3 (interop cases 88, 89).
    ///
    /// # Errors
    /// [`MediaError::Truncated`] when a set reaches past the end, [`MediaError::Invalid`] for an
    /// unknown version.
    pub fn parse(record: &[u8]) -> Result<Self, MediaError> {
        if nal::starts_like_annex_b(record) {
            return Self::from_annex_b(record);
        }
        let Some(([version, profile, compatibility, level, length_size, sps_count], rest)) =
            record.split_first_chunk::<6>()
        else {
            return Err(MediaError::Truncated {
                what: "avcC record",
                need: 6,
                have: record.len(),
            });
        };
        if *version > 1 {
            return Err(MediaError::Invalid {
                what: "avcC version",
                value: u64::from(*version),
            });
        }
        let mut rest = rest;
        let sps = take_sets(&mut rest, sps_count & 0x1F)?;
        let pps = match rest.split_first() {
            Some((count, after)) => {
                rest = after;
                take_sets(&mut rest, *count)?
            }
            None => Vec::new(),
        };
        Ok(Self {
            profile: *profile,
            compatibility: *compatibility,
            level: *level,
            nal_length_size: (length_size & 3) + 1,
            sps,
            pps,
            high: HighFields::parse(*profile, rest),
        })
    }

    /// Makes a config from parameter sets found in the stream itself, with 4-byte lengths
    /// (interop cases 85, 86).
    ///
    /// # Errors
    /// [`MediaError::Truncated`] when there is no SPS or it is under four bytes.
    pub fn from_parameter_sets(sps: Vec<Bytes>, pps: Vec<Bytes>) -> Result<Self, MediaError> {
        let first = sps.first().map_or(&[][..], |sps| sps);
        let Some([_, profile, compatibility, level]) = first.first_chunk::<4>().copied() else {
            return Err(MediaError::Truncated {
                what: "H.264 SPS",
                need: 4,
                have: first.len(),
            });
        };
        let high = parse_sps(first).and_then(|sps| HighFields::from_sps(profile, &sps));
        Ok(Self {
            profile,
            compatibility,
            level,
            nal_length_size: 4,
            sps,
            pps,
            high,
        })
    }

    fn from_annex_b(stream: &[u8]) -> Result<Self, MediaError> {
        let (mut sps, mut pps) = (Vec::new(), Vec::new());
        for unit in nal::annex_b(stream) {
            match unit.first().map(|byte| nal_type(*byte)) {
                Some(NAL_SPS) => sps.push(Bytes::copy_from_slice(unit)),
                Some(NAL_PPS) => pps.push(Bytes::copy_from_slice(unit)),
                _ => {}
            }
        }
        Self::from_parameter_sets(sps, pps)
    }

    /// The config with the parameter sets of one access unit taken in, or `None` when the access
    /// unit brings nothing new. In-band sets win over those of the sequence header (interop case
    /// 85); a set replaces the one with the same id.
    pub fn with_in_band(&self, access_unit: &[u8]) -> Option<Self> {
        let (mut sps, mut pps) = (Vec::new(), Vec::new());
        for unit in nal::length_prefixed(access_unit, self.nal_length_size).map_while(Result::ok) {
            match unit.first().map(|byte| nal_type(*byte)) {
                Some(NAL_SPS) => sps.push(unit),
                Some(NAL_PPS) => pps.push(unit),
                Some(kind) if is_slice(kind) => break,
                _ => {}
            }
        }
        let known = |set: &&[u8], sets: &[Bytes]| sets.iter().any(|have| have == *set);
        if sps.iter().all(|set| known(set, &self.sps)) && pps.iter().all(|set| known(set, &self.pps)) {
            return None;
        }
        let mut merged = Self {
            sps: merge_sets(&self.sps, &sps, sps_id, MAX_RECORD_SPS),
            pps: merge_sets(&self.pps, &pps, pps_id, MAX_RECORD_PPS),
            ..self.clone()
        };
        if let Some([_, profile, compatibility, level]) = sps.first().and_then(|sps| sps.first_chunk::<4>()) {
            (merged.profile, merged.compatibility, merged.level) = (*profile, *compatibility, *level);
            merged.high = sps
                .first()
                .and_then(|sps| parse_sps(sps))
                .and_then(|sps| HighFields::from_sps(*profile, &sps));
        }
        (merged != *self).then_some(merged)
    }

    /// Writes the record anew, always with a length size of 4 (interop case 88). Sets beyond the
    /// record's counts, or longer than 65,535 bytes, are left out.
    pub fn to_record(&self) -> Vec<u8> {
        let mut out = vec![1, self.profile, self.compatibility, self.level, 0xFF];
        push_sets(&mut out, 0xE0, &self.sps, MAX_RECORD_SPS);
        push_sets(&mut out, 0, &self.pps, MAX_RECORD_PPS);
        if let Some(high) = self.high {
            out.extend_from_slice(&[
                0xFC | high.chroma_format,
                0xF8 | high.bit_depth_luma_minus8,
                0xF8 | high.bit_depth_chroma_minus8,
                0,
            ]);
        }
        out
    }

    /// The RFC 6381 string, `avc1.PPCCLL`, from the SPS itself when there is one: the record's own
    /// bytes may differ from it (interop case 89).
    pub fn codec_string(&self) -> String {
        let (profile, compatibility, level) = match self.sps.first().and_then(|sps| sps.first_chunk::<4>()) {
            Some([_, profile, compatibility, level]) => (*profile, *compatibility, *level),
            None => (self.profile, self.compatibility, self.level),
        };
        format!("avc1.{profile:02X}{compatibility:02X}{level:02X}")
    }

    /// Size and rate from the first SPS that can be read, `None` when none can.
    pub fn geometry(&self) -> Option<Geometry> {
        self.sps.iter().find_map(|set| {
            let sps = parse_sps(set)?;
            let (width, height) = sps.pixel_dimensions().ok()?;
            Geometry::new(width, height, sps.fps())
        })
    }
}

impl HighFields {
    /// The tail after the parameter sets, which only High profiles have.
    fn parse(profile: u8, tail: &[u8]) -> Option<Self> {
        let [chroma, luma_depth, chroma_depth] = *tail.first_chunk::<3>()?;
        has_high_tail(profile).then_some(Self {
            chroma_format: chroma & 3,
            bit_depth_luma_minus8: luma_depth & 7,
            bit_depth_chroma_minus8: chroma_depth & 7,
        })
    }

    fn from_sps(profile: u8, sps: &SeqParameterSet) -> Option<Self> {
        has_high_tail(profile).then_some(Self {
            chroma_format: (sps.chroma_info.chroma_format.to_u32() & 3) as u8,
            bit_depth_luma_minus8: sps.chroma_info.bit_depth_luma_minus8 & 7,
            bit_depth_chroma_minus8: sps.chroma_info.bit_depth_chroma_minus8 & 7,
        })
    }
}

/// The profiles whose record has the High tail (ISO/IEC 14496-15 §5.3.3.1.2).
const fn has_high_tail(profile: u8) -> bool {
    !matches!(profile, 66 | 77 | 88)
}

/// Takes `count` sets, each behind a 16-bit length; empty ones are dropped.
fn take_sets(rest: &mut &[u8], count: u8) -> Result<Vec<Bytes>, MediaError> {
    let mut sets = Vec::new();
    for _ in 0..count {
        let truncated = |need, have| MediaError::Truncated {
            what: "avcC parameter set",
            need,
            have,
        };
        let (length, after) = rest.split_first_chunk::<2>().ok_or(truncated(2, rest.len()))?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (set, after) = after
            .split_at_checked(length)
            .ok_or(truncated(length, after.len()))?;
        *rest = after;
        if !set.is_empty() {
            sets.push(Bytes::copy_from_slice(set));
        }
    }
    Ok(sets)
}

/// Writes a count (with `marker` bits) and up to `most` sets.
fn push_sets(out: &mut Vec<u8>, marker: u8, sets: &[Bytes], most: usize) {
    let fitting = || {
        sets.iter()
            .filter(|set| set.len() <= usize::from(u16::MAX))
            .take(most)
    };
    out.push(marker | fitting().count() as u8);
    for set in fitting() {
        out.extend_from_slice(&(set.len() as u16).to_be_bytes());
        out.extend_from_slice(set);
    }
}

/// `old` with `new` put over it by id, at most `most` sets.
fn merge_sets(old: &[Bytes], new: &[&[u8]], id: fn(&[u8]) -> Option<u32>, most: usize) -> Vec<Bytes> {
    let old = old.iter().map(|set| (id(set), set.clone()));
    let new = new.iter().map(|set| (id(set), Bytes::copy_from_slice(set)));
    old.chain(new)
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .take(most)
        .collect()
}

/// `seq_parameter_set_id` of an SPS NAL unit.
fn sps_id(unit: &[u8]) -> Option<u32> {
    BitReader::new(&nal::unescape(unit.get(4..20.min(unit.len()))?))
        .ue()
        .ok()
}

/// `pic_parameter_set_id` of a PPS NAL unit.
fn pps_id(unit: &[u8]) -> Option<u32> {
    BitReader::new(&nal::unescape(unit.get(1..16.min(unit.len()))?))
        .ue()
        .ok()
}

/// Reads an SPS through h264-reader; `None` when it refuses it.
fn parse_sps(unit: &[u8]) -> Option<SeqParameterSet> {
    let payload = nal::unescape(nal::trim_trailing_zeros(unit).get(1..)?);
    SeqParameterSet::from_bits(rbsp::BitReader::new(&payload[..])).ok()
}

/// Whether the access unit has a coded slice of an IDR picture. The container's key flag may lie
/// (interop case 92). Stops at the first damaged NAL unit.
pub fn is_idr_access_unit(data: &[u8], nal_length_size: u8) -> bool {
    has_unit(data, nal_length_size, |unit| {
        unit.first().is_some_and(|byte| nal_type(*byte) == NAL_IDR)
    })
}

/// Whether the access unit has any coded slice. One without (only SEI, AUD, parameter sets) is
/// not a frame (interop case 91).
pub fn has_slice(data: &[u8], nal_length_size: u8) -> bool {
    has_unit(data, nal_length_size, |unit| {
        unit.first().is_some_and(|byte| is_slice(nal_type(*byte)))
    })
}

/// Whether the access unit has a recovery point SEI message, which lets decoding start at an open
/// GOP or intra refresh (interop case 92).
pub fn has_recovery_point(data: &[u8], nal_length_size: u8) -> bool {
    has_unit(data, nal_length_size, |unit| {
        unit.split_first()
            .is_some_and(|(head, payload)| nal_type(*head) == NAL_SEI && sei_has(payload, SEI_RECOVERY_POINT))
    })
}

fn has_unit(data: &[u8], nal_length_size: u8, wanted: impl Fn(&[u8]) -> bool) -> bool {
    nal::length_prefixed(data, nal_length_size)
        .map_while(Result::ok)
        .any(wanted)
}

/// Walks the messages of an SEI payload (H.264 §7.3.2.3.1).
fn sei_has(payload: &[u8], wanted: u32) -> bool {
    let payload = nal::unescape(payload);
    let mut rest = &payload[..];
    // Two bytes hold one message head; less is the trailing bits.
    while rest.len() >= 2 {
        let Some(kind) = sei_number(&mut rest) else {
            return false;
        };
        if kind == wanted {
            return true;
        }
        let Some(size) = sei_number(&mut rest) else {
            return false;
        };
        rest = rest.get(size as usize..).unwrap_or_default();
    }
    false
}

/// A number coded as 0xFF bytes and a last byte.
fn sei_number(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value = value.saturating_add(u32::from(*byte));
        if *byte != 0xFF {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests;
