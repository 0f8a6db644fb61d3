//! [`LiveAccess`]: asks whether a viewer may play, and how an HLS session goes on.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use spillway_access::{Action, Params, Reason, Refusal, TICKET_PARAMETER, Ticket, parameter};
use spillway_hub::{Hub, Limit, Protocol, StreamKey};

use super::route::Target;
use super::{connection_of, session};
use crate::access::{Gatekeeper, HlsSessions, Pass, Visit};

/// How long after the end of a session the segments it was told of may still be fetched, in seconds: as long as a
/// playlist of long segments lists them.
const SEGMENT_GRACE_S: u64 = 60;

/// Who decides on viewers, and what HLS sessions are known by.
#[derive(Debug, Clone)]
pub struct LiveAccess {
    /// Who decides.
    pub gate: Arc<dyn Gatekeeper>,
    /// What HLS sessions are known by.
    pub sessions: Arc<HlsSessions>,
}

/// Somebody who wants to play `stream`, as its request says.
pub(super) fn visit(protocol: Protocol, stream: &StreamKey, parts: &Parts) -> Visit {
    let connection = connection_of(&parts.extensions);
    let mut params = Params::of_query(parts.uri.query().unwrap_or_default());
    if let Some(token) = bearer(parts) {
        params.add_missing(parameter::TOKEN, token);
    }
    Visit {
        action: Action::Play,
        session: session(protocol, &connection),
        local: connection.client().is_local(),
        stream: stream.clone(),
        params,
    }
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1).
fn bearer(parts: &Parts) -> Option<&str> {
    let value = parts.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

impl LiveAccess {
    /// Decides on a viewer; without any rules everybody is let in.
    pub(super) async fn decide(access: Option<&Self>, hub: &Hub, visit: &Visit) -> Result<Pass, Refusal> {
        let Some(access) = access else {
            return Ok(Pass::default());
        };
        let decision = access.gate.decide(visit).await;
        if decision.is_err() {
            hub.stats().refused(Limit::Auth);
        }
        decision
    }

    /// Decides on a request of an HLS session: by its ticket, else as on any viewer. Without a ticket in the answer
    /// the stream is open, and everybody gets the same bytes.
    pub(super) async fn hls(
        &self,
        hub: &Hub,
        visit: &Visit,
        target: Target<'_>,
    ) -> Result<Option<Ticket>, Refusal> {
        let now = self.gate.now();
        let is_segment = matches!(target, Target::Segment { .. });
        let grace = if is_segment { SEGMENT_GRACE_S } else { 0 };
        let ticket = self.ticket_of(visit, now.saturating_sub(grace));
        let known = ticket.filter(|ticket| self.goes_on(*ticket, is_segment));
        if let Some(ticket) = known.or_else(|| self.returning(visit, target)) {
            if self.gate.lets_in(visit.ip()) {
                return Ok(Some(ticket));
            }
            hub.stats().refused(Limit::Auth);
            return Err(Refusal::new(Reason::Address, "this address is not let in here"));
        }
        let Pass { grant, lease, .. } = Self::decide(Some(self), hub, visit).await?;
        if grant.open {
            return Ok(None);
        }
        let longest = self.sessions.lifetime;
        let lifetime = grant.lifetime.map_or(longest, |lifetime| lifetime.min(longest));
        let ticket = Ticket {
            until: now.saturating_add(lifetime.as_secs()),
            number: visit.session.id.get(),
            address_bound: grant.address_bound,
        };
        if let Some(guests) = &self.sessions.guests {
            guests.came(visit, ticket, lifetime, lease);
        }
        Ok(Some(ticket))
    }

    /// Whether the session of a ticket goes on. One that was told to be over is asked about anew with its next playlist.
    fn goes_on(&self, ticket: Ticket, is_segment: bool) -> bool {
        let guests = self.sessions.guests.as_ref();
        guests.is_none_or(|guests| guests.asks(ticket) || is_segment)
    }

    /// A player that was given the address of the media playlist or of a segment, and so has no ticket, is still one
    /// session. Who asks for a multivariant playlist begins one.
    fn returning(&self, visit: &Visit, target: Target<'_>) -> Option<Ticket> {
        let begins = matches!(target, Target::Multivariant(_) | Target::MultivariantOuter(_));
        let guests = self.sessions.guests.as_ref().filter(|_| !begins)?;
        guests.returns(visit)
    }

    fn ticket_of(&self, visit: &Visit, now: u64) -> Option<Ticket> {
        let text = visit.params.get(TICKET_PARAMETER)?;
        let tickets = &self.sessions.tickets;
        tickets.check(visit.stream.as_str(), visit.ip(), text, now)
    }

    /// The query of segments' addresses: the ticket.
    pub(super) fn segment_query(&self, visit: &Visit, ticket: Ticket) -> String {
        let tickets = &self.sessions.tickets;
        let text = tickets.issue(visit.stream.as_str(), visit.ip(), ticket);
        format!("{TICKET_PARAMETER}={text}")
    }

    /// The query of the media playlist's address: the ticket, and what the viewer came with, which is asked for again
    /// when the ticket has expired.
    pub(super) fn playlist_query(&self, visit: &Visit, ticket: Ticket) -> String {
        let ticket = self.segment_query(visit, ticket);
        match visit.params.to_query(TICKET_PARAMETER) {
            query if query.is_empty() => ticket,
            query => format!("{query}&{ticket}"),
        }
    }
}

#[cfg(test)]
mod tests;
