//! The sequence parameter set as far as size and rate need it (H.265 §7.3.2.2, §7.3.3, §E.2.1).

use crate::bits::BitReader;
use crate::error::MediaError;
use crate::geometry::Geometry;
use crate::nal;

/// Bytes of the NAL unit header.
const NAL_HEADER_LEN: usize = 2;
/// `num_short_term_ref_pic_sets` is at most this (§7.4.3.2.1).
const MAX_SHORT_TERM_SETS: u32 = 64;
/// Pictures in one short-term set are at most this (`sps_max_dec_pic_buffering_minus1`).
const MAX_SET_PICTURES: u32 = 16;
/// `num_long_term_ref_pics_sps` is at most this.
const MAX_LONG_TERM_PICTURES: u32 = 32;
/// `aspect_ratio_idc` for an explicit ratio.
const EXTENDED_SAR: u8 = 255;

/// The general part of `profile_tier_level()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProfileTierLevel {
    pub(super) profile_space: u8,
    pub(super) high_tier: bool,
    pub(super) profile: u8,
    pub(super) compatibility: u32,
    pub(super) constraints: [u8; 6],
    pub(super) level: u8,
}

impl ProfileTierLevel {
    /// Reads it out of an SPS NAL unit.
    pub(super) fn of_sps(unit: &[u8]) -> Result<Self, MediaError> {
        let payload = nal::unescape(unit.get(NAL_HEADER_LEN..).unwrap_or_default());
        let mut bits = BitReader::new(&payload);
        bits.skip(4 + 3 + 1)?;
        Self::parse(&mut bits)
    }

    fn parse(bits: &mut BitReader<'_>) -> Result<Self, MediaError> {
        let (profile_space, high_tier, profile) = (bits.byte(2)?, bits.bit()?, bits.byte(5)?);
        let compatibility = bits.bits(32)?;
        let mut constraints = [0; 6];
        for byte in &mut constraints {
            *byte = bits.byte(8)?;
        }
        Ok(Self {
            profile_space,
            high_tier,
            profile,
            compatibility,
            constraints,
            level: bits.byte(8)?,
        })
    }

    /// ISO/IEC 14496-15 §E.3: compatibility flags in reverse bit order, constraint bytes without
    /// the trailing zero ones.
    pub(super) fn codec_string(&self) -> String {
        let space = ["", "A", "B", "C"]
            .get(usize::from(self.profile_space))
            .copied()
            .unwrap_or_default();
        let tier = if self.high_tier { 'H' } else { 'L' };
        let compatibility = self.compatibility.reverse_bits();
        let mut text = format!(
            "hvc1.{space}{}.{compatibility:X}.{tier}{}",
            self.profile, self.level
        );
        let used = self
            .constraints
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        for byte in self.constraints.iter().take(used) {
            text.push_str(&format!(".{byte:X}"));
        }
        text
    }
}

/// The fields of an SPS that this crate uses.
#[derive(Debug, Clone)]
pub(super) struct Sps {
    /// `sps_max_sub_layers_minus1` + 1, 1..=7.
    pub(super) temporal_layers: u8,
    pub(super) temporal_id_nesting: bool,
    /// `chroma_format_idc`, 0..=3.
    pub(super) chroma_format: u8,
    pub(super) luma_depth_minus8: u8,
    pub(super) chroma_depth_minus8: u8,
    width: u32,
    height: u32,
    frame_rate: Option<f64>,
}

impl Sps {
    /// Reads an SPS NAL unit. Fields after the size are read as far as they make sense: an error
    /// there costs the frame rate only (interop case 98).
    pub(super) fn parse(unit: &[u8]) -> Result<Self, MediaError> {
        let unit = nal::trim_trailing_zeros(unit);
        let payload = nal::unescape(unit.get(NAL_HEADER_LEN..).unwrap_or_default());
        let mut bits = BitReader::new(&payload);
        bits.skip(4)?;
        let sub_layers_minus1 = bits.byte(3)?;
        let temporal_id_nesting = bits.bit()?;
        ProfileTierLevel::parse(&mut bits)?;
        skip_sub_layer_levels(&mut bits, sub_layers_minus1)?;
        bits.ue()?;
        let chroma_format = at_most("chroma_format_idc", bits.ue()?, 3)? as u8;
        if chroma_format == 3 {
            bits.skip(1)?;
        }
        let (coded_width, coded_height) = (bits.ue()?, bits.ue()?);
        let crop = if bits.bit()? {
            [bits.ue()?, bits.ue()?, bits.ue()?, bits.ue()?]
        } else {
            [0; 4]
        };
        let (step_x, step_y) = match chroma_format {
            1 => (2, 2),
            2 => (2, 1),
            _ => (1, 1),
        };
        let [left, right, top, bottom] = crop;
        let width = cropped(coded_width, left, right, step_x).ok_or(invalid("conformance window", left))?;
        let height = cropped(coded_height, top, bottom, step_y).ok_or(invalid("conformance window", top))?;
        let mut sps = Self {
            temporal_layers: sub_layers_minus1 + 1,
            temporal_id_nesting,
            chroma_format,
            luma_depth_minus8: at_most("bit_depth_luma_minus8", bits.ue()?, 7)? as u8,
            chroma_depth_minus8: at_most("bit_depth_chroma_minus8", bits.ue()?, 7)? as u8,
            width,
            height,
            frame_rate: None,
        };
        sps.frame_rate = frame_rate(&mut bits, sub_layers_minus1).ok().flatten();
        Ok(sps)
    }

