//! The JWKS: read at the start, again and again, and at once for a token that names a key that is not in it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use spillway_access::{JwksError, KeySet, MAX_JWKS_BYTES};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Gate;

/// Whatever key ids strangers make up, the set is not read for them more often than this.
const SOONEST: Duration = Duration::from_secs(10);
/// How often a file is looked at, so that a key taken out of it opens nothing for long.
const FILE_LOOK: Duration = Duration::from_secs(5);

/// Why there is no key set.
#[derive(Debug, Error)]
pub enum KeySetError {
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// It cannot be used.
    #[error("{0}: {1}")]
    Unusable(String, JwksError),
}

/// Where the key set comes from.
#[derive(Debug)]
pub(super) struct KeySource {
    path: String,
    refresh: Duration,
    last: Mutex<Reading>,
}

/// The last reading.
#[derive(Debug)]
struct Reading {
    at: Instant,
    /// What it gave; `None` when it failed.
    text: Option<String>,
}

impl KeySource {
    /// The source that is configured, if any, and what it holds.
    pub(super) fn open(jwt: &spillway_config::Jwt) -> Result<Option<(Self, KeySet)>, KeySetError> {
        if jwt.jwks.is_empty() {
            return Ok(None);
        }
        let path = jwt.jwks.clone();
        let text = read_bounded(&path).map_err(|error| KeySetError::Unreadable(path.clone(), error))?;
        let keys = KeySet::parse(&text).map_err(|error| KeySetError::Unusable(path.clone(), error))?;
        let last = Reading {
            at: Instant::now(),
            text: Some(text),
        };
        let source = Self {
            path,
            refresh: Duration::from(jwt.jwks_refresh).min(FILE_LOOK),
            last: Mutex::new(last),
        };
        Ok(Some((source, keys)))
    }

    /// Reads it for a token that names an unknown key: whoever else comes with one meanwhile waits for the same
    /// reading. `true` if there has been one since it was asked for.
    pub(super) async fn renew_soon(&self, gate: &Gate) -> bool {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if last.at < asked && last.at.elapsed() >= SOONEST {
            self.read_again(gate, &mut last).await;
        }
        last.at >= asked
    }

    /// Reads it again.
    pub(super) async fn renew(&self, gate: &Gate) {
        let mut last = self.last.lock().await;
        self.read_again(gate, &mut last).await;
    }

    /// A set that cannot be read or used changes nothing, and is spoken of once.
    async fn read_again(&self, gate: &Gate, last: &mut Reading) {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read_bounded(&path)).await;
        let read = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        last.at = Instant::now();
        let unchanged = |text: &String| last.text.as_ref() == Some(text);
        if read.as_ref().is_ok_and(unchanged) {
            return;
        }
        let parsed = match read {
            Ok(text) => KeySet::parse(&text)
                .map(|keys| (text, keys))
                .map_err(|error| KeySetError::Unusable(self.path.clone(), error)),
            Err(error) => Err(KeySetError::Unreadable(self.path.clone(), error)),
        };
        match parsed {
            Ok((text, keys)) => {
                tracing::info!(
                    keys = keys.len(),
                    "the JWKS (auth.jwt.jwks) has changed and is taken up"
                );
                gate.counters.key_set_read(Some(keys.len()));
                gate.keys.store(Arc::new(keys));
                last.text = Some(text);
            }
            Err(error) => {
                gate.counters.key_set_read(None);
                if last.text.take().is_some() {
                    tracing::warn!(%error, "the JWKS (auth.jwt.jwks) cannot be used; the keys read before stay in force");
                }
            }
        }
    }
}

fn read_bounded(path: &str) -> std::io::Result<String> {
    let most = MAX_JWKS_BYTES as u64;
    let mut text = String::new();
    let read = std::fs::File::open(path)?
        .take(most + 1)
        .read_to_string(&mut text)?;
    if read as u64 > most {
        return Err(std::io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(text)
}

/// Keeps the key set of `gate` fresh until `shutdown`.
pub(crate) async fn keep_fresh(gate: Arc<Gate>, shutdown: CancellationToken) {
    let Some(source) = &gate.key_source else { return };
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(source.refresh) => source.renew(&gate).await,
        }
    }
}
