//! [`Player`]: a viewer that writes its own batches while it has to catch up and sits in a lane otherwise.

use std::io;
use std::sync::Arc;

use spillway_hub::{Batch, EndReason, Format, MESSAGE_STREAM_ID, Seat, Viewer};
use tokio::net::TcpStream;

/// A viewer and its seat, if it has one. While it sits, nobody but the lane writes to its socket.
#[derive(Debug)]
pub(super) struct Player {
    viewer: Viewer,
    format: Format,
    seat: Option<Seat>,
}

impl Player {
    pub(super) fn new(viewer: Viewer, format: Format) -> Self {
        Self {
            viewer,
            format,
            seat: None,
        }
    }

    /// Waits for the next frames and puts them into `batch`, which must be done.
    pub(super) async fn next(&mut self, batch: &mut Batch) -> Result<(), EndReason> {
        self.viewer.next(batch.refill()).await?;
        batch.begin(MESSAGE_STREAM_ID);
        Ok(())
    }

    /// Counts media bytes written by the caller.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.viewer.sent(bytes);
    }

    /// Takes a seat if the viewer is up to date. Everything from [`Player::next`] must have been written.
    pub(super) fn sit(&mut self, socket: &Arc<TcpStream>) -> bool {
        self.seat = self.viewer.sit(self.format, socket);
        self.seat.is_some()
    }

    /// Waits until the lane hands the player back.
    pub(super) async fn handed_back(&self) {
        if let Some(seat) = &self.seat {
            seat.handed_back().await;
        }
    }

    /// Leaves the seat; what the lane has half written goes into `batch`, to be finished first.
    ///
    /// # Errors
    /// What the connection failed with while the lane wrote to it.
    pub(super) fn stand(&mut self, batch: &mut Batch) -> io::Result<()> {
        let Some(seat) = self.seat.take() else {
            return Ok(());
        };
        self.viewer.stand(seat).resume_in(batch)
    }

    /// Ends the session for this reason.
    pub(super) fn end(mut self, reason: EndReason) {
        if let Some(seat) = self.seat.take() {
            self.viewer.stand(seat);
        }
        self.viewer.end(reason);
    }
}

/// Why a viewer ends whose connection failed so.
pub(super) fn reason_of(error: &io::Error) -> EndReason {
    match error.kind() {
        io::ErrorKind::TimedOut => EndReason::Stalled,
        _ => EndReason::Client,
    }
}
