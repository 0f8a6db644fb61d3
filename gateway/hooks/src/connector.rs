//! Connections to the endpoint: TCP and TLS, within a time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::net::TcpStream;

use crate::resolver::Resolver;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a client cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The file of certificate authorities cannot be used.
    #[error("cannot take certificates from {path}: {reason}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nobody to trust.
    #[error(
        "no certificate authorities were found on this system, so that no https endpoint can be trusted: install \
         ca-certificates, or name a file of certificates"
    )]
    NoAuthorities,
    /// The TLS library refuses its own settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Makes connections, each within a time for name, TCP and TLS together.
#[derive(Clone)]
pub(crate) struct Connector {
    inner: HttpsConnector<HttpConnector<Resolver>>,
    limit: Duration,
}

impl Connector {
    /// Without `tls` only http is spoken.
    pub(crate) fn new(tls: ClientConfig, limit: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::default());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let inner = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Self { inner, limit }
    }
}

impl tower::Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.limit, self.inner.call(uri));
        async move {
            match connecting.await {
                Ok(result) => result,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        }
        .boxed()
    }
}

/// TLS that trusts the authorities of `ca_file`, or without one those of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR`
/// are obeyed).
///
/// # Errors
/// [`ClientError`] when there is nobody to trust.
pub(crate) fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            let unusable = |reason: String| ClientError::CaFile {
                path: path.to_owned(),
                reason,
            };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("there is no certificate in it".into()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(ClientError::NoAuthorities);
            }
        }
    }
    Ok(trusting(roots)?)
}

/// TLS that trusts `roots`.
pub(crate) fn trusting(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// ring, as everywhere in Spillway: one library for all, and none that needs cmake.
#[allow(
    deprecated,
    reason = "said of ring for want of post-quantum algorithms; aws-lc-rs would be a second library"
)]
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}
