//! [`Request`]: what somebody wants.

use std::net::IpAddr;

use crate::params::Params;

/// What somebody wants to do with a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send it.
    Publish,
    /// Watch it.
    Play,
}

impl Action {
    /// All of them, in the order of [`Action::index`].
    pub const ALL: [Action; 2] = [Self::Publish, Self::Play];

    /// The position in [`Action::ALL`].
    pub fn index(self) -> usize {
        match self {
            Self::Publish => 0,
            Self::Play => 1,
        }
    }

    /// The word in signed links, claims, hooks and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Play => "play",
        }
    }
}

/// Who wants what, when.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What.
    pub action: Action,
    /// Which stream: `app/name`, decoded.
    pub stream: &'a str,
    /// From where. IPv4 in IPv6 is taken for IPv4.
    pub peer: IpAddr,
    /// Whether it is a program on this machine.
    pub local: bool,
    /// The parameters of the URL, decoded.
    pub params: &'a Params,
    /// The time, in seconds since 1970.
    pub now: u64,
}
