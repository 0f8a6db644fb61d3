//! Frames from the player (RFC 6455 §5): control frames are reported, data is read past.

use thiserror::Error;

/// The bytes one inbound message may have over all its fragments. Players have nothing to say here.
pub(crate) const MAX_MESSAGE_BYTES: u64 = 64 * 1024;
/// RFC 6455 §5.5.
const MAX_CONTROL_BYTES: u64 = 125;
/// Two bytes, eight of length, four of mask.
const MAX_HEAD_BYTES: usize = 14;

/// What the player said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// To be answered with a pong of the same payload.
    Ping(Vec<u8>),
    /// A close frame with its code, if it has one.
    Close(Option<u16>),
}

/// How the player broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum InboundError {
    /// RFC 6455 §5.1: frames from a client are masked.
    #[error("the player sent an unmasked WebSocket frame")]
    Unmasked,
    /// Reserved bits or an unknown opcode.
    #[error("the player sent a WebSocket frame of an unknown kind")]
    Unknown,
    /// A control frame in fragments or above 125 bytes, or a continuation of nothing.
    #[error("the player sent a malformed WebSocket frame")]
    Malformed,
    /// More than [`MAX_MESSAGE_BYTES`].
    #[error("the player sent a WebSocket message of more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
}

impl InboundError {
    /// The close code that tells the player (RFC 6455 §7.4.1).
    pub(crate) fn close_code(self) -> u16 {
        match self {
            Self::TooLong => 1009,
            Self::Unmasked | Self::Unknown | Self::Malformed => 1002,
        }
    }
}

/// A streaming reader of client frames; holds at most one control payload.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    head: Vec<u8>,
    frame: Option<Frame>,
    message_bytes: u64,
    in_message: bool,
}

#[derive(Debug)]
struct Frame {
    opcode: u8,
    mask: [u8; 4],
    left: u64,
    control: Vec<u8>,
}

impl Reader {
    /// Reads from the front of `input` until the player has said something or the input is used up.
    ///
    /// # Errors
    /// [`InboundError`] when the player broke the protocol; the connection must be closed.
    pub(crate) fn read(&mut self, input: &mut &[u8]) -> Result<Option<Inbound>, InboundError> {
        loop {
            let Some(mut frame) = self.frame.take() else {
                let Some((&byte, rest)) = input.split_first() else {
                    return Ok(None);
                };
                *input = rest;
                self.head.push(byte);
                self.frame = self.parse_head()?;
                if self.frame.is_some() {
                    self.head.clear();
                }
                continue;
            };
            let count = input.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
            let (payload, rest) = input.split_at_checked(count).unwrap_or_default();
            *input = rest;
            frame.left -= payload.len() as u64;
            if is_control(frame.opcode) {
                let at = frame.control.len();
                let mask = frame.mask.iter().cycle().skip(at % 4);
                frame
                    .control
                    .extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
            }
            if frame.left > 0 {
                self.frame = Some(frame);
                return Ok(None);
            }
            if let Some(said) = frame.said() {
                return Ok(Some(said));
            }
        }
    }

    fn parse_head(&mut self) -> Result<Option<Frame>, InboundError> {
        let &[first, second, ref extended @ ..] = self.head.as_slice() else {
            return Ok(None);
        };
        let (last, opcode) = (first & 0x80 != 0, first & 0x0F);
        if first & 0x70 != 0 || !matches!(opcode, 0..=2 | 8..=10) {
            return Err(InboundError::Unknown);
        }
        if second & 0x80 == 0 {
            return Err(InboundError::Unmasked);
        }
        let length_bytes = match second & 0x7F {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        debug_assert!(self.head.len() <= MAX_HEAD_BYTES);
        let Some((length, mask)) = extended.split_at_checked(length_bytes) else {
            return Ok(None);
        };
        let &[a, b, c, d] = mask else { return Ok(None) };
        let length = match length {
            [] => u64::from(second & 0x7F),
            bytes => bytes.iter().fold(0, |acc, byte| acc << 8 | u64::from(*byte)),
        };
        self.check(last, opcode, length)?;
        Ok(Some(Frame {
            opcode,
            mask: [a, b, c, d],
            left: length,
            control: Vec::new(),
        }))
    }

    fn check(&mut self, last: bool, opcode: u8, length: u64) -> Result<(), InboundError> {
        if is_control(opcode) {
            let sound = last && length <= MAX_CONTROL_BYTES;
            return if sound {
                Ok(())
            } else {
                Err(InboundError::Malformed)
            };
        }
        if (opcode == 0) != self.in_message {
            return Err(InboundError::Malformed);
        }
        self.message_bytes = self.message_bytes.saturating_add(length);
        if self.message_bytes > MAX_MESSAGE_BYTES {
            return Err(InboundError::TooLong);
        }
        self.in_message = !last;
        if last {
            self.message_bytes = 0;
        }
        Ok(())
    }
}

impl Frame {
    fn said(self) -> Option<Inbound> {
        match (self.opcode, self.control.as_slice()) {
            (8, [high, low, ..]) => Some(Inbound::Close(Some(u16::from_be_bytes([*high, *low])))),
            (8, _) => Some(Inbound::Close(None)),
            (9, _) => Some(Inbound::Ping(self.control)),
            _ => None,
        }
    }
}

fn is_control(opcode: u8) -> bool {
    opcode & 0x08 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A masked client frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [0x11, 0x22, 0x33, 0x44];
        let mut out = vec![first];
        match payload.len() {
            0..=125 => out.push(0x80 | payload.len() as u8),
            126..=65_535 => {
                out.push(0x80 | 126);
                out.extend((payload.len() as u16).to_be_bytes());
            }
            _ => {
                out.push(0x80 | 127);
                out.extend((payload.len() as u64).to_be_bytes());
            }
        }
        out.extend(mask);
        out.extend(
            payload
                .iter()
                .zip(mask.iter().cycle())
                .map(|(byte, mask)| byte ^ mask),
        );
        out
    }

