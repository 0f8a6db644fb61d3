//! [`JwtRules`]: JSON Web Tokens (RFC 7519) whose claims name the streams that may be published and played.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation, decode, decode_header};
use serde::{Deserialize, Deserializer, de};
use spillway_config::{AccessKey, StreamPattern};

use crate::decision::Grant;
use crate::jwks::KeySet;
use crate::request::{Action, Request};
use crate::ring_provider;

/// The longest token that is looked at; real ones take some hundred bytes.
pub const MAX_TOKEN_BYTES: usize = 8 << 10;
/// How far apart the clocks of issuer and gateway may be, in seconds.
const LEEWAY_S: u64 = 10;
/// The most patterns of one claim that are read.
const MAX_PATTERNS: usize = 64;

/// What tokens have to be, beside being signed by a key of the key set.
#[derive(Debug, Clone, Default)]
pub struct JwtRules {
    /// Secrets of tokens with HS256, each for the streams of its pattern.
    pub secrets: Vec<AccessKey>,
    /// What `iss` has to be.
    pub issuer: Option<String>,
    /// What `aud` has to be or hold.
    pub audience: Option<String>,
    /// Whether a key set is configured.
    pub has_key_set: bool,
}

/// The claims that are read.
#[derive(Debug, Deserialize)]
struct Claims {
    exp: u64,
    #[serde(default)]
    nbf: u64,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default, deserialize_with = "one_or_many")]
    aud: Vec<String>,
    /// Patterns of the streams that may be published.
    #[serde(default, deserialize_with = "one_or_many")]
    publish: Vec<String>,
    /// Patterns of the streams that may be played.
    #[serde(default, deserialize_with = "one_or_many")]
    play: Vec<String>,
    /// The only address or network that may use it.
    #[serde(default)]
    ip: Option<String>,
    /// The longest time of a session, in seconds.
    #[serde(default)]
    lifetime: Option<u64>,
}

/// What is wrong with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JwtError {
    Bad,
    NoKeys,
    Expired,
    NotCovered,
    WrongAddress,
}

impl JwtRules {
    /// Whether any token could be verified.
    pub fn is_configured(&self) -> bool {
        self.has_key_set || !self.secrets.is_empty()
    }

    /// Checks the token of `request`.
    pub(crate) fn check(&self, request: &Request<'_>, token: &str, keys: &KeySet) -> Result<Grant, JwtError> {
        let claims = self.verified(request, token, keys)?;
        let issued_here = self.issuer.is_none() || claims.iss == self.issuer;
        let for_us = self
            .audience
            .as_ref()
            .is_none_or(|audience| claims.aud.contains(audience));
        if !issued_here || !for_us {
            return Err(JwtError::Bad);
        }
        let now = request.now;
        if claims.exp.saturating_add(LEEWAY_S) <= now || claims.nbf > now.saturating_add(LEEWAY_S) {
            return Err(JwtError::Expired);
        }
        let patterns = match request.action {
            Action::Publish => &claims.publish,
            Action::Play => &claims.play,
        };
        let covers = |text: &String| {
            text.parse()
                .is_ok_and(|pattern: StreamPattern| pattern.matches(request.stream))
        };
        if !patterns.iter().take(MAX_PATTERNS).any(covers) {
            return Err(JwtError::NotCovered);
        }
        if !claims.ip.as_deref().is_none_or(|net| is_in(net, request.peer)) {
            return Err(JwtError::WrongAddress);
        }
        Ok(Grant {
            lifetime: claims.lifetime.map(Duration::from_secs),
            address_bound: claims.ip.is_some(),
            open: false,
        })
    }

    fn verified(&self, request: &Request<'_>, token: &str, keys: &KeySet) -> Result<Claims, JwtError> {
        let header = (token.len() <= MAX_TOKEN_BYTES).then(|| {
            ring_provider::install();
            decode_header(token).ok()
        });
        let Header { alg, kid, .. } = header.flatten().ok_or(JwtError::Bad)?;
        let claims = |key: &DecodingKey| Some(decode::<Claims>(token, key, &validation(alg)).ok()?.claims);
        let family = match alg {
            Algorithm::HS256 => {
                let fitting = self
                    .secrets
                    .iter()
                    .filter(|key| key.stream().matches(request.stream));
                let mut keys =
                    fitting.filter_map(|key| DecodingKey::from_secret(key.secret().expose().as_bytes()).ok());
                return keys.find_map(|key| claims(&key)).ok_or(JwtError::Bad);
            }
            Algorithm::RS256 => AlgorithmFamily::Rsa,
            Algorithm::EdDSA => AlgorithmFamily::Ed,
            _ => return Err(JwtError::Bad),
        };
        if self.has_key_set && keys.is_empty() {
            return Err(JwtError::NoKeys);
        }
        keys.fitting(kid.as_deref(), family)
            .find_map(claims)
            .ok_or(JwtError::Bad)
    }

    /// Whether `token` names a key that the key set has none of: a reason to fetch the set anew.
    pub fn names_unknown_key(&self, token: &str, keys: &KeySet) -> bool {
        self.has_key_set
            && token.len() <= MAX_TOKEN_BYTES
            && decode_header(token).is_ok_and(|Header { alg, kid, .. }| {
                alg != Algorithm::HS256 && kid.is_some_and(|id| !keys.has(&id))
            })
    }
}

/// The signature only: everything about time and names is checked here, with the caller's clock.
fn validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

fn is_in(net: &str, ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    net.parse::<IpNet>().is_ok_and(|net| net.contains(&ip))
        || net.parse::<IpAddr>().is_ok_and(|own| own.to_canonical() == ip)
}

/// A text alone, or a list of texts.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    match Either::deserialize(deserializer) {
        Ok(Either::One(text)) => Ok(vec![text]),
        Ok(Either::Many(texts)) => Ok(texts),
        Err(_) => Err(de::Error::custom("expected a text or a list of texts")),
    }
}

#[cfg(test)]
mod tests;
