//! [`KeySet`]: the public keys of a JWKS (RFC 7517 §5).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value as Json;

/// The largest JWKS that is read: a key takes less than 1 KiB.
pub const MAX_JWKS_BYTES: usize = 256 << 10;
/// The most keys of a JWKS that are kept: a token without a key id is tried with each.
pub const MAX_JWKS_KEYS: usize = 32;

/// Why a text is no key set that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// It is no JSON object with a list `keys`.
    #[error("not a JWKS: expected a JSON object with a list \"keys\"")]
    NotJwks,
    /// It has no key that can be used.
    #[error(
        "no key in it can be used: expected \"kty\" \"RSA\" (2048 bits or more) or \"OKP\" with \"crv\" \"Ed25519\""
    )]
    NoKey,
}

/// Public keys by which tokens are verified: RSA for RS256, Ed25519 for EdDSA. Others of a set are left out; so are
/// symmetric ones, since who serves public keys should not serve secrets.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

#[derive(Debug, Clone)]
struct PublicKey {
    id: Option<String>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Json>,
}

impl KeySet {
    /// Reads a JWKS.
    ///
    /// # Errors
    /// [`JwksError`] when it holds no key that can be used.
    pub fn parse(text: &str) -> Result<Self, JwksError> {
        let document: Document = serde_json::from_str(text).map_err(|_| JwksError::NotJwks)?;
        let keys: Vec<_> = document
            .keys
            .into_iter()
            .filter_map(public_key)
            .take(MAX_JWKS_KEYS)
            .collect();
        if keys.is_empty() {
            Err(JwksError::NoKey)
        } else {
            Ok(Self { keys })
        }
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it holds none, as before the first one was fetched.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether a key has this id.
    pub fn has(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// The keys that a token with the key id `id` may be signed by.
    pub(crate) fn fitting<'a>(
        &'a self,
        id: Option<&'a str>,
        family: AlgorithmFamily,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let fits = move |key: &&PublicKey| {
            key.key.family() == family && (id.is_none() || key.id.is_none() || key.id.as_deref() == id)
        };
        self.keys.iter().filter(fits).map(|key| &key.key)
    }
}

fn public_key(json: Json) -> Option<PublicKey> {
    let jwk: Jwk = serde_json::from_value(json).ok()?;
    let verifies = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
    let usable = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => true,
        AlgorithmParameters::OctetKeyPair(pair) => pair.curve == EllipticCurve::Ed25519,
        _ => false,
    };
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| usable && verifies)?;
    Some(PublicKey {
        id: jwk.common.key_id,
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_cannot_be_used_are_left_out() {
        let ed =
            r#"{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let secret = r#"{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}"#;
        let odd = r#"{"kty":"martian"}"#;
        let set = KeySet::parse(&format!(r#"{{"keys":[{odd},{secret},{ed}]}}"#)).unwrap();
        assert_eq!((set.len(), set.has("a"), set.has("b")), (1, true, false));
        assert_eq!(
            KeySet::parse(&format!(r#"{{"keys":[{secret}]}}"#)).unwrap_err(),
            JwksError::NoKey
        );
        assert_eq!(KeySet::parse("<html>").unwrap_err(), JwksError::NotJwks);
    }
}
