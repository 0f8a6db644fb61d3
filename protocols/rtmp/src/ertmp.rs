//! Enhanced RTMP v2 capability negotiation in the connect command and its result, and the few
//! looks into media bodies a session needs.

use crate::session::MediaKind;
use spillway_amf::Value;

/// Bits of the `capsEx` property.
pub mod caps_ex {
    /// The peer understands a reconnect request.
    pub const RECONNECT: u32 = 1;
    /// The peer understands multitrack packets.
    pub const MULTITRACK: u32 = 2;
    /// The peer understands ModEx packets.
    pub const MOD_EX: u32 = 4;
    /// The peer understands nanosecond offsets of timestamps.
    pub const TIMESTAMP_NANO_OFFSET: u32 = 8;
}

/// Bits of the values in `videoFourCcInfoMap` and `audioFourCcInfoMap`.
pub mod four_cc_info {
    /// The peer can decode the codec.
    pub const CAN_DECODE: u32 = 1;
    /// The peer can encode the codec.
    pub const CAN_ENCODE: u32 = 2;
    /// The peer can pass the codec on.
    pub const CAN_FORWARD: u32 = 4;
}

/// The FourCCs of Enhanced RTMP v2, video first. Clients of the first edition (2023) look for
/// theirs in `fourCcList` and know neither the maps nor the wildcard.
const FOUR_CCS: [&str; 12] = [
    "av01", "vp08", "vp09", "avc1", "hvc1", "vvc1", "Opus", "fLaC", "mp4a", ".mp3", "ac-3", "ec-3",
];

/// What a client said of Enhanced RTMP in its connect command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// The client sent at least one of `fourCcList`, the FourCC maps and `capsEx`. Publishers send
    /// enhanced media without any of them; players that do not are to be taken for legacy ones.
    pub enhanced: bool,
    /// The `capsEx` bits, see [`caps_ex`].
    pub caps_ex: u32,
}

impl Capabilities {
    /// Reads the properties of a connect command object.
    pub fn from_properties(object: &Value) -> Self {
        let caps_ex = object.get("capsEx").and_then(Value::as_f64).map(bits);
        let enhanced = caps_ex.is_some()
            || ["fourCcList", "videoFourCcInfoMap", "audioFourCcInfoMap"]
                .iter()
                .any(|key| !matches!(object.get(key), None | Some(Value::Null | Value::Undefined)));
        Self {
            enhanced,
            caps_ex: caps_ex.unwrap_or_default(),
        }
    }

    /// Whether the client understands a reconnect request.
    pub fn reconnect(self) -> bool {
        self.caps_ex & caps_ex::RECONNECT != 0
    }
}

/// What the server says in the connect result: it forwards any codec, multitrack and ModEx
/// unchanged, and it may send a reconnect request.
pub fn server_properties() -> Vec<(String, Value)> {
    properties(
        caps_ex::RECONNECT | caps_ex::MULTITRACK | caps_ex::MOD_EX | caps_ex::TIMESTAMP_NANO_OFFSET,
        four_cc_info::CAN_FORWARD,
    )
}

/// What our client says in its connect command. It leaves out Reconnect: moving a relay to
/// another server is its owner's decision.
pub fn client_properties() -> Vec<(String, Value)> {
    properties(
        caps_ex::MULTITRACK | caps_ex::MOD_EX | caps_ex::TIMESTAMP_NANO_OFFSET,
        four_cc_info::CAN_FORWARD,
    )
}

fn properties(caps: u32, any_codec: u32) -> Vec<(String, Value)> {
    let four_ccs = FOUR_CCS
        .iter()
        .map(|name| Value::String((*name).to_owned()))
        .collect();
    let map = Value::Object(vec![("*".to_owned(), Value::Number(f64::from(any_codec)))]);
    vec![
        ("fourCcList".to_owned(), Value::StrictArray(four_ccs)),
        ("videoFourCcInfoMap".to_owned(), map.clone()),
        ("audioFourCcInfoMap".to_owned(), map),
        ("capsEx".to_owned(), Value::Number(f64::from(caps))),
    ]
}

