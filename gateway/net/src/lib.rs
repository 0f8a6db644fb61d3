//! What comes before the first byte of a protocol: who the client behind a proxy is, TLS, certificates.
//!
//! [`Door`] stands between `accept` and a session: it reads the PROXY header and does the TLS handshake where the
//! listener wants them. [`ClientAddr`] is the address it finds. [`Certificates`] keeps what TLS needs and reloads it.
//! [`proxy`] and [`TrustedProxies`] are pure.

mod client;
mod door;
mod forwarded;
mod log_budget;
pub mod proxy;
mod socket;
mod tls;
mod trust;

pub use client::ClientAddr;
pub use door::{Door, DoorCounters, DoorSnapshot, Entry};
pub use forwarded::ForwardedHeader;
pub use ipnet::IpNet;
pub use log_budget::LogBudget;
pub use rustls::ServerConnection;
pub use socket::{Socket, TlsSocket};
pub use tls::{Certificates, Origin, Reloaded, TlsError, TlsUse};
pub use tokio_rustls::server::TlsStream;
pub use trust::TrustedProxies;
