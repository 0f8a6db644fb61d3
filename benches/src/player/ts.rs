//! MPEG-TS segments checked frame by frame, for the one in so many HLS players that does it.

use super::carry::Carry;
use crate::meter::{Moment, Watch};
use crate::scan::{Finding, Track};
use crate::stamp::{MAGIC, STAMP_LEN, Stamped, checksum_of_fields};

const PACKET_LEN: usize = 188;
const SYNC_BYTE: u8 = 0x47;
const ADTS_HEAD_LEN: usize = 7;
/// Longest access unit kept.
const MAX_UNIT_LEN: usize = 8 << 20;

/// One elementary stream's PES packet in the making.
#[derive(Debug)]
struct Unit {
    pid: u16,
    track: Track,
    timestamp_ms: u32,
    data: Vec<u8>,
}

/// Takes segments apart.
#[derive(Debug, Default)]
pub(crate) struct TsScan {
    packet: Carry<PACKET_LEN>,
    units: Vec<Unit>,
    /// When the last frame seen was sent.
    pub(crate) newest_sent_ns: u64,
}

impl TsScan {
    /// Takes a piece of a segment.
    pub(crate) fn read(&mut self, mut input: &[u8], moment: &mut Moment<'_>, watch: &mut Watch) {
        while self.packet.fill(&mut input, PACKET_LEN) {
            let packet = self.packet;
            self.packet.clear();
            self.take_packet(packet.bytes(), moment, watch);
        }
    }

    /// Ends a segment: every access unit in it is complete.
    pub(crate) fn finish(&mut self, moment: &mut Moment<'_>, watch: &mut Watch) {
        self.packet.clear();
        for unit in std::mem::take(&mut self.units) {
            self.unit(&unit, moment, watch);
        }
    }

    fn take_packet(&mut self, packet: &[u8], moment: &mut Moment<'_>, watch: &mut Watch) {
        let Some(&[sync, pid_high, pid_low, flags]) = packet.first_chunk::<4>() else {
            return;
        };
        if sync != SYNC_BYTE {
            moment.meter.altered += 1;
            return;
        }
        let pid = u16::from_be_bytes([pid_high & 0x1F, pid_low]);
        let adaptation_len = match flags >> 4 & 3 {
            1 => 0,
            3 => 1 + usize::from(packet.get(4).copied().unwrap_or_default()),
            _ => return,
        };
        let payload = packet.get(4 + adaptation_len..).unwrap_or_default();
        if pid_high & 0x40 == 0 {
            if let Some(unit) = self.units.iter_mut().find(|unit| unit.pid == pid)
                && unit.data.len() < MAX_UNIT_LEN
            {
                unit.data.extend_from_slice(payload);
            }
            return;
        }
        if let Some(at) = self.units.iter().position(|unit| unit.pid == pid) {
            let unit = self.units.swap_remove(at);
            self.unit(&unit, moment, watch);
        }
        self.units.extend(Unit::begin(pid, payload));
    }

    fn unit(&mut self, unit: &Unit, moment: &mut Moment<'_>, watch: &mut Watch) {
        match unit.track {
            Track::Video => {
                let stamp_at = unit.data.windows(MAGIC.len()).position(|window| window == MAGIC);
                let payload = stamp_at.and_then(|at| unit.data.get(at..)).unwrap_or_default();
                self.frame(unit, payload, moment, watch);
            }
            Track::Audio => {
                let mut rest = unit.data.as_slice();
                while let Some(&[_, _, _, high, middle, low, _]) = rest.first_chunk::<ADTS_HEAD_LEN>() {
                    let len = u32::from_be_bytes([0, high & 3, middle, low]) as usize >> 5;
                    let Some((frame, behind)) = rest.split_at_checked(len.max(ADTS_HEAD_LEN)) else {
                        break;
                    };
                    self.frame(
                        unit,
                        frame.get(ADTS_HEAD_LEN..).unwrap_or_default(),
                        moment,
                        watch,
                    );
                    rest = behind;
                }
            }
        }
    }

    fn frame(&mut self, unit: &Unit, payload: &[u8], moment: &mut Moment<'_>, watch: &mut Watch) {
        let finding = match Stamped::read(payload) {
            Some(stamped) => {
                let mut checksum = checksum_of_fields(payload);
                checksum.update(payload.get(STAMP_LEN..).unwrap_or_default());
                self.newest_sent_ns = self.newest_sent_ns.max(stamped.stamp.sent_ns);
                Finding::Stamped {
                    stamped,
                    intact: checksum.finalize() == stamped.checksum,
                }
            }
            None => Finding::Plain { key: false },
        };
        watch.body(moment, unit.track, unit.timestamp_ms, &finding);
    }
}

impl Unit {
    /// Reads a PES head (ISO/IEC 13818-1 §2.4.3.6); `None` if `payload` does not begin with one.
    fn begin(pid: u16, payload: &[u8]) -> Option<Self> {
        let &[0, 0, 1, stream_id, _, _, _, flags, head_len] = payload.first_chunk::<9>()? else {
            return None;
        };
        let track = match stream_id {
            0xE0..=0xEF => Track::Video,
            0xC0..=0xDF => Track::Audio,
            _ => return None,
        };
        let times = payload.get(9..)?;
        let decoding = if flags >> 6 == 3 { times.get(5..)? } else { times };
        let &[t0, t1, t2, t3, t4] = decoding.first_chunk::<5>()?;
        let ticks = u64::from(t0 >> 1 & 7) << 30
            | u64::from(t1) << 22
            | u64::from(t2 >> 1) << 15
            | u64::from(t3) << 7
            | u64::from(t4 >> 1);
        let data = payload.get(9 + usize::from(head_len)..)?.to_vec();
        Some(Self {
            pid,
            track,
            timestamp_ms: (ticks / 90) as u32,
            data,
        })
    }
}
