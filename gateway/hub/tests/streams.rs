//! Streams as publishers and viewers meet them: joins, skips, takeovers and returns.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_hub::{
    AttachError, DropReason, EndReason, Frame, Hub, HubOptions, Phase, Protocol, Publisher, Role,
    SessionInfo, StreamKey, TagType, Viewer,
};

const AVC_HEADER: &[u8] = &[
    0x17, 0, 0, 0, 0, 1, 0x42, 0xC0, 0x1E, 0xFF, 0xE1, 0, 4, 0x67, 0x42, 0xC0, 0x1E, 1, 0, 2, 0x68, 0xCE,
];
const AAC_HEADER: &[u8] = &[0xAF, 0, 0x12, 0x10];

fn info(protocol: Protocol) -> SessionInfo {
    SessionInfo::new(protocol, SocketAddr::from(([127, 0, 0, 1], 9)))
}

fn key() -> StreamKey {
    StreamKey::parse("live/a").unwrap()
}

fn buf(body: &[u8]) -> Vec<u8> {
    let mut buf = vec![0; 11];
    buf.extend_from_slice(body);
    buf
}

fn video(key: bool, filler: usize) -> Vec<u8> {
    let mut body = vec![if key { 0x17 } else { 0x27 }, 1, 0, 0, 0];
    let nal = if key { 0x65 } else { 0x41 };
    body.extend_from_slice(&u32::try_from(filler + 1).unwrap().to_be_bytes());
    body.push(nal);
    body.resize(body.len() + filler, 0x55);
    buf(&body)
}

/// A publisher with its own clock.
struct Source {
    publisher: Publisher,
    frames: u32,
    clock_ms: u32,
}

impl Source {
    fn start(hub: &Hub, clock_ms: u32) -> Self {
        let publisher = hub.publish(key(), info(Protocol::Rtmp)).unwrap();
        let mut source = Self {
            publisher,
            frames: 0,
            clock_ms,
        };
        source.push(TagType::Video, buf(AVC_HEADER));
        source.push(TagType::Audio, buf(AAC_HEADER));
        source
    }

    fn push(&mut self, kind: TagType, buf: Vec<u8>) {
        self.publisher.push(kind, self.clock_ms, buf).unwrap();
    }

    /// Frames of 40 ms, a key frame each tenth, an audio frame beside each.
    fn run(&mut self, frames: u32) {
        for _ in 0..frames {
            self.push(TagType::Video, video(self.frames.is_multiple_of(10), 100));
            self.push(TagType::Audio, buf(&[0xAF, 1, 0x21, 0x10, 0x04]));
            self.frames += 1;
            self.clock_ms = self.clock_ms.wrapping_add(40);
        }
    }
}

async fn take(viewer: &mut Viewer) -> Vec<Arc<Frame>> {
    let mut frames = Vec::new();
    let mut batch = Vec::new();
    while viewer.poll(&mut batch).unwrap() {
        frames.append(&mut batch);
    }
    frames
}

async fn attach(hub: &Hub) -> Viewer {
    hub.attach(&key(), info(Protocol::Flv)).await.unwrap()
}

fn roles(frames: &[Arc<Frame>]) -> Vec<(Role, TagType)> {
    frames.iter().map(|f| (f.role(), f.kind())).collect()
}

