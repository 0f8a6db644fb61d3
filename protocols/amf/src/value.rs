//! The value both AMF versions carry.

/// One ActionScript value, as read from or written to AMF.
///
/// Properties keep the order of the wire. Strings that were not UTF-8 on the wire had their bad bytes replaced
/// by U+FFFD.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A double; AMF3 integers are read as this too.
    Number(f64),
    /// A boolean.
    Boolean(bool),
    /// A string, short or long form.
    String(String),
    /// An anonymous object.
    Object(Vec<(String, Value)>),
    /// An associative array. The count on the wire is only a hint and is not kept.
    EcmaArray(Vec<(String, Value)>),
    /// A dense array (AMF0 strict array, AMF3 array or vector).
    StrictArray(Vec<Value>),
    /// An object with a class name; treated as a plain map, never instantiated.
    TypedObject {
        /// The class alias.
        class: String,
        /// The object's properties.
        properties: Vec<(String, Value)>,
    },
    /// A point in time.
    Date {
        /// Milliseconds since 1970-01-01 UTC.
        unix_ms: f64,
        /// Time zone in minutes; the AMF0 specification wants 0 and AMF3 does not carry it.
        zone_min: i16,
    },
    /// An XML document as text.
    Xml(String),
    /// An AMF3 byte array.
    ByteArray(Vec<u8>),
    /// `null`.
    Null,
    /// `undefined`.
    Undefined,
    /// The AMF0 marker of a value that its sender could not serialise.
    Unsupported,
}

impl Value {
    /// An anonymous object of these properties.
    pub fn object<K: Into<String>>(properties: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Object(
            properties
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    }

    /// The properties of an object, typed object or ECMA array; empty for every other value.
    pub fn properties(&self) -> &[(String, Value)] {
        match self {
            Value::Object(properties)
            | Value::EcmaArray(properties)
            | Value::TypedObject { properties, .. } => properties,
            _ => &[],
        }
    }

    /// The property of this name; the last one where the sender wrote a name twice.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.properties()
            .iter()
            .rev()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The text of a string or XML document.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) | Value::Xml(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Boolean(boolean) => Some(*boolean),
            _ => None,
        }
    }

    /// Whether the value is `null` or `undefined`.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Value::Null | Value::Undefined)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Number(f64::from(number))
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Value::Boolean(boolean)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_written_twice_counts_with_its_last_value() {
        let object = Value::object([("app", Value::from("a")), ("app", Value::from("b"))]);
        assert_eq!(object.get("app").and_then(Value::as_str), Some("b"));
    }

    #[test]
    fn lookups_on_values_without_properties_find_nothing() {
        assert_eq!(Value::Null.get("app"), None);
        assert!(Value::StrictArray(vec![Value::Null]).properties().is_empty());
    }

    #[test]
    fn views_answer_only_for_their_own_kind() {
        assert_eq!(Value::from(1.5).as_f64(), Some(1.5));
        assert_eq!(Value::from(7u32).as_str(), None);
        assert_eq!(Value::Xml("<a/>".to_owned()).as_str(), Some("<a/>"));
        assert_eq!(Value::from(true).as_bool(), Some(true));
        assert!(Value::Undefined.is_nothing());
    }
}
