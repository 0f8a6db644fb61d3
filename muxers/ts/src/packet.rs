//! 188-byte packets: header, adaptation field, continuity counters (ISO/IEC 13818-1 §2.4.3).

/// Size of a transport stream packet in bytes.
pub const PACKET_BYTES: usize = 188;
/// First byte of each packet.
pub const SYNC_BYTE: u8 = 0x47;

const HEADER_BYTES: usize = 4;
const BODY_BYTES: usize = PACKET_BYTES - HEADER_BYTES;
const STUFFING: [u8; BODY_BYTES] = [0xFF; BODY_BYTES];

/// The packet identifier of the program association table.
pub const PID_PAT: u16 = 0x0000;
/// The packet identifier of our one program map table.
pub const PID_PMT: u16 = 0x1000;
/// The packet identifier of the video track.
pub const PID_VIDEO: u16 = 0x0100;
/// The packet identifier of the audio track.
pub const PID_AUDIO: u16 = 0x0101;

/// Continuity counter of one PID: the value of its last payload packet (§2.4.3.3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Continuity(u8);

impl Continuity {
    /// A counter whose first payload packet carries 0.
    pub(crate) const fn new() -> Self {
        Self(0x0F)
    }

    /// The value for the next packet that carries payload.
    pub(crate) fn next(&mut self) -> u8 {
        self.0 = (self.0 + 1) & 0x0F;
        self.0
    }

    /// The value for a packet without payload: the counter stands still.
    pub(crate) const fn current(self) -> u8 {
        self.0
    }
}

/// What the adaptation field of a PES packet's first transport packet says.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Start {
    /// `random_access_indicator`.
    pub(crate) random_access: bool,
    /// `discontinuity_indicator`: the clock reference starts anew here.
    pub(crate) discontinuity: bool,
    /// Program clock reference base in 90 kHz ticks, already modulo 2^33.
    pub(crate) pcr: Option<u64>,
}

impl Start {
    fn field_bytes(self) -> usize {
        match (self.pcr, self.random_access || self.discontinuity) {
            (Some(_), _) => 8,
            (None, true) => 2,
            (None, false) => 0,
        }
    }

    fn flags(self) -> u8 {
        (u8::from(self.discontinuity) << 7)
            | (u8::from(self.random_access) << 6)
            | (u8::from(self.pcr.is_some()) << 4)
    }
}

fn push_header(out: &mut Vec<u8>, pid: u16, unit_start: bool, control: u8, counter: u8) {
    let [high, low] = (pid & 0x1FFF).to_be_bytes();
    out.extend_from_slice(&[
        SYNC_BYTE,
        high | (u8::from(unit_start) << 6),
        low,
        (control << 4) | counter,
    ]);
}

/// Appends an adaptation field of exactly `field_bytes` bytes, its length byte included.
fn push_adaptation(out: &mut Vec<u8>, start: Start, field_bytes: usize) {
    debug_assert!(field_bytes >= start.field_bytes().max(1) && field_bytes <= BODY_BYTES);
    let end = out.len() + field_bytes;
    // At most 184, so the conversion cannot truncate.
    out.push((field_bytes - 1) as u8);
    if field_bytes > 1 {
        out.push(start.flags());
    }
    if let Some(base) = start.pcr {
        // 33 bits base, 6 reserved bits set, 9 bits extension (always 0 here).
        let field = (base << 15) | (0x3F << 9);
        out.extend_from_slice(&field.to_be_bytes()[2..]);
    }
    let stuffing = end.saturating_sub(out.len());
    out.extend_from_slice(&STUFFING[..stuffing.min(BODY_BYTES)]);
}

/// Appends one packet that carries only a program clock reference; the counter stands still.
pub(crate) fn push_pcr(out: &mut Vec<u8>, pid: u16, counter: Continuity, base: u64, discontinuity: bool) {
    push_header(out, pid, false, 0b10, counter.current());
    push_adaptation(
        out,
        Start {
            random_access: false,
            discontinuity,
            pcr: Some(base),
        },
        BODY_BYTES,
    );
}

