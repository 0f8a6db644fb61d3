//! A chunk stream read without keeping media: what a player of thousands can afford.

use super::carry::{Carry, take};
use crate::error::LoadError;
use crate::scan::{BodyScan, Finding, Track};
use spillway_rtmp::chunk::INITIAL_CHUNK_SIZE;
use spillway_rtmp::message::type_id;

/// Longest chunk header: basic header 3, message header 11, extended timestamp 4.
const MAX_HEADER_LEN: usize = 18;
/// What stands for "see the extended timestamp".
const EXTENDED: u32 = 0xFF_FFFF;
/// Longest command or control message kept. Known ones have a few hundred bytes.
const MAX_CONTROL_LEN: u32 = 65_536;

/// Where messages go.
pub(crate) trait Sink {
    /// A whole audio or video message went by.
    fn media(&mut self, track: Track, timestamp_ms: u32, finding: &Finding);
    /// A whole command or control message.
    fn control(&mut self, type_id: u8, body: &[u8]) -> Result<(), LoadError>;
}

#[derive(Debug, Default)]
struct ChunkStream {
    id: u32,
    timestamp_ms: u32,
    delta_ms: u32,
    length: u32,
    received: u32,
    type_id: u8,
    extended: bool,
    scan: BodyScan,
    control: Vec<u8>,
}

/// Reads the chunks of one connection.
#[derive(Debug)]
pub(crate) struct ChunkScan {
    streams: Vec<ChunkStream>,
    chunk_size: u32,
    header: Carry<MAX_HEADER_LEN>,
    /// The chunk stream of the chunk whose payload is being read, and what is missing of it.
    current: Option<(usize, u32)>,
}

impl Default for ChunkScan {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            chunk_size: INITIAL_CHUNK_SIZE,
            header: Carry::default(),
            current: None,
        }
    }
}

impl ChunkScan {
    /// Reads all of `input`.
    pub(crate) fn read(&mut self, mut input: &[u8], sink: &mut impl Sink) -> Result<(), LoadError> {
        loop {
            if let Some((index, missing)) = self.current {
                if input.is_empty() && missing > 0 {
                    return Ok(());
                }
                let piece = take(&mut input, missing as usize);
                let missing = missing - piece.len() as u32;
                self.current = (missing > 0).then_some((index, missing));
                let Some(stream) = self.streams.get_mut(index) else {
                    return Ok(());
                };
                if let Some(chunk_size) = stream.piece(piece, sink)? {
                    self.chunk_size = chunk_size;
                }
            } else if !self.header(&mut input)? {
                return Ok(());
            }
        }
    }

    /// Reads a chunk's header; `false` if the input ends before it does.
    fn header(&mut self, input: &mut &[u8]) -> Result<bool, LoadError> {
        if !self.header.fill(input, 1) {
            return Ok(false);
        }
        let first = self.header.bytes().first().copied().unwrap_or_default();
        let (format, basic_len) = (
            first >> 6,
            1 + usize::from(first & 0x3F < 2) + usize::from(first & 0x3F == 1),
        );
        let message_len = [11, 7, 3, 0]
            .get(usize::from(format))
            .copied()
            .unwrap_or_default();
        if !self.header.fill(input, basic_len + message_len) {
            return Ok(false);
        }
        let (basic, message) = self.header.bytes().split_at(basic_len);
        let id = match *basic {
            [_, low, high] => 64 + u32::from(low) + 256 * u32::from(high),
            [_, low] => 64 + u32::from(low),
            _ => u32::from(first & 0x3F),
        };
        let short_time = message.get(..3).map(number);
        let index = self.stream(id, format)?;
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(false);
        };
        let extended = short_time.map_or(stream.extended, |time| time == EXTENDED);
        let fixed_len = basic_len + message_len;
        if extended && !self.header.fill(input, fixed_len + 4) {
            return Ok(false);
        }
        let (fixed, extension) = self.header.bytes().split_at(fixed_len);
        let message = fixed.get(basic_len..).unwrap_or_default();
        let time = if extended {
            Some(number(extension))
        } else {
            short_time
        };
        stream.begin(format, message, time.filter(|_| format < 3));
        stream.extended = extended;
        let missing = stream.length.saturating_sub(stream.received).min(self.chunk_size);
        self.current = Some((index, missing));
        self.header.clear();
        Ok(true)
    }

    fn stream(&mut self, id: u32, format: u8) -> Result<usize, LoadError> {
        match self.streams.iter().position(|stream| stream.id == id) {
            Some(index) => Ok(index),
            None if format == 3 || self.streams.len() > 64 => {
                Err(LoadError::Protocol("a chunk without a beginning"))
            }
            None => {
                self.streams.push(ChunkStream {
                    id,
                    ..ChunkStream::default()
                });
                Ok(self.streams.len() - 1)
            }
        }
    }
}

