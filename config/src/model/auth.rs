//! Who may publish and who may play.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access_key::AccessKey;
use super::one_or_many::one_or_many;
use crate::network::Network;
use crate::units::Period;

/// Section `[auth]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Auth {
    /// Who may publish: `"local"` (programs on this machine without a key, everybody else with one), `"keys"` (everybody
    /// with a key), `"token"` (everybody with a signed link or a JWT), `"hook"` (whom the program at `hooks.url` lets in)
    /// or `"open"` (everybody).
    pub publish: PublishPolicy,
    /// Keys for publishing, each either a text, good for every stream, or a table of `stream` (a pattern such as `"live/*"`,
    /// default every stream) and `key`, or `key_file` (a file that holds the key). The publisher adds `?key=THE-KEY` to the
    /// stream name.
    #[serde(deserialize_with = "one_or_many")]
    pub publish_keys: Vec<AccessKey>,
    /// Who may play: `"open"` (everybody), `"keys"` (everybody with one of `auth.play_keys`), `"token"` (everybody with a
    /// signed link or a JWT) or `"hook"` (whom the program at `hooks.url` lets in). It holds for RTMP, HTTP-FLV, WebSocket-FLV and HLS alike.
    pub play: PlayPolicy,
    /// Keys for playing, in the form of `auth.publish_keys`. The viewer adds `?key=THE-KEY` to the address.
    #[serde(deserialize_with = "one_or_many")]
    pub play_keys: Vec<AccessKey>,
    /// Addresses and networks that may publish, such as `"10.0.0.0/8"`; none named lets all.
    #[serde(deserialize_with = "one_or_many")]
    pub publish_allow: Vec<Network>,
    /// Addresses and networks that may not publish, whatever `auth.publish_allow` says.
    #[serde(deserialize_with = "one_or_many")]
    pub publish_deny: Vec<Network>,
    /// Addresses and networks that may play; none named lets all.
    #[serde(deserialize_with = "one_or_many")]
    pub play_allow: Vec<Network>,
    /// Addresses and networks that may not play, whatever `auth.play_allow` says.
    #[serde(deserialize_with = "one_or_many")]
    pub play_deny: Vec<Network>,
    /// Secrets by which links are signed, in the form of `auth.publish_keys`; `spillway sign` makes links. To change one, put
    /// the new one first and keep the old one until its links have expired.
    #[serde(deserialize_with = "one_or_many")]
    pub link_keys: Vec<AccessKey>,
    /// How long an HLS session goes on after its link, token or key was accepted; then it is asked for again. A
    /// token's claim `lifetime` goes before it, and ends sessions over RTMP and FLV too.
    pub session_lifetime: Period,
    /// Wrong keys, links and tokens that one address may offer before it has to wait; each further one doubles the wait, from
    /// 1 s to 60 s.
    pub free_failures: u32,
    /// JSON Web Tokens.
    pub jwt: Jwt,
}

/// Section `[auth.jwt]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Jwt {
    /// Secrets of tokens signed with HS256, in the form of `auth.publish_keys`.
    #[serde(deserialize_with = "one_or_many")]
    pub keys: Vec<AccessKey>,
    /// Where the public keys of tokens signed with RS256 or EdDSA are: a JWKS, as a file or an `https://` address. While an
    /// address gives no keys, those fetched before stay in force.
    pub jwks: String,
    /// A file of certificate authorities (PEM) to trust for `auth.jwt.jwks` in place of the system's.
    pub jwks_ca_file: String,
    /// How often the JWKS is read anew; a file is looked at every 5 s at least. A token that names a key that is not in it has
    /// it read at once, at most every 10 s.
    pub jwks_refresh: Period,
    /// What the claim `iss` of a token has to be; empty: anything.
    pub issuer: String,
    /// What the claim `aud` of a token has to be, or hold; empty: anything.
    pub audience: String,
}

impl Jwt {
    /// Whether the JWKS is fetched from an address and not read from a file.
    pub fn is_jwks_fetched(&self) -> bool {
        self.jwks.starts_with("https://") || self.is_jwks_forgeable()
    }

    /// Whether the JWKS is fetched by plain `http`.
    pub fn is_jwks_forgeable(&self) -> bool {
        self.jwks.starts_with("http://")
    }
}

/// `auth.publish`: who may publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum PublishPolicy {
    /// Programs on this machine without a key, everybody else with one of `auth.publish_keys`.
    Local,
    /// Everybody with one of `auth.publish_keys`.
    Keys,
    /// Everybody with a signed link or a JWT.
    Token,
    /// Whom the program at `hooks.url` lets in.
    Hook,
    /// Everybody, without a key.
    Open,
}

/// `auth.play`: who may play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum PlayPolicy {
    /// Everybody.
    Open,
    /// Everybody with one of `auth.play_keys`.
    Keys,
    /// Everybody with a signed link or a JWT.
    Token,
    /// Whom the program at `hooks.url` lets in.
    Hook,
}
