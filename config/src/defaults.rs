//! Every default value, in one place. `config/spillway.toml` shows them with their reasons; a test holds both together.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use std::path::PathBuf;

use crate::address::{ListenAddr, OptionalAddr};
use crate::model::{
    Admin, Auth, Flush, ForwardedHeader, Hls, HlsMode, HookEvent, HookFail, Hooks, Http, Https, Jwt, Limits,
    Log, LogFormat, LogLevel, Memory, Metrics, Play, PlayPolicy, Proxies, ProxyProtocol, Publish,
    PublishPolicy, Ring, Rtmp, Rtmps, Runtime, Shutdown, Tls,
};
use crate::secret::Secret;
use crate::units::{BitRate, ByteSize, Period};

const fn listen(ip: Ipv4Addr, port: u16) -> ListenAddr {
    ListenAddr::new(SocketAddr::new(IpAddr::V4(ip), port))
}

impl Default for Rtmp {
    fn default() -> Self {
        Self {
            listen: listen(Ipv4Addr::UNSPECIFIED, 1935),
            proxy_protocol: ProxyProtocol::Off,
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: listen(Ipv4Addr::UNSPECIFIED, 8080),
            list_streams: true,
            proxy_protocol: ProxyProtocol::Off,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: listen(Ipv4Addr::LOCALHOST, 8081),
            tokens: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            tls_listen: OptionalAddr::OFF,
            tls_client_ca_file: PathBuf::new(),
        }
    }
}

impl Default for Rtmps {
    fn default() -> Self {
        Self {
            listen: OptionalAddr::OFF,
            proxy_protocol: ProxyProtocol::Off,
        }
    }
}

impl Default for Https {
    fn default() -> Self {
        Self {
            listen: OptionalAddr::OFF,
            proxy_protocol: ProxyProtocol::Off,
        }
    }
}

impl Default for Tls {
    fn default() -> Self {
        Self {
            cert_file: PathBuf::new(),
            key_file: PathBuf::new(),
            self_signed: false,
        }
    }
}

impl Default for Proxies {
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            header: ForwardedHeader::XForwardedFor,
        }
    }
}

impl Default for Publish {
    fn default() -> Self {
        Self {
            linger: Period::from_secs(15),
            idle_timeout: Period::from_secs(30),
            first_media_timeout: Period::from_secs(20),
        }
    }
}

impl Default for Play {
    fn default() -> Self {
        Self {
            wait: Period::from_secs(15),
            max_lag: Period::from_secs(3),
            stall_timeout: Period::from_secs(30),
            flush: Flush::Auto,
            flush_max: Period::from_millis(300),
        }
    }
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            max_bytes: ByteSize::from_mib(16),
            max_duration: Period::from_secs(30),
            slots: 4_096,
        }
    }
}

impl Default for Hls {
    fn default() -> Self {
        Self {
            mode: HlsMode::OnDemand,
            segment_duration: Period::from_secs(2),
            max_segment_duration: Period::from_secs(12),
            window: 6,
            idle_stop: Period::from_secs(60),
            first_wait: Period::from_secs(8),
            max_bytes: ByteSize::from_mib(64),
            end_retain: Period::from_secs(60),
        }
    }
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            url: String::new(),
            secret: Secret::unset(),
            secret_file: String::new(),
            ca_file: String::new(),
            events: vec![
                HookEvent::Publish,
                HookEvent::Unpublish,
                HookEvent::Play,
                HookEvent::Stop,
            ],
            timeout: Period::from_secs(5),
            retries: 10,
            fail: HookFail::Closed,
            cache: Period::from_secs(0),
            max_in_flight: 256,
            max_sessions: 50_000,
        }
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            publish: PublishPolicy::Local,
            publish_keys: Vec::new(),
            play: PlayPolicy::Open,
            play_keys: Vec::new(),
            publish_allow: Vec::new(),
            publish_deny: Vec::new(),
            play_allow: Vec::new(),
            play_deny: Vec::new(),
            link_keys: Vec::new(),
            session_lifetime: Period::from_secs(12 * 3600),
            free_failures: 10,
            jwt: Jwt::default(),
        }
    }
}

impl Default for Jwt {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            jwks: String::new(),
            jwks_ca_file: String::new(),
            jwks_refresh: Period::from_secs(300),
            issuer: String::new(),
            audience: String::new(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            format: LogFormat::Human,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { max_streams: 200 }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            grace: Period::from_secs(10),
        }
    }
}

#[expect(clippy::derivable_impls, reason = "every default stands in this file")]
impl Default for Runtime {
    fn default() -> Self {
        Self { workers: 0 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            max_streams: 1_000,
            max_connections_per_ip: 0,
            max_streams_per_ip: 0,
            publish_bitrate: BitRate::from_bits_per_second(200_000_000),
            max_viewers: 0,
            max_viewers_per_stream: 0,
            memory: Memory::Auto,
            handshake_timeout: Period::from_secs(10),
            max_message: ByteSize::from_mib(16),
            chunk_streams: 64,
            partial_messages: ByteSize::from_mib(32),
            http_header: ByteSize::from_bytes(16 << 10),
        }
    }
}
