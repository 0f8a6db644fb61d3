//! [`Certificates`]: what TLS listeners serve with, and its reload.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::error::TlsError;
use super::identity::{Identity, certificates};

/// The largest file taken: far beyond any chain of certificates, and a bound for a wrong path such as a device.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where the server's certificate comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// PEM files: the chain (`tls.cert_file`), the server's own certificate first, and its key (`tls.key_file`).
    Files {
        /// The chain.
        chain: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// Made now, in memory, for these host names and addresses.
    SelfSigned(Vec<String>),
}

/// What a TLS listener is for: it decides what is negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsUse {
    /// RTMPS: no application protocol.
    Rtmps,
    /// HTTPS: HTTP/2 and HTTP/1.1.
    Https,
    /// The operators' listener: as HTTPS, and with `admin.tls_client_ca_file` for known clients only.
    Admin,
}

/// What a reload did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// The files are what they were, or there are none.
    Unchanged,
    /// New connections see what the files hold now.
    Changed,
}

/// The certificates in force. Connections keep what they began with.
#[derive(Debug)]
pub struct Certificates {
    origin: Origin,
    client_ca: Option<PathBuf>,
    current: ArcSwap<Current>,
    /// The files' contents that were tried last, whether they served or not.
    tried: Mutex<Option<Contents>>,
    failures: AtomicU64,
}

#[derive(Debug)]
struct Current {
    rtmps: Arc<ServerConfig>,
    https: Arc<ServerConfig>,
    admin: Arc<ServerConfig>,
    expires: i64,
}

/// The contents of the files; not `Debug`, because a key is among them.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    identity: Option<(Vec<u8>, Vec<u8>)>,
    client_ca: Option<Vec<u8>>,
}

impl std::fmt::Debug for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Contents")
    }
}

impl Certificates {
    /// Reads the files, or makes the certificate, and checks that they can be used. `client_ca` is
    /// `admin.tls_client_ca_file`.
    ///
    /// # Errors
    /// [`TlsError`]: what is missing or does not fit.
    pub fn load(origin: Origin, client_ca: Option<PathBuf>) -> Result<Self, TlsError> {
        let contents = Contents::read(&origin, client_ca.as_deref())?;
        let current = build(&origin, &contents)?;
        Ok(Self {
            origin,
            client_ca,
            current: ArcSwap::from_pointee(current),
            tried: Mutex::new(Some(contents)),
            failures: AtomicU64::new(0),
        })
    }

    /// What a new connection of such a listener is served with.
    pub fn server_config(&self, wanted: TlsUse) -> Arc<ServerConfig> {
        let current = self.current.load();
        match wanted {
            TlsUse::Rtmps => current.rtmps.clone(),
            TlsUse::Https => current.https.clone(),
            TlsUse::Admin => current.admin.clone(),
        }
    }

    /// Takes up what the files hold now, if it is new. What cannot be used leaves the old in force and is counted
    /// once, until the files change again. It reads files: not for an async task.
    ///
    /// # Errors
    /// [`TlsError`]: why the new files cannot be used.
    pub fn reload(&self) -> Result<Reloaded, TlsError> {
        if matches!(self.origin, Origin::SelfSigned(_)) && self.client_ca.is_none() {
            return Ok(Reloaded::Unchanged);
        }
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = match Contents::read(&self.origin, self.client_ca.as_deref()) {
            Ok(contents) => contents,
            // Files that are missing for a while are news once.
            Err(_) if tried.is_none() => return Ok(Reloaded::Unchanged),
            Err(error) => {
                *tried = None;
                self.failures.fetch_add(1, Ordering::Relaxed);
                return Err(error);
            }
        };
        if tried.as_ref() == Some(&contents) {
            return Ok(Reloaded::Unchanged);
        }
        let built = build(&self.origin, &contents);
        *tried = Some(contents);
        match built {
            Ok(current) => {
                self.current.store(Arc::new(current));
                Ok(Reloaded::Changed)
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// When the server's certificate expires, in seconds since 1970.
    pub fn expires(&self) -> i64 {
        self.current.load().expires
    }

    /// Whether the server's certificate has expired.
    pub fn is_expired(&self) -> bool {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.expires() <= i64::try_from(now).unwrap_or(i64::MAX)
    }

    /// How many reloads failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Contents {
    fn read(origin: &Origin, client_ca: Option<&Path>) -> Result<Self, TlsError> {
        let identity = match origin {
            Origin::Files { chain, key } => Some((read("tls.cert_file", chain)?, read("tls.key_file", key)?)),
            Origin::SelfSigned(_) => None,
        };
        let client_ca = client_ca
            .map(|path| read("admin.tls_client_ca_file", path))
            .transpose()?;
        Ok(Self { identity, client_ca })
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let bounded = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
        if read as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("larger than {MAX_FILE_BYTES} bytes")));
        }
        Ok(bytes)
    };
    bounded().map_err(|source| TlsError::Unreadable {
        key,
        path: path.to_owned(),
        source,
    })
}

