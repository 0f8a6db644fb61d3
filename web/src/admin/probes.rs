//! [`Readiness`]: whether new work should be sent here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::http::StatusCode;
use axum::response::Response;

use super::typed;
use crate::http::answer;

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

/// A flag shared between the process's life-cycle and `/readyz`. It starts as "starting".
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    /// All listeners accept.
    pub fn ready(&self) {
        let _ = self
            .0
            .compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The process is going away; there is no way back.
    pub fn draining(&self) {
        self.0.store(DRAINING, Ordering::Release);
    }

    /// Whether `/readyz` answers 200.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire) == READY
    }

    pub(super) fn answer(&self) -> Response {
        match self.0.load(Ordering::Acquire) {
            READY => typed("text/plain; charset=utf-8", "ready\n".to_owned()),
            STARTING => answer::error(StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
            _ => answer::error(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        }
    }
}
