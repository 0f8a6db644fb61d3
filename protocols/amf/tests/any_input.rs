//! What holds for every value and for every input.

use proptest::prelude::*;
use spillway_amf::{AmfError, Value, amf0, amf3};

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z]{1,12}", "\\PC{1,8}"]
}

fn scalar() -> impl Strategy<Value = Value> {
    let number = || prop::num::f64::ANY.prop_filter("comparable", |number| !number.is_nan());
    prop_oneof![
        number().prop_map(Value::Number),
        any::<bool>().prop_map(Value::Boolean),
        "\\PC{0,40}".prop_map(Value::String),
        "\\PC{0,40}".prop_map(Value::Xml),
        (number(), any::<i16>()).prop_map(|(unix_ms, zone_min)| Value::Date { unix_ms, zone_min }),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::ByteArray),
        Just(Value::Null),
        Just(Value::Undefined),
        Just(Value::Unsupported),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 64, 6, |inner| {
        let properties = || prop::collection::vec((name(), inner.clone()), 0..6);
        prop_oneof![
            properties().prop_map(Value::Object),
            properties().prop_map(Value::EcmaArray),
            (name(), properties()).prop_map(|(class, properties)| Value::TypedObject { class, properties }),
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::StrictArray),
        ]
    })
}

/// The value as it comes back from AMF3, which lacks some distinctions.
fn through_amf3(value: Value) -> Value {
    let all = |properties: Vec<(String, Value)>| {
        properties
            .into_iter()
            .map(|(name, value)| (name, through_amf3(value)))
            .collect()
    };
    match value {
        Value::Date { unix_ms, .. } => Value::Date { unix_ms, zone_min: 0 },
        Value::Unsupported => Value::Undefined,
        Value::EcmaArray(properties) if properties.is_empty() => Value::StrictArray(Vec::new()),
        Value::EcmaArray(properties) => Value::EcmaArray(all(properties)),
        Value::Object(properties) => Value::Object(all(properties)),
        Value::TypedObject { class, properties } => Value::TypedObject {
            class,
            properties: all(properties),
        },
        Value::StrictArray(items) => Value::StrictArray(items.into_iter().map(through_amf3).collect()),
        scalar => scalar,
    }
}

/// Bytes that look like AMF often enough to get deep into the readers.
fn plausible_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![3 => 0u8..0x12, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..600)
}

/// Text bytes and number of values.
fn weight(value: &Value) -> (usize, usize) {
    let (text, inner): (usize, Vec<&Value>) = match value {
        Value::String(text) | Value::Xml(text) => (text.len(), vec![]),
        Value::ByteArray(bytes) => (bytes.len(), vec![]),
        Value::StrictArray(items) => (0, items.iter().collect()),
        other => {
            let properties = other.properties();
            (
                properties.iter().map(|(name, _)| name.len()).sum(),
                properties.iter().map(|(_, v)| v).collect(),
            )
        }
    };
    inner
        .into_iter()
        .map(weight)
        .fold((text, 1), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

proptest! {
    #[test]
    fn amf0_reads_back_what_it_wrote(values in prop::collection::vec(value(), 0..4)) {
        let mut bytes = Vec::new();
        for value in &values {
            amf0::write(value, &mut bytes);
        }
        prop_assert_eq!(amf0::read_all(&bytes).unwrap(), values.clone());
        prop_assert_eq!(amf0::read_lenient(&bytes), values);
    }

    #[test]
    fn amf3_reads_back_what_it_wrote(value in value()) {
        let mut bytes = Vec::new();
        amf3::write(&value, &mut bytes);
        let mut input = &bytes[..];
        prop_assert_eq!(amf3::read(&mut input).unwrap(), through_amf3(value));
        prop_assert!(input.is_empty());
    }

    #[test]
    fn a_message_cut_anywhere_is_truncated_and_nothing_else(value in value(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        amf0::write(&value, &mut bytes);
        let mut input = &bytes[..cut.index(bytes.len())];
        let end = input.len();
        prop_assert_eq!(amf0::read(&mut input), Err(AmfError::Truncated { offset: end }));
    }

    #[test]
    fn any_bytes_are_read_or_refused_within_their_own_size(bytes in prop_oneof![
        plausible_bytes(),
        prop::collection::vec(any::<u8>(), 0..600),
    ]) {
        let lenient = amf0::read_lenient(&bytes);
        if let Ok(strict) = amf0::read_all(&bytes) {
            prop_assert_eq!(format!("{lenient:?}"), format!("{strict:?}"));
        }
        let (text, values) = lenient.iter().map(weight).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        // A replaced byte becomes three.
        prop_assert!(text <= 3 * bytes.len());
        prop_assert!(values <= bytes.len());
        let _ = amf3::read(&mut &bytes[..]);
    }
}
