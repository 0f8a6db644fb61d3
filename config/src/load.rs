//! Putting the layers together: defaults < file < environment < flags.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Value;

use crate::check;
use crate::error::{ConfigError, Problem, Source};
use crate::layer::{Entry, Layer};
use crate::model::{Config, Hooks, is_empty};
use crate::secret::Secret;

/// The largest configuration file: far beyond any real one, and a bound for a wrong path such as a device.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The largest file of a key.
const MAX_KEY_FILE_BYTES: u64 = 4 << 10;

/// What a configuration is made of.
#[derive(Debug, Clone, Default)]
pub struct LoadInput {
    /// The configuration file, if there is one.
    pub file: Option<PathBuf>,
    /// The environment; variables other than `SPILLWAY__…` are not looked at.
    pub env: Vec<(String, String)>,
    /// The values of the flags `--set`, each `a.b=v`.
    pub sets: Vec<String>,
}

impl LoadInput {
    /// The process's environment with the given file and flags.
    pub fn from_process(file: Option<PathBuf>, sets: Vec<String>) -> Self {
        let env = std::env::vars_os()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect();
        Self { file, env, sets }
    }
}

/// A configuration and where each of its values came from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    origins: BTreeMap<String, Source>,
}

impl Loaded {
    /// Reads all layers.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong, not the first thing only.
    pub fn read(input: &LoadInput) -> Result<Self, ConfigError> {
        let mut layers = Vec::new();
        if let Some(path) = &input.file {
            layers.push(Layer::from_file(path, &read_file(path)?));
        }
        layers.push(Layer::from_environment(input.env.iter().cloned()));
        layers.push(Layer::from_flags(&input.sets));

        let mut problems: Vec<Problem> = Vec::new();
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for layer in layers {
            problems.extend(layer.problems);
            entries.extend(layer.entries.into_iter().map(|entry| (entry.key.clone(), entry)));
        }
        let mut config = merge(&entries).unwrap_or_else(|problem| {
            problems.push(problem);
            Config::default()
        });
        if problems.is_empty() {
            problems.extend(broken_rules(&config, &entries));
            resolve_paths(&mut config, input.file.as_deref(), &entries);
            problems.extend(read_key_files(&mut config, input.file.as_deref(), &entries));
        }
        if problems.is_empty() {
            let origins = entries
                .into_iter()
                .map(|(key, entry)| (key, entry.source))
                .collect();
            Ok(Self { config, origins })
        } else {
            Err(ConfigError::Invalid { problems })
        }
    }

    /// Where the value of `key` came from.
    pub fn origin(&self, key: &str) -> &Source {
        self.origins.get(key).unwrap_or(&Source::Default)
    }

    /// The effective configuration as TOML, secrets redacted, with a comment on each value that is not a default.
    pub fn render(&self) -> String {
        let mut section = String::new();
        let mut text = String::new();
        for line in self.config.to_toml().lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_matches(['[', ']']).to_owned();
            }
            text.push_str(line);
            let key = if line.starts_with("[[") {
                Some(section.clone())
            } else {
                None
            };
            let key = key.or_else(|| Some(format!("{section}.{}", line.split_once(" = ")?.0)));
            if let Some(origin) = key.and_then(|key| self.origins.get(&key)) {
                text.push_str(&format!("  # {origin}"));
            }
            text.push('\n');
        }
        text
    }
}

impl Config {
    /// Reads all layers; see [`Loaded::read`] to learn where each value came from.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn load(input: &LoadInput) -> Result<Self, ConfigError> {
        Loaded::read(input).map(|loaded| loaded.config)
    }

    /// This configuration as TOML, secrets redacted.
    pub fn to_toml(&self) -> String {
        // Serializing can fail only for key_file paths that are not UTF-8, and those cannot come from TOML.
        toml::to_string(self).unwrap_or_default()
    }
}

fn read_file(path: &Path) -> Result<String, ConfigError> {
    read_bounded(path, MAX_FILE_BYTES).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn read_bounded(path: &Path, most: u64) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?
        .take(most + 1)
        .read_to_string(&mut text)?;
    if read as u64 > most {
        return Err(std::io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// The configuration that the `entries` make over the defaults.
fn merge(entries: &BTreeMap<String, Entry>) -> Result<Config, Problem> {
    let mut root = toml::Table::new();
    for entry in entries.values() {
        let mut table = &mut root;
        let mut names = entry.key.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                table.insert(name.to_owned(), entry.value.clone());
                break;
            }
            let inner = table
                .entry(name)
                .or_insert_with(|| Value::Table(toml::Table::new()));
            let Value::Table(inner) = inner else { break };
            table = inner;
        }
    }
    Config::deserialize(Value::Table(root)).map_err(|error| Problem {
        source: Source::Default,
        key: String::new(),
        message: error.message().to_owned(),
    })
}

/// The rules that `config` breaks, each pointing at the key of the highest layer that takes part in it.
fn broken_rules(config: &Config, entries: &BTreeMap<String, Entry>) -> Vec<Problem> {
    let source_of = |key: &&str| entries.get(*key).map_or(&Source::Default, |entry| &entry.source);
    check::violations(config)
        .into_iter()
        .map(|violation| {
            let named = violation.keys.first().copied().unwrap_or_default();
            // `max_by_key` takes the last of equals; the keys come with the likeliest first.
            let blamed = violation
                .keys
                .iter()
                .rev()
                .max_by_key(|key| source_of(key).precedence());
            let source = blamed.map_or(Source::Default, |key| source_of(key).clone());
            Problem {
                source,
                key: named.to_owned(),
                message: violation.message,
            }
        })
        .collect()
}

/// The folder where a relative path under `key` starts: the configuration file's, for paths that stand in it.
fn folder_of<'a>(key: &str, file: Option<&'a Path>, entries: &BTreeMap<String, Entry>) -> &'a Path {
    let from_file = entries
        .get(key)
        .is_some_and(|entry| matches!(entry.source, Source::File { .. }));
    file.and_then(Path::parent)
        .filter(|_| from_file)
        .unwrap_or(Path::new(""))
}

