//! [`Client`]: a small HTTP(S) client whose every wait and buffer is bounded. It follows no redirect.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::{Request, Uri};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::connector::{ClientError, Connector, tls, trusting};
use crate::failure::Failure;

/// How long a connection without a call is kept.
const IDLE: Duration = Duration::from_secs(30);

/// What hyper may hold of an answer's head.
const HEAD_BYTES: usize = 32 << 10;

/// The bounds of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Whether https may be spoken: certificates are read only then.
    pub https: bool,
    /// A file of certificate authorities (PEM) to trust in place of the system's.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take, with name and TLS.
    pub connect_timeout: Duration,
    /// The longest body taken, in bytes.
    pub max_body: usize,
    /// The most calls, and with them connections, at a time.
    pub max_in_flight: usize,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

/// Sends requests to addresses that the operator named.
#[derive(Debug)]
pub struct Client {
    inner: legacy::Client<Connector, Full<Bytes>>,
    slots: Semaphore,
    max_body: usize,
}

impl Client {
    /// A client with these bounds.
    ///
    /// # Errors
    /// [`ClientError`] when it may speak https and there is nobody to trust.
    pub fn new(options: &ClientOptions) -> Result<Self, ClientError> {
        let tls = if options.https {
            tls(options.ca_file.as_deref())?
        } else {
            trusting(RootCertStore::empty())?
        };
        let connector = Connector::new(tls, options.connect_timeout);
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(options.max_in_flight)
            .http1_max_buf_size(HEAD_BYTES)
            .build(connector);
        Ok(Self {
            inner,
            slots: Semaphore::new(options.max_in_flight),
            max_body: options.max_body,
        })
    }

    /// Room for a call, if there is any within `wait`.
    ///
    /// # Errors
    /// [`Failure::Busy`] when as many calls are in flight as may be.
    pub async fn slot_within(&self, wait: Duration) -> Result<Slot<'_>, Failure> {
        tokio::time::timeout(wait, self.slot())
            .await
            .unwrap_or(Err(Failure::Busy))
    }

    /// Room for a call, as soon as there is any.
    ///
    /// # Errors
    /// None: the client never closes.
    pub async fn slot(&self) -> Result<Slot<'_>, Failure> {
        let permit = self.slots.acquire().await.map_err(|_| Failure::Busy)?;
        Ok(Slot {
            client: self,
            _permit: permit,
        })
    }
}

/// Room for one call.
#[derive(Debug)]
pub struct Slot<'a> {
    client: &'a Client,
    _permit: SemaphorePermit<'a>,
}

impl Slot<'_> {
    /// Sends a request and reads the answer, all within `limit`.
    ///
    /// # Errors
    /// The failure of the call.
    pub async fn send(self, request: Request<Bytes>, limit: Duration) -> Result<Answer, Failure> {
        let Client { inner, max_body, .. } = self.client;
        let call = async {
            let response = inner.request(request.map(Full::new)).await.map_err(|error| {
                tracing::debug!(?error, "a call failed");
                if error.is_connect() {
                    Failure::Connect
                } else {
                    Failure::Closed
                }
            })?;
            let status = response.status().as_u16();
            // A length that is named is believed before a byte of it is read.
            if response.body().size_hint().lower() > *max_body as u64 {
                return Err(Failure::TooLarge);
            }
            let body = Limited::new(response.into_body(), *max_body).collect().await;
            match body {
                Ok(body) => Ok(Answer {
                    status,
                    body: body.to_bytes(),
                }),
                Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
                Err(_) => Err(Failure::Closed),
            }
        };
        tokio::time::timeout(limit, call)
            .await
            .unwrap_or(Err(Failure::Timeout))
    }
}

/// Whether `uri` can be called: http or https with a host, and nothing in it that is not sent.
pub fn is_callable(uri: &Uri) -> bool {
    let scheme = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri
        .authority()
        .is_some_and(|authority| !authority.as_str().contains('@'));
    scheme && authority
}

#[cfg(test)]
mod tests;
