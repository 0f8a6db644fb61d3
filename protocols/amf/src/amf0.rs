//! AMF0 (Action Message Format AMF 0, December 2007).

use crate::{AmfError, Value, amf3, cursor::Cursor, limits::MAX_DEPTH, text};

const NUMBER: u8 = 0x00;
const BOOLEAN: u8 = 0x01;
const STRING: u8 = 0x02;
const OBJECT: u8 = 0x03;
const NULL: u8 = 0x05;
const UNDEFINED: u8 = 0x06;
const REFERENCE: u8 = 0x07;
const ECMA_ARRAY: u8 = 0x08;
const OBJECT_END: u8 = 0x09;
const STRICT_ARRAY: u8 = 0x0A;
const DATE: u8 = 0x0B;
const LONG_STRING: u8 = 0x0C;
const UNSUPPORTED: u8 = 0x0D;
const XML_DOCUMENT: u8 = 0x0F;
const TYPED_OBJECT: u8 = 0x10;
const AVM_PLUS: u8 = 0x11;

/// Reads one AMF0 value from the front of `input`, which then starts after it. On an error `input` is unchanged.
///
/// # Errors
/// Truncated input, an unknown marker, a reference, or a value over the [limits](crate::limits).
pub fn read(input: &mut &[u8]) -> Result<Value, AmfError> {
    let mut reader = Reader::new(input);
    let value = reader.value()?;
    *input = reader.cursor.rest();
    Ok(value)
}

/// Reads all values of a message.
///
/// # Errors
/// As [`read`]; the first bad value fails the whole message. The limits count over the message.
pub fn read_all(message: &[u8]) -> Result<Vec<Value>, AmfError> {
    let mut reader = Reader::new(message);
    let mut values = Vec::new();
    while !reader.cursor.rest().is_empty() {
        values.push(reader.value()?);
    }
    Ok(values)
}

/// Reads what can be read of a message and stops at the first error.
///
/// Objects and arrays that are open there are kept with what they hold, so that a message without its last end
/// marker loses nothing.
pub fn read_lenient(message: &[u8]) -> Vec<Value> {
    read_prefix(message).0
}

/// As [`read_lenient`], but what is over a limit is an error: no sender is careless by so much.
///
/// # Errors
/// A value over the [limits](crate::limits).
pub fn read_within_limits(message: &[u8]) -> Result<Vec<Value>, AmfError> {
    match read_prefix(message) {
        (_, Some(error)) if error.is_over_limit() => Err(error),
        (values, _) => Ok(values),
    }
}

/// What can be read, and what ended it before the message did.
fn read_prefix(message: &[u8]) -> (Vec<Value>, Option<AmfError>) {
    let mut reader = Reader::new(message);
    let mut values = Vec::new();
    while !reader.cursor.rest().is_empty() {
        match reader.value() {
            Ok(value) => values.push(value),
            Err(error) => {
                values.extend(reader.close_all());
                return (values, Some(error));
            }
        }
    }
    (values, None)
}

/// An object or array whose end has not been reached.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Name of the property that is being read.
    key: String,
    properties: Vec<(String, Value)>,
    items: Vec<Value>,
}

#[derive(Debug)]
enum Kind {
    Object,
    EcmaArray,
    Typed(String),
    Strict { items_left: u32 },
}

impl Open {
    fn add(&mut self, value: Value) {
        if let Kind::Strict { .. } = self.kind {
            self.items.push(value);
        } else {
            self.properties.push((std::mem::take(&mut self.key), value));
        }
    }

    fn close(self) -> Value {
        match self.kind {
            Kind::Object => Value::Object(self.properties),
            Kind::EcmaArray => Value::EcmaArray(self.properties),
            Kind::Typed(class) => Value::TypedObject {
                class,
                properties: self.properties,
            },
            Kind::Strict { .. } => Value::StrictArray(self.items),
        }
    }
}