/// Makes the paths that stand in the file relative to the file's folder.
fn resolve_paths(config: &mut Config, file: Option<&Path>, entries: &BTreeMap<String, Entry>) {
    let paths = [
        ("tls.cert_file", &mut config.tls.cert_file),
        ("tls.key_file", &mut config.tls.key_file),
        ("admin.tls_client_ca_file", &mut config.admin.tls_client_ca_file),
    ];
    for (key, path) in paths {
        if !is_empty(path) {
            *path = folder_of(key, file, entries).join(&path);
        }
    }
    let jwt = &mut config.auth.jwt;
    let is_fetched = jwt.is_jwks_fetched();
    let paths = [
        ("auth.jwt.jwks", &mut jwt.jwks, !is_fetched),
        ("auth.jwt.jwks_ca_file", &mut jwt.jwks_ca_file, true),
        ("hooks.ca_file", &mut config.hooks.ca_file, true),
    ];
    for (key, path, is_file) in paths {
        if is_file && !path.is_empty() {
            let whole = folder_of(key, file, entries).join(&*path);
            *path = whole.to_string_lossy().into_owned();
        }
    }
}

/// Reads the keys that stand in files of their own into `config`.
fn read_key_files(
    config: &mut Config,
    file: Option<&Path>,
    entries: &BTreeMap<String, Entry>,
) -> Vec<Problem> {
    let auth = &mut config.auth;
    let lists = [
        ("admin.tokens", &mut config.admin.tokens, true),
        ("auth.publish_keys", &mut auth.publish_keys, false),
        ("auth.play_keys", &mut auth.play_keys, false),
        ("auth.link_keys", &mut auth.link_keys, true),
        ("auth.jwt.keys", &mut auth.jwt.keys, true),
    ];
    let mut problems = Vec::new();
    for (name, keys, strong) in lists {
        for (index, key) in keys.iter_mut().enumerate() {
            let Some(path) = key
                .key_file()
                .map(|path| folder_of(name, file, entries).join(path))
            else {
                continue;
            };
            match read_secret(&path).and_then(|secret| strong_enough(secret, strong)) {
                Ok(secret) => key.set_key(secret),
                Err(reason) => {
                    let entry = entries.get(name);
                    let source = entry.map(|entry| entry.elements.get(index).unwrap_or(&entry.source));
                    problems.push(Problem {
                        source: source.unwrap_or(&Source::Default).clone(),
                        key: name.to_owned(),
                        message: format!("cannot take a key from key_file {}: {reason}", path.display()),
                    });
                }
            }
        }
    }
    let folder = |key: &str| folder_of(key, file, entries);
    problems.extend(read_hook_secret(&mut config.hooks, folder, entries));
    problems
}

fn read_hook_secret<'a>(
    hooks: &mut Hooks,
    folder_of: impl Fn(&str) -> &'a Path,
    entries: &BTreeMap<String, Entry>,
) -> Option<Problem> {
    const KEY: &str = "hooks.secret_file";
    if hooks.secret_file.is_empty() {
        return None;
    }
    let path = folder_of(KEY).join(&hooks.secret_file);
    match read_secret(&path).and_then(|secret| strong_enough(secret, true)) {
        Ok(secret) => {
            hooks.secret = secret;
            None
        }
        Err(reason) => Some(Problem {
            source: entries.get(KEY)?.source.clone(),
            key: KEY.to_owned(),
            message: format!("cannot take a secret from {}: {reason}", path.display()),
        }),
    }
}

fn strong_enough(secret: Secret, strong: bool) -> Result<Secret, String> {
    if strong && !check::is_strong(&secret) {
        return Err(check::TOO_SHORT.into());
    }
    Ok(secret)
}

/// The secret that is the content of a file, without the newline at its end.
fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = read_bounded(path, MAX_KEY_FILE_BYTES).map_err(|error| error.to_string())?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Secret::new(text.strip_suffix('\r').unwrap_or(text)).map_err(|error| error.to_string())
}
