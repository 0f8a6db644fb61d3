//! The command line.

use crate::clip::Clip;
use crate::error::LoadError;
use crate::generator::StreamShape;
use crate::player::{Group, Protocol};
use crate::publisher::Material;
use crate::url::Target;
use clap::Parser;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Loads a live server with publishers and players and measures what comes through, and what it
/// costs the server.
///
/// URLs are templates: {n} stands for the stream's number, from 0 to --publishers less one.
#[derive(Debug, Clone, Parser)]
#[command(name = "spillway-load", version, max_term_width = 100)]
pub struct Options {
    /// Name of the run in tables and files.
    #[arg(long, default_value = "run")]
    pub label: String,

    /// Where to publish.
    #[arg(long, value_name = "URL", default_value = "rtmp://127.0.0.1:1935/live/s{n}")]
    pub publish_url: String,
    /// What RTMP players play; default: where the publishers publish.
    #[arg(long, value_name = "URL")]
    pub rtmp_url: Option<String>,
    /// What HTTP-FLV players play.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8080/live/s{n}.flv"
    )]
    pub flv_url: String,
    /// What WS-FLV players play.
    #[arg(long, value_name = "URL", default_value = "ws://127.0.0.1:8080/live/s{n}.flv")]
    pub ws_url: String,
    /// What HLS players play: a multivariant or media playlist.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:8080/live/s{n}/index.m3u8"
    )]
    pub hls_url: String,
    /// What raw players play: RTMP chunks without a dialogue, from `floor`.
    #[arg(long, value_name = "URL", default_value = "raw://127.0.0.1:1935/")]
    pub raw_url: String,

    /// Streams, each with one publisher.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub publishers: u32,
    /// RTMP players in all, in turn over the streams.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rtmp: u64,
    /// HTTP-FLV players.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub flv: u64,
    /// WS-FLV players.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ws: u64,
    /// HLS players.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hls: u64,
    /// Raw players.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub raw: u64,
    /// Only publish: the players are in another process.
    #[arg(long, conflicts_with = "play_only")]
    pub publish_only: bool,
    /// Only play: the publishers are in another process, or the server has its own stream.
    #[arg(long)]
    pub play_only: bool,

    /// Bits per second of a generated stream, audio included.
    #[arg(long, value_name = "BITS", default_value_t = 237_000)]
    pub bitrate: u64,
    /// Bits per second of its AAC track, 44.1 kHz; 0 for none.
    #[arg(long, value_name = "BITS", default_value_t = 64_000)]
    pub audio_bitrate: u64,
    /// Its video frames per second; 0 for no video.
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub fps: u64,
    /// Frames from one key frame to the next.
    #[arg(long, value_name = "FRAMES", default_value_t = 50)]
    pub gop: u64,
    /// B frames between two others.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub b_frames: u64,
    /// Publish this FLV file in a loop instead. It has no stamps: no delay, no loss can be measured.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Time between two players' connects; 0ms: all at once.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    pub stagger: Duration,
    /// HLS players begin over this time, so that their polls are spread; 0ms: as --stagger says.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    pub hls_spread: Duration,
    /// How long all players may take to play before the run goes on without the rest.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub connect_limit: Duration,
    /// Time between all playing and the measured window.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration)]
    pub warmup: Duration,
    /// The measured window.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,

    /// Start this server for the run and stop it afterwards.
    #[arg(long, value_name = "COMMAND", conflicts_with = "server_pid")]
    pub server_cmd: Option<String>,
    /// Measure this running server.
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// Where the server is ready when it accepts connections; default: the publish URL.
    #[arg(long, value_name = "URL")]
    pub ready_url: Option<String>,
    /// File for the started server's output.
    #[arg(long, value_name = "FILE", default_value = "/tmp/spillway-load-server.log")]
    pub server_log: PathBuf,
    /// After the window, count the server's system calls with strace for this time. It slows the
    /// server down, and says nothing else.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub trace: Option<Duration>,
    /// Core for the started server; also the core whose load is reported.
    #[arg(long, value_name = "CORE")]
    pub server_cpu: Option<usize>,
    /// Core for publishers and players.
    #[arg(long, value_name = "CORE")]
    pub load_cpu: Option<usize>,
    /// Threads for players.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u64,

    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// No progress on standard error.
    #[arg(long)]
    pub quiet: bool,
    /// Make no run: compare the results in these files, the first being the measure of the others.
    #[arg(long, value_name = "FILE", num_args = 2.., exclusive = true)]
    pub compare: Vec<PathBuf>,
}

impl Options {
    /// What publishers send.
    ///
    /// # Errors
    /// Those of reading a clip.
    pub fn material(&self) -> Result<Material, LoadError> {
        match &self.file {
            Some(path) => Ok(Material::Clip(Clip::read(path)?)),
            None => Ok(Material::Generated(self.shape())),
        }
    }

    /// The generated stream.
    pub fn shape(&self) -> StreamShape {
        StreamShape {
            bits_per_second: self.bitrate,
            audio_bits_per_second: self.audio_bitrate,
            frames_per_second: self.fps,
            gop_frames: self.gop,
            b_frames: self.b_frames,
        }
    }

    /// The targets of publishers.
    ///
    /// # Errors
    /// [`LoadError::Url`]
    pub fn publish_targets(&self) -> Result<Vec<Arc<Target>>, LoadError> {
        self.targets(&self.publish_url)
    }

    /// Where a started server is tried.
    ///
    /// # Errors
    /// [`LoadError::Url`]
    pub fn ready_target(&self) -> Result<Target, LoadError> {
        Target::new(self.ready_url.as_ref().unwrap_or(&self.publish_url), 0)
    }

    /// The groups of players, those of one thread out of [`threads`](Self::threads).
    ///
    /// # Errors
    /// [`LoadError::Url`]
    pub fn groups(&self, thread: u64) -> Result<Vec<Group>, LoadError> {
        let rtmp_url = self.rtmp_url.as_ref().unwrap_or(&self.publish_url);
        let wanted = [
            (Protocol::Rtmp, rtmp_url, self.rtmp),
            (Protocol::Flv, &self.flv_url, self.flv),
            (Protocol::Ws, &self.ws_url, self.ws),
            (Protocol::Hls, &self.hls_url, self.hls),
            (Protocol::Raw, &self.raw_url, self.raw),
        ];
        let mut groups = Vec::new();
        for (protocol, url, players) in wanted {
            let threads = self.threads.max(1);
            let players = players / threads + u64::from(thread < players % threads);
            if players > 0 {
                groups.push(Group {
                    protocol,
                    targets: self.targets(url)?,
                    players,
                });
            }
        }
        Ok(groups)
    }

    /// All players asked for.
    pub fn players(&self) -> u64 {
        self.rtmp + self.flv + self.ws + self.hls + self.raw
    }

    fn targets(&self, template: &str) -> Result<Vec<Arc<Target>>, LoadError> {
        (0..self.publishers.max(1))
            .map(|number| Target::new(template, number).map(Arc::new))
            .collect()
    }
}

/// Reads `2s`, `300ms`, `50us` or `1m`.
///
/// # Errors
/// A sentence saying what is missing.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} does not begin with a number"))?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(format!("{text:?} needs a unit: us, ms, s or m")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert!(duration("300").is_err());
        assert!(duration("s").is_err());
    }
}
