//! Waiting for an event with a reason to fail with.

use std::future::Future;
use std::time::{Duration, Instant};

/// How often a condition is looked at that cannot be awaited as an event.
pub const POLL_INTERVAL: Duration = Duration::from_millis(40);

/// Looks at `probe` until it gives a value.
///
/// # Panics
/// When it gave none within `limit`; the message names `what`.
pub async fn until<T, F, Fut>(limit: Duration, what: &str, mut probe: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(value) = probe().await {
            return value;
        }
        assert!(started.elapsed() < limit, "waited {limit:?} in vain for: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Runs `work` to its end.
///
/// # Panics
/// When it took longer than `limit`; the message names `what`.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(value) => value,
        Err(_) => panic!("took longer than {limit:?}: {what}"),
    }
}

/// `n` seconds.
#[must_use]
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
