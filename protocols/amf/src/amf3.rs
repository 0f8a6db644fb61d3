//! AMF3 (AMF 3 specification, January 2013), as far as RTMP peers use it.
//!
//! References are refused: string, object and trait tables would let a few bytes stand for a large value many times
//! over. Dictionaries are refused too, because their keys are values of any kind.

use crate::{AmfError, Value, cursor::Cursor, limits::MAX_DEPTH, text};

const UNDEFINED: u8 = 0x00;
const NULL: u8 = 0x01;
const FALSE: u8 = 0x02;
const TRUE: u8 = 0x03;
const INTEGER: u8 = 0x04;
const DOUBLE: u8 = 0x05;
const STRING: u8 = 0x06;
const XML_DOCUMENT: u8 = 0x07;
const DATE: u8 = 0x08;
const ARRAY: u8 = 0x09;
const OBJECT: u8 = 0x0A;
const XML: u8 = 0x0B;
const BYTE_ARRAY: u8 = 0x0C;
const VECTOR_INT: u8 = 0x0D;
const VECTOR_UINT: u8 = 0x0E;
const VECTOR_DOUBLE: u8 = 0x0F;
const VECTOR_OBJECT: u8 = 0x10;

/// The largest length the 29-bit form can say beside its reference bit.
const MAX_LENGTH: usize = (1 << 28) - 1;

/// Reads one AMF3 value from the front of `input`, which then starts after it. On an error `input` is unchanged.
///
/// Integers become numbers, vectors strict arrays. An array with named elements becomes an ECMA array whose dense
/// part follows under the names "0", "1", ….
///
/// # Errors
/// Truncated input, an unknown marker, a reference, an externalizable object, or a value over the
/// [limits](crate::limits).
pub fn read(input: &mut &[u8]) -> Result<Value, AmfError> {
    let mut cursor = Cursor::new(input);
    cursor.charge()?;
    let value = read_nested(&mut cursor, 0)?;
    *input = cursor.rest();
    Ok(value)
}

