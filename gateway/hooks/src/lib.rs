//! The HTTP hook: a program of the operator's is asked about publishers and viewers and told of their ends.
//!
//! Pure: [`Event`] (what is told), [`verdict`] (what was answered), [`signature`], [`RetrySchedule`], [`DecisionCache`],
//! [`Order`] (the numbers of a stream's events, and whose turn it is). The shell: [`Client`], a small HTTP(S) client with
//! a bound on everything, and [`Hooks`], which asks and tells through it.

mod answer;
mod cache;
mod client;
mod connector;
mod event;
mod failure;
mod hooks;
mod lease;
mod metrics;
mod order;
mod outgoing;
mod resolver;
mod schedule;
mod session;
mod signature;
mod text;
mod trouble;

pub use answer::{Terms, Verdict, delivered, verdict};
pub use cache::{CacheKey, DecisionCache};
pub use client::{Answer, Client, ClientOptions, is_callable};
pub use connector::ClientError;
pub use event::{Ending, Event, EventKind, Guest, Numbers};
pub use failure::Failure;
pub use hooks::{Denied, Granted, HookError, HookOptions, Hooks};
pub use hyper::Uri;
pub use lease::Lease;
pub use metrics::HookMetrics;
pub use order::{Order, Turn};
pub use schedule::RetrySchedule;
pub use signature::{SIGNATURE_HEADER, signature};
pub use text::{presentable, without};
pub use trouble::{Line, Trouble};
