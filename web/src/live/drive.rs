//! [`Drive`]: plays a stream to an HTTP-FLV viewer's socket, past hyper.
//!
//! hyper writes the answer's head and the FLV header. From then on its body yields nothing until the stream is
//! over, and this writes the tags, as chunks of the transfer coding where there is one. What hyper holds is out
//! before the first tag goes past it (`Transport::flushed`), and it has no more to say before the body ends, so
//! its bytes and ours never mix.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use spillway_hub::{Batch, EndReason, Format, Sink, Viewer};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::player::{Player, reason_of};

/// Waits for the end of the time granted, if there is one.
pub(super) async fn over(ends: Option<Instant>) {
    match ends {
        Some(ends) => sleep_until(ends).await,
        None => std::future::pending().await,
    }
}

/// A viewer and its socket.
#[derive(Debug)]
pub(super) struct Drive {
    player: Player,
    batch: Batch,
    socket: Arc<TcpStream>,
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
            player: Player::new(viewer, format),
            batch: Batch::new(format),
            socket,
            stall_timeout,
        }
    }

    /// Plays until there is no more to play, nobody to play to, or the time granted is over.
    pub(super) async fn run_until(&mut self, ends: Option<Instant>) -> EndReason {
        tokio::select! {
            reason = self.run() => return reason,
            () = over(ends) => {}
        }
        match self.player.stand(&mut self.batch) {
            Ok(()) => EndReason::Expired,
            Err(error) => reason_of(&error),
        }
    }

    async fn run(&mut self) -> EndReason {
        loop {
            if let Err(error) = self.write().await {
                return reason_of(&error);
            }
            if self.player.sit(&self.socket) {
                self.player.handed_back().await;
                if let Err(error) = self.player.stand(&mut self.batch) {
                    return reason_of(&error);
                }
            } else if let Err(reason) = self.player.next(&mut self.batch).await {
                return reason;
            }
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        while !self.batch.is_done() {
            match self
                .batch
                .write_with(|slices| self.socket.try_write_slices(slices))
            {
                Ok(count) => self.player.sent(count as u64),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(self.stall_timeout, self.socket.writable()).await??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the last tag that was begun is out whole.
    pub(super) fn at_tag_start(&self) -> bool {
        self.batch.at_message_start()
    }

    /// Ends the session for this reason.
    pub(super) fn end(self, reason: EndReason) {
        self.player.end(reason);
    }
}
