//! H.265: the decoder configuration record (ISO/IEC 14496-15 §8.3.3) and access unit inspection
//! (H.265 §7.3, §7.4).

use bytes::Bytes;

use crate::error::MediaError;
use crate::geometry::Geometry;
use crate::nal;

mod sps;

use sps::{ProfileTierLevel, Sps};

/// First of the intra random access point types (BLA_W_LP).
pub const NAL_BLA_W_LP: u8 = 16;
/// IDR with leading pictures.
pub const NAL_IDR_W_RADL: u8 = 19;
/// IDR without leading pictures.
pub const NAL_IDR_N_LP: u8 = 20;
/// Clean random access picture.
pub const NAL_CRA: u8 = 21;
/// Last of the intra random access point types (reserved).
pub const NAL_RSV_IRAP_VCL23: u8 = 23;
/// Video parameter set.
pub const NAL_VPS: u8 = 32;
/// Sequence parameter set.
pub const NAL_SPS: u8 = 33;
/// Picture parameter set.
pub const NAL_PPS: u8 = 34;
/// Access unit delimiter.
pub const NAL_AUD: u8 = 35;
/// End of sequence.
pub const NAL_END_OF_SEQUENCE: u8 = 36;
/// End of bitstream.
pub const NAL_END_OF_BITSTREAM: u8 = 37;
/// Filler data.
pub const NAL_FILLER: u8 = 38;
/// SEI in front of the picture.
pub const NAL_PREFIX_SEI: u8 = 39;
/// SEI after the picture.
pub const NAL_SUFFIX_SEI: u8 = 40;

/// Bytes of the record before its arrays.
const RECORD_HEAD_LEN: usize = 23;

/// The NAL unit type of a unit's first byte.
pub const fn nal_type(first_byte: u8) -> u8 {
    first_byte >> 1 & 0x3F
}

/// Whether a NAL unit type is a slice of a picture (VCL, 0 to 31).
pub const fn is_slice(nal_type: u8) -> bool {
    nal_type < 32
}

/// Whether a NAL unit type is a random access point: IDR, CRA or BLA (interop case 92).
pub const fn is_irap(nal_type: u8) -> bool {
    matches!(nal_type, NAL_BLA_W_LP..=NAL_RSV_IRAP_VCL23)
}

/// What an H.265 sequence header holds. The parameter sets are copies, so that a config does not
/// pin the message it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HevcConfig {
    /// `general_profile_space`, 0..=3.
    pub profile_space: u8,
    /// `general_tier_flag`: high tier.
    pub high_tier: bool,
    /// `general_profile_idc`, 0..=31.
    pub profile: u8,
    /// `general_profile_compatibility_flags`, first flag in the highest bit.
    pub compatibility: u32,
    /// `general_constraint_indicator_flags`, six bytes.
    pub constraints: [u8; 6],
    /// `general_level_idc`, thirty times the level.
    pub level: u8,
    /// Bytes of the length in front of each NAL unit, 1..=4 as declared.
    pub nal_length_size: u8,
    /// Video parameter set NAL units. May be empty.
    pub vps: Vec<Bytes>,
    /// Sequence parameter set NAL units. May be empty.
    pub sps: Vec<Bytes>,
    /// Picture parameter set NAL units. May be empty.
    pub pps: Vec<Bytes>,
}

impl HevcConfig {
    /// Reads an `HEVCDecoderConfigurationRecord`, or parameter sets as an Annex B byte stream
    /// (length size 4 is then assumed). Other arrays (SEI) are left out.
    ///
    /// Tolerated: version 0, absent arrays, several sets, bytes after the end (interop case 98).
    ///
    /// # Errors
    /// [`MediaError::Truncated`] when a set reaches past the end, [`MediaError::Invalid`] for an
    /// unknown version.
    pub fn parse(record: &[u8]) -> Result<Self, MediaError> {
        if nal::starts_like_annex_b(record) {
            return Self::from_annex_b(record);
        }
        let Some((head, mut rest)) = record.split_first_chunk::<RECORD_HEAD_LEN>() else {
            let have = record.len();
            return Err(MediaError::Truncated {
                what: "hvcC record",
                need: RECORD_HEAD_LEN,
                have,
            });
        };
        let [
            version,
            profile,
            c0,
            c1,
            c2,
            c3,
            i0,
            i1,
            i2,
            i3,
            i4,
            i5,
            level,
            ..,
            length_size,
            arrays,
        ] = *head;
        if version > 1 {
            return Err(MediaError::Invalid {
                what: "hvcC version",
                value: u64::from(version),
            });
        }
        let mut config = Self {
            profile_space: profile >> 6,
            high_tier: profile & 0x20 != 0,
            profile: profile & 0x1F,
            compatibility: u32::from_be_bytes([c0, c1, c2, c3]),
            constraints: [i0, i1, i2, i3, i4, i5],
            level,
            nal_length_size: (length_size & 3) + 1,
            vps: Vec::new(),
            sps: Vec::new(),
            pps: Vec::new(),
        };
        for _ in 0..arrays {
            config.take_array(&mut rest)?;
        }
        Ok(config)
    }

