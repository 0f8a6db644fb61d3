//! Program association and program map tables (ISO/IEC 13818-1 §2.4.4).
//!
//! The section bytes, their CRC included, come from the `mpeg2ts` crate, once per program version; each
//! emission copies the two cached packets and sets their continuity counters.

use mpeg2ts::es::StreamType;
use mpeg2ts::ts::payload::{Pat, Pmt};
use mpeg2ts::ts::{
    ContinuityCounter, EsInfo, Pid, ProgramAssociation, TransportScramblingControl, TsHeader, TsPacket,
    TsPacketWriter, TsPayload, VersionNumber, WriteTsPacket,
};

use crate::packet::{Continuity, PACKET_BYTES, PID_AUDIO, PID_PMT, PID_VIDEO};

const PROGRAM_NUMBER: u16 = 1;
const TRANSPORT_STREAM_ID: u16 = 1;
const VERSION_MASK: u8 = 0x1F;

/// Size of PAT and PMT together: one packet each.
pub const TABLES_BYTES: usize = 2 * PACKET_BYTES;

/// The elementary streams one segment declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProgramMap {
    pub(crate) video: Option<StreamType>,
    pub(crate) audio: Option<StreamType>,
}

/// The current program: its tables as packets, and the version that counts its changes.
#[derive(Debug)]
pub(crate) struct Tables {
    map: Option<ProgramMap>,
    version: u8,
    pat: [u8; PACKET_BYTES],
    pmt: [u8; PACKET_BYTES],
    pat_counter: Continuity,
    pmt_counter: Continuity,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self {
            map: None,
            version: VERSION_MASK,
            pat: [0xFF; PACKET_BYTES],
            pmt: [0xFF; PACKET_BYTES],
            pat_counter: Continuity::new(),
            pmt_counter: Continuity::new(),
        }
    }

    /// The PAT and PMT packets for a segment that declares `map`; a changed map gets the next version.
    pub(crate) fn render(&mut self, map: ProgramMap) -> [u8; TABLES_BYTES] {
        if self.map != Some(map) {
            self.version = (self.version + 1) & VERSION_MASK;
            self.pat = pat_packet();
            self.pmt = pmt_packet(map, self.version);
            self.map = Some(map);
        }
        self.pat[3] = (self.pat[3] & 0xF0) | self.pat_counter.next();
        self.pmt[3] = (self.pmt[3] & 0xF0) | self.pmt_counter.next();
        let mut both = [0; TABLES_BYTES];
        both[..PACKET_BYTES].copy_from_slice(&self.pat);
        both[PACKET_BYTES..].copy_from_slice(&self.pmt);
        both
    }
}

fn pat_packet() -> [u8; PACKET_BYTES] {
    packet(
        mpeg2ts::ts::Pid::PAT,
        TsPayload::Pat(Pat {
            transport_stream_id: TRANSPORT_STREAM_ID,
            version_number: VersionNumber::new(),
            table: vec![ProgramAssociation {
                program_num: PROGRAM_NUMBER,
                program_map_pid: constant_pid(PID_PMT),
            }],
        }),
    )
}

fn pmt_packet(map: ProgramMap, version: u8) -> [u8; PACKET_BYTES] {
    let stream = |stream_type, pid| EsInfo {
        stream_type,
        elementary_pid: constant_pid(pid),
        descriptors: Vec::new(),
    };
    let video = map.video.map(|stream_type| stream(stream_type, PID_VIDEO));
    let audio = map.audio.map(|stream_type| stream(stream_type, PID_AUDIO));
    let pcr_pid = if map.video.is_some() { PID_VIDEO } else { PID_AUDIO };
    packet(
        PID_PMT,
        TsPayload::Pmt(Pmt {
            program_num: PROGRAM_NUMBER,
            pcr_pid: Some(constant_pid(pcr_pid)),
            version_number: VersionNumber::from_u8(version & VERSION_MASK).unwrap_or_default(),
            program_info: Vec::new(),
            es_info: video.into_iter().chain(audio).collect(),
        }),
    )
}

fn constant_pid(pid: u16) -> Pid {
    Pid::new(pid & Pid::MAX).unwrap_or_else(|_| Pid::from(0))
}

