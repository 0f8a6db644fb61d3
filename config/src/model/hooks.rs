//! The HTTP hook: a program that is asked about publishers and viewers, and told of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::one_or_many::one_or_many;
use crate::secret::{Secret, secret_or_none};
use crate::units::Period;

/// Section `[hooks]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Hooks {
    /// Where events are sent, as a POST with a JSON body: an http or https address. Empty: nowhere. Redirects are not
    /// followed.
    pub url: String,
    /// The secret by which each event is signed (header `Spillway-Signature`), at least 16 characters. Empty: events are not
    /// signed.
    #[serde(with = "secret_or_none")]
    #[schemars(with = "String")]
    pub secret: Secret,
    /// A file that holds the secret, in place of `secret`. A relative path starts at the configuration file's folder.
    pub secret_file: String,
    /// A file of certificate authorities (PEM) that an https endpoint is checked by. Empty: those of the system.
    pub ca_file: String,
    /// The events that are sent: `"connect"`, `"publish"`, `"unpublish"`, `"play"`, `"stop"`. With `auth.publish` or
    /// `auth.play` at `"hook"` the answer to `"publish"` or `"play"` decides, and they are sent whatever this says; the answer to
    /// `"connect"` always decides.
    #[serde(deserialize_with = "one_or_many")]
    pub events: Vec<HookEvent>,
    /// How long a decision may take, all attempts together, and how long each attempt to deliver an event may.
    pub timeout: Period,
    /// Further attempts after the first, for decisions as long as `timeout` lasts. The pause between them doubles from 200 ms to
    /// half of `timeout`.
    pub retries: u32,
    /// What becomes of those about whom the endpoint says nothing: `"closed"` (they are refused) or `"open"` (they are let in).
    pub fail: HookFail,
    /// How long an answer to `"play"` is good for the same viewer's address, stream and parameters. 0s asks each time.
    pub cache: Period,
    /// Most calls at a time that somebody waits for, and as many that nobody waits for. Who finds no room within a quarter of
    /// `timeout` is treated as `fail` says.
    pub max_in_flight: u32,
    /// Most sessions that the endpoint knows of, those included whose end is not delivered yet. Further ones are treated as
    /// `fail` says, and the endpoint hears nothing of them.
    pub max_sessions: u32,
}

/// An event that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum HookEvent {
    /// An RTMP client connected to an application.
    Connect,
    /// Somebody wants to publish.
    Publish,
    /// A publisher has ended.
    Unpublish,
    /// Somebody wants to play.
    Play,
    /// A viewer has ended.
    Stop,
}

/// `hooks.fail`: what becomes of those about whom the endpoint says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum HookFail {
    /// They are refused.
    Closed,
    /// They are let in.
    Open,
}

impl Hooks {
    /// Whether there is an endpoint.
    pub fn is_set(&self) -> bool {
        !self.url.is_empty()
    }
}
