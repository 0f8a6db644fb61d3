//! Options of a client session.

use crate::limits::ReaderLimits;

/// What a client session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientMode {
    /// Send a stream to the server.
    Publish,
    /// Receive a stream from the server.
    Play,
}

/// Whom a client session talks to, and about what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// The application.
    pub app: String,
    /// The URL without the stream name, `rtmp://host:port/app`. The host must be the one the
    /// server expects: some choose by it.
    pub tc_url: String,
    /// The stream's name, with its query.
    pub stream_name: String,
    /// Publish or play.
    pub mode: ClientMode,
    /// How this client calls itself. Default: an FMLE when it publishes, a Flash Player otherwise,
    /// because servers tell encoders from players by it.
    pub flash_version: String,
    /// Makes the handshake's random bytes; they protect nothing.
    pub random_seed: u64,
    /// Do the handshake with digests. Needed by Adobe's servers for some streams; plain works
    /// everywhere else.
    pub digest: bool,
    /// What the server's chunk stream may cost.
    pub limits: ReaderLimits,
    /// Output that may wait, in bytes, media and answers together. Default: 32 MiB, two of the
    /// longest messages.
    pub out_limit_bytes: usize,
}

impl ClientOptions {
    /// Options for `stream_name` in `app` of the server at `host_port` (`host` or `host:port`, an
    /// IPv6 address in brackets), with the defaults for everything else.
    pub fn new(host_port: &str, app: &str, stream_name: &str, mode: ClientMode) -> Self {
        let flash_version = match mode {
            ClientMode::Publish => "FMLE/3.0 (compatible; Spillway)",
            ClientMode::Play => "LNX 9,0,124,2",
        };
        Self {
            app: app.to_owned(),
            tc_url: format!("rtmp://{host_port}/{app}"),
            stream_name: stream_name.to_owned(),
            mode,
            flash_version: flash_version.to_owned(),
            random_seed: 0,
            digest: false,
            limits: ReaderLimits::default(),
            out_limit_bytes: 32 << 20,
        }
    }
}
