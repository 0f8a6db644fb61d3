//! Limits as publishers and viewers meet them: who is refused, and who plays on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use spillway_hub::hls::HlsError;
use spillway_hub::{
    AttachError, EndReason, Hub, HubOptions, Limit, Phase, Protocol, PublishError, PublishTerms, Publisher,
    SessionInfo, StreamKey, TagType,
};

const AVC_HEADER: &[u8] = &[
    0x17, 0, 0, 0, 0, 1, 0x64, 0x00, 0x1E, 0xFF, 0xE1, 0, 24, 0x67, 0x64, 0x00, 0x1E, 0xAC, 0xD9, 0x40, 0xA0,
    0x3D, 0xA1, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x32, 0x0F, 0x16, 0x2D, 0x96, 1, 0, 6,
    0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC0,
];
const AAC_HEADER: &[u8] = &[0xAF, 0, 0x12, 0x10];

fn key(name: &str) -> StreamKey {
    StreamKey::parse(name).unwrap()
}

fn from(ip: &str, protocol: Protocol) -> SessionInfo {
    SessionInfo::new(protocol, SocketAddr::new(ip.parse::<IpAddr>().unwrap(), 9))
}

fn viewer() -> SessionInfo {
    from("127.0.0.1", Protocol::Flv)
}

/// A publisher that sends key frames of a size with a sound beside each, 40 ms apart.
struct Source {
    publisher: Publisher,
    at_ms: u32,
}

impl Source {
    fn start(hub: &Hub, name: &str) -> Self {
        let publisher = hub.publish(key(name), from("127.0.0.1", Protocol::Rtmp)).unwrap();
        let mut source = Self { publisher, at_ms: 0 };
        source.push(AVC_HEADER.to_vec()).unwrap();
        let audio = [&[0; 11], AAC_HEADER].concat();
        source.publisher.push(TagType::Audio, 0, audio).unwrap();
        source
    }

    fn push(&mut self, body: Vec<u8>) -> Result<(), EndReason> {
        let buf = [vec![0; 11], body].concat();
        self.publisher.push(TagType::Video, self.at_ms, buf)
    }

    fn frame(&mut self, bytes: usize) -> Result<(), EndReason> {
        self.at_ms += 40;
        let mut body = vec![0x17, 1, 0, 0, 0];
        body.extend_from_slice(&u32::try_from(bytes + 1).unwrap().to_be_bytes());
        body.push(0x65);
        body.resize(body.len() + bytes, 0x55);
        self.push(body)?;
        let sound = [&[0; 11][..], &[0xAF, 1, 0x21, 0x10, 0x04]].concat();
        self.publisher.push(TagType::Audio, self.at_ms, sound)
    }
}

/// Past the next sweep.
async fn sweep() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}