fn build(origin: &Origin, contents: &Contents) -> Result<Current, TlsError> {
    let identity = match (origin, &contents.identity) {
        (Origin::SelfSigned(names), _) => Identity::self_signed(names)?,
        (Origin::Files { .. }, Some((chain, key))) => Identity::from_pem(chain, key)?,
        (Origin::Files { .. }, None) => return Err(TlsError::NoKey),
    };
    let provider = provider();
    let http = [b"h2".to_vec(), b"http/1.1".to_vec()];
    let client_ca = contents.client_ca.as_deref();
    Ok(Current {
        rtmps: server_config(&provider, &identity, None, &[])?,
        https: server_config(&provider, &identity, None, &http)?,
        admin: server_config(&provider, &identity, client_ca, &http)?,
        expires: identity.expires,
    })
}

/// The cryptography of `ring`: pure Rust and a little assembler, no C library to build.
#[expect(
    deprecated,
    reason = "the other provider needs a C toolchain; post-quantum key exchange can come with it later"
)]
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS 1.2 and 1.3 with the library's own choice of ciphers.
fn server_config(
    provider: &Arc<CryptoProvider>,
    identity: &Identity,
    client_ca: Option<&[u8]>,
    protocols: &[Vec<u8>],
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let roots = client_roots(pem)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()
                .map_err(|error| TlsError::ClientCa(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = protocols.to_vec();
    Ok(Arc::new(config))
}

fn client_roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("admin.tls_client_ca_file", pem)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::ClientCa(error.to_string()))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files {
        _folder: tempfile::TempDir,
        chain: PathBuf,
        key: PathBuf,
    }

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files = Self {
                chain: folder.path().join("chain.pem"),
                key: folder.path().join("key.pem"),
                _folder: folder,
            };
            files.renew();
            files
        }

        fn renew(&self) {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            std::fs::write(&self.chain, made.cert.pem()).unwrap();
            std::fs::write(&self.key, made.signing_key.serialize_pem()).unwrap();
        }

        fn load(&self) -> Result<Certificates, TlsError> {
            let origin = Origin::Files {
                chain: self.chain.clone(),
                key: self.key.clone(),
            };
            Certificates::load(origin, None)
        }
    }

    #[test]
    fn a_pair_is_loaded_and_its_end_is_known() {
        let certificates = Files::new().load().unwrap();
        assert!(!certificates.is_expired());
        assert!(certificates.expires() > 1_700_000_000);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let (files, others) = (Files::new(), Files::new());
        std::fs::copy(&others.key, &files.key).unwrap();
        let error = files.load().unwrap_err().to_string();
        assert!(error.contains("tls.cert_file and tls.key_file"), "{error}");
        std::fs::write(
            &files.key,
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n",
        )
        .unwrap();
        assert!(matches!(files.load(), Err(TlsError::NoKey)));
        std::fs::write(&files.chain, "nothing").unwrap();
        assert!(matches!(files.load(), Err(TlsError::NoCertificate { .. })));
        std::fs::remove_file(&files.chain).unwrap();
        let error = files.load().unwrap_err().to_string();
        assert!(error.contains("chain.pem"), "{error}");
    }

    #[test]
    fn new_files_are_taken_up_and_broken_ones_leave_the_old_in_force() {
        let files = Files::new();
        let certificates = files.load().unwrap();
        assert_eq!(certificates.reload().unwrap(), Reloaded::Unchanged);
        let first = certificates.server_config(TlsUse::Https);
        std::fs::write(&files.chain, "half a fi").unwrap();
        assert!(certificates.reload().is_err());
        assert_eq!(certificates.reload().unwrap(), Reloaded::Unchanged, "told once");
        std::fs::remove_file(&files.chain).unwrap();
        assert!(certificates.reload().is_err());
        assert_eq!(certificates.reload().unwrap(), Reloaded::Unchanged, "told once");
        assert_eq!(certificates.failures(), 2);
        assert!(Arc::ptr_eq(&first, &certificates.server_config(TlsUse::Https)));
        files.renew();
        assert_eq!(certificates.reload().unwrap(), Reloaded::Changed);
        assert!(!Arc::ptr_eq(&first, &certificates.server_config(TlsUse::Https)));
    }

    #[test]
    fn a_self_signed_certificate_needs_no_files_and_stays() {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let certificates = Certificates::load(Origin::SelfSigned(names), None).unwrap();
        assert!(!certificates.is_expired());
        assert_eq!(certificates.reload().unwrap(), Reloaded::Unchanged);
    }

    #[test]
    fn each_use_has_its_own_protocols() {
        let certificates = Files::new().load().unwrap();
        let protocols = |wanted| certificates.server_config(wanted).alpn_protocols.clone();
        assert!(protocols(TlsUse::Rtmps).is_empty());
        assert_eq!(protocols(TlsUse::Https), [b"h2".to_vec(), b"http/1.1".to_vec()]);
    }
}