#[derive(Debug)]
struct Reader<'a> {
    cursor: Cursor<'a>,
    stack: Vec<Open>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            cursor: Cursor::new(bytes),
            stack: Vec::new(),
        }
    }

    /// Reads one value with everything in it. After an error the open objects stay on the stack.
    fn value(&mut self) -> Result<Value, AmfError> {
        loop {
            let Some(value) = self.step()? else { continue };
            match self.stack.last_mut() {
                Some(open) => open.add(value),
                None => return Ok(value),
            }
        }
    }

    /// Reads up to the next complete value (`Some`) or opens an object or array (`None`).
    fn step(&mut self) -> Result<Option<Value>, AmfError> {
        if let Some(open) = self.stack.last_mut() {
            let ended = match &mut open.kind {
                Kind::Strict { items_left } => match items_left.checked_sub(1) {
                    Some(left) => {
                        *items_left = left;
                        false
                    }
                    None => true,
                },
                _ => {
                    open.key = self.cursor.short_text()?;
                    open.key.is_empty() && self.cursor.rest().first() == Some(&OBJECT_END)
                }
            };
            if ended {
                if !matches!(open.kind, Kind::Strict { .. }) {
                    self.cursor.u8()?;
                }
                return Ok(self.stack.pop().map(Open::close));
            }
        }
        self.cursor.charge()?;
        self.start()
    }

    /// Reads a marker and, for anything but an object or array, its value.
    fn start(&mut self) -> Result<Option<Value>, AmfError> {
        let offset = self.cursor.offset();
        let marker = self.cursor.u8()?;
        let value = match marker {
            NUMBER => Value::Number(self.cursor.f64()?),
            BOOLEAN => Value::Boolean(self.cursor.u8()? != 0),
            STRING => Value::String(self.cursor.short_text()?),
            LONG_STRING => Value::String(self.cursor.long_text()?),
            XML_DOCUMENT => Value::Xml(self.cursor.long_text()?),
            NULL => Value::Null,
            UNDEFINED => Value::Undefined,
            UNSUPPORTED => Value::Unsupported,
            DATE => Value::Date {
                unix_ms: self.cursor.f64()?,
                zone_min: self.cursor.i16()?,
            },
            AVM_PLUS => amf3::read_nested(&mut self.cursor, self.stack.len())?,
            REFERENCE => return Err(AmfError::Reference { offset }),
            OBJECT | ECMA_ARRAY | STRICT_ARRAY | TYPED_OBJECT => {
                self.open(marker, offset)?;
                return Ok(None);
            }
            _ => return Err(AmfError::UnknownMarker { marker, offset }),
        };
        Ok(Some(value))
    }

    fn open(&mut self, marker: u8, offset: usize) -> Result<(), AmfError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(AmfError::TooDeep { offset });
        }
        let kind = match marker {
            ECMA_ARRAY => {
                self.cursor.u32()?;
                Kind::EcmaArray
            }
            STRICT_ARRAY => Kind::Strict {
                items_left: self.cursor.u32()?,
            },
            TYPED_OBJECT => Kind::Typed(self.cursor.short_text()?),
            _ => Kind::Object,
        };
        self.stack.push(Open {
            kind,
            key: String::new(),
            properties: Vec::new(),
            items: Vec::new(),
        });
        Ok(())
    }

    /// Ends every open object and array where it is; the outermost one.
    fn close_all(&mut self) -> Option<Value> {
        let mut closed = self.stack.pop()?.close();
        while let Some(mut outer) = self.stack.pop() {
            outer.add(closed);
            closed = outer.close();
        }
        Some(closed)
    }
}

/// Appends one AMF0 value to `out`.
///
/// Property and class names longer than 65,535 bytes, which AMF0 cannot express, are cut at a character boundary.
/// A byte array is written as AMF3 behind the AVM+ marker.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => {
            out.push(NUMBER);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Boolean(boolean) => out.extend_from_slice(&[BOOLEAN, u8::from(*boolean)]),
        Value::String(text) => write_text(text, out),
        Value::Object(properties) => {
            out.push(OBJECT);
            write_properties(properties, out);
        }
        Value::EcmaArray(properties) => {
            out.push(ECMA_ARRAY);
            out.extend_from_slice(&count(properties.len()).to_be_bytes());
            write_properties(properties, out);
        }
        Value::StrictArray(items) => {
            out.push(STRICT_ARRAY);
            out.extend_from_slice(&count(items.len()).to_be_bytes());
            for item in items {
                write(item, out);
            }
        }
        Value::TypedObject { class, properties } => {
            out.push(TYPED_OBJECT);
            write_name(class, out);
            write_properties(properties, out);
        }
        Value::Date { unix_ms, zone_min } => {
            out.push(DATE);
            out.extend_from_slice(&unix_ms.to_be_bytes());
            out.extend_from_slice(&zone_min.to_be_bytes());
        }
        Value::Xml(text) => write_long_text(XML_DOCUMENT, text, out),
        Value::ByteArray(_) => {
            out.push(AVM_PLUS);
            amf3::write(value, out);
        }
        Value::Null => out.push(NULL),
        Value::Undefined => out.push(UNDEFINED),
        Value::Unsupported => out.push(UNSUPPORTED),
    }
}

