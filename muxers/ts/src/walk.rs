//! A strict reader of our own output: every rule of the transport stream that a segment must keep.
//!
//! It shares no code with the writer. Feed it the segments of one stream in order; it keeps continuity
//! counters, clock reference and table versions across them, as a player does.

mod es;
mod packet;

use std::collections::BTreeMap;

use es::{check_access_unit, check_adts};
use packet::{Packet, check_pat, parse_packet, parse_pes, section};

const PACKET: usize = 188;
const PMT_TYPE_AVC: u8 = 0x1B;
const PMT_TYPE_HEVC: u8 = 0x24;
const PMT_TYPE_AAC: u8 = 0x0F;
const MAX_PCR_GAP_TICKS: i64 = 9_000;

/// A broken rule: which (as numbered in our rule list), at which packet of the segment, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {rule} at packet {packet}: {seen}")]
pub struct Violation {
    /// The rule's short name.
    pub rule: &'static str,
    /// Index of the packet in its segment.
    pub packet: usize,
    /// What was seen instead.
    pub seen: String,
}

/// One PES packet read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pes {
    /// Its PID.
    pub pid: u16,
    /// Presentation time, 33 bits.
    pub pts: u64,
    /// Decoding time, 33 bits; equal to `pts` when not written.
    pub dts: u64,
    /// `random_access_indicator` of its first packet.
    pub random_access: bool,
    /// Clock reference on its first packet.
    pub pcr: Option<u64>,
    /// The payload.
    pub data: Vec<u8>,
    declared: usize,
    header: usize,
    start_packet: usize,
}

/// What one segment holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Stream type of each declared PID.
    pub streams: BTreeMap<u16, u8>,
    /// The PID of the clock reference.
    pub pcr_pid: u16,
    /// Version of the program map.
    pub pmt_version: u8,
    /// All PES packets in the order of their starts.
    pub pes: Vec<Pes>,
    /// All clock references in order.
    pub pcrs: Vec<u64>,
}

impl Segment {
    /// The PES packets of one PID.
    pub fn of(&self, pid: u16) -> impl Iterator<Item = &Pes> {
        self.pes.iter().filter(move |pes| pes.pid == pid)
    }
}

/// Reads the segments of one stream in order.
#[derive(Debug, Default)]
pub struct Walker {
    counters: BTreeMap<u16, u8>,
    last_pcr: Option<u64>,
    last_dts: BTreeMap<u16, u64>,
    program: Option<(u8, BTreeMap<u16, u8>)>,
}

fn broken(rule: &'static str, packet: usize, seen: impl Into<String>) -> Violation {
    Violation {
        rule,
        packet,
        seen: seen.into(),
    }
}

fn ensure(holds: bool, rule: &'static str, packet: usize, seen: &str) -> Result<(), Violation> {
    if holds {
        Ok(())
    } else {
        Err(broken(rule, packet, seen))
    }
}

/// `later - earlier` of two 33-bit stamps.
pub fn stamp_difference(later: u64, earlier: u64) -> i64 {
    let difference = later.wrapping_sub(earlier) & ((1 << 33) - 1);
    if difference >= 1 << 32 {
        difference as i64 - (1 << 33)
    } else {
        difference as i64
    }
}

impl Walker {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next segment. `discontinuity` is what the playlist says in front of it.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn segment(&mut self, bytes: &[u8], discontinuity: bool) -> Result<Segment, Violation> {
        ensure(
            !bytes.is_empty() && bytes.len().is_multiple_of(PACKET),
            "T1",
            0,
            "not whole packets",
        )?;
        let mut segment = Segment::default();
        let mut open: BTreeMap<u16, usize> = BTreeMap::new();
        if discontinuity {
            self.last_dts.clear();
        }
        for (index, raw) in bytes.chunks(PACKET).enumerate() {
            let packet = parse_packet(index, raw)?;
            self.count(&packet)?;
            match index {
                0 => check_pat(&packet)?,
                1 => self.read_pmt(&packet, discontinuity, &mut segment)?,
                _ => self.read_media(&packet, &mut segment, &mut open)?,
            }
        }
        ensure(bytes.len() >= 2 * PACKET, "T2", 0, "no tables")?;
        self.check_segment(&segment)?;
        Ok(segment)
    }

    fn count(&mut self, packet: &Packet<'_>) -> Result<(), Violation> {
        let seen = self.counters.get(&packet.pid).copied();
        let value = packet.counter;
        let expected = match (seen, packet.payload.is_some()) {
            (Some(last), true) => (last + 1) & 0x0F,
            (Some(last), false) => last,
            (None, _) => value,
        };
        ensure(
            value == expected,
            "T6/T7",
            packet.index,
            &format!("PID {} counter {value}", packet.pid),
        )?;
        self.counters.insert(packet.pid, value);
        Ok(())
    }

