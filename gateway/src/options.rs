//! From the configuration to the options of each part.

use spillway_config::{Config, HlsMode as ConfigHlsMode, HookEvent, HookFail, Memory};
use spillway_hooks::{EventKind, HookError, HookOptions};
use spillway_hub::{Flush, HlsMode, HlsOptions, HubOptions};
use spillway_rtmp::limits::ReaderLimits;
use spillway_web::AdminAccess;

use crate::auth;
use crate::cgroup;
use crate::random;
use crate::rtmp::RtmpOptions;

/// `limits.memory = "auto"` where the system does not say how much there is: a small machine's.
const UNKNOWN_MEMORY: u64 = 1 << 30;

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
        max_streams_per_ip: limits.max_streams_per_ip as usize,
        max_viewers: limits.max_viewers as usize,
        publish_bitrate: limits.publish_bitrate.bits_per_second(),
        memory: memory(limits.memory),
        max_viewers_per_stream: limits.max_viewers_per_stream as usize,
        workers,
        hls: hls(config),
    }
}

/// The bytes of media there may be.
fn memory(configured: Memory) -> u64 {
    match configured {
        Memory::Size(size) => size.get(),
        _ => {
            let memory = cgroup::memory_bytes();
            let half = memory.map_or(UNKNOWN_MEMORY, |bytes| bytes / 2);
            tracing::debug!(
                memory,
                media_bytes = half,
                "limits.memory is half of what this process may use"
            );
            half
        }
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

/// The hook's options, if there is an endpoint.
///
/// # Errors
/// When its address is none.
pub(crate) fn hooks(config: &Config) -> Result<Option<HookOptions>, HookError> {
    let hooks = &config.hooks;
    if !hooks.is_set() {
        return Ok(None);
    }
    let secret = hooks
        .secret
        .is_set()
        .then(|| hooks.secret.expose().as_bytes().to_vec());
    Ok(Some(HookOptions {
        uri: hooks.url.parse().map_err(|_| HookError::Address)?,
        secret,
        ca_file: (!hooks.ca_file.is_empty()).then(|| hooks.ca_file.clone().into()),
        events: hooks
            .events
            .iter()
            .filter_map(|event| hook_event(*event))
            .collect(),
        timeout: hooks.timeout.into(),
        retries: hooks.retries,
        fail_open: hooks.fail == HookFail::Open,
        cache: hooks.cache.into(),
        max_in_flight: hooks.max_in_flight as usize,
        max_sessions: hooks.max_sessions as usize,
        random: random::number,
    }))
}

fn hook_event(event: HookEvent) -> Option<EventKind> {
    match event {
        HookEvent::Connect => Some(EventKind::Connect),
        HookEvent::Publish => Some(EventKind::Publish),
        HookEvent::Unpublish => Some(EventKind::Unpublish),
        HookEvent::Play => Some(EventKind::Play),
        HookEvent::Stop => Some(EventKind::Stop),
        _ => None,
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
            max_partial_bytes: config.limits.partial_messages.as_usize(),
            ..ReaderLimits::default()
        },
    }
}

/// Who may use the admin listener.
pub(crate) fn admin(config: &Config) -> AdminAccess {
    let admin = &config.admin;
    AdminAccess {
        tokens: admin.tokens.iter().map(|key| key.secret().clone()).collect(),
        addresses: auth::addresses(&admin.allow, &admin.deny),
        free_failures: config.auth.free_failures,
    }
}
