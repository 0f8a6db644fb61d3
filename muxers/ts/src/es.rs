//! Elementary streams: length-prefixed access units to Annex B order, AAC frames to ADTS.

use bytes::Bytes;
use spillway_media::codec::CodecConfig;
use spillway_media::nal;

use crate::error::TsError;

/// NAL units one access unit may have: 8 slices × 3 planes and their SEI are tens; a megabyte of one-byte
/// units costs 16 bytes of list each, so the list stays under 64 KiB.
pub const MAX_NAL_UNITS: usize = 4096;

/// Start code written before each NAL unit (ISO/IEC 14496-10 Annex B).
pub(crate) const START_CODE: &[u8] = &[0, 0, 0, 1];

const AVC_AUD: &[u8] = &[0, 0, 0, 1, 0x09, 0xF0];
const HEVC_AUD: &[u8] = &[0, 0, 0, 1, 0x46, 0x01, 0x50];

/// How a video track's access units are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoFormat {
    /// H.265 instead of H.264.
    pub hevc: bool,
    /// Bytes of a NAL unit's length field.
    pub nal_length_size: u8,
}

/// What a NAL unit does in an access unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// H.265 video parameter set.
    Vps,
    /// Sequence parameter set.
    Sps,
    /// Picture parameter set.
    Pps,
    /// A slice of an instantaneous decoder refresh picture.
    RefreshSlice,
    /// Any other slice.
    Slice,
    /// SEI and everything else that travels with a picture.
    Other,
    /// Not carried over: delimiters (we write our own), filler, end markers.
    Dropped,
}

impl VideoFormat {
    fn role(self, unit: &[u8]) -> Role {
        let head = unit.first().copied().unwrap_or(0);
        if self.hevc {
            hevc_role((head >> 1) & 0x3F)
        } else {
            avc_role(head & 0x1F)
        }
    }

    fn delimiter(self) -> &'static [u8] {
        if self.hevc { HEVC_AUD } else { AVC_AUD }
    }
}

fn avc_role(unit_type: u8) -> Role {
    match unit_type {
        5 => Role::RefreshSlice,
        1..=4 => Role::Slice,
        7 => Role::Sps,
        8 => Role::Pps,
        0 | 9..=12 => Role::Dropped,
        _ => Role::Other,
    }
}

fn hevc_role(unit_type: u8) -> Role {
    match unit_type {
        // BLA_N_LP and the two IDR types: no leading picture refers to what was before.
        18..=20 => Role::RefreshSlice,
        0..=31 => Role::Slice,
        32 => Role::Vps,
        33 => Role::Sps,
        34 => Role::Pps,
        35..=38 => Role::Dropped,
        _ => Role::Other,
    }
}

/// One access unit, looked into: which NAL units will be written and what it is good for.
#[derive(Debug, Clone)]
pub struct AccessUnit<'a> {
    pub(crate) vps: Vec<&'a [u8]>,
    pub(crate) sps: Vec<&'a [u8]>,
    pub(crate) pps: Vec<&'a [u8]>,
    pub(crate) rest: Vec<&'a [u8]>,
    refresh: bool,
    picture: bool,
}

impl<'a> AccessUnit<'a> {
    /// Reads one access unit in the declared framing; a body that does not fit it but is Annex B is read as
    /// that (some encoders send no sequence header and start codes).
    ///
    /// # Errors
    /// [`TsError::PeerDamagedAccessUnit`] if neither framing fits, [`TsError::PeerTooManyNalUnits`] above
    /// [`MAX_NAL_UNITS`].
    pub fn parse(data: &'a [u8], format: VideoFormat) -> Result<Self, TsError> {
        let mut unit = Self {
            vps: Vec::new(),
            sps: Vec::new(),
            pps: Vec::new(),
            rest: Vec::new(),
            refresh: false,
            picture: false,
        };
        if nal::is_length_prefixed(data, format.nal_length_size) {
            for nal_unit in nal::length_prefixed(data, format.nal_length_size).flatten() {
                unit.add(nal_unit, format)?;
            }
        } else if nal::starts_like_annex_b(data) {
            for nal_unit in nal::annex_b(data) {
                unit.add(nal_unit, format)?;
            }
        } else if data.iter().any(|byte| *byte != 0) {
            // Nothing but zeros are empty NAL units: some cameras send such messages between pictures.
            return Err(TsError::PeerDamagedAccessUnit { bytes: data.len() });
        }
        Ok(unit)
    }