#[tokio::test(start_paused = true)]
async fn over_the_memory_budget_newcomers_are_refused_and_the_others_play_on() {
    let hub = Hub::new(HubOptions {
        memory: 100_000,
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, "live/a");
    source.frame(1_000).unwrap();
    let mut early = hub.attach(&key("live/a"), viewer()).await.unwrap();
    early.next(&mut Vec::new()).await.unwrap();
    source.frame(200_000).unwrap();
    sweep().await;
    assert!(hub.memory_bytes() > 200_000, "{}", hub.memory_bytes());

    let refused = hub.attach(&key("live/a"), viewer()).await.unwrap_err();
    assert_eq!(refused, AttachError::ShortOfMemory);
    let refused = hub.publish(key("live/b"), viewer()).unwrap_err();
    assert_eq!(refused, PublishError::ShortOfMemory);
    let refused = hub.hls().media(&key("live/a")).await.unwrap_err();
    assert_eq!(refused, HlsError::ShortOfMemory { retry_after_s: 5 });
    assert_eq!(hub.stats().refusals(Limit::Memory), 3);

    source.frame(1_000).unwrap();
    let mut frames = Vec::new();
    early.next(&mut frames).await.unwrap();
    assert!(!frames.is_empty(), "who was there plays on");
    // An encoder that comes back to its stream is nobody new.
    let mut again = Source::start(&hub, "live/a");
    again.frame(1_000).unwrap();
}

#[tokio::test(start_paused = true)]
async fn when_memory_is_free_again_newcomers_are_let_in() {
    let hub = Hub::new(HubOptions {
        memory: 100_000,
        linger: Duration::ZERO,
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, "live/a");
    source.frame(200_000).unwrap();
    sweep().await;
    assert!(hub.publish(key("live/b"), viewer()).is_err());
    source.publisher.end(EndReason::Client);
    sweep().await;
    sweep().await;
    assert!(hub.publish(key("live/b"), viewer()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn viewers_in_all_are_bounded_and_make_room_when_they_leave() {
    let hub = Hub::new(HubOptions {
        max_viewers: 2,
        ..HubOptions::default()
    });
    let mut sources = ["live/a", "live/b"].map(|name| Source::start(&hub, name));
    for source in &mut sources {
        source.frame(100).unwrap();
    }
    let first = hub.attach(&key("live/a"), viewer()).await.unwrap();
    let _second = hub.attach(&key("live/b"), viewer()).await.unwrap();
    let refused = hub.attach(&key("live/b"), viewer()).await.unwrap_err();
    assert_eq!(refused, AttachError::TooManyViewersInAll);
    assert_eq!(hub.stats().refusals(Limit::AllViewers), 1);
    drop(first);
    hub.attach(&key("live/b"), viewer()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_address_publishes_so_many_streams_and_always_gets_its_own_back() {
    let hub = Hub::new(HubOptions {
        max_streams_per_ip: 1,
        ..HubOptions::default()
    });
    let publish = |name, ip| hub.publish(key(name), from(ip, Protocol::Rtmp));
    let half_open = publish("live/a", "2001:db8::1").unwrap();
    let refused = publish("live/b", "2001:db8::2").unwrap_err();
    assert_eq!(refused, PublishError::TooManyFromAddress);
    assert_eq!(hub.stats().refusals(Limit::StreamsPerIp), 1);
    let other = publish("live/b", "192.0.2.1").unwrap();
    let returned = publish("live/a", "2001:db8::3").unwrap();
    drop(half_open);
    assert!(publish("live/c", "2001:db8::1").is_err());
    returned.end(EndReason::Client);
    assert!(publish("live/c", "2001:db8::1").is_ok());
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_is_too_fast_for_seconds_is_cut_off_and_a_burst_is_not() {
    let hub = Hub::new(HubOptions {
        publish_bitrate: 1_000_000,
        ..HubOptions::default()
    });
    let mut bursts = Source::start(&hub, "live/bursts");
    let mut floods = Source::start(&hub, "live/floods");
    let mut ended = None;
    for tenth in 0..120 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bursts.frame(if tenth < 20 { 50_000 } else { 1_000 }).unwrap();
        if let Err(reason) = floods.frame(50_000) {
            ended = Some((tenth, reason));
            break;
        }
    }
    let (tenth, reason) = ended.expect("4 Mbit/s with a limit of 1 Mbit/s");
    assert_eq!(reason, EndReason::TooFast);
    assert!((40..=100).contains(&tenth), "after {tenth} tenths of a second");
    assert!(floods.publisher.lost().is_cancelled());
    assert_eq!(hub.stats().refusals(Limit::PublishBitrate), 1);
    let phase = |name| hub.stream(&key(name)).unwrap().phase();
    assert_eq!(
        (phase("live/bursts"), phase("live/floods")),
        (Phase::Live, Phase::Away)
    );
    Source::start(&hub, "live/floods").frame(1_000).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_publisher_with_terms_of_its_own_is_held_to_them_and_the_next_one_is_not() {
    let hub = Hub::new(HubOptions {
        publish_bitrate: 100_000_000,
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, "live/a");
    source.publisher.set_terms(PublishTerms {
        bits_per_second: 1_000_000,
        max_viewers: 1,
    });
    source.frame(1_000).unwrap();
    let first = hub.attach(&key("live/a"), viewer()).await.unwrap();
    let second = hub.attach(&key("live/a"), viewer()).await;
    assert_eq!(second.unwrap_err(), AttachError::TooManyViewers);
    let mut ended = None;
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Err(reason) = source.frame(50_000) {
            ended = Some(reason);
            break;
        }
    }
    assert_eq!(ended, Some(EndReason::TooFast));
    let mut next = Source::start(&hub, "live/a");
    next.frame(1_000).unwrap();
    let second = hub.attach(&key("live/a"), viewer()).await.unwrap();
    drop((first, second));
}
