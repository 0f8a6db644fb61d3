//! [`Place`]: a file or an address that holds a JWKS.

use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

use bytes::Bytes;
use spillway_access::MAX_JWKS_BYTES;
use spillway_hooks::{Client, ClientOptions, Failure, Uri, is_callable};
use thiserror::Error;

use super::KeySetError;

/// How long name, connection and TLS may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a fetch may take in all: publishers and viewers with a token of an unknown key wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a JWKS cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is too large.
    #[error("larger than {MAX_JWKS_BYTES} bytes")]
    TooLarge,
    /// The answer is no text.
    #[error("the answer is not UTF-8")]
    NotText,
    /// The fetch failed.
    #[error("the fetch failed ({})", .0.label())]
    Fetch(Failure),
    /// The answer is no success; redirects are not followed.
    #[error("answered {0} where 200 was expected (redirects are not followed)")]
    Status(u16),
    /// The reading was given up.
    #[error("the reading was given up")]
    Abandoned,
}

/// Where a JWKS is.
#[derive(Debug)]
pub(super) enum Place {
    /// A file.
    File(String),
    /// An address, and what fetches from it.
    Address { uri: Uri, client: Box<Client> },
}

impl Place {
    /// The place that is configured.
    pub(super) fn of(jwt: &spillway_config::Jwt) -> Result<Option<Self>, KeySetError> {
        if jwt.jwks.is_empty() {
            return Ok(None);
        }
        if !jwt.is_jwks_fetched() {
            return Ok(Some(Self::File(jwt.jwks.clone())));
        }
        let uri = jwt.jwks.parse::<Uri>().ok().filter(is_callable);
        let uri = uri.ok_or(KeySetError::BadAddress)?;
        let client = Client::new(&ClientOptions {
            https: uri.scheme_str() == Some("https"),
            ca_file: (!jwt.jwks_ca_file.is_empty()).then(|| jwt.jwks_ca_file.clone().into()),
            connect_timeout: CONNECT_TIMEOUT,
            max_body: MAX_JWKS_BYTES,
            max_in_flight: 1,
        })?;
        let client = Box::new(client);
        Ok(Some(Self::Address { uri, client }))
    }

    /// Reads what is there.
    pub(super) async fn read(&self) -> Result<String, ReadError> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || Self::read_file(&path)).await;
                read.unwrap_or(Err(ReadError::Abandoned))
            }
            Self::Address { uri, client } => fetch(client, uri).await,
        }
    }

    /// Reads a file.
    pub(super) fn read_file(path: &str) -> Result<String, ReadError> {
        let most = MAX_JWKS_BYTES as u64;
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        let read = file.take(most + 1).read_to_string(&mut text)?;
        if read as u64 > most {
            return Err(ReadError::TooLarge);
        }
        Ok(text)
    }
}

async fn fetch(client: &Client, uri: &Uri) -> Result<String, ReadError> {
    let slot = client.slot().await.map_err(ReadError::Fetch)?;
    let mut request = hyper::Request::new(Bytes::new());
    *request.uri_mut() = uri.clone();
    let answer = slot.send(request, FETCH_TIMEOUT).await;
    let answer = answer.map_err(|failure| match failure {
        Failure::TooLarge => ReadError::TooLarge,
        failure => ReadError::Fetch(failure),
    })?;
    match answer.status {
        200 => String::from_utf8(answer.body.into()).map_err(|_| ReadError::NotText),
        status => Err(ReadError::Status(status)),
    }
}

/// As messages name it: without a query, which may hold a secret.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(path),
            Self::Address { uri, .. } => {
                let host = uri.authority().map_or("", hyper::http::uri::Authority::as_str);
                write!(
                    f,
                    "{}://{host}{}",
                    uri.scheme_str().unwrap_or_default(),
                    uri.path()
                )
            }
        }
    }
}
