//! Messages: type ids, the bodies of protocol control messages, user control events and
//! aggregate messages (RTMP 1.0 §5.4, §6, §7.1).

pub mod aggregate;
pub mod user_control;

pub use aggregate::{Aggregate, SubMessage};
pub use user_control::UserControl;

/// Message type ids (RTMP 1.0 §5.4 and §7.1).
pub mod type_id {
    /// Set Chunk Size (§5.4.1).
    pub const SET_CHUNK_SIZE: u8 = 1;
    /// Abort Message (§5.4.2).
    pub const ABORT: u8 = 2;
    /// Acknowledgement (§5.4.3).
    pub const ACKNOWLEDGEMENT: u8 = 3;
    /// User Control Message (§6.2).
    pub const USER_CONTROL: u8 = 4;
    /// Window Acknowledgement Size (§5.4.4).
    pub const WINDOW_ACK_SIZE: u8 = 5;
    /// Set Peer Bandwidth (§5.4.5).
    pub const SET_PEER_BANDWIDTH: u8 = 6;
    /// Audio Message (§7.1.4).
    pub const AUDIO: u8 = 8;
    /// Video Message (§7.1.5).
    pub const VIDEO: u8 = 9;
    /// Data Message, AMF3 flavour (§7.1.2).
    pub const DATA_AMF3: u8 = 15;
    /// Shared Object Message, AMF3 flavour (§7.1.3).
    pub const SHARED_OBJECT_AMF3: u8 = 16;
    /// Command Message, AMF3 flavour (§7.1.1).
    pub const COMMAND_AMF3: u8 = 17;
    /// Data Message, AMF0 (§7.1.2).
    pub const DATA: u8 = 18;
    /// Shared Object Message, AMF0 (§7.1.3).
    pub const SHARED_OBJECT: u8 = 19;
    /// Command Message, AMF0 (§7.1.1).
    pub const COMMAND: u8 = 20;
    /// Aggregate Message (§7.1.6).
    pub const AGGREGATE: u8 = 22;
}

/// Chunk stream ids this crate sends on. Receivers must not read a meaning into them.
pub mod chunk_stream {
    /// Protocol and user control messages (the id RTMP 1.0 §5.4 names).
    pub const CONTROL: u32 = 2;
    /// Commands of the connection and their results.
    pub const COMMAND: u32 = 3;
    /// Audio messages.
    pub const AUDIO: u32 = 4;
    /// Commands and status of a message stream.
    pub const STREAM: u32 = 5;
    /// Video messages.
    pub const VIDEO: u32 = 6;
    /// Data messages.
    pub const DATA: u32 = 7;
}

/// How a peer is to apply a Set Peer Bandwidth message (RTMP 1.0 §5.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LimitType {
    /// Limit the output to the given window.
    Hard = 0,
    /// Limit the output to the given window or the one in effect, whichever is smaller.
    Soft = 1,
    /// As `Hard` if the limit before was hard, else ignored.
    Dynamic = 2,
}

/// The body of Set Chunk Size: `chunk_size` in bytes, top bit cleared (RTMP 1.0 §5.4.1).
pub fn set_chunk_size(chunk_size: u32) -> [u8; 4] {
    (chunk_size & 0x7FFF_FFFF).to_be_bytes()
}

/// The body of Acknowledgement: bytes received so far, wrapping at 2^32 (RTMP 1.0 §5.4.3).
pub fn acknowledgement(bytes_received: u64) -> [u8; 4] {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the sequence number wraps at 2^32 on the wire"
    )]
    let sequence_number = bytes_received as u32;
    sequence_number.to_be_bytes()
}

/// The body of Window Acknowledgement Size: `window_bytes` (RTMP 1.0 §5.4.4).
pub fn window_ack_size(window_bytes: u32) -> [u8; 4] {
    window_bytes.to_be_bytes()
}

/// The body of Set Peer Bandwidth: `window_bytes` and how to apply it (RTMP 1.0 §5.4.5).
pub fn set_peer_bandwidth(window_bytes: u32, limit: LimitType) -> [u8; 5] {
    let [a, b, c, d] = window_bytes.to_be_bytes();
    [a, b, c, d, limit as u8]
}

/// The big-endian number at the start of a control message's body. `None` when the body is too
/// short. Used for Window Acknowledgement Size and Set Peer Bandwidth, whose limit type some
/// cameras leave out.
pub fn leading_u32(body: &[u8]) -> Option<u32> {
    body.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_bodies_have_the_layout_of_the_specification() {
        assert_eq!(set_chunk_size(65_536), [0, 1, 0, 0]);
        assert_eq!(set_chunk_size(u32::MAX), [0x7F, 0xFF, 0xFF, 0xFF]);
        assert_eq!(window_ack_size(2_500_000), [0x00, 0x26, 0x25, 0xA0]);
        assert_eq!(set_peer_bandwidth(1, LimitType::Dynamic), [0, 0, 0, 1, 2]);
    }

    #[test]
    fn acknowledgement_wraps_at_32_bits() {
        assert_eq!(acknowledgement(0x1_0000_0005), [0, 0, 0, 5]);
    }

    #[test]
    fn a_short_control_body_has_no_number() {
        assert_eq!(leading_u32(&[0, 0, 1]), None);
        assert_eq!(leading_u32(&[0, 0, 1, 0]), Some(256));
        assert_eq!(leading_u32(&[0, 0, 1, 0, 2]), Some(256));
    }
}
