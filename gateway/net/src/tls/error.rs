//! Why certificates cannot be used.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why certificates cannot be used. The texts name files, never what stands in a key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {key} {}: {source}", .path.display())]
    Unreadable {
        /// The configuration key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds no certificate.
    #[error(
        "{key} holds no certificate: expected PEM, \"-----BEGIN CERTIFICATE-----\", the server's own certificate first"
    )]
    NoCertificate {
        /// The configuration key.
        key: &'static str,
    },
    /// The key file holds no key that can be used.
    #[error("tls.key_file holds no private key: expected PEM, PKCS#8, PKCS#1 or SEC1, without a pass phrase")]
    NoKey,
    /// A certificate does not read.
    #[error("{key} holds a certificate that does not read: {reason}")]
    BadCertificate {
        /// The configuration key.
        key: &'static str,
        /// What does not read.
        reason: String,
    },
    /// Certificate and key are no pair, or of a kind that is not supported.
    #[error("tls.cert_file and tls.key_file cannot be used together: {0}")]
    Unusable(#[from] rustls::Error),
    /// The certificates of `admin.tls_client_ca_file` cannot verify anyone.
    #[error("admin.tls_client_ca_file cannot verify clients: {0}")]
    ClientCa(String),
    /// The self-signed certificate cannot be made.
    #[error("cannot make a self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
}
