//! [`Gatekeeper`]: who says whether somebody may publish or play, for every way in.

use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use spillway_access::{Action, Grant, Params, Reason, Refusal, Tickets};
use spillway_hub::{Counter, EndReason, PublishTerms, SessionInfo, StreamKey};
use tokio_util::sync::CancellationToken;

use crate::live::HlsGuests;

/// Somebody at the door.
#[derive(Debug, Clone)]
pub struct Visit {
    /// What it wants.
    pub action: Action,
    /// Who it is and how it is connected.
    pub session: SessionInfo,
    /// Whether it is a program on this machine.
    pub local: bool,
    /// The stream it names.
    pub stream: StreamKey,
    /// The parameters of the URL.
    pub params: Params,
}

impl Visit {
    /// The address it comes from; IPv4 in IPv6 is given as IPv4.
    pub fn ip(&self) -> IpAddr {
        self.session.peer.ip().to_canonical()
    }
}

/// Leave to go in.
#[derive(Default)]
pub struct Pass {
    /// For how long and for whom.
    pub grant: Grant,
    /// The stream to publish in place of the one that was named, as where the name was a secret.
    pub stream: Option<StreamKey>,
    /// What the stream may have that is published.
    pub terms: PublishTerms,
    /// Held for as long as the session runs.
    pub lease: Option<Box<dyn Lease>>,
}

/// Held for as long as a session runs; whoever gave it learns of the end when it is dropped.
pub trait Lease: Send + Sync {
    /// Says why the session ends, just before it does.
    fn ends(&self, reason: EndReason);
}

impl Pass {
    /// Ends the session before it has begun.
    pub fn end(self, reason: EndReason) {
        if let Some(lease) = self.lease {
            lease.ends(reason);
        }
    }
}

impl Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("grant", &self.grant)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// Says whether somebody may publish or play.
pub trait Gatekeeper: Debug + Send + Sync {
    /// Decides, counts the decision and logs a refusal.
    fn decide<'a>(&'a self, visit: &'a Visit) -> BoxFuture<'a, Result<Pass, Refusal>>;

    /// Whether the address may play at all; asked of each request of an HLS session.
    fn lets_in(&self, ip: IpAddr) -> bool;

    /// The time, in seconds since 1970.
    fn now(&self) -> u64;
}

/// What HLS sessions are known by once they were decided.
#[derive(Debug)]
pub struct HlsSessions {
    /// Makes and checks what playlists and segments carry in their addresses.
    pub tickets: Tickets,
    /// How long one goes on before its viewer is asked again.
    pub lifetime: Duration,
    /// Those whose end somebody wants to know; without it nobody does.
    pub guests: Option<HlsGuests>,
}

impl HlsSessions {
    /// Lets go of sessions that are over, until `shutdown`.
    pub async fn see_off(&self, shutdown: CancellationToken) {
        if let Some(guests) = &self.guests {
            guests.watch(shutdown).await;
        }
    }
}

/// Decisions by what was wanted and what came of it.
#[derive(Debug, Default)]
pub struct AccessCounters {
    granted: [Counter; Action::ALL.len()],
    refused: [[Counter; Reason::ALL.len()]; Action::ALL.len()],
    key_set_reads: Counter,
    key_set_failures: Counter,
    key_set_size: Counter,
}

impl AccessCounters {
    /// Counts a decision.
    pub fn decided(&self, action: Action, refused: Option<Reason>) {
        match refused {
            None => self.granted[action.index()].add(1),
            Some(reason) => self.refused[action.index()][reason.index()].add(1),
        }
    }

    /// The requests granted.
    pub fn granted(&self, action: Action) -> u64 {
        self.granted[action.index()].get()
    }

    /// The requests refused for this reason.
    pub fn refused(&self, action: Action, reason: Reason) -> u64 {
        self.refused[action.index()][reason.index()].get()
    }

    /// Counts a reading of the JWKS, which gave so many keys or failed.
    pub fn key_set_read(&self, keys: Option<usize>) {
        match keys {
            Some(keys) => {
                self.key_set_reads.add(1);
                self.key_set_size.set(keys as u64);
            }
            None => self.key_set_failures.add(1),
        }
    }

    /// Readings of the JWKS that gave keys, and those that failed.
    pub fn key_set_reads(&self) -> (u64, u64) {
        (self.key_set_reads.get(), self.key_set_failures.get())
    }

    /// Keys of the JWKS in force.
    pub fn key_set_size(&self) -> u64 {
        self.key_set_size.get()
    }
}
