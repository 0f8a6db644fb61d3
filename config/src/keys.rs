//! The list of keys, taken from the schema, so that it cannot differ from the structs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value as Json;

/// What a key's value is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A text in quotes: names, durations, sizes, addresses.
    Text,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A list.
    List,
}

/// One key of the configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Key {
    /// What its value is written as.
    pub kind: Kind,
    /// Its documentation.
    pub description: String,
}

/// All sections and keys.
#[derive(Debug, Default)]
pub struct Keys {
    sections: BTreeSet<String>,
    keys: BTreeMap<String, Key>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let mut keys = Keys::default();
    keys.collect("", crate::schema::raw().as_value());
    keys
});

impl Keys {
    /// All sections and keys.
    pub fn all() -> &'static Self {
        &KEYS
    }

    /// The key at the dotted `path`.
    pub fn get(&self, path: &str) -> Option<&Key> {
        self.keys.get(path)
    }

    /// Whether the dotted `path` is a section.
    pub fn is_section(&self, path: &str) -> bool {
        self.sections.contains(path)
    }

    /// Every key with its dotted path, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Key)> {
        self.keys.iter().map(|(path, key)| (path.as_str(), key))
    }

    /// The message for a `path` that is neither key nor section: what was probably meant, and what there is.
    pub(crate) fn unknown(&self, path: &str) -> String {
        let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
        let mut message = "unknown key".to_owned();
        match self.closest(section, name) {
            Some(meant) => message += &format!(", did you mean `{meant}`?"),
            None => message.push('.'),
        }
        let known = self.children(section);
        if known.is_empty() {
            let sections: Vec<&str> = self.children("");
            message += &format!(
                " There is no section `{section}`; the sections are: {}",
                sections.join(", ")
            );
        } else if section.is_empty() {
            message += &format!(" The sections are: {}", known.join(", "));
        } else {
            message += &format!(" The keys of `{section}` are: {}", known.join(", "));
        }
        message
    }

    /// The names directly inside `section`.
    fn children(&self, section: &str) -> Vec<&str> {
        let all = self.sections.iter().chain(self.keys.keys());
        all.filter_map(|path| match path.rsplit_once('.') {
            Some((parent, name)) if parent == section => Some(name),
            None if section.is_empty() => Some(path.as_str()),
            _ => None,
        })
        .collect()
    }

    /// The key or section most like the wrong one: of the same section first, then of the same name anywhere.
    fn closest(&self, section: &str, name: &str) -> Option<String> {
        let section = if section.is_empty() || self.is_section(section) {
            section.to_owned()
        } else {
            let sections = self.children("");
            nearest(section, &sections)?.to_owned()
        };
        let names = self.children(&section);
        if let Some(found) = nearest(name, &names) {
            return Some(if section.is_empty() {
                found.to_owned()
            } else {
                format!("{section}.{found}")
            });
        }
        let suffix = format!(".{name}");
        self.keys.keys().find(|path| path.ends_with(&suffix)).cloned()
    }

    fn collect(&mut self, path: &str, schema: &Json) {
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            if !path.is_empty() {
                self.sections.insert(path.to_owned());
            }
            for (name, child) in properties {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                self.collect(&path, child);
            }
            return;
        }
        let kind = match schema.get("type").and_then(Json::as_str) {
            Some("integer") => Kind::Integer,
            Some("boolean") => Kind::Boolean,
            Some("array") => Kind::List,
            _ => Kind::Text,
        };
        let description = schema
            .get("description")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned();
        self.keys.insert(path.to_owned(), Key { kind, description });
    }
}

/// The name of `names` that is close enough to `name` to be a slip of the finger.
fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    let name = name.to_lowercase().replace('-', "_");
    names
        .iter()
        .map(|candidate| (edit_distance(&name, candidate), *candidate))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The least number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (i, ca) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let replace = last[j] + usize::from(ca != *cb);
            let mut best = replace.min(last[j + 1] + 1).min(row[j] + 1);
            if j > 0 && previous == Some(*cb) && b[j - 1] == ca {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
        previous = Some(ca);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_tree_is_listed_with_its_kind() {
        let kind = |path| Keys::all().get(path).map(|key| key.kind);
        assert_eq!(kind("hls.window"), Some(Kind::Integer));
        assert_eq!(kind("hls.segment_duration"), Some(Kind::Text));
        assert_eq!(kind("hls.mode"), Some(Kind::Text));
        assert_eq!(kind("play.flush"), Some(Kind::Text));
        assert_eq!(kind("http.list_streams"), Some(Kind::Boolean));
        assert_eq!(kind("auth.publish_keys"), Some(Kind::List));
        assert_eq!(kind("hls"), None);
        assert!(Keys::all().is_section("hls"));
    }

    #[test]
    fn a_slip_of_the_finger_is_put_right() {
        let meant = |path: &str| {
            let message = Keys::all().unknown(path);
            message
                .split('`')
                .nth(1)
                .map(str::to_owned)
                .filter(|_| message.contains("did you mean"))
        };
        let cases = [
            ("hls.windw", Some("hls.window")),
            ("hls.segment-duration", Some("hls.segment_duration")),
            ("hsl.window", Some("hls.window")),
            ("play.linger", Some("publish.linger")),
            ("hsl", Some("hls")),
            ("publish.ilde_timeout", Some("publish.idle_timeout")),
            ("hls.cheese", None),
        ];
        for (path, expected) in cases {
            assert_eq!(meant(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_those_there_are() {
        assert!(
            Keys::all()
                .unknown("log.colour")
                .contains("The keys of `log` are: format, level")
        );
        assert!(
            Keys::all()
                .unknown("cheese.x")
                .contains("the sections are: admin, auth")
        );
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, edits) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edit_distance(a, b), edits, "{a} {b}");
        }
    }
}