    fn read_all(mut input: &[u8]) -> Result<Vec<Inbound>, InboundError> {
        let mut reader = Reader::default();
        let mut said = Vec::new();
        while let Some(event) = reader.read(&mut input)? {
            said.push(event);
        }
        assert!(input.is_empty());
        Ok(said)
    }

    fn conversation() -> Vec<u8> {
        let mut wire = frame(0x89, b"hello");
        wire.extend(frame(0x01, b"text in "));
        wire.extend(frame(0x89, &[7; 125]));
        wire.extend(frame(0x80, &[b'x'; 300]));
        wire.extend(frame(0x82, &[]));
        wire.extend(frame(0x8A, b"pong"));
        wire.extend(frame(0x88, &[0x03, 0xE8, b'b', b'y', b'e']));
        wire
    }

    #[test]
    fn control_frames_are_heard_and_data_is_read_past() {
        let said = read_all(&conversation()).unwrap();
        let expected = vec![
            Inbound::Ping(b"hello".to_vec()),
            Inbound::Ping(vec![7; 125]),
            Inbound::Close(Some(1000)),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn any_split_reads_the_same() {
        let wire = conversation();
        let whole = read_all(&wire).unwrap();
        for at in 0..=wire.len() {
            let mut reader = Reader::default();
            let mut said = Vec::new();
            for mut piece in [&wire[..at], &wire[at..]] {
                while let Some(event) = reader.read(&mut piece).unwrap() {
                    said.push(event);
                }
            }
            assert_eq!(said, whole, "split at {at}");
        }
    }

    #[test]
    fn what_the_rfc_forbids_is_refused() {
        assert_eq!(read_all(&[0x89, 0x00]), Err(InboundError::Unmasked));
        assert_eq!(read_all(&frame(0xC1, b"")), Err(InboundError::Unknown));
        assert_eq!(read_all(&frame(0x83, b"")), Err(InboundError::Unknown));
        assert_eq!(read_all(&frame(0x09, b"")), Err(InboundError::Malformed));
        assert_eq!(read_all(&frame(0x89, &[0; 126])), Err(InboundError::Malformed));
        assert_eq!(read_all(&frame(0x80, b"")), Err(InboundError::Malformed));
        let mut unfinished = frame(0x01, b"a");
        unfinished.extend(frame(0x81, b"b"));
        assert_eq!(read_all(&unfinished), Err(InboundError::Malformed));
    }

    #[test]
    fn long_messages_are_refused_from_their_head_alone() {
        let huge = [
            0x82, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 2, 3, 4,
        ];
        assert_eq!(read_all(&huge), Err(InboundError::TooLong));
        assert_eq!(read_all(&frame(0x82, &vec![0; 65_536])), Ok(Vec::new()));
        let mut endless = frame(0x02, &vec![0; 60_000]);
        endless.extend(frame(0x00, &vec![0; 6_000]));
        assert_eq!(read_all(&endless), Err(InboundError::TooLong));
    }

    proptest! {
        #[test]
        fn rubbish_never_panics_nor_piles_up(wire in proptest::collection::vec(any::<u8>(), 0..512)) {
            let mut reader = Reader::default();
            let mut input = wire.as_slice();
            while let Ok(Some(_)) = reader.read(&mut input) {}
            prop_assert!(reader.head.len() <= MAX_HEAD_BYTES);
        }
    }
}