    fn add(&mut self, nal_unit: &'a [u8], format: VideoFormat) -> Result<(), TsError> {
        // A NAL unit never ends in a zero byte; what does belongs to the next start code.
        let nal_unit = nal::trim_trailing_zeros(nal_unit);
        if nal_unit.is_empty() {
            return Ok(());
        }
        if self.len() >= MAX_NAL_UNITS {
            return Err(TsError::PeerTooManyNalUnits { limit: MAX_NAL_UNITS });
        }
        match format.role(nal_unit) {
            Role::Vps => self.vps.push(nal_unit),
            Role::Sps => self.sps.push(nal_unit),
            Role::Pps => self.pps.push(nal_unit),
            Role::Dropped => {}
            role => {
                self.refresh |= role == Role::RefreshSlice;
                self.picture |= matches!(role, Role::RefreshSlice | Role::Slice);
                self.rest.push(nal_unit);
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.vps.len() + self.sps.len() + self.pps.len() + self.rest.len()
    }

    /// Whether the picture needs nothing that came before it (H.264 IDR; H.265 IDR or BLA without leading
    /// pictures).
    pub fn is_refresh(&self) -> bool {
        self.refresh
    }

    /// Whether there is a picture at all; parameter sets and SEI alone wait for the next one.
    pub fn has_picture(&self) -> bool {
        self.picture
    }
}

/// The parameter sets in force: from the sequence header, replaced by newer ones in band.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParameterSets {
    vps: Vec<Bytes>,
    sps: Vec<Bytes>,
    pps: Vec<Bytes>,
}

impl ParameterSets {
    pub(crate) fn of(config: &CodecConfig) -> Self {
        match config {
            CodecConfig::Avc(avc) => Self {
                vps: Vec::new(),
                sps: avc.sps.clone(),
                pps: avc.pps.clone(),
            },
            CodecConfig::Hevc(hevc) => Self {
                vps: hevc.vps.clone(),
                sps: hevc.sps.clone(),
                pps: hevc.pps.clone(),
            },
            _ => Self::default(),
        }
    }

