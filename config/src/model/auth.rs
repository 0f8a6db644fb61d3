//! Who may publish and who may play.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::{self, Deserializer, value::MapAccessDeserializer};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};

use crate::pattern::StreamPattern;
use crate::secret::Secret;

/// Section `[auth]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Auth {
    /// Who may publish: `"local"` (programs on this machine without a key, everybody else with one), `"keys"` (everybody
    /// with a key) or `"open"` (everybody, without a key).
    pub publish: PublishPolicy,
    /// Keys for publishing, each either a text, good for every stream, or a table of `stream` (a pattern such as `"live/*"`,
    /// default every stream) and `key`, or `key_file` (a file that holds the key). The publisher adds `?key=THE-KEY` to the
    /// stream name.
    #[serde(deserialize_with = "one_or_many")]
    pub publish_keys: Vec<PublishKey>,
    /// Who may play: `"open"`, everybody.
    pub play: PlayPolicy,
}

impl Auth {
    /// Whether `offered` is a key for publishing the stream `name` (`app/name`, decoded).
    pub fn is_publish_key(&self, name: &str, offered: &[u8]) -> bool {
        // Every key is tried, so that the time taken does not tell which one matched.
        self.publish_keys
            .iter()
            .filter(|key| key.opens(name, offered))
            .count()
            > 0
    }
}

/// `auth.publish`: who may publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum PublishPolicy {
    /// Programs on this machine without a key, everybody else with one of `auth.publish_keys`.
    Local,
    /// Everybody with one of `auth.publish_keys`.
    Keys,
    /// Everybody, without a key.
    Open,
}

/// `auth.play`: who may play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum PlayPolicy {
    /// Everybody.
    Open,
}

/// One of `auth.publish_keys`: a secret and the streams it is good for.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(with = "PublishKeySchema", inline)]
pub struct PublishKey {
    stream: StreamPattern,
    key: Secret,
    key_file: Option<PathBuf>,
}

impl PublishKey {
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

    /// Whether `offered` is this key and good for the stream `name`.
    pub fn opens(&self, name: &str, offered: &[u8]) -> bool {
        self.key.matches(offered) && self.stream.matches(name)
    }

    /// Sets the key that was read from [`Self::key_file`].
    pub(crate) fn set_key(&mut self, key: Secret) {
        self.key = key;
    }
}

impl Serialize for PublishKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("PublishKey", 2)?;
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
struct PublishKeyTable {
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
enum PublishKeySchema {
    /// A key for every stream.
    Text(Secret),
    /// A key for some streams.
    Table(PublishKeyTable),
}

struct PublishKeyVisitor;

impl<'de> de::Visitor<'de> for PublishKeyVisitor {
    type Value = PublishKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key in quotes, or a table { stream = \"live/*\", key = \"...\" }")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PublishKey, E> {
        Secret::new(text)
            .map(|key| PublishKey::new(StreamPattern::any(), key))
            .map_err(E::custom)
    }

    // The standard message for a number would repeat it, and it may be a key that lacks its quotes.
    fn visit_i64<E: de::Error>(self, _: i64) -> Result<PublishKey, E> {
        Err(E::custom("a key must be in quotes"))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<PublishKey, E> {
        Err(E::custom("a key must be in quotes"))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<PublishKey, A::Error> {
        let table = PublishKeyTable::deserialize(MapAccessDeserializer::new(map))?;
        let stream = table.stream.unwrap_or_else(StreamPattern::any);
        match (table.key, table.key_file) {
            (Some(key), None) => Ok(PublishKey::new(stream, key)),
            (None, Some(path)) => Ok(PublishKey {
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

impl<'de> Deserialize<'de> for PublishKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PublishKeyVisitor)
    }
}

/// A list of keys, or one key alone, which is what an environment variable holds most easily.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PublishKey>, D::Error> {
    struct ListVisitor;
    impl<'de> de::Visitor<'de> for ListVisitor {
        type Value = Vec<PublishKey>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of keys, such as [\"a-long-random-text\"]")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            PublishKeyVisitor.visit_str(text).map(|key| vec![key])
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
            PublishKeyVisitor.visit_i64(number).map(|key| vec![key])
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
            PublishKeyVisitor.visit_f64(number).map(|key| vec![key])
        }

        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            PublishKeyVisitor.visit_map(map).map(|key| vec![key])
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut keys = Vec::new();
            while let Some(key) = list.next_element()? {
                keys.push(key);
            }
            Ok(keys)
        }
    }
    deserializer.deserialize_any(ListVisitor)
}
