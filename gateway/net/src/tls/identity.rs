//! [`Identity`]: a certificate chain with its key, and when it expires.

use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::error::TlsError;

/// How long a self-signed certificate is good for: longer than anyone tries something out.
const SELF_SIGNED_VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// A clock that is a little behind accepts a certificate made just now.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

const CERT_FILE: &str = "tls.cert_file";

/// A certificate chain, the server's own first, and its private key.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// The end of the server's own certificate, in seconds since 1970.
    pub(super) expires: i64,
}

impl Identity {
    /// Reads PEM texts.
    pub(super) fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(CERT_FILE, chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let own = chain.first().ok_or(TlsError::NoCertificate { key: CERT_FILE })?;
        let expires = expiry(own)?;
        Ok(Self { chain, key, expires })
    }

    /// Makes a certificate that nobody but its maker vouches for, good for these host names and addresses.
    pub(super) fn self_signed(names: &[String]) -> Result<Self, TlsError> {
        let mut params = rcgen::CertificateParams::new(names)?;
        let now = SystemTime::now();
        params.not_before = (now - CLOCK_SKEW).into();
        params.not_after = (now + SELF_SIGNED_VALIDITY).into();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "Spillway, self-signed");
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let own = certificate.der().clone();
        Ok(Self {
            expires: expiry(&own)?,
            chain: vec![own],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }
}

/// All certificates of a PEM text.
pub(super) fn certificates(key: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::BadCertificate {
            key,
            reason: error.to_string(),
        })?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate { key });
    }
    Ok(found)
}

fn expiry(certificate: &CertificateDer<'_>) -> Result<i64, TlsError> {
    match x509_parser::parse_x509_certificate(certificate) {
        Ok((_, certificate)) => Ok(certificate.validity().not_after.timestamp()),
        Err(error) => Err(TlsError::BadCertificate {
            key: CERT_FILE,
            reason: error.to_string(),
        }),
    }
}