    /// Makes a config from parameter sets found in the stream itself, with 4-byte lengths.
    ///
    /// # Errors
    /// [`MediaError::Truncated`] when there is no SPS or its profile and level cannot be read.
    pub fn from_parameter_sets(
        vps: Vec<Bytes>,
        sps: Vec<Bytes>,
        pps: Vec<Bytes>,
    ) -> Result<Self, MediaError> {
        let first = sps.first().map_or(&[][..], |sps| sps);
        let level = ProfileTierLevel::of_sps(first)?;
        Ok(Self {
            profile_space: level.profile_space,
            high_tier: level.high_tier,
            profile: level.profile,
            compatibility: level.compatibility,
            constraints: level.constraints,
            level: level.level,
            nal_length_size: 4,
            vps,
            sps,
            pps,
        })
    }

    fn from_annex_b(stream: &[u8]) -> Result<Self, MediaError> {
        let (mut vps, mut sps, mut pps) = (Vec::new(), Vec::new(), Vec::new());
        for unit in nal::annex_b(stream) {
            match unit.first().map(|byte| nal_type(*byte)) {
                Some(NAL_VPS) => vps.push(Bytes::copy_from_slice(unit)),
                Some(NAL_SPS) => sps.push(Bytes::copy_from_slice(unit)),
                Some(NAL_PPS) => pps.push(Bytes::copy_from_slice(unit)),
                _ => {}
            }
        }
        Self::from_parameter_sets(vps, sps, pps)
    }

    /// Takes one array of NAL units of one type. An array whose head is missing ends the record
    /// without an error; the counts of some encoders are wrong.
    fn take_array(&mut self, rest: &mut &[u8]) -> Result<(), MediaError> {
        let Some(([kind, count @ ..], after)) = rest.split_first_chunk::<3>() else {
            return Ok(());
        };
        *rest = after;
        let truncated = |need, have| MediaError::Truncated {
            what: "hvcC parameter set",
            need,
            have,
        };
        for _ in 0..u16::from_be_bytes(*count) {
            let (length, after) = rest.split_first_chunk::<2>().ok_or(truncated(2, rest.len()))?;
            let length = usize::from(u16::from_be_bytes(*length));
            let (set, after) = after
                .split_at_checked(length)
                .ok_or(truncated(length, after.len()))?;
            *rest = after;
            if set.is_empty() {
                continue;
            }
            match kind & 0x3F {
                NAL_VPS => self.vps.push(Bytes::copy_from_slice(set)),
                NAL_SPS => self.sps.push(Bytes::copy_from_slice(set)),
                NAL_PPS => self.pps.push(Bytes::copy_from_slice(set)),
                _ => {}
            }
        }
        Ok(())
    }

    /// The config with the parameter sets of one access unit put in place of its own, or `None`
    /// when the access unit brings no SPS or nothing new. In-band sets win (interop case 85).
    pub fn with_in_band(&self, access_unit: &[u8]) -> Option<Self> {
        let (mut vps, mut sps, mut pps) = (Vec::new(), Vec::new(), Vec::new());
        for unit in nal::length_prefixed(access_unit, self.nal_length_size).map_while(Result::ok) {
            match unit.first().map(|byte| nal_type(*byte)) {
                Some(NAL_VPS) => vps.push(Bytes::copy_from_slice(unit)),
                Some(NAL_SPS) => sps.push(Bytes::copy_from_slice(unit)),
                Some(NAL_PPS) => pps.push(Bytes::copy_from_slice(unit)),
                Some(kind) if is_slice(kind) => break,
                _ => {}
            }
        }
        let or_own = |found: Vec<Bytes>, own: &Vec<Bytes>| if found.is_empty() { own.clone() } else { found };
        let (vps, pps) = (or_own(vps, &self.vps), or_own(pps, &self.pps));
        if sps.is_empty() || (sps == self.sps && pps == self.pps && vps == self.vps) {
            return None;
        }
        let mut merged = Self::from_parameter_sets(vps, sps, pps).ok()?;
        merged.nal_length_size = self.nal_length_size;
        Some(merged)
    }

