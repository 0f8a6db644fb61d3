//! Who may publish and who may play, as pure decisions: no input, no output, no clock.
//!
//! [`Policy::decide`] takes a [`Request`] (who wants what, with which parameters, at what time) and says
//! [`Decision`]: granted, refused with words for the peer, or that a hook has to be asked. [`Ledger`] slows down
//! addresses that guess. [`Tickets`] make and check the parameter by which an HLS session, decided once, is known
//! again without a cookie. The caller brings the time, the keys of a JWKS and the answer of a hook.

mod address;
mod decision;
mod jwks;
mod jwt;
mod ledger;
mod link;
mod params;
mod policy;
mod request;
mod ring_provider;
mod ticket;

pub use address::AddressRules;
pub use decision::{Decision, Grant, Reason, Refusal};
pub use jwks::{JwksError, KeySet, MAX_JWKS_BYTES, MAX_JWKS_KEYS};
pub use jwt::{JwtRules, MAX_TOKEN_BYTES};
pub use ledger::{Ledger, LedgerOptions};
pub use link::{LINK_VERSION, Link};
pub use params::{MAX_PARAMS, Params, encode};
pub use policy::{Mode, Policy, Side, parameter};
pub use request::{Action, Request};
pub use ticket::{TICKET_PARAMETER, Ticket, Tickets};
