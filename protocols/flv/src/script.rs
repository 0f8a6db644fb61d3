//! Script data messages (FLV 10.1 annex E.4.4; RTMP data messages).

use spillway_amf::{Value, amf0};

/// The name of the metadata message.
pub const ON_METADATA: &str = "onMetaData";
/// The wrapper RTMP publishers put around it; never stored for players (interop case 71).
pub const SET_DATA_FRAME: &str = "@setDataFrame";

/// A data message: a name and what follows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptData {
    /// The name, without the `@setDataFrame` wrapper.
    pub name: String,
    /// The values behind the name, as far as they could be read.
    pub values: Vec<Value>,
}

impl ScriptData {
    /// Reads an AMF0 body (tag type 18, RTMP message type 18). Values before the first string are
    /// skipped (interop case 63) and damage ends the values without an error (cases 66, 69).
    /// `None` when there is no name, so that nobody can mistake it for one.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let mut values = amf0::read_lenient(body).into_iter();
        let mut name = next_string(&mut values)?;
        if name == SET_DATA_FRAME {
            name = next_string(&mut values)?;
        }
        Some(Self {
            name,
            values: values.collect(),
        })
    }

    /// Reads the body of tag type 15 or RTMP message type 15: a selector byte 0, then as AMF0 with
    /// AMF3 values where marked. A missing selector is tolerated.
    pub fn parse_amf3(body: &[u8]) -> Option<Self> {
        match body.split_first() {
            // 0 is also AMF0's number marker, so try without the selector second.
            Some((0, rest)) => Self::parse(rest).or_else(|| Self::parse(body)),
            _ => Self::parse(body),
        }
    }

    /// Whether it is onMetaData, the only data message that is kept for later viewers (interop
    /// case 68).
    pub fn is_metadata(&self) -> bool {
        self.name == ON_METADATA
    }
}

/// Skips to the next string.
fn next_string(values: &mut impl Iterator<Item = Value>) -> Option<String> {
    values.find_map(|value| match value {
        Value::String(text) => Some(text),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(values: &[Value]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| amf0::write(value, &mut out));
        out
    }

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn the_wrapper_and_leading_numbers_are_skipped() {
        let info = Value::EcmaArray(vec![("width".to_owned(), Value::Number(320.0))]);
        let wanted = ScriptData {
            name: ON_METADATA.to_owned(),
            values: vec![info.clone()],
        };
        for values in [
            vec![text(ON_METADATA), info.clone()],
            vec![text(SET_DATA_FRAME), text(ON_METADATA), info.clone()],
            vec![
                Value::Number(1.0),
                Value::Number(2.0),
                text(SET_DATA_FRAME),
                text(ON_METADATA),
                info.clone(),
            ],
        ] {
            let body = body(&values);
            assert_eq!(ScriptData::parse(&body), Some(wanted.clone()));
            assert_eq!(
                ScriptData::parse_amf3(&[&[0], &body[..]].concat()),
                Some(wanted.clone())
            );
            assert_eq!(ScriptData::parse_amf3(&body), Some(wanted.clone()));
        }
        assert!(wanted.is_metadata());
    }

    #[test]
    fn bodies_without_a_name_are_none() {
        assert_eq!(ScriptData::parse(&[]), None);
        assert_eq!(
            ScriptData::parse(&[0, 0, 0, 1]),
            None,
            "FFmpeg's four-byte time code"
        );
        assert_eq!(ScriptData::parse(&body(&[text(SET_DATA_FRAME)])), None);
        assert_eq!(ScriptData::parse_amf3(&[0]), None);
    }

    #[test]
    fn other_messages_keep_their_name() {
        let data = ScriptData::parse(&body(&[
            text(SET_DATA_FRAME),
            text("onExpectAdditionalMedia"),
            Value::Null,
        ]));
        assert!(!data.unwrap().is_metadata());
        // OBS's additionalMedia carries an AMF3 byte array behind the switch marker.
        let mut message = body(&[text("additionalMedia")]);
        message.extend_from_slice(&[0x11, 0x0C, 0x07, 1, 2, 3]);
        let data = ScriptData::parse(&message).unwrap();
        assert_eq!(
            (data.name.as_str(), data.values),
            ("additionalMedia", vec![Value::ByteArray(vec![1, 2, 3])])
        );
    }

    #[test]
    fn damage_ends_the_values_and_keeps_the_name() {
        let mut message = body(&[text(ON_METADATA)]);
        message.extend_from_slice(&[0x07, 0x00, 0x01]);
        assert_eq!(ScriptData::parse(&message).unwrap().values, []);
    }

    proptest! {
        #[test]
        fn never_panics(data: Vec<u8>) {
            drop((ScriptData::parse(&data), ScriptData::parse_amf3(&data)));
        }
    }
}
