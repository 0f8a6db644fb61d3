//! [`Tickets`]: how an HLS session that was decided once is known again, without a cookie and without a table.

use std::net::IpAddr;

use ring::hmac;
use ring::rand::SystemRandom;

use crate::link::hex;

/// The URL parameter that carries a ticket.
pub const TICKET_PARAMETER: &str = "session";

/// Bytes of the code that are kept: 128 bits cannot be guessed, and each segment's line carries them.
const CODE_BYTES: usize = 16;

/// What a valid ticket says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// When the session ends, in seconds since 1970.
    pub until: u64,
    /// Tells sessions apart that were made at the same time.
    pub number: u64,
    /// The ticket is good for one address only.
    pub address_bound: bool,
}

/// Makes and checks tickets under a key of the process's own: a ticket is good for one stream, until its end, for the
/// process that made it.
#[derive(Debug)]
pub struct Tickets {
    key: hmac::Key,
}

impl Tickets {
    /// Tickets under a key that nobody knows. None when the system has no random numbers.
    pub fn random() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.ok().map(|key| Self { key })
    }

    /// The parameter's value for a session of `stream`.
    pub fn issue(&self, stream: &str, peer: IpAddr, ticket: Ticket) -> String {
        let Ticket {
            until,
            number,
            address_bound,
        } = ticket;
        let code = self.code(stream, peer, ticket);
        let bound = if address_bound { "i" } else { "n" };
        format!(
            "{until:x}{bound}{number:x}.{}",
            hex(code.as_ref().get(..CODE_BYTES).unwrap_or_default())
        )
    }

    /// What the parameter's value `text` says, if it was issued for `stream`, not to another address that it is bound
    /// to, and has not ended at `now`.
    pub fn check(&self, stream: &str, peer: IpAddr, text: &str, now: u64) -> Option<Ticket> {
        let (said, offered) = text.split_once('.')?;
        let at = said.find(['i', 'n'])?;
        let ticket = Ticket {
            until: u64::from_str_radix(said.get(..at)?, 16).ok()?,
            number: u64::from_str_radix(said.get(at + 1..)?, 16).ok()?,
            address_bound: said.as_bytes().get(at) == Some(&b'i'),
        };
        let own = self.issue(stream, peer, ticket);
        let own = own.split_once('.')?.1;
        let same = spillway_config::constant_time_eq(own.as_bytes(), offered.as_bytes());
        (same && ticket.until > now).then_some(ticket)
    }

    fn code(&self, stream: &str, peer: IpAddr, ticket: Ticket) -> hmac::Tag {
        let address = ticket.address_bound.then(|| peer.to_canonical().to_string());
        let address = address.as_deref().unwrap_or("-");
        let text = format!(
            "spillway-session-v1\n{stream}\n{}\n{}\n{address}",
            ticket.until, ticket.number
        );
        hmac::sign(&self.key, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn ticket(address_bound: bool) -> Ticket {
        Ticket {
            until: 1000,
            number: 7,
            address_bound,
        }
    }

    #[test]
    fn a_ticket_is_good_for_its_stream_until_its_end() {
        let tickets = Tickets::random().unwrap();
        let text = tickets.issue("live/a", A, ticket(false));
        assert_eq!(tickets.check("live/a", B, &text, 999), Some(ticket(false)));
        assert_eq!(tickets.check("live/a", A, &text, 1000), None);
        assert_eq!(tickets.check("live/b", A, &text, 999), None);
        assert_eq!(Tickets::random().unwrap().check("live/a", A, &text, 999), None);
        let longer = text.replacen("3e8", "3e9", 1);
        assert_ne!(longer, text);
        assert_eq!(tickets.check("live/a", A, &longer, 999), None);
    }

    #[test]
    fn a_ticket_bound_to_an_address_is_good_there_only_and_cannot_be_unbound() {
        let tickets = Tickets::random().unwrap();
        let text = tickets.issue("live/a", A, ticket(true));
        assert_eq!(tickets.check("live/a", A, &text, 1), Some(ticket(true)));
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(tickets.check("live/a", mapped, &text, 1), Some(ticket(true)));
        assert_eq!(tickets.check("live/a", B, &text, 1), None);
        assert_eq!(tickets.check("live/a", A, &text.replacen('i', "n", 1), 1), None);
    }

    proptest! {
        #[test]
        fn any_text_is_judged_without_harm(text in "\\PC{0,80}") {
            prop_assert_eq!(Tickets::random().unwrap().check("live/a", A, &text, 0), None);
        }
    }
}