/// A length as the wire's 32 bits. RTMP messages end at 16 MiB, so the bound is never met in practice.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    match u16::try_from(text.len()) {
        Ok(length) => {
            out.push(STRING);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        Err(_) => write_long_text(LONG_STRING, text, out),
    }
}

fn write_long_text(marker: u8, text: &str, out: &mut Vec<u8>) {
    out.push(marker);
    out.extend_from_slice(&count(text.len()).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    let name = text::cut(name, usize::from(u16::MAX));
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn write_properties(properties: &[(String, Value)], out: &mut Vec<u8>) {
    for (name, value) in properties {
        write_name(name, out);
        write(value, out);
    }
    out.extend_from_slice(&[0, 0, OBJECT_END]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(mut bytes: &[u8]) -> Result<Value, AmfError> {
        read(&mut bytes)
    }

    #[test]
    fn an_ecma_array_is_read_to_its_end_marker_whatever_its_count_says() {
        for count in [0u32, 1, 2, 77, u32::MAX] {
            let mut bytes = vec![0x08];
            bytes.extend_from_slice(&count.to_be_bytes());
            bytes.extend_from_slice(b"\x00\x05width\x00\x40\x94\x00\x00\x00\x00\x00\x00\x00\x00\x09\x05");
            assert_eq!(
                read_all(&bytes).unwrap(),
                [
                    Value::EcmaArray(vec![("width".to_owned(), Value::Number(1280.0))]),
                    Value::Null
                ],
                "count {count}"
            );
        }
    }

    #[test]
    fn a_missing_end_marker_at_the_message_end_loses_nothing_when_read_leniently() {
        let whole =
            b"\x02\x00\x0aonMetaData\x08\x00\x00\x00\x01\x00\x01a\x03\x00\x01b\x05\x00\x00\x09\x00\x00\x09";
        let expected = [
            Value::from("onMetaData"),
            Value::EcmaArray(vec![("a".to_owned(), Value::object([("b", Value::Null)]))]),
        ];
        assert_eq!(read_all(whole).unwrap(), expected);
        for missing in 0..=6 {
            let cut = &whole[..whole.len() - missing];
            assert_eq!(read_lenient(cut), expected, "{missing} bytes missing");
            assert_eq!(read_all(cut).is_err(), missing > 0);
        }
    }

    #[test]
    fn lenient_reading_keeps_what_came_before_an_unknown_marker() {
        let bytes = b"\x02\x00\x01a\x0a\x00\x00\x00\x09\x01\x01\x0e\x05";
        assert_eq!(
            read_lenient(bytes),
            [Value::from("a"), Value::StrictArray(vec![Value::Boolean(true)])]
        );
        assert_eq!(read_lenient(b"\x00\x04"), []);
    }

    #[test]
    fn a_count_from_the_wire_reserves_nothing() {
        for bytes in [
            &b"\x08\x07\xff\xff\xff"[..],
            b"\x0a\xff\xff\xff\xff",
            b"\x0c\xff\xff\xff\xff",
            b"\x02\xff\xff",
        ] {
            assert_eq!(read_one(bytes), Err(AmfError::Truncated { offset: bytes.len() }));
        }
        assert_eq!(
            read_lenient(b"\x0a\xff\xff\xff\xff"),
            [Value::StrictArray(vec![])]
        );
    }

    #[test]
    fn nesting_is_refused_at_its_limit_and_not_before() {
        let bomb = |depth: usize| b"\x03\x00\x01a".repeat(depth);
        assert_eq!(
            read_one(&bomb(20_000)),
            Err(AmfError::TooDeep {
                offset: 4 * MAX_DEPTH
            })
        );
        let arrays = b"\x0a\x00\x00\x00\x01".repeat(20_000);
        assert_eq!(
            read_one(&arrays),
            Err(AmfError::TooDeep {
                offset: 5 * MAX_DEPTH
            })
        );

        let mut allowed = bomb(MAX_DEPTH);
        allowed.push(NULL);
        allowed.extend(b"\x00\x00\x09".repeat(MAX_DEPTH));
        assert!(read_one(&allowed).is_ok());

        let mut through_amf3 = bomb(MAX_DEPTH);
        through_amf3.extend_from_slice(b"\x11\x09\x01\x01");
        assert!(matches!(read_one(&through_amf3), Err(AmfError::TooDeep { .. })));
    }

    #[test]
    fn the_number_of_values_is_bounded_over_the_whole_message() {
        use crate::limits::MAX_VALUES;
        assert_eq!(read_all(&vec![NULL; MAX_VALUES]).unwrap().len(), MAX_VALUES);
        let over = vec![NULL; MAX_VALUES + 1];
        assert_eq!(
            read_all(&over),
            Err(AmfError::TooManyValues { offset: MAX_VALUES })
        );
        assert_eq!(read_lenient(&over).len(), MAX_VALUES);
        let mut array = b"\x0a\x00\xff\xff\xff".to_vec();
        array.extend(vec![UNDEFINED; 70_000]);
        assert!(matches!(read_one(&array), Err(AmfError::TooManyValues { .. })));
    }

    #[test]
    fn references_reserved_markers_and_a_stray_end_are_refused() {
        assert_eq!(read_one(b"\x07\x00\x00"), Err(AmfError::Reference { offset: 0 }));
        for marker in [0x04, 0x09, 0x0e, 0x12, 0x55, 0xff] {
            assert_eq!(
                read_one(&[marker, 0, 0]),
                Err(AmfError::UnknownMarker { marker, offset: 0 })
            );
        }
    }

    #[test]
    fn text_that_is_not_utf8_or_holds_nul_is_read() {
        assert_eq!(read_one(b"\x02\x00\x03a\xffb"), Ok(Value::from("a\u{fffd}b")));
        assert_eq!(read_one(b"\x02\x00\x03a\x00b"), Ok(Value::from("a\0b")));
    }

    #[test]
    fn a_property_may_have_an_empty_name() {
        assert_eq!(
            read_one(b"\x03\x00\x00\x05\x00\x00\x09"),
            Ok(Value::Object(vec![(String::new(), Value::Null)]))
        );
    }

    #[test]
    fn reading_leaves_the_input_after_the_value_and_untouched_on_an_error() {
        let mut input = &b"\x05\x01\x01\x00\x40"[..];
        assert_eq!(read(&mut input), Ok(Value::Null));
        assert_eq!(read(&mut input), Ok(Value::Boolean(true)));
        assert_eq!(read(&mut input), Err(AmfError::Truncated { offset: 2 }));
        assert_eq!(input, b"\x00\x40");
    }

    #[test]
    fn the_byte_array_of_the_twitch_vod_track_is_read() {
        let bytes = b"\x02\x00\x0fadditionalMedia\x03\x00\x05media\x11\x0c\x05\xaf\x01\x00\x00\x09";
        assert_eq!(
            read_all(bytes).unwrap(),
            [
                Value::from("additionalMedia"),
                Value::object([("media", Value::ByteArray(vec![0xaf, 0x01]))])
            ]
        );
    }

    #[test]
    fn long_text_takes_the_long_form_and_a_long_name_is_cut_between_characters() {
        let long = "é".repeat(40_000);
        let mut bytes = Vec::new();
        write(&Value::from(long.as_str()), &mut bytes);
        assert_eq!(bytes[0], LONG_STRING);
        assert_eq!(read_one(&bytes), Ok(Value::String(long.clone())));

        bytes.clear();
        write(&Value::object([(long, Value::Null)]), &mut bytes);
        let value = read_one(&bytes).unwrap();
        assert_eq!(value.properties()[0].0.len(), 65_534);
    }
}
