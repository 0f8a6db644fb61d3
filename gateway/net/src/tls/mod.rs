//! TLS: certificates and keys from files or made for trying, and their reload while the process runs.

mod certificates;
mod error;
mod identity;

#[cfg(test)]
pub(crate) use certificates::provider;
pub use certificates::{Certificates, Origin, Reloaded, TlsUse};
pub use error::TlsError;
