//! Rules of packets, sections and PES headers.

use super::{Pes, Violation, broken, ensure};

/// One transport packet, taken apart.
pub(super) struct Packet<'a> {
    pub(super) index: usize,
    pub(super) pid: u16,
    pub(super) unit_start: bool,
    pub(super) counter: u8,
    pub(super) random_access: bool,
    pub(super) discontinuity: bool,
    pub(super) pcr: Option<u64>,
    pub(super) payload: Option<&'a [u8]>,
}

pub(super) fn parse_packet(index: usize, raw: &[u8]) -> Result<Packet<'_>, Violation> {
    let &[sync, high, low, flags, ..] = raw else {
        return Err(broken("T1", index, "short packet"));
    };
    ensure(sync == 0x47, "T1", index, "no sync byte")?;
    ensure(
        high & 0x80 == 0 && flags & 0xC0 == 0,
        "T1",
        index,
        "error or scrambling bits",
    )?;
    let mut packet = Packet {
        index,
        pid: u16::from_be_bytes([high & 0x1F, low]),
        unit_start: high & 0x40 != 0,
        counter: flags & 0x0F,
        random_access: false,
        discontinuity: false,
        pcr: None,
        payload: None,
    };
    let mut body = &raw[4..];
    if flags & 0x20 != 0 {
        let length = usize::from(body[0]);
        let field = body
            .get(1..=length)
            .ok_or_else(|| broken("T23", index, "adaptation field too long"))?;
        body = &body[1 + length..];
        read_adaptation(&mut packet, field)?;
    }
    if flags & 0x10 != 0 {
        ensure(!body.is_empty(), "T23", index, "payload flag without payload")?;
        packet.payload = Some(body);
    } else {
        ensure(body.is_empty(), "T23", index, "bytes without payload flag")?;
    }
    Ok(packet)
}

fn read_adaptation(packet: &mut Packet<'_>, field: &[u8]) -> Result<(), Violation> {
    let Some((flags, mut rest)) = field.split_first() else {
        return Ok(());
    };
    ensure(
        flags & 0x2F == 0,
        "T23",
        packet.index,
        "unexpected adaptation flags",
    )?;
    packet.discontinuity = flags & 0x80 != 0;
    packet.random_access = flags & 0x40 != 0;
    if flags & 0x10 != 0 {
        let (pcr, after) = rest
            .split_at_checked(6)
            .ok_or_else(|| broken("T8", packet.index, "short PCR"))?;
        ensure(
            pcr[4] & 0x7E == 0x7E,
            "T8",
            packet.index,
            "reserved bits of the PCR",
        )?;
        let base = pcr[..4]
            .iter()
            .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        packet.pcr = Some(base << 1 | u64::from(pcr[4] >> 7));
        rest = after;
    }
    ensure(
        rest.iter().all(|byte| *byte == 0xFF),
        "T23",
        packet.index,
        "stuffing is not 0xFF",
    )
}

pub(super) fn check_pat(packet: &Packet<'_>) -> Result<(), Violation> {
    ensure(
        packet.pid == 0 && packet.unit_start,
        "T2",
        0,
        "first packet is not the PAT",
    )?;
    let (_, body) = section(packet, 0)?;
    ensure(body == [0, 1, 0xF0, 0x00], "T3", 0, "not exactly one program")
}

/// Version and table body of a section that must fill its packet's payload up to 0xFF stuffing.
pub(super) fn section<'a>(packet: &Packet<'a>, table_id: u8) -> Result<(u8, &'a [u8]), Violation> {
    let at = packet.index;
    let bad = |seen| broken("T3", at, seen);
    let payload = packet.payload.ok_or_else(|| bad("table without payload"))?;
    let (&0, section) = payload.split_first().ok_or_else(|| bad("empty"))? else {
        return Err(bad("pointer field"));
    };
    let &[id, high, low, ..] = section else {
        return Err(bad("short section"));
    };
    ensure(
        id == table_id && high & 0xF0 == 0xB0,
        "T3",
        at,
        "table id or flags",
    )?;
    let length = 3 + usize::from(u16::from_be_bytes([high & 0x0F, low]));
    let (section, stuffing) = section.split_at_checked(length).ok_or_else(|| bad("length"))?;
    ensure(
        stuffing.iter().all(|byte| *byte == 0xFF),
        "T3",
        at,
        "stuffing is not 0xFF",
    )?;
    ensure(crc32(section) == 0, "T3", at, "CRC-32")?;
    let body = section
        .get(8..section.len().saturating_sub(4))
        .ok_or_else(|| bad("short section"))?;
    Ok(((section[5] >> 1) & 0x1F, body))
}

/// CRC-32/MPEG-2; zero over a section with its own checksum.
fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << 24), |crc, _| {
            if crc & 0x8000_0000 != 0 {
                (crc << 1) ^ 0x04C1_1DB7
            } else {
                crc << 1
            }
        })
    })
}

pub(super) fn parse_pes(packet: &Packet<'_>, payload: &[u8]) -> Result<Pes, Violation> {
    let at = packet.index;
    let &[
        0,
        0,
        1,
        stream_id,
        high,
        low,
        flags,
        stamps,
        length,
        ref rest @ ..,
    ] = payload
    else {
        return Err(broken("T15", at, "no PES start"));
    };
    ensure(matches!(stream_id, 0xE0 | 0xC0), "T15", at, "stream id")?;
    ensure(flags == 0x84, "T15", at, "flags or data alignment")?;
    let (field, data) = rest
        .split_at_checked(usize::from(length))
        .ok_or_else(|| broken("T14", at, "header length"))?;
    let (pts, dts) = match (stamps, field) {
        (0x80, pts) if pts.len() == 5 => (read_stamp(pts, 2, at)?, read_stamp(pts, 2, at)?),
        (0xC0, both) if both.len() == 10 => (read_stamp(&both[..5], 3, at)?, read_stamp(&both[5..], 1, at)?),
        _ => return Err(broken("T14", at, "stamp flags")),
    };
    ensure(
        stamps == 0x80 || pts != dts,
        "T14",
        at,
        "DTS written though equal",
    )?;
    Ok(Pes {
        pid: packet.pid,
        pts,
        dts,
        random_access: packet.random_access,
        pcr: packet.pcr,
        data: data.to_vec(),
        declared: usize::from(u16::from_be_bytes([high, low])),
        header: 3 + usize::from(length),
        start_packet: at,
    })
}

fn read_stamp(bytes: &[u8], prefix: u8, at: usize) -> Result<u64, Violation> {
    let &[a, b, c, d, e] = bytes else {
        return Err(broken("T14", at, "stamp"));
    };
    ensure(a >> 4 == prefix && a & c & e & 1 == 1, "T14", at, "marker bits")?;
    let [a, b, c, d, e] = [a, b, c, d, e].map(u64::from);
    Ok((a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1)
}
