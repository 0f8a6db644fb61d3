//! Players: one event loop reads the sockets of thousands, each with a few hundred bytes of state.

mod carry;
mod chunk;
mod engine;
mod flv;
mod hls;
mod http;
mod live;
mod playlist;
mod rtmp;
mod ts;
mod ws;

pub use engine::{Engine, Group, Plan};

use crate::error::LoadError;
use crate::meter::{Moment, Watch};
use crate::url::Target;
use hls::{HlsPlayer, Segments};
use live::LivePlayer;
use rtmp::RtmpPlayer;
use std::sync::Arc;

/// How a player gets its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// RTMP.
    Rtmp,
    /// FLV over HTTP.
    Flv,
    /// FLV over WebSocket.
    Ws,
    /// HLS with MPEG-TS segments.
    Hls,
    /// RTMP chunks from the first byte on, without any dialogue, as the floor sends them.
    Raw,
}

impl Protocol {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Rtmp, Self::Flv, Self::Ws, Self::Hls, Self::Raw];

    /// The name in reports.
    pub fn label(self) -> &'static str {
        match self {
            Self::Rtmp => "rtmp",
            Self::Flv => "flv",
            Self::Ws => "ws",
            Self::Hls => "hls",
            Self::Raw => "raw",
        }
    }
}

/// One turn of a player: what time it is, where to record, where to put bytes to send, and what the
/// player wants next.
pub(crate) struct Turn<'a> {
    pub(crate) moment: Moment<'a>,
    pub(crate) out: &'a mut Vec<u8>,
    /// Set to be called again at this time.
    pub(crate) wake_ns: Option<u64>,
    /// Set to have the connection closed, and opened again when there is something to send.
    pub(crate) close: bool,
    /// What HLS players of this loop know of segments in common.
    pub(crate) segments: &'a mut Segments,
}

#[derive(Debug)]
enum Wire {
    Rtmp(Box<RtmpPlayer>),
    Live(Box<LivePlayer>),
    Hls(Box<HlsPlayer>),
}

/// A player without its socket.
#[derive(Debug)]
pub(crate) struct Player {
    wire: Wire,
    pub(crate) watch: Watch,
}

impl Player {
    pub(crate) fn new(protocol: Protocol, target: Arc<Target>, number: u64, now_ns: u64) -> Self {
        let wire = match protocol {
            Protocol::Rtmp => Wire::Rtmp(Box::new(RtmpPlayer::new(target, false))),
            Protocol::Raw => Wire::Rtmp(Box::new(RtmpPlayer::new(target, true))),
            Protocol::Flv => Wire::Live(Box::new(LivePlayer::new(target, false))),
            Protocol::Ws => Wire::Live(Box::new(LivePlayer::new(target, true))),
            Protocol::Hls => Wire::Hls(Box::new(HlsPlayer::new(target, number, now_ns))),
        };
        Self {
            wire,
            watch: Watch::new(now_ns),
        }
    }

    /// The connection stands.
    pub(crate) fn connected(&mut self, turn: &mut Turn<'_>) {
        match &mut self.wire {
            Wire::Rtmp(player) => player.hello(turn.out),
            Wire::Live(player) => player.hello(turn.out),
            Wire::Hls(player) => player.connected(turn),
        }
    }

    /// Something was read.
    pub(crate) fn read(&mut self, input: &[u8], turn: &mut Turn<'_>) -> Result<(), LoadError> {
        match &mut self.wire {
            Wire::Rtmp(player) => player.read(input, turn, &mut self.watch),
            Wire::Live(player) => player.read(input, turn, &mut self.watch),
            Wire::Hls(player) => player.read(input, turn, &mut self.watch),
        }
    }

    /// The time asked for by `wake_ns` has come.
    pub(crate) fn wake(&mut self, turn: &mut Turn<'_>) {
        if let Wire::Hls(player) = &mut self.wire {
            player.wake(turn);
        }
    }

    /// The server closed the connection. `true` if that is no reason to give up.
    pub(crate) fn closed(&mut self, turn: &mut Turn<'_>) -> bool {
        match &mut self.wire {
            Wire::Hls(player) => player.closed(turn),
            Wire::Rtmp(_) | Wire::Live(_) => false,
        }
    }
}
