//! Options of a server session.

use crate::limits::ReaderLimits;

/// What a server session announces and allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// The acknowledgement window announced to the client, and the one used for it until it names
    /// its own, in bytes. Default: 2,500,000, which clients have seen from most servers.
    pub window_ack_bytes: u32,
    /// The bandwidth announced to the client, in bytes of window. Default: 2,500,000.
    pub peer_bandwidth: u32,
    /// What the client's chunk stream may cost once its publish is accepted. Until then, and for
    /// players, messages of 256 KiB and 320 KiB of incomplete ones are the most; see
    /// [`ServerSession`](super::ServerSession).
    pub limits: ReaderLimits,
    /// Answers that may wait in the output, in bytes. Pings and acknowledgements are left out from
    /// half of it on; a command answered beyond it ends the session. Default: 256 KiB, more than
    /// a thousand answers, where a client in good faith waits for a handful.
    pub out_limit_bytes: usize,
    /// Media kept while a publish waits for its acceptance, in bytes. The oldest frames are dropped
    /// beyond it, sequence headers and metadata last; a single message longer than it (and longer
    /// than 256 KiB) ends the session. Default: 4 MiB, several seconds of HD video.
    pub held_media_bytes: usize,
    /// Makes the handshake's random bytes; they protect nothing. Should differ between sessions.
    pub random_seed: u64,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            window_ack_bytes: 2_500_000,
            peer_bandwidth: 2_500_000,
            limits: ReaderLimits::default(),
            out_limit_bytes: 256 * 1024,
            held_media_bytes: 4 << 20,
            random_seed: 0,
        }
    }
}