    fn read_pmt(
        &mut self,
        packet: &Packet<'_>,
        discontinuity: bool,
        segment: &mut Segment,
    ) -> Result<(), Violation> {
        ensure(
            packet.pid == 0x1000 && packet.unit_start,
            "T2",
            1,
            "second packet is not the PMT",
        )?;
        let (version, body) = section(packet, 2)?;
        let (head, mut streams) = body
            .split_at_checked(4)
            .ok_or_else(|| broken("T3", 1, "short PMT"))?;
        segment.pcr_pid = u16::from_be_bytes([head[0] & 0x1F, head[1]]);
        segment.pmt_version = version;
        while let [stream_type, high, low, length_high, length_low, rest @ ..] = streams {
            let skip = usize::from(u16::from_be_bytes([length_high & 0x0F, *length_low]));
            segment
                .streams
                .insert(u16::from_be_bytes([high & 0x1F, *low]), *stream_type);
            streams = rest.get(skip..).unwrap_or_default();
        }
        ensure(
            segment.streams.contains_key(&segment.pcr_pid),
            "T8",
            1,
            "PCR PID is not declared",
        )?;
        let now = (version, segment.streams.clone());
        if let Some(before) = self.program.replace(now.clone()) {
            ensure(
                (before.1 == now.1) == (before.0 == now.0),
                "T3",
                1,
                "version does not follow the map",
            )?;
            ensure(
                before.1 == now.1 || discontinuity,
                "T5",
                1,
                "program changed without DISCONTINUITY",
            )?;
        }
        Ok(())
    }

    fn read_media(
        &mut self,
        packet: &Packet<'_>,
        segment: &mut Segment,
        open: &mut BTreeMap<u16, usize>,
    ) -> Result<(), Violation> {
        let at = packet.index;
        ensure(
            segment.streams.contains_key(&packet.pid),
            "T4",
            at,
            &format!("PID {} undeclared", packet.pid),
        )?;
        if let Some(pcr) = packet.pcr {
            ensure(
                packet.pid == segment.pcr_pid,
                "T8",
                at,
                "clock reference on another PID",
            )?;
            if let Some(last) = self.last_pcr.filter(|_| !packet.discontinuity) {
                let gap = stamp_difference(pcr, last);
                ensure(gap > 0, "T9", at, &format!("clock reference steps by {gap}"))?;
                ensure(
                    gap <= MAX_PCR_GAP_TICKS,
                    "T8",
                    at,
                    &format!("{gap} ticks without clock reference"),
                )?;
            }
            self.last_pcr = Some(pcr);
            segment.pcrs.push(pcr);
        }
        let Some(payload) = packet.payload else {
            return Ok(());
        };
        if packet.unit_start {
            ensure(
                !segment.pcrs.is_empty(),
                "T8",
                at,
                "PES packet before the first clock reference",
            )?;
            open.insert(packet.pid, segment.pes.len());
            segment.pes.push(parse_pes(packet, payload)?);
            return Ok(());
        }
        let pes = open
            .get(&packet.pid)
            .and_then(|index| segment.pes.get_mut(*index));
        let pes = pes.ok_or_else(|| broken("T15", at, "payload before a PES start"))?;
        pes.data.extend_from_slice(payload);
        Ok(())
    }

    fn check_segment(&mut self, segment: &Segment) -> Result<(), Violation> {
        for pes in &segment.pes {
            let at = pes.start_packet;
            let video = (0xE0..=0xEF).contains(&stream_id_of(segment, pes.pid));
            let length = pes.data.len() + pes.header;
            let exact = pes.declared == length || (video && pes.declared == 0 && length > 0xFFFF);
            ensure(
                exact,
                "T13",
                at,
                &format!("declared {} of {length}", pes.declared),
            )?;
            ensure(
                stamp_difference(pes.pts, pes.dts) >= 0,
                "T14",
                at,
                "PTS before DTS",
            )?;
            ensure(pes.pts != 0 && pes.dts != 0, "T12", at, "zero stamp")?;
            if let Some(last) = self.last_dts.insert(pes.pid, pes.dts) {
                ensure(
                    stamp_difference(pes.dts, last) > 0,
                    "S13",
                    at,
                    "DTS does not rise",
                )?;
            }
            if let Some(pcr) = pes.pcr {
                let lead = stamp_difference(pes.dts, pcr);
                ensure(
                    (8_000..=90_000).contains(&lead),
                    "T9",
                    at,
                    &format!("lead of {lead} ticks"),
                )?;
            }
            match segment.streams.get(&pes.pid) {
                Some(&PMT_TYPE_AVC) => check_access_unit(pes, &es::AVC)?,
                Some(&PMT_TYPE_HEVC) => check_access_unit(pes, &es::HEVC)?,
                Some(&PMT_TYPE_AAC) => check_adts(pes)?,
                _ => {}
            }
        }
        if segment
            .streams
            .keys()
            .all(|pid| !matches!(segment.streams[pid], PMT_TYPE_AVC | PMT_TYPE_HEVC))
            && let Some(first) = segment.pes.first()
        {
            ensure(
                first.random_access,
                "T19",
                first.start_packet,
                "audio-only segment without access point",
            )?;
        }
        Ok(())
    }
}

fn stream_id_of(segment: &Segment, pid: u16) -> u8 {
    match segment.streams.get(&pid) {
        Some(&(PMT_TYPE_AVC | PMT_TYPE_HEVC)) => 0xE0,
        _ => 0xC0,
    }
}