impl ChunkStream {
    /// Takes a chunk's message header in (RTMP 1.0 §5.3.1.2).
    fn begin(&mut self, format: u8, message: &[u8], time: Option<u32>) {
        if let Some(&[l0, l1, l2, type_id]) = message.get(3..7) {
            self.length = u32::from_be_bytes([0, l0, l1, l2]);
            self.type_id = type_id;
        }
        match (format, time) {
            (0, Some(time)) => (self.timestamp_ms, self.delta_ms) = (time, 0),
            (_, Some(time)) => {
                self.delta_ms = time;
                self.timestamp_ms = self.timestamp_ms.wrapping_add(time);
            }
            _ if self.received == 0 => self.timestamp_ms = self.timestamp_ms.wrapping_add(self.delta_ms),
            _ => {}
        }
    }

    /// Takes the next piece of the message; returns a new chunk size if the message set one.
    fn piece(&mut self, piece: &[u8], sink: &mut impl Sink) -> Result<Option<u32>, LoadError> {
        let whole = self.received == 0 && piece.len() == self.length as usize;
        self.received += piece.len() as u32;
        let complete = self.received >= self.length;
        if let Some(track) = Track::from_type(self.type_id) {
            let finding = if whole {
                BodyScan::whole(track, piece)
            } else {
                self.scan.feed(track, piece);
                if !complete {
                    return Ok(None);
                }
                self.scan.finish(track)
            };
            self.received = 0;
            sink.media(track, self.timestamp_ms, &finding);
            return Ok(None);
        }
        if self.length <= MAX_CONTROL_LEN {
            self.control.extend_from_slice(piece);
        }
        if !complete {
            return Ok(None);
        }
        self.received = 0;
        let body = std::mem::take(&mut self.control);
        match self.type_id {
            type_id::SET_CHUNK_SIZE => Ok(Some(number(&body).clamp(1, 0x00FF_FFFF))),
            type_id::AGGREGATE => Err(LoadError::Protocol("aggregate messages are not read")),
            other => sink.control(other, &body).map(|()| None),
        }
    }
}

/// A big-endian number of up to four bytes.
pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use spillway_rtmp::chunk::ChunkWriter;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Sink for Seen {
        fn media(&mut self, track: Track, timestamp_ms: u32, finding: &Finding) {
            self.0.push(format!("{track:?} {timestamp_ms} {finding:?}"));
        }
        fn control(&mut self, type_id: u8, body: &[u8]) -> Result<(), LoadError> {
            self.0.push(format!("{type_id} {}", body.len()));
            Ok(())
        }
    }

    fn stream() -> BytesMut {
        let mut out = BytesMut::new();
        let mut writer = ChunkWriter::compressing();
        let frame = |len: usize| {
            let mut frame = vec![0x91; len];
            let stamp = crate::stamp::Stamp {
                stream: 0,
                sequence: 1,
                dts_ms: 1,
                sent_ns: 1,
                key: false,
            };
            stamp.write(&mut frame[11..]);
            frame
        };
        writer.write(&mut out, 3, 0, 20, 0, &[2; 300]).unwrap();
        writer.write(&mut out, 6, 10, 9, 1, &frame(700)).unwrap();
        writer.write(&mut out, 2, 0, 1, 0, &[0, 0, 1, 0]).unwrap();
        writer.set_chunk_size(256);
        for time in [50, 90, 130, 0x0100_0000, 0x0100_0028] {
            writer.write(&mut out, 6, time, 9, 1, &frame(900)).unwrap();
            writer.write(&mut out, 4, time, 8, 1, &[]).unwrap();
        }
        out
    }

    #[test]
    fn any_split_gives_the_same_messages() {
        let stream = stream();
        let mut whole = Seen::default();
        ChunkScan::default().read(&stream, &mut whole).unwrap();
        assert_eq!(whole.0.len(), 12);
        assert!(whole.0[10].starts_with("Video 16777256 Stamped"), "{:?}", whole.0);
        assert!(!whole.0.iter().any(|seen| seen.contains("intact: false")));
        for at in 0..stream.len() {
            let mut split = Seen::default();
            let mut scan = ChunkScan::default();
            scan.read(&stream[..at], &mut split).unwrap();
            scan.read(&stream[at..], &mut split).unwrap();
            assert_eq!(split.0, whole.0, "split at {at}");
        }
    }
}
