//! [`Drive`]: plays a stream to an HTTP-FLV viewer's socket, past hyper.
//!
//! hyper writes the answer's head and the FLV header. From then on its body yields nothing until the stream is
//! over, and this writes the tags, as chunks of the transfer coding where there is one. hyper flushes whatever
//! it holds before it waits for a body, so its bytes and ours never mix.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use spillway_hub::{Batch, EndReason, Format, LeftReason, MESSAGE_STREAM_ID, Seat, Viewer};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A viewer and its socket.
#[derive(Debug)]
pub(super) struct Drive {
    viewer: Viewer,
    socket: Arc<TcpStream>,
    format: Format,
    batch: Batch,
    seat: Option<Seat>,
    stall_timeout: Duration,
}

impl Drive {
    pub(super) fn new(
        viewer: Viewer,
        socket: Arc<TcpStream>,
        format: Format,
        stall_timeout: Duration,
    ) -> Self {
        Self {
            viewer,
            socket,
            format,
            batch: Batch::new(format),
            seat: None,
            stall_timeout,
        }
    }

    /// Plays until there is no more to play or nobody to play to.
    pub(super) async fn run(&mut self) -> EndReason {
        loop {
            if let Err(reason) = self.write().await {
                return reason;
            }
            self.seat = self.viewer.sit(self.format, &self.socket);
            if let Some(seat) = &self.seat {
                seat.handed_back().await;
                if let Err(reason) = self.stand() {
                    return reason;
                }
                continue;
            }
            match self.viewer.next(self.batch.refill()).await {
                Ok(()) => self.batch.begin(MESSAGE_STREAM_ID),
                Err(reason) => return reason,
            }
        }
    }

    async fn write(&mut self) -> Result<(), EndReason> {
        while !self.batch.is_done() {
            match self
                .batch
                .write_with(|slices| self.socket.try_write_vectored(slices))
            {
                Ok(count) => self.viewer.sent(count as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match timeout(self.stall_timeout, self.socket.writable()).await {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) => return Err(EndReason::Client),
                        Err(_) => return Err(EndReason::Stalled),
                    }
                }
                Err(_) => return Err(EndReason::Client),
            }
        }
        Ok(())
    }

    fn stand(&mut self) -> Result<(), EndReason> {
        let Some(seat) = self.seat.take() else {
            return Ok(());
        };
        let left = self.viewer.stand(seat);
        if let Some((frame, written)) = left.partial {
            self.batch.resume(frame, written);
        }
        match left.reason {
            LeftReason::Failed(_) => Err(EndReason::Client),
            LeftReason::Asked | LeftReason::Slow | LeftReason::Closed => Ok(()),
        }
    }

    /// Ends the session for this reason.
    pub(super) fn end(mut self, reason: EndReason) {
        // What the lane found out about the connection is already the reason, or no longer matters.
        let _ = self.stand();
        self.viewer.end(reason);
    }
}
