//! [`Policy`]: the rules in force, and the decision by them.

use spillway_config::AccessKey;

use crate::address::AddressRules;
use crate::decision::{Decision, Grant, Reason, Refusal};
use crate::jwks::KeySet;
use crate::jwt::{JwtError, JwtRules};
use crate::link::{self, LinkError};
use crate::request::{Action, Request};

/// The names of the URL parameters that carry credentials.
pub mod parameter {
    /// A static key.
    pub const KEY: &str = "key";
    /// A JWT.
    pub const TOKEN: &str = "token";
    /// The expiry of a signed link.
    pub const EXPIRES: &str = "exp";
    /// The signature of a signed link.
    pub const SIGNATURE: &str = "sig";
}

/// What opens one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing is needed.
    #[default]
    Open,
    /// A key, but nothing over loopback.
    Local,
    /// A key.
    Keys,
    /// A signed link or a token.
    Token,
    /// The hook says.
    Hook,
}

/// The rules for publishing, or for playing.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// What opens it.
    pub mode: Mode,
    /// The keys, each for the streams of its pattern.
    pub keys: Vec<AccessKey>,
    /// The addresses let in at all.
    pub addresses: AddressRules,
}

/// The rules in force.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Who may publish.
    pub publish: Side,
    /// Who may play.
    pub play: Side,
    /// The secrets of signed links, each for the streams of its pattern.
    pub links: Vec<AccessKey>,
    /// What tokens have to be.
    pub jwt: JwtRules,
}

impl Policy {
    /// The rules of one action.
    pub fn side(&self, action: Action) -> &Side {
        match action {
            Action::Publish => &self.publish,
            Action::Play => &self.play,
        }
    }

    /// Decides by the rules; `keys` is the newest key set.
    pub fn decide(&self, request: &Request<'_>, keys: &KeySet) -> Decision {
        let side = self.side(request.action);
        if !side.addresses.lets_in(request.peer) {
            return refused(Reason::Address, "this address is not let in here");
        }
        let key = request.params.get(parameter::KEY);
        match side.mode {
            Mode::Open => Decision::Granted(Grant {
                open: true,
                ..Grant::default()
            }),
            Mode::Local if key.is_none() && request.local => Decision::Granted(Grant::default()),
            Mode::Local | Mode::Keys => side.by_key(request, key),
            Mode::Token => self.by_token(request, keys),
            Mode::Hook => Decision::AskHook,
        }
    }

    fn by_token(&self, request: &Request<'_>, keys: &KeySet) -> Decision {
        let params = request.params;
        if let Some(signature) = params.get(parameter::SIGNATURE) {
            let expires = params.get(parameter::EXPIRES).unwrap_or_default();
            return match link::check(request, expires, signature, &self.links) {
                Ok(address_bound) => Decision::Granted(Grant {
                    address_bound,
                    ..Grant::default()
                }),
                Err(LinkError::Expired) => {
                    refused(Reason::Expired, "this link has expired; ask for a new one")
                }
                Err(LinkError::BadSignature) => refused(
                    Reason::BadSignature,
                    "the link's signature is wrong for this stream; take the whole link as it was given",
                ),
            };
        }
        let Some(token) = params.get(parameter::TOKEN) else {
            return refused(Reason::NoCredential, token_wanted(request.action));
        };
        match self.jwt.check(request, token, keys) {
            Ok(grant) => Decision::Granted(grant),
            Err(JwtError::Expired) => refused(
                Reason::Expired,
                "this token has expired or is not valid yet; ask for a new one",
            ),
            Err(JwtError::Bad) => refused(
                Reason::BadToken,
                "this token cannot be verified; take it as it was issued, and for this server",
            ),
            Err(JwtError::NoKeys) => refused(
                Reason::NoKeys,
                "the server has no keys yet to verify tokens by; try again in a moment",
            ),
            Err(JwtError::NotCovered) => refused(
                Reason::NotCovered,
                match request.action {
                    Action::Publish => {
                        "this token does not allow publishing this stream; ask for one that does"
                    }
                    Action::Play => "this token does not allow playing this stream; ask for one that does",
                },
            ),
            Err(JwtError::WrongAddress) => refused(
                Reason::NotCovered,
                "this token is for another address; ask for one of your own",
            ),
        }
    }
}

impl Side {
    fn by_key(&self, request: &Request<'_>, offered: Option<&str>) -> Decision {
        let publishes = request.action == Action::Publish;
        match offered {
            // Every key is tried, so that the time taken does not tell which one matched.
            Some(key)
                if self
                    .keys
                    .iter()
                    .filter(|own| own.opens(request.stream, key.as_bytes()))
                    .count()
                    > 0 =>
            {
                Decision::Granted(Grant::default())
            }
            Some(_) if publishes => refused(
                Reason::WrongKey,
                "the publish key is wrong for this stream; check ?key=... at the end of the stream name",
            ),
            Some(_) => refused(
                Reason::WrongKey,
                "the key is wrong for this stream; check ?key=... at the end of the address",
            ),
            None if self.mode == Mode::Local && self.keys.is_empty() => refused(
                Reason::NoCredential,
                "publishing without a key works over loopback (127.0.0.1, localhost) only: set auth.publish_keys on the server and publish with ?key=SECRET, or set auth.publish = \"open\"",
            ),
            None if publishes => refused(
                Reason::NoCredential,
                "this server needs a publish key: add ?key=SECRET to the end of the stream name",
            ),
            None => refused(
                Reason::NoCredential,
                "playing this stream needs a key: add ?key=SECRET to the end of the address",
            ),
        }
    }
}

fn token_wanted(action: Action) -> &'static str {
    match action {
        Action::Publish => {
            "publishing here needs a signed link or a token: add ?exp=...&sig=... or ?token=... to the end of the stream name"
        }
        Action::Play => {
            "playing this stream needs a signed link or a token: add ?exp=...&sig=... or ?token=... to the end of the address"
        }
    }
}

fn refused(reason: Reason, text: &'static str) -> Decision {
    Decision::Refused(Refusal::new(reason, text))
}

#[cfg(test)]
mod tests;
