//! Values that must never be shown.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// What stands in every output where a secret would be.
pub const REDACTED: &str = "<redacted>";

/// A secret text: debug output, display and serialization show [`REDACTED`] in its place.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Why a text cannot be a secret. Carries nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// An empty secret would let everybody in.
    #[error("a key must not be empty")]
    Empty,
    /// Control characters and outer blanks are lost on the way through URLs and shells.
    #[error("a key must have no control characters and no blanks at its ends")]
    BadCharacters,
}

impl Secret {
    /// Takes `text` as a secret.
    ///
    /// # Errors
    /// [`SecretError`] for an empty text, control characters, or blanks at either end.
    pub fn new(text: impl Into<String>) -> Result<Self, SecretError> {
        let text = text.into();
        if text.is_empty() {
            return Err(SecretError::Empty);
        }
        if text.trim() != text || text.chars().any(char::is_control) {
            return Err(SecretError::BadCharacters);
        }
        Ok(Self(text))
    }

    /// A secret that matches nothing, until the real one is read from its file.
    pub(crate) const fn unset() -> Self {
        Self(String::new())
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        !self.0.is_empty()
    }

    /// The secret itself, for the code that has to send it on. Never log the result.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `offered` is this secret. The time taken depends on the lengths only, so that a peer cannot find the
    /// secret byte by byte.
    pub fn matches(&self, offered: &[u8]) -> bool {
        !self.0.is_empty() && constant_time_eq(self.0.as_bytes(), offered)
    }
}

/// Whether both are the same. The time taken depends on the lengths only.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    let difference = a
        .iter()
        .zip(b)
        .fold(0_u8, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    a.len() == b.len() && difference == 0
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(REDACTED)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecretVisitor;
        impl de::Visitor<'_> for SecretVisitor {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key in quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
                Secret::new(text).map_err(E::custom)
            }

            // A key of digits without quotes: the standard message would repeat it.
            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
                Err(E::custom("a key must be in quotes"))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
                Err(E::custom("a key must be in quotes"))
            }
        }
        deserializer.deserialize_any(SecretVisitor)
    }
}

/// A key that may be an empty text, for none.
pub(crate) mod secret_or_none {
    use super::{Deserialize, Deserializer, REDACTED, Secret, SecretError, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if secret.is_set() { REDACTED } else { "" })
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let text =
            String::deserialize(deserializer).map_err(|_| de::Error::custom("expected a key in quotes"))?;
        match Secret::new(text) {
            Err(SecretError::Empty) => Ok(Secret::unset()),
            result => result.map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "writeOnly": true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("hunter2-and-more").unwrap();
        assert_eq!(
            format!("{secret} {secret:?} {secret:#?}"),
            "<redacted> <redacted> <redacted>"
        );
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"<redacted>\"");
    }

    #[test]
    fn only_the_same_bytes_match() {
        let secret = Secret::new("abc").unwrap();
        assert!(secret.matches(b"abc"));
        for other in [&b""[..], b"ab", b"abd", b"abcd", b"ABC"] {
            assert!(!secret.matches(other));
        }
        assert!(!Secret::unset().matches(b""));
    }

    #[test]
    fn a_secret_that_could_not_be_typed_is_refused() {
        assert_eq!(Secret::new(""), Err(SecretError::Empty));
        for text in [" a", "a ", "a\nb", "\u{7f}"] {
            assert_eq!(Secret::new(text), Err(SecretError::BadCharacters));
        }
    }
}
