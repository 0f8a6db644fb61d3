//! [`Decision`]: the answer to a request.

use std::borrow::Cow;
use std::time::Duration;

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is granted.
    Granted(Grant),
    /// It is refused.
    Refused(Refusal),
    /// The hook has to say.
    AskHook,
}

/// A granted request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grant {
    /// How long the session may last; without it, as long as it likes.
    pub lifetime: Option<Duration>,
    /// The session is good for the asking address only.
    pub address_bound: bool,
    /// No credential was asked for: whoever comes next gets the same answer.
    pub open: bool,
}

/// Why a request is refused. The label is the metric's and the log's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The address is not let in.
    Address,
    /// Nothing was offered.
    NoCredential,
    /// The key is wrong for the stream.
    WrongKey,
    /// The link's signature is wrong for stream, action, expiry or address.
    BadSignature,
    /// The token cannot be verified.
    BadToken,
    /// The link or token has expired, or is not valid yet.
    Expired,
    /// The token is valid and says nothing of this stream and action.
    NotCovered,
    /// The public keys by which to verify the token could not be fetched so far.
    NoKeys,
    /// The address guessed too often.
    TooManyFailures,
    /// The hook said no.
    Hook,
    /// The hook gave no answer.
    HookFailed,
}

impl Reason {
    /// All of them, in the order of [`Reason::index`].
    pub const ALL: [Reason; 11] = [
        Self::Address,
        Self::NoCredential,
        Self::WrongKey,
        Self::BadSignature,
        Self::BadToken,
        Self::Expired,
        Self::NotCovered,
        Self::NoKeys,
        Self::TooManyFailures,
        Self::Hook,
        Self::HookFailed,
    ];

    /// The label used in logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::NoCredential => "no_credential",
            Self::WrongKey => "wrong_key",
            Self::BadSignature => "bad_signature",
            Self::BadToken => "bad_token",
            Self::Expired => "expired",
            Self::NotCovered => "not_covered",
            Self::NoKeys => "no_keys",
            Self::TooManyFailures => "too_many_failures",
            Self::Hook => "hook",
            Self::HookFailed => "hook_failed",
        }
    }

    /// The position in [`Reason::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|reason| *reason == self).unwrap_or(0)
    }

    /// The HTTP status: 401 when another credential may help, 403 when it is about the asker or the stream, 429 for
    /// one who has to wait, 503 when it is our own side.
    pub fn status(self) -> u16 {
        match self {
            Self::NoCredential | Self::WrongKey | Self::BadSignature | Self::BadToken | Self::Expired => 401,
            Self::Address | Self::NotCovered | Self::Hook => 403,
            Self::TooManyFailures => 429,
            Self::NoKeys | Self::HookFailed => 503,
        }
    }

    /// Whether it may have been a guess, which [`Ledger`](crate::Ledger) counts. An expired link is none.
    pub fn is_guess(self) -> bool {
        matches!(self, Self::WrongKey | Self::BadSignature | Self::BadToken)
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// Why, and what to do, in words for the peer. Never holds a secret.
    pub text: Cow<'static, str>,
    /// After how many seconds to ask again.
    pub retry_after_s: Option<u32>,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: Reason, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason,
            text: text.into(),
            retry_after_s: None,
        }
    }

    /// For an address that guessed too often.
    pub fn too_many_failures(retry_after_s: u32) -> Self {
        let text = format!(
            "too many wrong keys or links from this address; check what you have and try again in {retry_after_s} s"
        );
        Self {
            retry_after_s: Some(retry_after_s),
            ..Self::new(Reason::TooManyFailures, text)
        }
    }
}