/// Renders one table with `mpeg2ts` and moves the section to the front of its packet.
///
/// The crate stuffs by an adaptation field before the section; the usual form, which set-top boxes expect, is
/// the section first and 0xFF after it.
fn packet(pid: u16, payload: TsPayload) -> [u8; PACKET_BYTES] {
    let header = TsHeader {
        transport_error_indicator: false,
        transport_priority: false,
        pid: constant_pid(pid),
        transport_scrambling_control: TransportScramblingControl::NotScrambled,
        continuity_counter: ContinuityCounter::new(),
    };
    let mut writer = TsPacketWriter::new(Vec::with_capacity(PACKET_BYTES));
    // A table of at most two streams always fits one packet, and a Vec takes every write.
    let written = writer
        .write_ts_packet(&TsPacket {
            header,
            adaptation_field: None,
            payload: Some(payload),
        })
        .is_ok();
    debug_assert!(written, "a table of two streams fits one packet");
    let bytes = writer.into_stream();
    let mut image = [0xFF; PACKET_BYTES];
    let stuffed = bytes.get(4).map_or(0, |length| usize::from(*length) + 1);
    if let (Some(head), Some(section)) = (bytes.get(..4), bytes.get(4 + stuffed..)) {
        image[..4].copy_from_slice(head);
        image[3] = 0x10;
        image[4..4 + section.len()].copy_from_slice(section);
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpeg2ts::ts::{ReadTsPacket, TsPacketReader};

    const AV: ProgramMap = ProgramMap {
        video: Some(StreamType::H264),
        audio: Some(StreamType::AdtsAac),
    };
    const AUDIO: ProgramMap = ProgramMap {
        video: None,
        audio: Some(StreamType::AdtsAac),
    };

    fn read_back(bytes: &[u8]) -> (Pat, Pmt) {
        let mut reader = TsPacketReader::new(bytes);
        let pat = reader.read_ts_packet().unwrap().unwrap();
        let pmt = reader.read_ts_packet().unwrap().unwrap();
        assert!(pat.adaptation_field.is_none() && pmt.adaptation_field.is_none());
        match (pat.payload, pmt.payload) {
            (Some(TsPayload::Pat(pat)), Some(TsPayload::Pmt(pmt))) => (pat, pmt),
            other => panic!("not PAT and PMT: {other:?}"),
        }
    }

    #[test]
    fn tables_read_back_with_their_checksums() {
        let (pat, pmt) = read_back(&Tables::new().render(AV));
        assert_eq!(pat.table.len(), 1);
        assert_eq!(pat.table[0].program_map_pid.as_u16(), PID_PMT);
        assert_eq!(pmt.pcr_pid.unwrap().as_u16(), PID_VIDEO);
        let streams: Vec<_> = pmt
            .es_info
            .iter()
            .map(|es| (es.stream_type, es.elementary_pid.as_u16()))
            .collect();
        assert_eq!(
            streams,
            [(StreamType::H264, PID_VIDEO), (StreamType::AdtsAac, PID_AUDIO)]
        );
    }

    #[test]
    fn sections_come_first_and_stuffing_after() {
        let image = Tables::new().render(AV);
        assert_eq!(image[3] & 0xF0, 0x10);
        assert_eq!(image[4], 0, "pointer field");
        assert_eq!(image[5], 0, "PAT table id");
        assert_eq!(image[PACKET_BYTES + 5], 2, "PMT table id");
        assert_eq!(image[PACKET_BYTES - 1], 0xFF);
    }

    #[test]
    fn the_version_changes_only_with_the_map_and_counters_run_on() {
        let mut tables = Tables::new();
        let mut versions = Vec::new();
        for (index, map) in [AV, AV, AUDIO, AUDIO, AV].into_iter().enumerate() {
            let image = tables.render(map);
            assert_eq!(usize::from(image[3] & 0x0F), index);
            let (pat, pmt) = read_back(&image);
            assert_eq!(pat.version_number.as_u8(), 0);
            versions.push(pmt.version_number.as_u8());
        }
        assert_eq!(versions, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn the_version_wraps_at_five_bits() {
        let mut tables = Tables::new();
        for round in 0..70u8 {
            let map = if round % 2 == 0 { AV } else { AUDIO };
            let (_, pmt) = read_back(&tables.render(map));
            assert_eq!(pmt.version_number.as_u8(), round & 0x1F);
        }
    }
}