/// Appends one PES packet, given as a rope of slices, as transport packets.
///
/// The first packet carries `start`; the last one is filled by its adaptation field, so that no byte follows
/// the PES packet (§2.4.3.4).
pub(crate) fn push_pes(out: &mut Vec<u8>, pid: u16, counter: &mut Continuity, start: Start, rope: &[&[u8]]) {
    let mut remaining: usize = rope.iter().map(|slice| slice.len()).sum();
    out.reserve((remaining / BODY_BYTES + 2) * PACKET_BYTES);
    let mut rope = Rope {
        slices: rope,
        offset: 0,
    };
    let mut field = start;
    let mut first = true;
    while remaining > 0 || first {
        let wanted = field.field_bytes();
        let payload = remaining.min(BODY_BYTES - wanted);
        let field_bytes = BODY_BYTES - payload;
        let control = if field_bytes > 0 { 0b11 } else { 0b01 };
        push_header(out, pid, first, control, counter.next());
        if field_bytes > 0 {
            push_adaptation(out, field, field_bytes);
        }
        rope.copy(out, payload);
        remaining -= payload;
        field = Start::default();
        first = false;
    }
}

struct Rope<'a> {
    slices: &'a [&'a [u8]],
    offset: usize,
}

impl Rope<'_> {
    fn copy(&mut self, out: &mut Vec<u8>, mut wanted: usize) {
        while wanted > 0 {
            let Some((head, rest)) = self.slices.split_first() else {
                return;
            };
            let available = head.get(self.offset..).unwrap_or_default();
            let taken = available.len().min(wanted);
            out.extend_from_slice(&available[..taken]);
            wanted -= taken;
            self.offset += taken;
            if taken == available.len() {
                self.slices = rest;
                self.offset = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Payload bytes and adaptation length of one packet.
    fn split(packet: &[u8]) -> (usize, &[u8]) {
        let control = (packet[3] >> 4) & 3;
        let field = if control & 2 != 0 {
            usize::from(packet[4]) + 1
        } else {
            0
        };
        (field, &packet[4 + field..])
    }

    proptest! {
        #[test]
        fn any_length_comes_back_whole(sizes in prop::collection::vec(0usize..400, 1..6), pcr: bool, random_access: bool) {
            let slices: Vec<Vec<u8>> =
                sizes.iter().enumerate().map(|(i, n)| (0..*n).map(|b| (b + i) as u8).collect()).collect();
            let rope: Vec<&[u8]> = slices.iter().map(Vec::as_slice).collect();
            let mut out = Vec::new();
            let mut counter = Continuity::new();
            let start = Start { random_access, discontinuity: false, pcr: pcr.then_some(0x1_2345_6789) };
            push_pes(&mut out, PID_VIDEO, &mut counter, start, &rope);
            prop_assert_eq!(out.len() % PACKET_BYTES, 0);
            let mut payload = Vec::new();
            for (index, packet) in out.chunks(PACKET_BYTES).enumerate() {
                prop_assert_eq!(packet[0], SYNC_BYTE);
                prop_assert_eq!(usize::from(packet[3] & 0x0F), index & 0x0F);
                prop_assert_eq!(packet[1] & 0x40 != 0, index == 0);
                payload.extend_from_slice(split(packet).1);
            }
            prop_assert_eq!(payload, rope.concat());
        }
    }

    #[test]
    fn a_clock_packet_has_no_payload_and_does_not_count() {
        let mut counter = Continuity::new();
        counter.next();
        let mut out = Vec::new();
        push_pcr(&mut out, PID_VIDEO, counter, 0x1_FFFF_FFFF, false);
        assert_eq!(out.len(), PACKET_BYTES);
        assert_eq!(out[3], 0x20);
        assert_eq!(out[4], 183);
        assert_eq!(&out[6..12], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0x00]);
    }
}
