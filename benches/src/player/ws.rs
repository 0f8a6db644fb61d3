//! WebSocket frames from a server (RFC 6455 §5.2).

use super::carry::{Carry, take};
use crate::error::LoadError;

/// Longest head of an unmasked frame.
const MAX_HEAD_LEN: usize = 10;
/// A pong without payload, masked with zeroes.
const PONG: [u8; 6] = [0x8A, 0x80, 0, 0, 0, 0];
const OPCODE_CLOSE: u8 = 8;
const OPCODE_PING: u8 = 9;

/// Takes frames apart.
#[derive(Debug, Default)]
pub(crate) struct WsScan {
    head: Carry<MAX_HEAD_LEN>,
    missing: u64,
    is_content: bool,
}

impl WsScan {
    /// The next piece of content at the front of `input`; answers go to `out`.
    pub(crate) fn read<'a>(
        &mut self,
        input: &mut &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, LoadError> {
        loop {
            if self.missing > 0 {
                if input.is_empty() {
                    return Ok(None);
                }
                let piece = take(input, usize::try_from(self.missing).unwrap_or(usize::MAX));
                self.missing -= piece.len() as u64;
                if self.is_content {
                    return Ok(Some(piece));
                }
                continue;
            }
            if !self.head.fill(input, 2) {
                return Ok(None);
            }
            let second = self.head.bytes().get(1).copied().unwrap_or_default();
            let length_len = match second {
                126 => 2,
                127 => 8,
                0x80.. => return Err(LoadError::Protocol("a masked frame from a server")),
                _ => 0,
            };
            if !self.head.fill(input, 2 + length_len) {
                return Ok(None);
            }
            let extended = self.head.bytes().get(2..).unwrap_or_default();
            let long = extended
                .iter()
                .fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
            self.missing = if length_len == 0 { u64::from(second) } else { long };
            let opcode = self.head.bytes().first().copied().unwrap_or_default() & 0x0F;
            self.is_content = opcode < OPCODE_CLOSE;
            self.head.clear();
            match opcode {
                OPCODE_CLOSE => return Err(LoadError::Closed),
                OPCODE_PING => out.extend_from_slice(&PONG),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_gives_the_content() {
        let mut stream = vec![0x82, 3, 1, 2, 3, 0x89, 1, 9, 0x82, 126, 0, 200];
        stream.extend([4; 200]);
        stream.extend([0x82, 127, 0, 0, 0, 0, 0, 0, 0, 2, 5, 6]);
        let expected: Vec<u8> = [1, 2, 3].into_iter().chain([4; 200]).chain([5, 6]).collect();
        for at in 0..=stream.len() {
            let (mut scan, mut out, mut content) = (WsScan::default(), Vec::new(), Vec::new());
            for mut input in [&stream[..at], &stream[at..]] {
                while let Some(piece) = scan.read(&mut input, &mut out).unwrap() {
                    content.extend_from_slice(piece);
                }
            }
            assert_eq!(content, expected, "split at {at}");
            assert_eq!(out, PONG);
        }
    }
}
