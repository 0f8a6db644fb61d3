//! [`Player`]: an RTMP connection that plays.

use std::io;
use std::sync::Arc;

use spillway_hub::{Batch, EndReason, Format, Frame, MESSAGE_STREAM_ID, Role, Seat, TagType, Viewer};
use tokio::net::TcpStream;

/// What a player asked to get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wants {
    paused: bool,
    audio: bool,
    video: bool,
}

impl Wants {
    const ALL: Wants = Wants {
        paused: false,
        audio: true,
        video: true,
    };

    /// Headers and metadata always pass: what comes after the pause is decoded by them.
    fn frame(self, frame: &Frame) -> bool {
        if matches!(frame.role(), Role::Header | Role::Metadata) {
            return true;
        }
        match frame.kind() {
            TagType::Audio => self.audio && !self.paused,
            TagType::Video => self.video && !self.paused,
            TagType::Script => !self.paused,
        }
    }
}

/// What a player may say while it plays.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish {
    Paused(bool),
    Audio(bool),
    Video(bool),
}

/// What woke a player.
#[derive(Debug, Clone, Copy)]
pub(super) enum PlayerWake {
    /// The batch holds new frames.
    Frames,
    /// There will be no more.
    Over(EndReason),
    /// The lane handed the player back.
    HandedBack,
}

/// A viewer over RTMP: it sits in a lane while it is up to date and wants everything.
#[derive(Debug)]
pub(super) struct Player {
    viewer: Viewer,
    wants: Wants,
    seat: Option<Seat>,
}

impl Player {
    pub(super) fn new(viewer: Viewer) -> Self {
        Self {
            viewer,
            wants: Wants::ALL,
            seat: None,
        }
    }

    /// Waits for the lane, or with `may_fill` for frames to put into the batch.
    pub(super) async fn next(&mut self, batch: &mut Batch, may_fill: bool) -> PlayerWake {
        if let Some(seat) = &self.seat {
            seat.handed_back().await;
            return PlayerWake::HandedBack;
        }
        if !may_fill || !batch.is_done() {
            return std::future::pending().await;
        }
        match self.viewer.next(batch.refill()).await {
            Ok(()) => PlayerWake::Frames,
            Err(reason) => PlayerWake::Over(reason),
        }
    }

    /// The frames just filled in, made ready for this player.
    pub(super) fn prepare(&self, batch: &mut Batch, message_stream_id: u32) {
        batch.drop_unsent(|frame| !self.wants.frame(frame));
        batch.begin(message_stream_id);
    }

    /// Leaves the writing to a lane, if the player is up to date and gets what everyone gets.
    pub(super) fn sit(&mut self, batch: &Batch, socket: &Arc<TcpStream>, message_stream_id: u32) {
        let common = self.wants == Wants::ALL && message_stream_id == MESSAGE_STREAM_ID;
        if self.seat.is_none() && common && batch.is_done() {
            self.seat = self.viewer.sit(Format::Rtmp, socket);
        }
    }

    /// Takes the writing back from the lane.
    ///
    /// # Errors
    /// How the connection failed, if the lane noticed it.
    pub(super) fn stand(&mut self, batch: &mut Batch) -> io::Result<()> {
        let Some(seat) = self.seat.take() else {
            return Ok(());
        };
        self.viewer.stand(seat).resume_in(batch)
    }

    /// Does as the player says. A resumed player goes on at a key frame it has not had.
    ///
    /// # Errors
    /// Those of [`Player::stand`].
    pub(super) fn obey(&mut self, wish: Wish, batch: &mut Batch) -> io::Result<()> {
        self.stand(batch)?;
        let before = self.wants;
        match wish {
            Wish::Paused(paused) => self.wants.paused = paused,
            Wish::Audio(audio) => self.wants.audio = audio,
            Wish::Video(video) => self.wants.video = video,
        }
        let resumes = (before.paused && !self.wants.paused) || (!before.video && self.wants.video);
        let wants = self.wants;
        batch.drop_unsent(|frame| !wants.frame(frame) || (resumes && frame.role() == Role::Media));
        if resumes {
            self.viewer.skip_ahead();
        }
        Ok(())
    }

    /// Counts bytes written by the player's own task.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.viewer.sent(bytes);
    }

    /// Ends the play; a message that is half written stays in the batch.
    pub(super) fn end(mut self, reason: EndReason, batch: &mut Batch) {
        // A connection that failed in the lane ends for the reason its own task has found.
        let _ = self.stand(batch);
        batch.drop_unsent(|_| true);
        self.viewer.end(reason);
    }
}
