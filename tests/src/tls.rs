//! Certificates made for a test, and a TLS client that shows what was negotiated.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::gateway::{Gateway, Start};
use crate::slow::{self, Socket};

/// A certificate with its key, in files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate, PEM.
    pub cert: PathBuf,
    /// The key, PEM.
    pub key: PathBuf,
}

/// An authority of a test's own, with a folder for what it makes. The certificates are for 127.0.0.1.
pub struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes one.
    ///
    /// # Panics
    /// When there is no folder for it.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("the authority's file");
        Self { folder, issuer }
    }

    /// The authority's own certificate, PEM.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Makes a certificate for a server or a client, over the files of an earlier one of that name.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn issue(&self, name: &str) -> Files {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = Files {
            cert: self.folder.path().join(format!("{name}.pem")),
            key: self.folder.path().join(format!("{name}.key")),
        };
        std::fs::write(&files.key, key.serialize_pem()).expect("the key's file");
        std::fs::write(&files.cert, certificate.pem()).expect("the certificate's file");
        files
    }

    /// How to start a gateway that serves RTMPS and HTTPS with these files.
    #[must_use]
    pub fn gateway(&self, files: &Files) -> Start {
        Gateway::with()
            .set("rtmps.listen", "127.0.0.1:0")
            .set("https.listen", "127.0.0.1:0")
            .set("tls.cert_file", &shown(&files.cert))
            .set("tls.key_file", &shown(&files.key))
    }

    /// A client that takes only this authority's certificates.
    #[must_use]
    pub fn client(&self) -> Client {
        Client {
            authority: der_of(&self.file()),
            own: None,
            protocols: Vec::new(),
            receive_buffer: None,
        }
    }
}

/// A path as text.
///
/// # Panics
/// When it is not UTF-8.
#[must_use]
pub fn shown(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// The certificate of a file.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn der_of(path: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// How to connect under TLS.
#[derive(Clone, Debug)]
pub struct Client {
    authority: CertificateDer<'static>,
    own: Option<Files>,
    protocols: Vec<Vec<u8>>,
    receive_buffer: Option<usize>,
}

impl Client {
    /// Shows this certificate if it is asked for one.
    #[must_use]
    pub fn with_certificate(mut self, files: Files) -> Self {
        self.own = Some(files);
        self
    }

    /// Offers these protocols (ALPN).
    #[must_use]
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        self.protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Takes little at a time.
    #[must_use]
    pub const fn narrow(mut self) -> Self {
        self.receive_buffer = Some(slow::SMALL_BUFFER);
        self
    }

    /// Connects and does the handshake.
    ///
    /// # Errors
    /// When the connection or the handshake fails.
    pub async fn connect(&self, to: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let socket = slow::connect(to, self.receive_buffer).await?;
        self.over(socket).await
    }

    /// Does the handshake on a connection.
    ///
    /// # Errors
    /// When it fails.
    ///
    /// # Panics
    /// When the client's own certificate does not read.
    pub async fn over(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).map_err(io::Error::other)?;
        #[expect(deprecated, reason = "the same provider as the gateway's")]
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots);
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let key = PrivateKeyDer::from_pem_file(&files.key).expect("the client's key");
                builder
                    .with_client_auth_cert(vec![der_of(&files.cert)], key)
                    .map_err(io::Error::other)?
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        TlsConnector::from(Arc::new(config)).connect(name, socket).await
    }

    /// The same as any connection.
    ///
    /// # Panics
    /// When the connection or the handshake fails.
    pub async fn socket(&self, to: SocketAddr) -> Socket {
        let stream = self.connect(to).await;
        Box::new(stream.unwrap_or_else(|error| panic!("TLS to {to}: {error}")))
    }

    /// The certificate that a server shows.
    ///
    /// # Panics
    /// When the handshake fails.
    pub async fn certificate_of(&self, to: SocketAddr) -> CertificateDer<'static> {
        let stream = self.connect(to).await;
        let stream = stream.unwrap_or_else(|error| panic!("TLS to {to}: {error}"));
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        shown.first().expect("a certificate").clone().into_owned()
    }
}