    /// Size and rate, `None` for an empty picture.
    pub(super) fn geometry(&self) -> Option<Geometry> {
        Geometry::new(self.width, self.height, self.frame_rate)
    }
}

fn invalid(what: &'static str, value: u32) -> MediaError {
    MediaError::Invalid {
        what,
        value: u64::from(value),
    }
}

fn at_most(what: &'static str, value: u32, most: u32) -> Result<u32, MediaError> {
    if value > most {
        Err(invalid(what, value))
    } else {
        Ok(value)
    }
}

fn cropped(size: u32, before: u32, after: u32, step: u32) -> Option<u32> {
    size.checked_sub(before.checked_mul(step)?)?
        .checked_sub(after.checked_mul(step)?)
}

/// The per-sub-layer part of `profile_tier_level()`.
fn skip_sub_layer_levels(bits: &mut BitReader<'_>, sub_layers_minus1: u8) -> Result<(), MediaError> {
    if sub_layers_minus1 == 0 {
        return Ok(());
    }
    let mut skip = 0;
    for _ in 0..sub_layers_minus1 {
        let (profile, level) = (bits.bit()?, bits.bit()?);
        skip += usize::from(profile) * 88 + usize::from(level) * 8;
    }
    bits.skip(usize::from(8 - sub_layers_minus1) * 2)?;
    bits.skip(skip)
}

/// Walks from `log2_max_pic_order_cnt_lsb_minus4` to the timing information of the VUI.
fn frame_rate(bits: &mut BitReader<'_>, sub_layers_minus1: u8) -> Result<Option<f64>, MediaError> {
    let order_bits = at_most("log2_max_pic_order_cnt_lsb_minus4", bits.ue()?, 12)? + 4;
    let all_sub_layers = bits.bit()?;
    for _ in 0..if all_sub_layers { sub_layers_minus1 + 1 } else { 1 } {
        skip_codes(bits, 3)?;
    }
    skip_codes(bits, 6)?;
    if bits.bit()? && bits.bit()? {
        skip_scaling_lists(bits)?;
    }
    bits.skip(2)?;
    if bits.bit()? {
        bits.skip(8)?;
        skip_codes(bits, 2)?;
        bits.skip(1)?;
    }
    skip_short_term_sets(bits)?;
    if bits.bit()? {
        let count = at_most("num_long_term_ref_pics_sps", bits.ue()?, MAX_LONG_TERM_PICTURES)?;
        bits.skip(count as usize * (order_bits as usize + 1))?;
    }
    bits.skip(2)?;
    if !bits.bit()? {
        return Ok(None);
    }
    vui_frame_rate(bits)
}

fn skip_codes(bits: &mut BitReader<'_>, count: u32) -> Result<(), MediaError> {
    for _ in 0..count {
        bits.ue()?;
    }
    Ok(())
}

/// `scaling_list_data()` (§7.3.4).
fn skip_scaling_lists(bits: &mut BitReader<'_>) -> Result<(), MediaError> {
    for size in 0..4u32 {
        for _ in (0..6).step_by(if size == 3 { 3 } else { 1 }) {
            if !bits.bit()? {
                bits.ue()?;
                continue;
            }
            if size > 1 {
                bits.se()?;
            }
            skip_codes(bits, 64.min(1 << (4 + (size << 1))))?;
        }
    }
    Ok(())
}

/// The short-term reference picture sets (§7.3.7); each may be coded as a change of the one before.
fn skip_short_term_sets(bits: &mut BitReader<'_>) -> Result<(), MediaError> {
    let count = at_most("num_short_term_ref_pic_sets", bits.ue()?, MAX_SHORT_TERM_SETS)?;
    let mut pictures = 0;
    for index in 0..count {
        if index > 0 && bits.bit()? {
            bits.bit()?;
            bits.ue()?;
            let mut kept = 0;
            for _ in 0..=pictures {
                let used = bits.bit()?;
                let use_delta = used || bits.bit()?;
                kept += u32::from(use_delta);
            }
            pictures = at_most("pictures of a reference set", kept, MAX_SET_PICTURES)?;
        } else {
            let before = at_most("num_negative_pics", bits.ue()?, MAX_SET_PICTURES)?;
            let after = at_most("num_positive_pics", bits.ue()?, MAX_SET_PICTURES)?;
            pictures = at_most("pictures of a reference set", before + after, MAX_SET_PICTURES)?;
            for _ in 0..pictures {
                bits.ue()?;
                bits.bit()?;
            }
        }
    }
    Ok(())
}

/// `vui_parameters()` up to `vui_time_scale` (§E.2.1).
fn vui_frame_rate(bits: &mut BitReader<'_>) -> Result<Option<f64>, MediaError> {
    if bits.bit()? && bits.byte(8)? == EXTENDED_SAR {
        bits.skip(32)?;
    }
    if bits.bit()? {
        bits.skip(1)?;
    }
    if bits.bit()? {
        bits.skip(4)?;
        if bits.bit()? {
            bits.skip(24)?;
        }
    }
    if bits.bit()? {
        skip_codes(bits, 2)?;
    }
    bits.skip(3)?;
    if bits.bit()? {
        skip_codes(bits, 4)?;
    }
    if !bits.bit()? {
        return Ok(None);
    }
    let (units_in_tick, time_scale) = (bits.bits(32)?, bits.bits(32)?);
    Ok((units_in_tick > 0).then(|| f64::from(time_scale) / f64::from(units_in_tick)))
}
