//! What can be wrong with a configuration, said so that the reader can put it right.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The built-in default.
    Default,
    /// A place in the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A `--set` flag.
    Flag {
        /// The key as it was written.
        key: String,
    },
}

impl Source {
    /// The layer's place in the order of precedence; a higher one overrides a lower one.
    pub(crate) const fn precedence(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Environment { .. } => 2,
            Self::Flag { .. } => 3,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("built-in default"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::Flag { key } => write!(f, "--set {key}"),
        }
    }
}

/// One thing that is wrong: where it stands, the key, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub source: Source,
    /// The key in dotted form, empty where the text could not be read as keys at all.
    pub key: String,
    /// What is wrong and what was expected. Never holds a secret.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said_already = matches!(&self.source, Source::Flag { key } if *key == self.key);
        if self.key.is_empty() || said_already {
            write!(f, "{}: {}", self.source, self.message)
        } else {
            write!(f, "{}: {}: {}", self.source, self.key, self.message)
        }
    }
}

/// Why no configuration could be made. Its text goes to the operator as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The configuration file cannot be read.
    #[error("{}: cannot read the configuration file: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// One or more keys are wrong; the text has a line for each.
    #[error("{}", join_lines(.problems))]
    Invalid {
        /// Everything found wrong, in the order of the layers.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// The single problems, where the configuration could be read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid { problems } => problems,
        }
    }
}

fn join_lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}
