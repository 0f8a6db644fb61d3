//! From the configuration to the options of each part.

use spillway_config::{Config, HlsMode as ConfigHlsMode};
use spillway_hub::{Flush, HlsMode, HlsOptions, HubOptions};
use spillway_rtmp::limits::ReaderLimits;

use crate::rtmp::RtmpOptions;

/// The hub's options; `workers` is the number of the runtime's threads.
pub(crate) fn hub(config: &Config, workers: usize) -> HubOptions {
    let limits = &config.limits;
    HubOptions {
        ring_slots: config.ring.slots as usize,
        ring_max_bytes: config.ring.max_bytes.as_usize(),
        ring_max_duration: config.ring.max_duration.into(),
        linger: config.publish.linger.into(),
        play_wait: config.play.wait.into(),
        max_lag: config.play.max_lag.into(),
        flush: match config.play.flush {
            spillway_config::Flush::Auto => Flush::Auto {
                max: config.play.flush_max.into(),
            },
            spillway_config::Flush::Every(interval) => Flush::Fixed(interval.into()),
            _ => HubOptions::default().flush,
        },
        max_streams: limits.max_streams as usize,
        max_viewers_per_stream: limits.max_viewers_per_stream as usize,
        workers,
        hls: hls(config),
    }
}

fn hls(config: &Config) -> HlsOptions {
    let hls = &config.hls;
    HlsOptions {
        mode: match hls.mode {
            ConfigHlsMode::Always => HlsMode::Always,
            ConfigHlsMode::Off => HlsMode::Off,
            _ => HlsMode::OnDemand,
        },
        segment_duration: hls.segment_duration.into(),
        window: hls.window as usize,
        idle_stop: hls.idle_stop.into(),
        first_wait: hls.first_wait.into(),
        max_segment_duration: hls.max_segment_duration.into(),
        max_bytes: hls.max_bytes.as_usize(),
        end_retain: hls.end_retain.into(),
    }
}

/// The options of RTMP sessions.
pub(crate) fn rtmp(config: &Config) -> RtmpOptions {
    RtmpOptions {
        handshake_timeout: config.limits.handshake_timeout.into(),
        first_media_timeout: config.publish.first_media_timeout.into(),
        idle_timeout: config.publish.idle_timeout.into(),
        stall_timeout: config.play.stall_timeout.into(),
        limits: ReaderLimits {
            max_message_bytes: config.limits.max_message_bytes(),
            max_chunk_streams: config.limits.chunk_streams as usize,
            ..ReaderLimits::default()
        },
    }
}
