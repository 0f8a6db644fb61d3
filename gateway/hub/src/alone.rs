//! A task of the hub's own that panics ends alone, and is counted.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::stats::Stats;

/// Runs a task to its end; `None` when it panicked. The caller puts right what it left behind.
pub(crate) async fn alone<T>(stats: &Stats, what: &'static str, task: impl Future<Output = T>) -> Option<T> {
    let ended = AssertUnwindSafe(task).catch_unwind().await.ok();
    if ended.is_none() {
        stats.panics.add(1);
        tracing::error!(task = what, "a task panicked; the others go on");
    }
    ended
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_counted_and_what_follows_runs() {
        let stats = Stats::default();
        assert_eq!(alone(&stats, "good", async { 7 }).await, Some(7));
        let bad = async {
            tokio::task::yield_now().await;
            panic!("a test");
        };
        assert_eq!(alone::<()>(&stats, "bad", bad).await, None);
        assert_eq!(stats.panics.get(), 1);
    }
}
