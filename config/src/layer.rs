//! The layers of configuration, each read to a list of keys with their values and where they came from.

use std::path::Path;

use serde::Deserialize;
use toml::Value;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::error::{Problem, Source};
use crate::keys::{Key, Keys, Kind};
use crate::model::Config;

/// The prefix of environment variables that set keys.
pub const ENVIRONMENT_PREFIX: &str = "SPILLWAY__";

/// One key set by one layer.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Value,
    pub(crate) source: Source,
    /// Where each element of a list stands.
    pub(crate) elements: Vec<Source>,
}

/// What a layer sets, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    pub(crate) entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

impl Layer {
    /// The layer of the file `path` with the content `text`.
    pub(crate) fn from_file(path: &Path, text: &str) -> Self {
        let mut reader = FileReader {
            path,
            text,
            layer: Self::default(),
        };
        match DeTable::parse(text) {
            Ok(table) => reader.table("", table.get_ref()),
            Err(error) => {
                let source = reader.place(error.span().map_or(text.len(), |span| span.start));
                let message = format!("not valid TOML: {}", error.message());
                reader.layer.problems.push(Problem {
                    source,
                    key: String::new(),
                    message,
                });
            }
        }
        reader.layer.check_types()
    }

    /// The layer of the environment: variables named `SPILLWAY__SECTION__KEY`. Others are not looked at, and an empty
    /// value counts as not set.
    pub(crate) fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut named: Vec<(String, String)> = variables
            .into_iter()
            .filter(|(variable, value)| variable.starts_with(ENVIRONMENT_PREFIX) && !value.is_empty())
            .collect();
        named.sort();
        let mut layer = Self::default();
        for (variable, value) in named {
            let name = variable.strip_prefix(ENVIRONMENT_PREFIX).unwrap_or_default();
            let key = name
                .split("__")
                .map(str::to_lowercase)
                .collect::<Vec<_>>()
                .join(".");
            layer.set(key, &value, Source::Environment { variable });
        }
        layer.check_types()
    }

    /// The layer of the flags `--set a.b=v`. Of one key set twice the last holds.
    pub(crate) fn from_flags(flags: &[String]) -> Self {
        let mut layer = Self::default();
        for flag in flags {
            if let Some((key, value)) = flag.split_once('=') {
                let key = key.trim().to_owned();
                layer.set(key.clone(), value, Source::Flag { key });
            } else {
                let message = "has no value: expected KEY=VALUE, such as --set hls.window=8".into();
                let source = Source::Flag { key: flag.clone() };
                layer.problems.push(Problem {
                    source,
                    key: String::new(),
                    message,
                });
            }
        }
        layer.check_types()
    }

    fn set(&mut self, key: String, text: &str, source: Source) {
        match known(&key) {
            Err(message) => self.problems.push(Problem { source, key, message }),
            Ok(Key { kind, .. }) => match typed(*kind, text) {
                Some(value) => {
                    let elements = value.as_array().map_or(0, Vec::len);
                    let elements = vec![source.clone(); elements];
                    self.entries.push(Entry {
                        key,
                        value,
                        source,
                        elements,
                    });
                }
                None => {
                    let message = "not a list: expected it as in the file, such as [\"one\", \"two\"]".into();
                    self.problems.push(Problem { source, key, message });
                }
            },
        }
    }

    /// Moves the entries that do not read as their key's type to the problems.
    fn check_types(mut self) -> Self {
        for entry in std::mem::take(&mut self.entries) {
            let wrong = type_problems(&entry);
            if wrong.is_empty() {
                self.entries.push(entry);
            }
            self.problems.extend(wrong);
        }
        self
    }
}

/// Reads a parsed file, keeping the places of its keys.
struct FileReader<'a> {
    path: &'a Path,
    text: &'a str,
    layer: Layer,
}

