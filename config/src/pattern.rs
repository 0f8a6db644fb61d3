//! Patterns of stream names.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// The longest pattern in bytes: as long as the longest stream name.
pub const MAX_PATTERN_BYTES: usize = 512;

/// A pattern of stream names `app/name`. `*` stands for any characters, none and `/` included: `live/*`, `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPattern(String);

/// A text that is no pattern of stream names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a pattern of stream names: write it as \"app/name\", \"app/*\" or \"*\", without a leading slash"
)]
pub struct PatternError {
    text: String,
}

impl StreamPattern {
    /// The pattern of every stream.
    pub fn any() -> Self {
        Self("*".into())
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the stream `name` (`app/name`, decoded) is one of this pattern's.
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The first place where a middle part fits leaves most room for the parts after it.
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = rest.get(at + part.len()..).unwrap_or_default();
        }
        rest.ends_with(last)
    }
}

impl fmt::Display for StreamPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for StreamPattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let usable = !text.is_empty()
            && text.len() <= MAX_PATTERN_BYTES
            && !text.starts_with('/')
            && !text.contains('\\')
            && !text.chars().any(char::is_control);
        if usable {
            Ok(Self(text.into()))
        } else {
            Err(PatternError { text: text.into() })
        }
    }
}

impl Serialize for StreamPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for StreamPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for StreamPattern {
    fn schema_name() -> Cow<'static, str> {
        "StreamPattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "minLength": 1, "maxLength": MAX_PATTERN_BYTES, "examples": ["*", "live/*", "live/demo"]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        let cases = [
            ("*", "live/a", true),
            ("live/*", "live/a", true),
            ("live/*", "live/a/b", true),
            ("live/*", "lives/a", false),
            ("live/a", "live/a", true),
            ("live/a", "live/ab", false),
            ("live/a", "live/", false),
            ("*/cam*", "live/cam1", true),
            ("*/cam*", "live/door", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*bc", "abc", false),
            ("**", "x", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(
                pattern.parse::<StreamPattern>().unwrap().matches(name),
                expected,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_that_could_never_match_is_refused() {
        for text in ["", "/live/a", "live\\a", "live/\n"] {
            assert!(text.parse::<StreamPattern>().is_err(), "{text:?}");
        }
        assert!(
            "x".repeat(MAX_PATTERN_BYTES + 1)
                .parse::<StreamPattern>()
                .is_err()
        );
    }
}
