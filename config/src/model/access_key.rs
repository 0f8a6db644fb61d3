//! Keys, each with the streams it is good for.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::{self, Deserializer, value::MapAccessDeserializer};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

use crate::pattern::StreamPattern;
use crate::secret::Secret;

/// A secret and the streams it is good for.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(with = "AccessKeySchema", inline)]
pub struct AccessKey {
    stream: StreamPattern,
    key: Secret,
    key_file: Option<PathBuf>,
}

impl AccessKey {
    /// A key for the streams of `stream`.
    pub fn new(stream: StreamPattern, key: Secret) -> Self {
        Self {
            stream,
            key,
            key_file: None,
        }
    }

    /// The streams the key is good for.
    pub fn stream(&self) -> &StreamPattern {
        &self.stream
    }

    /// The file the key is read from, if it does not stand in the configuration itself.
    pub fn key_file(&self) -> Option<&Path> {
        self.key_file.as_deref()
    }

    /// The secret.
    pub fn secret(&self) -> &Secret {
        &self.key
    }

    /// Whether `offered` is this key and good for the stream `name`.
    pub fn opens(&self, name: &str, offered: &[u8]) -> bool {
        self.key.matches(offered) && self.stream.matches(name)
    }

    /// Sets the key that was read from [`Self::key_file`].
    pub(crate) fn set_key(&mut self, key: Secret) {
        self.key = key;
    }
}

impl Serialize for AccessKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("AccessKey", 2)?;
        fields.serialize_field("stream", &self.stream)?;
        match &self.key_file {
            Some(path) => fields.serialize_field("key_file", path)?,
            None => fields.serialize_field("key", &self.key)?,
        }
        fields.end()
    }
}

/// The table form of a key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct AccessKeyTable {
    /// Pattern of the streams the key is good for; default every stream.
    stream: Option<StreamPattern>,
    /// The key.
    key: Option<Secret>,
    /// A file that holds the key, in place of `key`. A relative path starts at the configuration file's folder.
    key_file: Option<PathBuf>,
}

/// Both forms of a key, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
#[allow(dead_code, reason = "gives the shape to the schema only")]
enum AccessKeySchema {
    /// A key for every stream.
    Text(Secret),
    /// A key for some streams.
    Table(AccessKeyTable),
}

struct AccessKeyVisitor;

impl<'de> de::Visitor<'de> for AccessKeyVisitor {
    type Value = AccessKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key in quotes, or a table { stream = \"live/*\", key = \"...\" }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AccessKey, E> {
        Secret::new(text)
            .map(|key| AccessKey::new(StreamPattern::any(), key))
            .map_err(E::custom)
    }

    // The standard message for a number would repeat it, and it may be a key that lacks its quotes.
    fn visit_i64<E: de::Error>(self, _: i64) -> Result<AccessKey, E> {
        Err(E::custom("a key must be in quotes"))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<AccessKey, E> {
        Err(E::custom("a key must be in quotes"))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<AccessKey, A::Error> {
        let table = AccessKeyTable::deserialize(MapAccessDeserializer::new(map))?;
        let stream = table.stream.unwrap_or_else(StreamPattern::any);
        match (table.key, table.key_file) {
            (Some(key), None) => Ok(AccessKey::new(stream, key)),
            (None, Some(path)) => Ok(AccessKey {
                stream,
                key: Secret::unset(),
                key_file: Some(path),
            }),
            (None, None) => Err(de::Error::custom("a key's table needs `key`, or `key_file`")),
            (Some(_), Some(_)) => Err(de::Error::custom(
                "a key's table takes `key` or `key_file`, not both",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for AccessKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AccessKeyVisitor)
    }
}