impl FileReader<'_> {
    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        let mut children: Vec<_> = table.iter().collect();
        children.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in children {
            let key = if section.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{section}.{}", name.get_ref())
            };
            let keys = Keys::all();
            match value.get_ref() {
                DeValue::Table(inner) if keys.is_section(&key) => self.table(&key, inner),
                value if keys.get(&key).is_some() => self.entry(key, name.span().start, value),
                _ => {
                    let message = known(&key).err().unwrap_or_default();
                    let source = self.place(name.span().start);
                    self.layer.problems.push(Problem { source, key, message });
                }
            }
        }
    }

    fn entry(&mut self, key: String, name_at: usize, value: &DeValue<'_>) {
        let source = self.place(name_at);
        let elements = match value {
            DeValue::Array(elements) => elements
                .iter()
                .map(|element| self.place(element.span().start))
                .collect(),
            _ => Vec::new(),
        };
        let owned = toml::Spanned::new(0..0, value.clone());
        match Value::deserialize(ValueDeserializer::from(owned)) {
            Ok(value) => self.layer.entries.push(Entry {
                key,
                value,
                source,
                elements,
            }),
            Err(error) => {
                self.layer.problems.push(Problem {
                    source,
                    key,
                    message: error.message().to_owned(),
                });
            }
        }
    }

    /// The line and column of the byte `offset`.
    fn place(&self, offset: usize) -> Source {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Source::File {
            path: self.path.to_owned(),
            line,
            column,
        }
    }
}

/// The key at `path`, or the message that there is none.
fn known(path: &str) -> Result<&'static Key, String> {
    let keys = Keys::all();
    if keys.is_section(path) {
        return Err(format!(
            "a section, not a key: set its keys, such as `{path}.{}`",
            first_key_of(path)
        ));
    }
    keys.get(path).ok_or_else(|| keys.unknown(path))
}

fn first_key_of(section: &str) -> &'static str {
    let mut keys = Keys::all().iter();
    keys.find_map(|(path, _)| path.strip_prefix(section)?.strip_prefix('.'))
        .unwrap_or_default()
}

/// The value that `text` from the environment or the command line stands for, by the `kind` of its key. `None` for a
/// list that does not read as one.
fn typed(kind: Kind, text: &str) -> Option<Value> {
    let parse = |text: &str| Value::deserialize(ValueDeserializer::parse(text).ok()?).ok();
    let trimmed = text.trim();
    let as_text = || Value::String(text.to_owned());
    match kind {
        Kind::Text if trimmed.len() >= 2 && trimmed.starts_with('"') && trimmed.ends_with('"') => {
            Some(parse(trimmed).unwrap_or_else(as_text))
        }
        Kind::Text => Some(as_text()),
        Kind::Integer | Kind::Boolean => Some(parse(trimmed).unwrap_or_else(as_text)),
        Kind::List if trimmed.starts_with(['[', '{']) => parse(trimmed),
        Kind::List => Some(as_text()),
    }
}

/// What is wrong with the type of an entry; each element of a list is looked at by itself, so that the message points at
/// the wrong one.
fn type_problems(entry: &Entry) -> Vec<Problem> {
    let problem = |source: &Source, message: String| Problem {
        source: source.clone(),
        key: entry.key.clone(),
        message,
    };
    match &entry.value {
        Value::Array(elements) if elements.len() == entry.elements.len() => elements
            .iter()
            .zip(&entry.elements)
            .filter_map(|(element, source)| {
                let alone = Value::Array(vec![element.clone()]);
                type_error(&entry.key, alone).map(|message| problem(source, message))
            })
            .collect(),
        value => type_error(&entry.key, value.clone())
            .map(|message| problem(&entry.source, message))
            .into_iter()
            .collect(),
    }
}

/// The message of a value that does not read as the type of `key`.
fn type_error(key: &str, value: Value) -> Option<String> {
    let error = Config::deserialize(nest(key, value)).err()?;
    let mut message = error.message().to_owned();
    for (rust, plain) in [
        ("expected u32", "expected a whole number"),
        ("expected a boolean", "expected true or false"),
    ] {
        message = message.replace(rust, plain);
    }
    Some(message)
}

/// The table that holds only `value` at the dotted `key`.
fn nest(key: &str, value: Value) -> Value {
    key.rsplit('.').fold(value, |value, name| {
        Value::Table(toml::Table::from_iter([(name.to_owned(), value)]))
    })
}