/// Reads one value, charged by the caller, inside `depth` levels of AMF0.
pub(crate) fn read_nested(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, AmfError> {
    let mut reader = Reader {
        cursor,
        stack: Vec::new(),
        depth,
    };
    let mut step = reader.start()?;
    loop {
        if let Some(value) = step {
            match reader.stack.last_mut() {
                Some(open) => open.add(value),
                None => return Ok(value),
            }
        }
        step = reader.step()?;
    }
}

/// An object or array whose end has not been reached.
#[derive(Debug)]
struct Open {
    kind: Kind,
    /// Name of the property that is being read; `None` while dense items are read.
    key: Option<String>,
    properties: Vec<(String, Value)>,
    items: Vec<Value>,
}

#[derive(Debug)]
enum Kind {
    Object {
        class: String,
        sealed: std::vec::IntoIter<String>,
        dynamic: bool,
    },
    Array {
        named: bool,
        items_left: u32,
    },
}

impl Open {
    fn add(&mut self, value: Value) {
        match self.key.take() {
            Some(key) => self.properties.push((key, value)),
            None => self.items.push(value),
        }
    }

    fn close(mut self) -> Value {
        match self.kind {
            Kind::Object { class, .. } if class.is_empty() => Value::Object(self.properties),
            Kind::Object { class, .. } => Value::TypedObject {
                class,
                properties: self.properties,
            },
            Kind::Array { .. } if self.properties.is_empty() => Value::StrictArray(self.items),
            Kind::Array { .. } => {
                let dense = self.items.into_iter().enumerate();
                self.properties
                    .extend(dense.map(|(index, item)| (index.to_string(), item)));
                Value::EcmaArray(self.properties)
            }
        }
    }

    /// Finds the name of the next element; `false` at the end of the object or array.
    fn advance(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, AmfError> {
        match &mut self.kind {
            Kind::Object { sealed, dynamic, .. } => {
                self.key = sealed.next();
                if self.key.is_none() && *dynamic {
                    self.key = Some(string(cursor)?).filter(|name| !name.is_empty());
                }
                Ok(self.key.is_some())
            }
            Kind::Array { named, items_left } => {
                if *named {
                    self.key = Some(string(cursor)?).filter(|name| !name.is_empty());
                    *named = self.key.is_some();
                }
                if self.key.is_some() {
                    return Ok(true);
                }
                let Some(left) = items_left.checked_sub(1) else {
                    return Ok(false);
                };
                *items_left = left;
                Ok(true)
            }
        }
    }
}

struct Reader<'r, 'a> {
    cursor: &'r mut Cursor<'a>,
    stack: Vec<Open>,
    depth: usize,
}

impl<'a> Reader<'_, 'a> {
    /// Reads up to the next complete value (`Some`) or opens an object or array (`None`).
    fn step(&mut self) -> Result<Option<Value>, AmfError> {
        if let Some(open) = self.stack.last_mut()
            && !open.advance(self.cursor)?
        {
            return Ok(self.stack.pop().map(Open::close));
        }
        self.cursor.charge()?;
        self.start()
    }

    fn start(&mut self) -> Result<Option<Value>, AmfError> {
        let offset = self.cursor.offset();
        let marker = self.cursor.u8()?;
        let value = match marker {
            UNDEFINED => Value::Undefined,
            NULL => Value::Null,
            FALSE => Value::Boolean(false),
            TRUE => Value::Boolean(true),
            INTEGER => Value::Number(f64::from(signed(u29(self.cursor)?))),
            DOUBLE => Value::Number(self.cursor.f64()?),
            STRING => Value::String(string(self.cursor)?),
            XML | XML_DOCUMENT => Value::Xml(string(self.cursor)?),
            DATE => {
                inline(self.cursor)?;
                Value::Date {
                    unix_ms: self.cursor.f64()?,
                    zone_min: 0,
                }
            }
            BYTE_ARRAY => {
                let length = inline(self.cursor)?;
                Value::ByteArray(self.cursor.take(length as usize)?.to_vec())
            }
            VECTOR_INT => self.vector(offset, |cursor| cursor.i32().map(f64::from))?,
            VECTOR_UINT => self.vector(offset, |cursor| cursor.u32().map(f64::from))?,
            VECTOR_DOUBLE => self.vector(offset, Cursor::f64)?,
            ARRAY | OBJECT | VECTOR_OBJECT => {
                self.open(marker, offset)?;
                return Ok(None);
            }
            _ => return Err(AmfError::UnknownMarker { marker, offset }),
        };
        Ok(Some(value))
    }

    /// A vector of numbers; the byte after its length says whether it may grow and is of no use here.
    fn vector(
        &mut self,
        offset: usize,
        item: impl Fn(&mut Cursor<'a>) -> Result<f64, AmfError>,
    ) -> Result<Value, AmfError> {
        self.may_go_deeper(offset)?;
        let length = inline(self.cursor)?;
        self.cursor.u8()?;
        let mut items = Vec::new();
        for _ in 0..length {
            self.cursor.charge()?;
            items.push(Value::Number(item(self.cursor)?));
        }
        Ok(Value::StrictArray(items))
    }

    /// Whether what begins at `offset` may hold values of its own.
    fn may_go_deeper(&self, offset: usize) -> Result<(), AmfError> {
        if self.depth + self.stack.len() < MAX_DEPTH {
            Ok(())
        } else {
            Err(AmfError::TooDeep { offset })
        }
    }

    fn open(&mut self, marker: u8, offset: usize) -> Result<(), AmfError> {
        self.may_go_deeper(offset)?;
        let kind = match marker {
            OBJECT => self.traits(offset)?,
            ARRAY => Kind::Array {
                named: true,
                items_left: inline(self.cursor)?,
            },
            _ => {
                let items_left = inline(self.cursor)?;
                self.cursor.u8()?;
                string(self.cursor)?;
                Kind::Array {
                    named: false,
                    items_left,
                }
            }
        };
        self.stack.push(Open {
            kind,
            key: None,
            properties: Vec::new(),
            items: Vec::new(),
        });
        Ok(())
    }

    /// The head of an object: its class and the names of its sealed members.
    fn traits(&mut self, offset: usize) -> Result<Kind, AmfError> {
        let head = u29(self.cursor)?;
        if head & 0b11 != 0b11 {
            return Err(AmfError::Reference { offset });
        }
        if head & 0b100 != 0 {
            return Err(AmfError::Externalizable { offset });
        }
        let class = string(self.cursor)?;
        let mut sealed = Vec::new();
        for _ in 0..head >> 4 {
            self.cursor.charge()?;
            sealed.push(string(self.cursor)?);
        }
        Ok(Kind::Object {
            class,
            sealed: sealed.into_iter(),
            dynamic: head & 0b1000 != 0,
        })
    }
}

/// The variable-length 29-bit unsigned integer (§1.3.1).
fn u29(cursor: &mut Cursor<'_>) -> Result<u32, AmfError> {
    let mut number = 0;
    for _ in 0..3 {
        let byte = u32::from(cursor.u8()?);
        number = number << 7 | byte & 0x7f;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Ok(number << 8 | u32::from(cursor.u8()?))
}

/// A 29-bit two's complement number.
fn signed(number: u32) -> i32 {
    (number << 3).cast_signed() >> 3
}

/// The length of a value that is present, not a reference.
fn inline(cursor: &mut Cursor<'_>) -> Result<u32, AmfError> {
    let offset = cursor.offset();
    let head = u29(cursor)?;
    if head & 1 == 0 {
        Err(AmfError::Reference { offset })
    } else {
        Ok(head >> 1)
    }
}

fn string(cursor: &mut Cursor<'_>) -> Result<String, AmfError> {
    let length = inline(cursor)?;
    cursor.text(length as usize)
}

/// Appends one AMF3 value to `out`.
///
/// What AMF3 cannot say is left out: the zone of a date, properties of an empty name, bytes over 256 MiB of one
/// string. [`Value::Unsupported`] is written as undefined.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => {
            out.push(DOUBLE);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Boolean(boolean) => out.push(if *boolean { TRUE } else { FALSE }),
        Value::String(string) => {
            out.push(STRING);
            write_text(string, out);
        }
        Value::Object(properties) => write_object("", properties, out),
        Value::TypedObject { class, properties } => write_object(class, properties, out),
        Value::EcmaArray(properties) => {
            out.push(ARRAY);
            write_length(0, out);
            write_properties(properties, out);
        }
        Value::StrictArray(items) => {
            let items = &items[..items.len().min(MAX_LENGTH)];
            out.push(ARRAY);
            write_length(items.len(), out);
            write_text("", out);
            for item in items {
                write(item, out);
            }
        }
        Value::Date { unix_ms, .. } => {
            out.push(DATE);
            write_length(0, out);
            out.extend_from_slice(&unix_ms.to_be_bytes());
        }
        Value::Xml(string) => {
            out.push(XML);
            write_text(string, out);
        }
        Value::ByteArray(bytes) => {
            let bytes = &bytes[..bytes.len().min(MAX_LENGTH)];
            out.push(BYTE_ARRAY);
            write_length(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        Value::Null => out.push(NULL),
        Value::Undefined | Value::Unsupported => out.push(UNDEFINED),
    }
}

/// An object of dynamic members only.
fn write_object(class: &str, properties: &[(String, Value)], out: &mut Vec<u8>) {
    out.extend_from_slice(&[OBJECT, 0b1011]);
    write_text(class, out);
    write_properties(properties, out);
}

fn write_properties(properties: &[(String, Value)], out: &mut Vec<u8>) {
    for (name, value) in properties.iter().filter(|(name, _)| !name.is_empty()) {
        write_text(name, out);
        write(value, out);
    }
    write_text("", out);
}

fn write_text(string: &str, out: &mut Vec<u8>) {
    let string = text::cut(string, MAX_LENGTH);
    write_length(string.len(), out);
    out.extend_from_slice(string.as_bytes());
}

/// Writes a length of at most [`MAX_LENGTH`] with the bit that says that a value follows.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the bytes are masked or shifted to what is written"
)]
fn write_length(length: usize, out: &mut Vec<u8>) {
    let head = length << 1 | 1;
    match head {
        0..0x80 => out.push(head as u8),
        0x80..0x4000 => out.extend_from_slice(&[(head >> 7) as u8 | 0x80, head as u8 & 0x7f]),
        0x4000..0x20_0000 => out.extend_from_slice(&[
            (head >> 14) as u8 | 0x80,
            (head >> 7) as u8 | 0x80,
            head as u8 & 0x7f,
        ]),
        _ => out.extend_from_slice(&[
            (head >> 22) as u8 | 0x80,
            (head >> 15) as u8 | 0x80,
            (head >> 8) as u8 | 0x80,
            head as u8,
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(mut bytes: &[u8]) -> Result<Value, AmfError> {
        read(&mut bytes)
    }

    #[test]
    fn integers_of_every_length_and_sign_are_read() {
        for (bytes, number) in [
            (&b"\x04\x00"[..], 0.0),
            (b"\x04\x7f", 127.0),
            (b"\x04\x81\x00", 128.0),
            (b"\x04\xff\x7f", 16_383.0),
            (b"\x04\x81\x80\x00", 16_384.0),
            (b"\x04\x80\xc0\x80\x00", 2_097_152.0),
            (b"\x04\xbf\xff\xff\xff", 268_435_455.0),
            (b"\x04\xff\xff\xff\xff", -1.0),
            (b"\x04\xc0\x80\x80\x00", -268_435_456.0),
        ] {
            assert_eq!(read_one(bytes), Ok(Value::Number(number)), "{bytes:x?}");
        }
    }

    #[test]
    fn an_object_with_sealed_and_dynamic_members_is_read_in_their_order() {
        let bytes = b"\x0a\x2b\x05ab\x03x\x03y\x04\x01\x04\x02\x03z\x06\x03q\x01";
        assert_eq!(
            read_one(bytes),
            Ok(Value::TypedObject {
                class: "ab".to_owned(),
                properties: vec![
                    ("x".to_owned(), Value::Number(1.0)),
                    ("y".to_owned(), Value::Number(2.0)),
                    ("z".to_owned(), Value::from("q")),
                ]
            })
        );
    }

    #[test]
    fn an_array_with_named_elements_becomes_an_ecma_array() {
        assert_eq!(
            read_one(b"\x09\x03\x03a\x01\x01\x03"),
            Ok(Value::EcmaArray(vec![
                ("a".to_owned(), Value::Null),
                ("0".to_owned(), Value::Boolean(true))
            ]))
        );
        assert_eq!(
            read_one(b"\x09\x03\x01\x02"),
            Ok(Value::StrictArray(vec![Value::Boolean(false)]))
        );
    }

    #[test]
    fn vectors_become_strict_arrays() {
        assert_eq!(
            read_one(b"\x0d\x05\x00\xff\xff\xff\xff\x00\x00\x00\x02"),
            Ok(Value::StrictArray(vec![Value::Number(-1.0), Value::Number(2.0)]))
        );
        assert_eq!(
            read_one(b"\x0e\x03\x01\xff\xff\xff\xff"),
            Ok(Value::StrictArray(vec![Value::Number(4_294_967_295.0)]))
        );
        assert_eq!(
            read_one(b"\x10\x03\x00\x01\x01"),
            Ok(Value::StrictArray(vec![Value::Null]))
        );
    }

    #[test]
    fn references_externalizable_objects_and_dictionaries_are_refused() {
        assert_eq!(read_one(b"\x06\x00"), Err(AmfError::Reference { offset: 1 }));
        assert_eq!(read_one(b"\x0a\x00"), Err(AmfError::Reference { offset: 0 }));
        assert_eq!(read_one(b"\x0a\x01"), Err(AmfError::Reference { offset: 0 }));
        assert_eq!(
            read_one(b"\x0a\x07\x03a"),
            Err(AmfError::Externalizable { offset: 0 })
        );
        assert_eq!(
            read_one(b"\x11\x01\x00"),
            Err(AmfError::UnknownMarker {
                marker: 0x11,
                offset: 0
            })
        );
    }

    #[test]
    fn lengths_past_the_end_reserve_nothing() {
        for bytes in [
            &b"\x0c\xff\xff\xff\xff"[..],
            b"\x06\xff\xff\xff\xff",
            b"\x09\xff\xff\xff\xff\x01",
            b"\x0d\xff\xff\xff\xff\x00",
            b"\x0f\xff\xff\xff\xff\x00",
            b"\x0a\xff\xff\xff\xfb\x01",
        ] {
            assert_eq!(
                read_one(bytes),
                Err(AmfError::Truncated { offset: bytes.len() }),
                "{bytes:x?}"
            );
        }
    }

    #[test]
    fn sealed_names_and_vector_items_count_as_values() {
        let mut names = b"\x0a\x80\xff\xff\xf3\x01".to_vec();
        names.extend(vec![0x01; 100_000]);
        assert!(matches!(read_one(&names), Err(AmfError::TooManyValues { .. })));
        let mut vector = b"\x0d\x80\xff\xff\xff\x00".to_vec();
        vector.extend(vec![0x00; 100_000]);
        assert!(matches!(read_one(&vector), Err(AmfError::TooManyValues { .. })));
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(matches!(
            read_one(&b"\x09\x03\x01".repeat(20_000)),
            Err(AmfError::TooDeep { .. })
        ));
        assert!(matches!(
            read_one(&b"\x0a\x0b\x01\x03a".repeat(20_000)),
            Err(AmfError::TooDeep { .. })
        ));
    }

    #[test]
    fn a_vector_of_numbers_is_a_level_too() {
        let numbers: &[u8] = b"\x0d\x03\x00\x00\x00\x00\x07";
        let inside = |levels| [&b"\x09\x03\x01".repeat(levels)[..], numbers].concat();
        let value = read_one(&inside(MAX_DEPTH - 1)).unwrap();
        let mut written = Vec::new();
        write(&value, &mut written);
        assert_eq!(read_one(&written), Ok(value));
        assert!(matches!(
            read_one(&inside(MAX_DEPTH)),
            Err(AmfError::TooDeep { .. })
        ));
    }

    #[test]
    fn lengths_of_every_form_are_written_and_read_back() {
        for length in [0, 63, 64, 8_191, 8_192, 1_048_575, 1_048_576] {
            let mut bytes = Vec::new();
            let value = Value::ByteArray(vec![7; length]);
            write(&value, &mut bytes);
            assert_eq!(read_one(&bytes), Ok(value), "{length}");
        }
    }
}