/// A number read as a set of bits; anything but a whole number of 32 bits is the empty set.
fn bits(number: f64) -> u32 {
    crate::command::request::message_stream_id(number).unwrap_or_default()
}

/// Whether a media message carries decoder configuration instead of samples: a sequence header,
/// legacy or enhanced, or a script message. Such messages must never be lost.
pub(crate) fn is_configuration(kind: MediaKind, body: &[u8]) -> bool {
    let Some(&first) = body.first() else { return false };
    let second = body.get(1).copied();
    match kind {
        MediaKind::Data | MediaKind::DataAmf3 => true,
        // Enhanced packet types 0 SequenceStart, 4 Metadata, 5 MPEG2TSSequenceStart; multitrack (6)
        // and ModEx (7) name the real packet type in a later byte, multitrack in the next one.
        MediaKind::Video if first & 0x80 != 0 => match first & 0x0F {
            0 | 4 | 5 => true,
            6 => second.is_some_and(|byte| byte & 0x0F == 0),
            _ => false,
        },
        // Codec ids 7 AVC, 12 HEVC and 13 AV1 have a packet type byte; 0 is the sequence header.
        MediaKind::Video => matches!(first & 0x0F, 7 | 12 | 13) && second == Some(0),
        // Enhanced packet types 0 SequenceStart, 4 MultichannelConfig, 5 Multitrack.
        MediaKind::Audio if first >> 4 == 9 => match first & 0x0F {
            0 | 4 => true,
            5 => second.is_some_and(|byte| byte & 0x0F == 0),
            _ => false,
        },
        MediaKind::Audio => first >> 4 == 10 && second == Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(properties: Vec<(&str, Value)>) -> Value {
        Value::Object(
            properties
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    }

    #[test]
    fn any_one_property_makes_a_client_enhanced() {
        let list = Value::StrictArray(vec![Value::String("*".to_owned())]);
        let cases = [
            (object(vec![]), false),
            (object(vec![("fourCcList", Value::Null)]), false),
            (object(vec![("fourCcList", list)]), true),
            (object(vec![("capsEx", Value::Number(0.0))]), true),
            (object(vec![("videoFourCcInfoMap", object(vec![]))]), true),
            (object(vec![("audioFourCcInfoMap", object(vec![]))]), true),
        ];
        for (properties, enhanced) in cases {
            assert_eq!(
                Capabilities::from_properties(&properties).enhanced,
                enhanced,
                "{properties:?}"
            );
        }
    }

    #[test]
    fn reconnect_is_the_lowest_bit_of_caps_ex() {
        let caps = |value| Capabilities::from_properties(&object(vec![("capsEx", Value::Number(value))]));
        assert!(caps(1.0).reconnect());
        assert!(caps(15.0).reconnect());
        assert!(!caps(14.0).reconnect());
        assert!(!caps(f64::NAN).reconnect());
    }

    #[test]
    fn configuration_is_told_from_samples() {
        use MediaKind::{Audio, Data, Video};
        for (kind, body, expected) in [
            (Video, &[0x17, 0, 0, 0, 0][..], true),
            (Video, &[0x17, 1, 0, 0, 0], false),
            (Video, &[0x17, 2, 0, 0, 0], false),
            (Video, &[0x1C, 0], true),
            (Video, &[0x22, 0], false),
            (Video, &[0x90, b'h', b'v', b'c', b'1'], true),
            (Video, &[0x91, b'h', b'v', b'c', b'1'], false),
            (Video, &[0xD4], true),
            (Video, &[0x96, 0x00], true),
            (Video, &[0x96, 0x01], false),
            (Video, &[0x96], false),
            (Audio, &[0xAF, 0], true),
            (Audio, &[0xAF, 1], false),
            (Audio, &[0x2F, 0], false),
            (Audio, &[0x90], true),
            (Audio, &[0x91], false),
            (Audio, &[0x95, 0x01], false),
            (Data, &[2, 0], true),
            (Audio, &[], false),
        ] {
            assert_eq!(is_configuration(kind, body), expected, "{kind:?} {body:02x?}");
        }
    }
}
