//! [`ServeCounters`]: what one HTTP listener counts, as plain atomics read at scrape time.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one listener.
#[derive(Debug, Default)]
pub struct ServeCounters {
    accepted: AtomicU64,
    open: AtomicU64,
    refused: AtomicU64,
    refused_per_ip: AtomicU64,
    heads_too_large: AtomicU64,
    accept_errors: AtomicU64,
    stalled: AtomicU64,
    panics: AtomicU64,
}

/// The values of [`ServeCounters`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeSnapshot {
    /// Connections accepted so far.
    pub accepted: u64,
    /// Connections open now, upgraded ones included.
    pub open: u64,
    /// Connections answered 503 because `max_connections` were open.
    pub refused: u64,
    /// Connections answered 503 because their address had as many as it may.
    pub refused_per_ip: u64,
    /// Requests answered 431 because their head was larger than `max_header_bytes`.
    pub heads_too_large: u64,
    /// Failures of `accept`, for example for want of file descriptors.
    pub accept_errors: u64,
    /// Connections closed because no byte could be written for `stall_timeout`.
    pub stalled: u64,
    /// Connection tasks that panicked.
    pub panics: u64,
}

impl ServeCounters {
    /// Reads all counters.
    pub fn snapshot(&self) -> ServeSnapshot {
        ServeSnapshot {
            accepted: self.accepted.load(Ordering::Relaxed),
            open: self.open.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            refused_per_ip: self.refused_per_ip.load(Ordering::Relaxed),
            heads_too_large: self.heads_too_large.load(Ordering::Relaxed),
            accept_errors: self.accept_errors.load(Ordering::Relaxed),
            stalled: self.stalled.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }

    pub(super) fn opened(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused_per_ip(&self) {
        self.refused_per_ip.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn head_too_large(&self) {
        self.heads_too_large.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn accept_failed(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stalled(&self) {
        self.stalled.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}