    /// Takes over the parameter sets an access unit brings in band.
    pub(crate) fn update(&mut self, unit: &AccessUnit<'_>) {
        update_list(&mut self.vps, &unit.vps);
        update_list(&mut self.sps, &unit.sps);
        update_list(&mut self.pps, &unit.pps);
    }
}

fn update_list(known: &mut Vec<Bytes>, in_band: &[&[u8]]) {
    let same = known.len() == in_band.len() && known.iter().zip(in_band).all(|(a, b)| a == b);
    if !in_band.is_empty() && !same {
        // Copied, so that a few bytes do not keep a whole frame's buffer alive.
        *known = in_band.iter().map(|unit| Bytes::copy_from_slice(unit)).collect();
    }
}

/// The rope of one access unit in the order AUD, parameter sets, the rest.
///
/// At an access point every parameter set is there exactly once; elsewhere only those that came in band.
/// `held` are NAL units of earlier messages without a picture.
pub(crate) fn rope<'a>(
    unit: &AccessUnit<'a>,
    held: &'a [Bytes],
    sets: &'a ParameterSets,
    format: VideoFormat,
    access_point: bool,
) -> Vec<&'a [u8]> {
    let mut rope = Vec::with_capacity(2 * (unit.len() + held.len() + 4) + 2);
    // Slot for the PES header, filled by the caller.
    rope.push(&[][..]);
    rope.push(format.delimiter());
    let mut push = |nal_unit: &'a [u8]| {
        rope.push(START_CODE);
        rope.push(nal_unit);
    };
    if access_point {
        sets.vps
            .iter()
            .chain(&sets.sps)
            .chain(&sets.pps)
            .for_each(|set| push(set));
    } else {
        unit.vps
            .iter()
            .chain(&unit.sps)
            .chain(&unit.pps)
            .for_each(|set| push(set));
    }
    held.iter().for_each(|nal_unit| push(nal_unit));
    unit.rest.iter().for_each(|nal_unit| push(nal_unit));
    rope
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AVC: VideoFormat = VideoFormat {
        hevc: false,
        nal_length_size: 4,
    };

    fn avcc(units: &[&[u8]], size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for unit in units {
            out.extend_from_slice(&(unit.len() as u32).to_be_bytes()[4 - size..]);
            out.extend_from_slice(unit);
        }
        out
    }

    fn sets() -> ParameterSets {
        ParameterSets {
            vps: vec![],
            sps: vec![Bytes::from_static(&[0x67, 1])],
            pps: vec![Bytes::from_static(&[0x68, 1])],
        }
    }

    fn written(data: &[u8], access_point: bool, in_band_first: bool) -> Vec<Vec<u8>> {
        let unit = AccessUnit::parse(data, AVC).unwrap();
        let mut sets = sets();
        if in_band_first {
            sets.update(&unit);
        }
        let bytes = rope(&unit, &[], &sets, AVC, access_point).concat();
        nal::annex_b(&bytes).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn a_key_frame_gets_delimiter_and_parameter_sets_once() {
        let data = avcc(
            &[
                &[0x09, 0x10],
                &[0x06, 5, 1],
                &[0x65, 7, 7],
                &[0x0C, 0xFF],
                &[0x65, 8],
            ],
            4,
        );
        assert_eq!(
            written(&data, true, true),
            [
                vec![0x09, 0xF0],
                vec![0x67, 1],
                vec![0x68, 1],
                vec![0x06, 5, 1],
                vec![0x65, 7, 7],
                vec![0x65, 8]
            ]
        );
    }

    #[test]
    fn in_band_parameter_sets_win_and_are_not_doubled() {
        let data = avcc(&[&[0x67, 9], &[0x68, 9], &[0x65, 7]], 4);
        assert_eq!(
            written(&data, true, true),
            [vec![0x09, 0xF0], vec![0x67, 9], vec![0x68, 9], vec![0x65, 7]]
        );
    }

    #[test]
    fn other_frames_get_only_the_delimiter() {
        let data = avcc(&[&[0x41, 7, 0, 0]], 4);
        assert_eq!(written(&data, false, true), [vec![0x09, 0xF0], vec![0x41, 7]]);
    }

    #[test]
    fn every_length_size_is_read() {
        for size in [1usize, 2, 4] {
            let data = avcc(&[&[0x65, 1, 2], &[0x41, 3]], size);
            let format = VideoFormat {
                hevc: false,
                nal_length_size: size as u8,
            };
            let unit = AccessUnit::parse(&data, format).unwrap();
            assert!(unit.is_refresh() && unit.has_picture());
            assert_eq!(unit.rest.len(), 2);
        }
    }

    #[test]
    fn a_truncated_unit_is_refused_and_annex_b_is_read() {
        let mut data = avcc(&[&[0x65, 1, 2]], 4);
        data.pop();
        assert!(matches!(
            AccessUnit::parse(&data, AVC),
            Err(TsError::PeerDamagedAccessUnit { .. })
        ));
        let annex_b = [0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x65, 9];
        let unit = AccessUnit::parse(&annex_b, AVC).unwrap();
        assert!(unit.is_refresh());
        assert_eq!(unit.sps, [&[0x67, 1][..]]);
    }

    #[test]
    fn units_without_a_picture_are_seen_as_such() {
        for units in [
            &[&[0x06, 5, 1][..]][..],
            &[&[0x09, 0xF0][..], &[0x0C, 0xFF][..]][..],
            &[&[][..]][..],
            &[][..],
        ] {
            let data = avcc(units, 4);
            assert!(!AccessUnit::parse(&data, AVC).unwrap().has_picture());
        }
    }

    #[test]
    fn hevc_refresh_is_idr_but_not_cra() {
        let format = VideoFormat {
            hevc: true,
            nal_length_size: 4,
        };
        let refresh = |unit_type: u8| {
            let data = avcc(&[&[unit_type << 1, 1, 0x80]], 4);
            AccessUnit::parse(&data, format).unwrap().is_refresh()
        };
        assert!(refresh(19) && refresh(20));
        assert!(!refresh(21) && !refresh(1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..400), size in 0u8..6, hevc: bool) {
            if let Ok(unit) = AccessUnit::parse(&data, VideoFormat { hevc, nal_length_size: size }) {
                prop_assert!(unit.len() <= data.len());
            }
        }
    }
}