    /// Writes the record anew, always with a length size of 4 (interop case 88). Sets beyond the
    /// record's counts, or longer than 65,535 bytes, are left out.
    pub fn to_record(&self) -> Vec<u8> {
        let sps = self.sps.first().and_then(|set| Sps::parse(set).ok());
        let chroma_format = sps.as_ref().map_or(1, |sps| sps.chroma_format);
        let (luma, chroma) = sps
            .as_ref()
            .map_or((0, 0), |sps| (sps.luma_depth_minus8, sps.chroma_depth_minus8));
        let layers = sps.as_ref().map_or(1, |sps| sps.temporal_layers);
        let nested = sps.as_ref().is_some_and(|sps| sps.temporal_id_nesting);
        let mut out = vec![
            1,
            self.profile_space << 6 | u8::from(self.high_tier) << 5 | self.profile & 0x1F,
        ];
        out.extend_from_slice(&self.compatibility.to_be_bytes());
        out.extend_from_slice(&self.constraints);
        out.extend_from_slice(&[
            self.level,
            0xF0,
            0,
            0xFC,
            0xFC | chroma_format,
            0xF8 | luma,
            0xF8 | chroma,
            0,
            0,
        ]);
        out.push(layers << 3 | u8::from(nested) << 2 | 3);
        let arrays = [(NAL_VPS, &self.vps), (NAL_SPS, &self.sps), (NAL_PPS, &self.pps)];
        out.push(arrays.iter().filter(|(_, sets)| !sets.is_empty()).count() as u8);
        for (kind, sets) in arrays {
            push_array(&mut out, kind, sets);
        }
        out
    }

    /// The RFC 6381 string (ISO/IEC 14496-15 §E.3), `hvc1.…`, from the SPS itself when it can be
    /// read.
    pub fn codec_string(&self) -> String {
        let own = ProfileTierLevel {
            profile_space: self.profile_space,
            high_tier: self.high_tier,
            profile: self.profile,
            compatibility: self.compatibility,
            constraints: self.constraints,
            level: self.level,
        };
        self.sps
            .first()
            .and_then(|sps| ProfileTierLevel::of_sps(sps).ok())
            .unwrap_or(own)
            .codec_string()
    }

    /// Size and rate from the first SPS that can be read, `None` when none can.
    pub fn geometry(&self) -> Option<Geometry> {
        self.sps.iter().find_map(|set| Sps::parse(set).ok()?.geometry())
    }
}

fn push_array(out: &mut Vec<u8>, kind: u8, sets: &[Bytes]) {
    if sets.is_empty() {
        return;
    }
    let most = usize::from(u16::MAX);
    let fitting = || sets.iter().filter(|set| set.len() <= most).take(most);
    // The top bit says that all sets of this type are here.
    out.push(0x80 | kind);
    out.extend_from_slice(&(fitting().count() as u16).to_be_bytes());
    for set in fitting() {
        out.extend_from_slice(&(set.len() as u16).to_be_bytes());
        out.extend_from_slice(set);
    }
}

/// Whether the access unit has a slice of a random access picture (IDR, CRA, BLA). Stops at the
/// first damaged NAL unit.
pub fn is_irap_access_unit(data: &[u8], nal_length_size: u8) -> bool {
    has_unit(data, nal_length_size, is_irap)
}

/// Whether the access unit has any slice. One without is not a frame (interop case 91).
pub fn has_slice(data: &[u8], nal_length_size: u8) -> bool {
    has_unit(data, nal_length_size, is_slice)
}

fn has_unit(data: &[u8], nal_length_size: u8, wanted: impl Fn(u8) -> bool) -> bool {
    nal::length_prefixed(data, nal_length_size)
        .map_while(Result::ok)
        .any(|unit| unit.first().is_some_and(|byte| wanted(nal_type(*byte))))
}

#[cfg(test)]
mod tests;
