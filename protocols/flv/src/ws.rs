//! WebSocket frame heads (RFC 6455 §5.2).

/// The longest head of an unmasked frame.
pub const MAX_HEAD_LEN: usize = 10;

/// FIN and opcode 2: a whole binary message.
const FIN_BINARY: u8 = 0x82;

/// The head of an unmasked, final binary frame in front of `payload_len` bytes, and how many
/// bytes of the array it takes. Lengths use the shortest form, as the RFC demands.
pub fn frame_head(payload_len: usize) -> ([u8; MAX_HEAD_LEN], usize) {
    let mut head = [0; MAX_HEAD_LEN];
    head[0] = FIN_BINARY;
    if let Some(length) = u8::try_from(payload_len).ok().filter(|length| *length < 126) {
        head[1] = length;
        return (head, 2);
    }
    if let Ok(length) = u16::try_from(payload_len) {
        head[1] = 126;
        head[2..4].copy_from_slice(&length.to_be_bytes());
        return (head, 4);
    }
    head[1] = 127;
    head[2..].copy_from_slice(&(payload_len as u64).to_be_bytes());
    (head, MAX_HEAD_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_form_at_its_borders() {
        let head = |length| {
            let (head, used) = frame_head(length);
            head[..used].to_vec()
        };
        assert_eq!(head(0), [0x82, 0]);
        assert_eq!(head(125), [0x82, 125]);
        assert_eq!(head(126), [0x82, 126, 0, 126]);
        assert_eq!(head(65_535), [0x82, 126, 0xFF, 0xFF]);
        assert_eq!(head(65_536), [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
