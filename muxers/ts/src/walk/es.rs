//! Rules inside the elementary streams.

use spillway_media::nal;

use super::{Pes, Violation, broken, ensure};

/// The NAL unit types that matter, by codec.
pub(super) struct NalTypes {
    of: fn(&[u8]) -> u8,
    delimiter: u8,
    refresh: &'static [u8],
    required: &'static [u8],
    slices: fn(u8) -> bool,
}

pub(super) const AVC: NalTypes = NalTypes {
    of: |unit| unit.first().map_or(0, |head| head & 0x1F),
    delimiter: 9,
    refresh: &[5],
    required: &[7, 8],
    slices: |unit_type| (1..=5).contains(&unit_type),
};
pub(super) const HEVC: NalTypes = NalTypes {
    of: |unit| unit.first().map_or(0, |head| head >> 1 & 0x3F),
    delimiter: 35,
    refresh: &[18, 19, 20],
    required: &[32, 33, 34],
    slices: |unit_type| unit_type < 32,
};

pub(super) fn check_access_unit(pes: &Pes, types: &NalTypes) -> Result<(), Violation> {
    let at = pes.start_packet;
    ensure(
        pes.data.starts_with(&[0, 0, 0, 1]),
        "T18",
        at,
        "no four-byte start code",
    )?;
    let units: Vec<&[u8]> = nal::annex_b(&pes.data).collect();
    let kinds: Vec<u8> = units.iter().map(|unit| (types.of)(unit)).collect();
    ensure(
        kinds.first() == Some(&types.delimiter),
        "T16",
        at,
        "delimiter is not first",
    )?;
    let delimiters = kinds.iter().filter(|kind| **kind == types.delimiter).count();
    ensure(delimiters == 1, "T16", at, "more than one delimiter")?;
    let first_slice = kinds.iter().position(|kind| (types.slices)(*kind));
    let first_slice = first_slice.ok_or_else(|| broken("T26", at, "access unit without a picture"))?;
    if kinds.iter().any(|kind| types.refresh.contains(kind)) {
        ensure(
            pes.random_access,
            "T19",
            at,
            "refresh picture without random access indicator",
        )?;
        for required in types.required {
            let places: Vec<usize> = (0..kinds.len()).filter(|i| kinds[*i] == *required).collect();
            ensure(
                places.first().is_some_and(|i| *i < first_slice),
                "T17",
                at,
                "parameter set missing",
            )?;
            let mut sets: Vec<&[u8]> = places.iter().map(|i| units[*i]).collect();
            sets.sort_unstable();
            ensure(
                sets.windows(2).all(|pair| pair[0] != pair[1]),
                "T17",
                at,
                "parameter set twice",
            )?;
        }
    }
    Ok(())
}

pub(super) fn check_adts(pes: &Pes) -> Result<(), Violation> {
    let at = pes.start_packet;
    let mut rest = &pes.data[..];
    while !rest.is_empty() {
        let &[0xFF, sync, rate, length_high, length, length_low, _, ..] = rest else {
            return Err(broken("T20", at, "no ADTS header"));
        };
        ensure(
            sync & 0xF6 == 0xF0 && (rate >> 2) & 0x0F < 13,
            "T20",
            at,
            "ADTS header fields",
        )?;
        let bytes =
            usize::from(length_high & 3) << 11 | usize::from(length) << 3 | usize::from(length_low >> 5);
        ensure(bytes > 7, "T20", at, "ADTS frame length")?;
        rest = rest
            .get(bytes..)
            .ok_or_else(|| broken("T20", at, "ADTS frame cut short"))?;
    }
    Ok(())
}