fn assert_rising(frames: &[Arc<Frame>]) {
    for kind in [TagType::Audio, TagType::Video] {
        let times: Vec<i64> = frames
            .iter()
            .filter(|f| f.kind() == kind && f.role() == Role::Media)
            .map(|f| f.dts_ms())
            .collect();
        assert!(times.windows(2).all(|w| w[0] < w[1]), "{kind:?}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_viewer_gets_metadata_headers_and_the_newest_gop() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 5000);
    source.run(25);
    let mut viewer = attach(&hub).await;
    let tracks = viewer.tracks();
    assert!(tracks.has_video && tracks.has_audio);
    let frames = take(&mut viewer).await;
    assert_eq!(
        roles(&frames)[..4],
        [
            (Role::Metadata, TagType::Script),
            (Role::Header, TagType::Video),
            (Role::Header, TagType::Audio),
            (Role::Media, TagType::Video),
        ]
    );
    assert!(frames[3].key());
    assert_eq!(
        frames[3].dts_ms(),
        20 * 40,
        "the stream's own time starts at zero"
    );
    assert_eq!(
        frames.len(),
        3 + 10,
        "the five frames and five audio frames of the last GOP"
    );
}

#[tokio::test(start_paused = true)]
async fn a_viewer_may_come_before_the_publisher() {
    let hub = Hub::new(HubOptions::default());
    let waiting = tokio::spawn({
        let hub = hub.clone();
        async move { attach(&hub).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut source = Source::start(&hub, 0);
    source.run(3);
    let mut viewer = waiting.await.unwrap();
    let frames = take(&mut viewer).await;
    assert_eq!(
        frames.iter().filter(|f| f.role() == Role::Media).count(),
        6,
        "from the first frame on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_viewer_of_nothing_is_told_so_after_the_wait_and_leaves_nothing_behind() {
    let hub = Hub::new(HubOptions::default());
    let error = hub.attach(&key(), info(Protocol::Flv)).await.unwrap_err();
    assert_eq!(error, AttachError::NotFound);
    assert!(hub.streams().is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_viewers_cannot_make_streams_without_bound() {
    let hub = Hub::new(HubOptions {
        max_streams: 2,
        ..HubOptions::default()
    });
    let mut waiters = Vec::new();
    for n in 0..3 {
        let hub = hub.clone();
        let key = StreamKey::parse(&format!("live/{n}")).unwrap();
        waiters.push(tokio::spawn(async move {
            hub.attach(&key, info(Protocol::Flv)).await.map(drop)
        }));
        tokio::task::yield_now().await;
    }
    let mut results = Vec::new();
    for waiter in waiters {
        results.push(waiter.await.unwrap().unwrap_err());
    }
    assert_eq!(
        results,
        [
            AttachError::NotFound,
            AttachError::NotFound,
            AttachError::TooManyStreams
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lagging_viewer_goes_on_at_the_newest_key_frame_without_new_headers() {
    let hub = Hub::new(HubOptions {
        max_lag: Duration::from_secs(1),
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, 0);
    source.run(5);
    let mut viewer = attach(&hub).await;
    take(&mut viewer).await;
    source.run(60);
    let frames = take(&mut viewer).await;
    assert!(frames[0].key(), "it goes on at a key frame");
    assert_eq!(frames[0].dts_ms(), 60 * 40);
    assert!(
        frames.iter().all(|f| f.role() == Role::Media),
        "it has the headers already"
    );
    assert!(viewer.stream().stats().drops(DropReason::Lag) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_viewer_the_ring_outran_goes_on_at_a_newer_key_frame() {
    let hub = Hub::new(HubOptions {
        ring_slots: 64,
        max_lag: Duration::from_secs(1000),
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, 0);
    source.run(5);
    let mut viewer = attach(&hub).await;
    let mut seen = take(&mut viewer).await;
    source.run(100);
    let frames = take(&mut viewer).await;
    assert!(frames[0].key());
    seen.extend(frames);
    assert_rising(&seen);
    assert!(viewer.stream().stats().drops(DropReason::Overrun) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_viewer_keeps_no_frame_alive() {
    let hub = Hub::new(HubOptions {
        ring_max_bytes: 20_000,
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, 0);
    source.run(3);
    let viewer = attach(&hub).await;
    source.run(2000);
    let stream = hub.stream(&key()).unwrap();
    assert!(stream.ring_bytes() <= 20_000);
    drop(viewer);
}

#[tokio::test(start_paused = true)]
async fn the_newest_publisher_takes_the_name_and_the_old_one_can_write_no_more() {
    let hub = Hub::new(HubOptions::default());
    let mut old = Source::start(&hub, 0);
    old.run(15);
    let mut viewer = attach(&hub).await;
    let mut seen = take(&mut viewer).await;
    let lost = old.publisher.lost();
    let mut new = Source::start(&hub, 7_000_000);
    assert!(lost.is_cancelled());
    assert_eq!(
        old.publisher.push(TagType::Video, 600, video(true, 10)),
        Err(EndReason::Replaced)
    );
    drop(old);
    assert_eq!(
        hub.stream(&key()).unwrap().phase(),
        Phase::Live,
        "the old one's end changes nothing"
    );
    new.run(15);
    let frames = take(&mut viewer).await;
    assert!(
        frames.iter().all(|f| f.role() == Role::Media),
        "the same headers are not repeated: {:?}",
        roles(&frames)
    );
    assert!(frames.iter().find(|f| f.kind() == TagType::Video).unwrap().key());
    seen.extend(frames);
    assert_rising(&seen);
    let gap = seen.iter().map(|f| f.dts_ms()).max().unwrap();
    assert!(gap < 40 * 31 + 200, "rebased without a gap: {gap}");
}

#[tokio::test(start_paused = true)]
async fn viewers_outlive_a_publisher_that_returns_within_the_linger() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(12);
    let mut viewer = attach(&hub).await;
    take(&mut viewer).await;
    drop(source);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut batch = Vec::new();
    assert_eq!(viewer.poll(&mut batch), Ok(false), "it waits");
    let mut source = Source::start(&hub, 0);
    source.run(4);
    let frames = take(&mut viewer).await;
    assert!(frames.iter().find(|f| f.kind() == TagType::Video).unwrap().key());
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_when_nobody_returns_within_the_linger() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(12);
    let mut viewer = attach(&hub).await;
    take(&mut viewer).await;
    source.publisher.end(EndReason::Client);
    let mut batch = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(20), viewer.next(&mut batch))
        .await
        .unwrap();
    assert_eq!(end, Err(EndReason::StreamEnded));
    assert!(hub.stream(&key()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_returning_publisher_with_other_headers_announces_them() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(12);
    let mut viewer = attach(&hub).await;
    take(&mut viewer).await;
    let publisher = hub.publish(key(), info(Protocol::Rtmp)).unwrap();
    let mut source = Source {
        publisher,
        frames: 0,
        clock_ms: 0,
    };
    let mut header = AVC_HEADER.to_vec();
    *header.last_mut().unwrap() = 0xCF;
    source.push(TagType::Video, buf(&header));
    source.push(TagType::Audio, buf(AAC_HEADER));
    source.run(2);
    let frames = take(&mut viewer).await;
    assert_eq!(roles(&frames)[0], (Role::Header, TagType::Video));
    assert!(
        !roles(&frames).contains(&(Role::Header, TagType::Audio)),
        "the audio header is the same"
    );
}

#[tokio::test(start_paused = true)]
async fn one_track_is_enough_after_a_bounded_wait() {
    let hub = Hub::new(HubOptions::default());
    let publisher = hub.publish(key(), info(Protocol::Rtmp)).unwrap();
    let mut source = Source {
        publisher,
        frames: 0,
        clock_ms: 0,
    };
    source.push(TagType::Audio, buf(AAC_HEADER));
    let waiting = tokio::spawn({
        let hub = hub.clone();
        async move { attach(&hub).await }
    });
    for _ in 0..60 {
        source.push(TagType::Audio, buf(&[0xAF, 1, 0x21]));
        source.clock_ms += 23;
        tokio::time::sleep(Duration::from_millis(23)).await;
    }
    let mut viewer = waiting.await.unwrap();
    assert_eq!(
        (viewer.tracks().has_video, viewer.tracks().has_audio),
        (false, true)
    );
    let frames = take(&mut viewer).await;
    assert!(frames.iter().any(|f| f.role() == Role::Media));
}

#[tokio::test(start_paused = true)]
async fn a_paused_viewer_resumes_at_a_key_frame_it_has_not_had() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(15);
    let mut viewer = attach(&hub).await;
    let seen = take(&mut viewer).await;
    viewer.skip_ahead();
    assert!(
        take(&mut viewer).await.is_empty(),
        "not before the next key frame"
    );
    source.run(10);
    let frames = take(&mut viewer).await;
    assert!(frames[0].key() && frames[0].dts_ms() > seen.last().unwrap().dts_ms());
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_viewers_and_publishers_and_lets_nobody_in() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(15);
    let mut viewer = attach(&hub).await;
    hub.shutdown();
    let mut batch = Vec::new();
    assert_eq!(viewer.next(&mut batch).await, Err(EndReason::Shutdown));
    assert!(source.publisher.lost().is_cancelled());
    assert_eq!(source.publisher.loss_reason(), EndReason::Shutdown);
    assert_eq!(
        hub.attach(&key(), info(Protocol::Flv)).await.unwrap_err(),
        AttachError::ShuttingDown
    );
    assert!(hub.publish(key(), info(Protocol::Rtmp)).is_err());
}

#[tokio::test(start_paused = true)]
async fn side_information_goes_only_to_players_that_understand_it() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(2);
    let mut legacy = attach(&hub).await;
    let mut enhanced = hub
        .attach(
            &key(),
            SessionInfo {
                enhanced: true,
                ..info(Protocol::Rtmp)
            },
        )
        .await
        .unwrap();
    take(&mut legacy).await;
    take(&mut enhanced).await;
    source.push(TagType::Video, buf(b"\xD4hvc1\x02\x00\x09colorInfo"));
    source.run(1);
    assert!(take(&mut legacy).await.iter().all(|f| f.role() == Role::Media));
    assert!(
        take(&mut enhanced)
            .await
            .iter()
            .any(|f| f.role() == Role::SideInfo)
    );
}

#[tokio::test(start_paused = true)]
async fn with_a_flush_interval_frames_wait_but_key_frames_do_not() {
    let flush = spillway_hub::Flush::Fixed(Duration::from_millis(300));
    let hub = Hub::new(HubOptions {
        flush,
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, 0);
    source.run(1);
    let mut viewer = attach(&hub).await;
    take(&mut viewer).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    source.run(1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(take(&mut viewer).await.is_empty());
    tokio::time::sleep(Duration::from_millis(301)).await;
    assert_eq!(
        take(&mut viewer)
            .await
            .iter()
            .filter(|f| f.kind() == TagType::Video)
            .count(),
        1
    );
    source.run(9);
    assert!(
        take(&mut viewer).await.iter().any(|f| f.key()),
        "the key frame went at once"
    );
}

#[tokio::test(start_paused = true)]
async fn an_automatic_flush_falls_on_a_picture() {
    for per_second in [24, 25, 30, 50, 60] {
        let hub = Hub::new(HubOptions {
            flush: spillway_hub::Flush::Auto {
                max: Duration::from_millis(100),
            },
            workers: 1,
            ..HubOptions::default()
        });
        let mut source = Source::start(&hub, 0);
        source.run(20);
        let mut crowd = Vec::new();
        for _ in 0..1000 {
            crowd.push(attach(&hub).await);
        }
        let viewer = crowd.first_mut().unwrap();
        let start = tokio::time::Instant::now();
        let begun_ms = source.clock_ms;
        let (mut flushes, mut late) = (0, Vec::new());
        // Audio each 23 ms, and looks at the viewer each millisecond.
        for ms in 1..3000u32 {
            tokio::time::sleep_until(start + Duration::from_millis(u64::from(ms))).await;
            source.clock_ms = begun_ms + ms;
            let picture = ms * per_second / 1000 > (ms - 1) * per_second / 1000;
            if picture {
                source.frames += 1;
                source.push(TagType::Video, video(source.frames.is_multiple_of(50), 100));
            } else if ms.is_multiple_of(23) {
                source.push(TagType::Audio, buf(&[0xAF, 1, 0x21, 0x10, 0x04]));
            }
            if !take(viewer).await.is_empty() && ms > 1000 {
                flushes += 1;
                if !picture {
                    late.push(ms);
                }
            }
        }
        assert!(
            late.is_empty(),
            "{per_second} a second: flushed without a picture at {late:?} ms"
        );
        assert!(
            (46..=62).contains(&flushes),
            "{per_second} a second: {flushes} flushes in 2 s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn parameter_sets_that_come_only_in_band_make_a_sequence_header() {
    let hub = Hub::new(HubOptions::default());
    let publisher = hub.publish(key(), info(Protocol::Rtmp)).unwrap();
    let mut source = Source {
        publisher,
        frames: 0,
        clock_ms: 0,
    };
    source.push(TagType::Video, buf(&[0x17, 0, 0, 0, 0]));
    source.push(TagType::Audio, buf(AAC_HEADER));
    let annex_b = [
        0x17, 1, 0, 0, 0, 0, 0, 0, 1, 0x67, 0x42, 0xC0, 0x1E, 0xD9, 0, 0, 1, 0x68, 0xCE, 0x3C, 0, 0, 1, 0x65,
        0x88,
    ];
    source.push(TagType::Video, buf(&annex_b));
    source.push(TagType::Audio, buf(&[0xAF, 1, 0x21]));
    let mut viewer = attach(&hub).await;
    let frames = take(&mut viewer).await;
    let video: Vec<_> = frames.iter().filter(|f| f.kind() == TagType::Video).collect();
    assert_eq!(video[0].role(), Role::Header);
    assert_eq!(video[1].data()[..5], [0, 0, 0, 5, 0x67], "length-prefixed");
}

#[tokio::test(start_paused = true)]
async fn short_nal_lengths_are_rewritten_for_every_viewer() {
    let hub = Hub::new(HubOptions::default());
    let publisher = hub.publish(key(), info(Protocol::Rtmp)).unwrap();
    let mut source = Source {
        publisher,
        frames: 0,
        clock_ms: 0,
    };
    let mut header = AVC_HEADER.to_vec();
    header[9] = 0xFD;
    source.push(TagType::Video, buf(&header));
    source.push(TagType::Audio, buf(AAC_HEADER));
    source.push(TagType::Video, buf(&[0x17, 1, 0, 0, 0, 0, 2, 0x65, 0x88]));
    source.push(TagType::Audio, buf(&[0xAF, 1, 0x21]));
    let mut viewer = attach(&hub).await;
    let frames = take(&mut viewer).await;
    let video: Vec<_> = frames.iter().filter(|f| f.kind() == TagType::Video).collect();
    assert_eq!(video[0].body()[9], 0xFF);
    assert_eq!(video[1].data()[..], [0, 0, 0, 2, 0x65, 0x88]);
}

/// What a new viewer gets.
async fn joined(hub: &Hub, info: SessionInfo) -> Vec<Arc<Frame>> {
    let mut viewer = hub.attach(&key(), info).await.unwrap();
    take(&mut viewer).await
}

#[tokio::test(start_paused = true)]
async fn a_first_key_frame_that_comes_late_still_has_its_header() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    for _ in 0..100 {
        source.push(TagType::Audio, buf(&[0xAF, 1, 0x21, 0x10]));
        source.clock_ms += 23;
        tokio::time::advance(Duration::from_millis(23)).await;
    }
    source.run(2);
    let frames = joined(&hub, info(Protocol::Flv)).await;
    assert!(roles(&frames).contains(&(Role::Header, TagType::Video)));
}

#[tokio::test(start_paused = true)]
async fn a_track_that_was_given_up_comes_back_with_its_header_and_metadata() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    for n in 0..30 {
        source.push(TagType::Video, video(n == 0, 50));
        source.clock_ms += 40;
        tokio::time::advance(Duration::from_millis(40)).await;
    }
    let mut viewer = attach(&hub).await;
    assert!(!viewer.tracks().has_audio, "only its header came");
    take(&mut viewer).await;
    source.push(TagType::Audio, buf(&[0xAF, 1, 0x21, 0x10]));
    let frames = take(&mut viewer).await;
    let expected = [
        (Role::Header, TagType::Audio),
        (Role::Metadata, TagType::Script),
        (Role::Media, TagType::Audio),
    ];
    assert_eq!(roles(&frames), expected);
}

#[tokio::test(start_paused = true)]
async fn a_new_publisher_does_not_inherit_the_old_ones_metadata() {
    let hub = Hub::new(HubOptions::default());
    let mut old = Source::start(&hub, 0);
    let mut metadata = b"\x02\x00\x0aonMetaData\x08\x00\x00\x00\x01\x00\x05width\x00".to_vec();
    metadata.extend(1920f64.to_be_bytes());
    metadata.extend([0, 0, 9]);
    old.push(TagType::Script, buf(&metadata));
    old.run(1);
    let mut new = Source::start(&hub, 0);
    new.run(1);
    let frames = joined(&hub, info(Protocol::Flv)).await;
    assert!(
        !frames[0]
            .body()
            .windows(8)
            .any(|bytes| bytes == 1920f64.to_be_bytes())
    );
}

#[tokio::test(start_paused = true)]
async fn viewers_of_nothing_never_keep_a_publisher_out() {
    let hub = Hub::new(HubOptions {
        max_streams: 2,
        ..HubOptions::default()
    });
    for n in 0..2 {
        let hub = hub.clone();
        let key = StreamKey::parse(&format!("live/{n}")).unwrap();
        tokio::spawn(async move { hub.attach(&key, info(Protocol::Flv)).await.map(drop) });
    }
    tokio::task::yield_now().await;
    let publish = |name: &str| hub.publish(StreamKey::parse(name).unwrap(), info(Protocol::Rtmp));
    let publishers = [publish("live/x"), publish("live/0"), publish("live/y")].map(|p| p.is_ok());
    assert_eq!(publishers, [true, true, false], "the third is one too many");
}

#[tokio::test(start_paused = true)]
async fn further_tracks_keep_the_time_of_the_track_they_go_with() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub, 0);
    source.run(3);
    source.push(TagType::Video, video(false, 10));
    source.clock_ms += 20;
    source.push(TagType::Audio, buf(&[0xAF, 1, 0x21, 0x10]));
    source.clock_ms -= 20;
    source.push(
        TagType::Video,
        buf(b"\xA6\x01avc1\x01\x00\x00\x00\x00\x00\x00\x01\x41"),
    );
    let frames = joined(
        &hub,
        SessionInfo {
            enhanced: true,
            ..info(Protocol::Rtmp)
        },
    )
    .await;
    let side = frames.iter().find(|f| f.role() == Role::SideInfo).unwrap();
    assert_eq!(side.dts_ms(), 120);
}

#[tokio::test(start_paused = true)]
async fn the_age_of_the_key_frame_counts_from_the_newest_or_from_where_the_publisher_began() {
    let hub = Hub::new(HubOptions::default());
    let age = |hub: &Hub| hub.streams()[0].snapshot().key_frame_age;
    let mut source = Source::start(&hub, 0);
    tokio::time::advance(Duration::from_secs(7)).await;
    assert_eq!(age(&hub), Some(Duration::from_secs(7)), "none came yet");
    source.run(1);
    tokio::time::advance(Duration::from_secs(3)).await;
    source.run(5);
    assert_eq!(age(&hub), Some(Duration::from_secs(3)), "frames between are none");
    let _successor = Source::start(&hub, 0);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(age(&hub), Some(Duration::from_secs(1)), "of its own");
}
