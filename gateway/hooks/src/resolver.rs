//! [`Resolver`]: names to addresses, with a bound on the threads that wait for a name server.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec::IntoIter;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Semaphore;

/// Look-ups at a time. A look-up goes on when nobody waits for it any more, for as long as the system's resolver takes;
/// with the bound, a dead name server cannot take up the threads that the process needs for its files.
const LOOKUPS: usize = 4;

/// The system's resolver.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    slots: Arc<Semaphore>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

impl tower::Service<Name> for Resolver {
    type Response = IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let slots = self.slots.clone();
        async move {
            let slot = slots.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = tokio::task::spawn_blocking(move || {
                let _slot = slot;
                let addresses = (name.as_str(), 0).to_socket_addrs()?;
                Ok(addresses.collect::<Vec<_>>().into_iter())
            });
            lookup.await.map_err(io::Error::other)?
        }
        .boxed()
    }
}
