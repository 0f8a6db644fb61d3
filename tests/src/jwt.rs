//! JSON Web Tokens signed by openssl, and the JWKS of its keys.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::tools;

/// What signs tokens.
pub enum Signer {
    /// HMAC-SHA-256 under this secret.
    Hs256(String),
    /// A key pair of openssl.
    Pair(KeyPair),
}

/// An RSA or Ed25519 key, in a folder of its own.
pub struct KeyPair {
    folder: TempDir,
    id: String,
    is_rsa: bool,
}

/// Seconds since 1970.
///
/// # Panics
/// Before then.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock that is set")
        .as_secs()
}

impl Signer {
    /// A token with these claims.
    #[must_use]
    pub fn token(&self, claims: &Json) -> String {
        let header = match self {
            Self::Hs256(_) => json!({ "alg": "HS256", "typ": "JWT" }),
            Self::Pair(pair) => {
                let algorithm = if pair.is_rsa { "RS256" } else { "EdDSA" };
                json!({ "alg": algorithm, "typ": "JWT", "kid": pair.id })
            }
        };
        let part = |json: &Json| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", part(&header), part(claims));
        let signature = match self {
            Self::Hs256(secret) => openssl(
                &["dgst", "-sha256", "-binary", "-hmac", secret],
                signed.as_bytes(),
            ),
            Self::Pair(pair) => pair.sign(signed.as_bytes()),
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

impl KeyPair {
    /// A new RSA key of 2048 bits.
    #[must_use]
    pub fn rsa(id: &str) -> Self {
        Self::new(
            id,
            true,
            &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        )
    }

    /// A new Ed25519 key.
    #[must_use]
    pub fn ed25519(id: &str) -> Self {
        Self::new(id, false, &["-algorithm", "ED25519"])
    }

    fn new(id: &str, is_rsa: bool, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pair = Self {
            folder,
            id: id.to_owned(),
            is_rsa,
        };
        let file = pair.file("key.pem");
        openssl(&[&["genpkey", "-quiet", "-out", &file], options].concat(), &[]);
        pair
    }

    fn file(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let (key, file) = (self.file("key.pem"), self.file("message"));
        if self.is_rsa {
            return openssl(&["dgst", "-sha256", "-binary", "-sign", &key], message);
        }
        std::fs::write(&file, message).expect("a file to sign");
        openssl(&["pkeyutl", "-sign", "-rawin", "-inkey", &key, "-in", &file], &[])
    }

    /// Its public half as a key of a JWKS.
    ///
    /// # Panics
    /// When openssl says something else than expected.
    #[must_use]
    pub fn jwk(&self) -> Json {
        let key = self.file("key.pem");
        if self.is_rsa {
            let said = openssl(&["rsa", "-in", &key, "-noout", "-modulus"], &[]);
            let said = String::from_utf8(said).expect("hexadecimal");
            let digits = said.trim().trim_start_matches("Modulus=");
            let modulus: Vec<u8> = (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal"))
                .collect();
            return json!({ "kty": "RSA", "kid": self.id, "use": "sig", "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB" });
        }
        // The last 32 bytes of the public key's DER are the key itself (RFC 8410 §4).
        let der = openssl(&["pkey", "-in", &key, "-pubout", "-outform", "DER"], &[]);
        let x = URL_SAFE_NO_PAD.encode(&der[der.len() - 32..]);
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x })
    }
}

fn openssl(arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(tools::program("openssl"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl starts");
    // Commands that read no input may have closed it already.
    let _ = child.stdin.take().expect("its input").write_all(input);
    let output = child.wait_with_output().expect("openssl ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments:?}: {said}");
    output.stdout
}
