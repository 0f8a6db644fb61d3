//! The JWKS: read at the start, again and again, and at once for a token that names a key that is not in it.

use std::sync::Arc;
use std::time::Duration;

use spillway_access::{JwksError, KeySet};
use spillway_hooks::ClientError;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Gate;
use super::key_place::{Place, ReadError};

/// Whatever key ids strangers make up, the set is not read for them more often than this; it is also the pause after a
/// failure.
const SOONEST: Duration = Duration::from_secs(10);
/// How often a file is looked at, so that a key taken out of it opens nothing for long.
const FILE_LOOK: Duration = Duration::from_secs(5);

/// Why there is no key set.
#[derive(Debug, Error)]
pub enum KeySetError {
    /// It is no address that can be fetched from.
    #[error("that is no address to fetch keys from: expected https://HOST/PATH, without a user's name")]
    BadAddress,
    /// Nothing can be fetched.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, ReadError),
    /// It cannot be used.
    #[error("{0}: {1}")]
    Unusable(String, JwksError),
}

/// Where the key set comes from.
#[derive(Debug)]
pub(super) struct KeySource {
    place: Place,
    refresh: Duration,
    last: Mutex<Reading>,
}

/// The last reading.
#[derive(Debug, Default)]
struct Reading {
    /// When it ended; `None` before the first.
    at: Option<Instant>,
    /// What it gave; `None` when it failed.
    text: Option<String>,
}

impl KeySource {
    /// The source that is configured, if any, and what it holds. What has to be fetched is not there yet: the gateway
    /// starts without the network too.
    pub(super) fn open(jwt: &spillway_config::Jwt) -> Result<Option<(Self, KeySet)>, KeySetError> {
        let Some(place) = Place::of(jwt)? else {
            return Ok(None);
        };
        let configured = Duration::from(jwt.jwks_refresh);
        let mut last = Reading::default();
        let (keys, refresh) = match &place {
            Place::File(path) => {
                let text = Place::read_file(path);
                let (text, keys) = parsed(&place, text)?;
                last.at = Some(Instant::now());
                last.text = Some(text);
                (keys, configured.min(FILE_LOOK))
            }
            Place::Address { .. } => (KeySet::default(), configured),
        };
        let source = Self {
            place,
            refresh,
            last: Mutex::new(last),
        };
        Ok(Some((source, keys)))
    }

    /// Reads it for a token that names an unknown key: whoever else comes with one meanwhile waits for the same
    /// reading. `true` if there has been one since it was asked for.
    pub(super) async fn renew_soon(&self, gate: &Gate) -> bool {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if last.at.is_none_or(|at| at < asked && at.elapsed() >= SOONEST) {
            self.read_again(gate, &mut last).await;
        }
        last.at >= Some(asked)
    }

    /// Reads it again, unless it was read after `since`; says when to do so next.
    pub(super) async fn renew(&self, gate: &Gate, since: Option<Instant>) -> Duration {
        let mut last = self.last.lock().await;
        if last.at <= since {
            self.read_again(gate, &mut last).await;
        }
        match last.text {
            Some(_) => self.refresh,
            None => self.refresh.min(SOONEST),
        }
    }

    /// A set that cannot be read or used changes nothing, and is spoken of once.
    async fn read_again(&self, gate: &Gate, last: &mut Reading) {
        let read = self.place.read().await;
        last.at = Some(Instant::now());
        if last.text.is_some() && read.as_ref().ok() == last.text.as_ref() {
            return gate.counters.key_set_read(Some(gate.keys.load().len()));
        }
        match parsed(&self.place, read) {
            Ok((text, keys)) => {
                tracing::info!(
                    keys = keys.len(),
                    "new keys are taken from the JWKS (auth.jwt.jwks)"
                );
                gate.counters.key_set_read(Some(keys.len()));
                gate.keys.store(Arc::new(keys));
                last.text = Some(text);
            }
            Err(error) => {
                gate.counters.key_set_read(None);
                let is_first = gate.counters.key_set_reads() == (0, 1);
                if last.text.take().is_some() || is_first {
                    tracing::warn!(%error, "the JWKS (auth.jwt.jwks) cannot be used; the keys there are stay in force");
                }
            }
        }
    }
}

fn parsed(place: &Place, read: Result<String, ReadError>) -> Result<(String, KeySet), KeySetError> {
    let text = read.map_err(|error| KeySetError::Unreadable(place.to_string(), error))?;
    let keys = KeySet::parse(&text).map_err(|error| KeySetError::Unusable(place.to_string(), error))?;
    Ok((text, keys))
}

/// Keeps the key set of `gate` fresh until `shutdown`.
pub(crate) async fn keep_fresh(gate: Arc<Gate>, shutdown: CancellationToken) {
    let Some(source) = &gate.key_source else { return };
    let keep = async {
        let mut since = None;
        loop {
            let pause = source.renew(&gate, since).await;
            tokio::time::sleep(pause).await;
            since = Some(Instant::now());
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = keep => {}
    }
}
