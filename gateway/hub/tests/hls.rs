//! HLS as its requests meet it: first requests, publishers that leave and return, ends and rests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_hls::check::{self, Playlist};
use spillway_hub::hls::{HlsError, PlaylistBody};
use spillway_hub::{
    HlsMode, HlsOptions, Hub, HubOptions, Protocol, Publisher, SessionInfo, StreamKey, TagType,
};
use spillway_ts::walk::Walker;
use tokio::time::{Instant, sleep};

const AVC_HEADER: &[u8] = &[
    0x17, 0, 0, 0, 0, 1, 0x64, 0x00, 0x1E, 0xFF, 0xE1, 0, 24, 0x67, 0x64, 0x00, 0x1E, 0xAC, 0xD9, 0x40, 0xA0,
    0x3D, 0xA1, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x32, 0x0F, 0x16, 0x2D, 0x96, 1, 0, 6,
    0x68, 0xEB, 0xE3, 0xCB, 0x22, 0xC0,
];
const AAC_HEADER: &[u8] = &[0xAF, 0, 0x12, 0x10];

fn info() -> SessionInfo {
    SessionInfo::new(Protocol::Rtmp, SocketAddr::from(([127, 0, 0, 1], 9)))
}

fn key() -> StreamKey {
    StreamKey::parse("live/a").unwrap()
}

fn buf(body: &[u8]) -> Vec<u8> {
    [&[0; 11], body].concat()
}

fn hub(change: impl FnOnce(&mut HubOptions)) -> Hub {
    let mut options = HubOptions {
        linger: Duration::from_secs(5),
        ..HubOptions::default()
    };
    change(&mut options);
    Hub::new(options)
}

/// A publisher whose media runs with the (paused) clock: 25 pictures a second, a sound beside each.
struct Source {
    publisher: Publisher,
    gop: u32,
    frames: u32,
    with_audio: bool,
}

impl Source {
    fn start(hub: &Hub, gop: u32) -> Self {
        Self::with_headers(
            hub,
            gop,
            &[(TagType::Video, AVC_HEADER), (TagType::Audio, AAC_HEADER)],
        )
    }

    fn with_headers(hub: &Hub, gop: u32, headers: &[(TagType, &[u8])]) -> Self {
        let mut publisher = hub.publish(key(), info()).unwrap();
        for (kind, header) in headers {
            publisher.push(*kind, 0, buf(header)).unwrap();
        }
        Self {
            publisher,
            gop,
            frames: 0,
            with_audio: true,
        }
    }

    fn frame(&mut self) {
        let is_key = self.frames.is_multiple_of(self.gop);
        let mut body = vec![if is_key { 0x17 } else { 0x27 }, 1, 0, 0, 0, 0, 0, 0, 101];
        body.push(if is_key { 0x65 } else { 0x41 });
        body.resize(body.len() + 100, 0x55);
        self.publisher
            .push(TagType::Video, self.frames * 40, buf(&body))
            .unwrap();
        if self.with_audio {
            self.publisher
                .push(
                    TagType::Audio,
                    self.frames * 40 + 3,
                    buf(&[0xAF, 1, 0x21, 0x10, 0x04]),
                )
                .unwrap();
        }
        self.frames += 1;
    }

    /// Publishes for this long.
    async fn run(&mut self, duration: Duration) {
        let end = Instant::now() + duration;
        while Instant::now() < end {
            self.frame();
            sleep(Duration::from_millis(40)).await;
        }
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn read(body: &PlaylistBody) -> Playlist {
    let text = std::str::from_utf8(&body.text).unwrap();
    check::media(text).unwrap_or_else(|violation| panic!("{violation}\n{text}"))
}

async fn media(hub: &Hub) -> Playlist {
    read(&hub.hls().media(&key()).await.unwrap())
}

/// Fetches every listed segment and reads it strictly.
fn fetch_all(hub: &Hub, playlist: &Playlist) {
    let mut walker = Walker::new();
    for entry in &playlist.entries {
        let segment = hub
            .hls()
            .segment(&key(), &entry.uri)
            .expect("a listed segment is there");
        let bytes = segment.parts.concat();
        assert_eq!(bytes.len() as u64, segment.bytes);
        assert!(u64::from(segment.max_age_s) >= playlist.target_duration_s);
        if let Err(violation) = walker.segment(&bytes, entry.discontinuity) {
            panic!("{}: {violation}", entry.uri);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_request_finds_a_window_of_what_was_there() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(20)).await;
    let asked = Instant::now();
    let playlist = media(&hub).await;
    assert!(
        asked.elapsed() < Duration::from_millis(50),
        "{:?}",
        asked.elapsed()
    );
    assert!(playlist.entries.len() >= 5, "{}", playlist.entries.len());
    assert_eq!(playlist.target_duration_s, 2);
    assert!(playlist.independent && !playlist.ended);
    fetch_all(&hub, &playlist);
    assert!(hub.hls().bytes() > 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_first_requests_start_one_packager() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(10)).await;
    let requests: Vec<_> = (0..1000)
        .map(|_| {
            let hub = hub.clone();
            tokio::spawn(async move { hub.hls().media(&key()).await.unwrap() })
        })
        .collect();
    let mut bodies = Vec::new();
    for request in requests {
        bodies.push(request.await.unwrap());
    }
    assert!(bodies.iter().all(|body| Arc::ptr_eq(body, &bodies[0])));
}

#[tokio::test(start_paused = true)]
async fn an_early_viewer_waits_for_the_publisher() {
    let hub = hub(|_| {});
    let early = {
        let hub = hub.clone();
        tokio::spawn(async move { hub.hls().multivariant(&key()).await })
    };
    sleep(seconds(2)).await;
    let mut source = Source::start(&hub, 25);
    source.run(seconds(3)).await;
    let body = early.await.unwrap().unwrap();
    let text = String::from_utf8(body.text.to_vec()).unwrap();
    assert!(
        text.contains("CODECS=\"avc1.64001E,mp4a.40.2\",RESOLUTION=640x480"),
        "{text}"
    );
    assert!(text.ends_with("\nmedia.m3u8\n"));
    let outer = hub.hls().multivariant_outer(&key()).await.unwrap();
    assert!(outer.text.ends_with(b"\na/media.m3u8\n"));
}

#[tokio::test(start_paused = true)]
async fn without_a_publisher_there_is_nothing_after_the_wait() {
    let hub = hub(|_| {});
    let asked = Instant::now();
    assert_eq!(hub.hls().media(&key()).await.unwrap_err(), HlsError::NotFound);
    assert_eq!(asked.elapsed(), seconds(8));
    assert!(hub.streams().is_empty());
    assert!(hub.hls().segment(&key(), "x-0-1.ts").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_long_gop_is_cut_when_the_first_request_has_waited_long_enough() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 1000);
    source.run(Duration::from_millis(400)).await;
    let asked = Instant::now();
    let waiting = {
        let hub = hub.clone();
        tokio::spawn(async move { media(&hub).await })
    };
    source.run(seconds(9)).await;
    let first = waiting.await.unwrap();
    assert!(asked.elapsed() >= seconds(8));
    assert_eq!(first.entries.len(), 1);
    assert_eq!(
        first.target_duration_s, 12,
        "room for hls.max_segment_duration: the GOP is not known yet"
    );
    assert!(first.independent);
    source.run(seconds(20)).await;
    let later = media(&hub).await;
    check::successive(&first, &later).unwrap();
    assert!(!later.independent);
    fetch_all(&hub, &later);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_anything_to_play_is_not_ready() {
    let hub = hub(|_| {});
    let _source = Source::start(&hub, 25);
    assert_eq!(
        hub.hls().media(&key()).await.unwrap_err(),
        HlsError::NotReady { retry_after_s: 1 }
    );
}

#[tokio::test(start_paused = true)]
async fn polled_playlists_follow_from_each_other_over_many_windows() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(3)).await;
    let mut before = media(&hub).await;
    for _ in 0..60 {
        source.run(seconds(1)).await;
        let after = media(&hub).await;
        check::successive(&before, &after).unwrap();
        fetch_all(&hub, &after);
        before = after;
    }
    assert_eq!(before.entries.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_publisher_that_comes_back_goes_on_with_a_discontinuity() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(Duration::from_millis(8400)).await;
    let live = media(&hub).await;
    drop(source);
    sleep(seconds(1)).await;
    let away = media(&hub).await;
    check::successive(&live, &away).unwrap();
    // The open segment was finished and listed; then nothing changes.
    assert_eq!(away.entries.len(), live.entries.len() + 1);
    sleep(seconds(3)).await;
    assert_eq!(media(&hub).await, away);
    fetch_all(&hub, &away);
    let mut source = Source::start(&hub, 25);
    source.run(seconds(4)).await;
    let back = media(&hub).await;
    check::successive(&away, &back).unwrap();
    assert_eq!(back.entries.iter().filter(|entry| entry.discontinuity).count(), 1);
    fetch_all(&hub, &back);
}

#[tokio::test(start_paused = true)]
async fn a_takeover_is_a_discontinuity_too() {
    let hub = hub(|_| {});
    let mut first = Source::start(&hub, 25);
    first.run(seconds(5)).await;
    let before = media(&hub).await;
    let mut second = Source::start(&hub, 25);
    second.run(seconds(5)).await;
    let after = media(&hub).await;
    check::successive(&before, &after).unwrap();
    assert_eq!(
        after.entries.iter().filter(|entry| entry.discontinuity).count(),
        1
    );
    fetch_all(&hub, &after);
}

#[tokio::test(start_paused = true)]
async fn an_ended_stream_says_so_for_a_while_and_is_then_forgotten() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    let live = media(&hub).await;
    drop(source);
    sleep(seconds(6)).await;
    let ended = media(&hub).await;
    assert!(ended.ended);
    check::successive(&live, &ended).unwrap();
    fetch_all(&hub, &ended);
    sleep(seconds(61)).await;
    assert!(hub.hls().segment(&key(), &ended.entries[0].uri).is_none());
    assert_eq!(hub.hls().bytes(), 0);
    assert_eq!(hub.hls().media(&key()).await.unwrap_err(), HlsError::NotFound);
    // Forgotten, but its numbers are not used again.
    let mut source = Source::start(&hub, 25);
    source.run(seconds(5)).await;
    let anew = media(&hub).await;
    assert!(anew.media_sequence >= ended.media_sequence + ended.entries.len() as u64);
    assert!(anew.discontinuity_sequence > ended.discontinuity_sequence);
}

#[tokio::test(start_paused = true)]
async fn strangers_who_wait_for_an_ended_stream_do_not_keep_its_playlist() {
    let hub = hub(|options| options.play_wait = seconds(1));
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    let live = media(&hub).await;
    drop(source);
    sleep(seconds(6)).await;
    assert!(media(&hub).await.ended);
    for _ in 0..60 {
        assert!(hub.attach(&key(), info()).await.is_err());
        sleep(seconds(1)).await;
    }
    assert!(hub.hls().segment(&key(), &live.entries[0].uri).is_none());
    assert_eq!(hub.hls().bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_published_anew_after_its_end_counts_on() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    media(&hub).await;
    drop(source);
    sleep(seconds(6)).await;
    let ended = media(&hub).await;
    let mut source = Source::start(&hub, 50);
    source.run(seconds(5)).await;
    let anew = media(&hub).await;
    assert!(!anew.ended);
    assert_eq!(
        anew.media_sequence,
        ended.media_sequence + ended.entries.len() as u64
    );
    assert!(anew.discontinuity_sequence >= ended.discontinuity_sequence);
    assert!(anew.entries[0].discontinuity);
    // What was listed at the end is still there.
    fetch_all(&hub, &ended);
}

#[tokio::test(start_paused = true)]
async fn an_unwatched_packager_rests_and_numbers_go_on() {
    let hub = hub(|options| options.hls.idle_stop = seconds(10));
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    let before = media(&hub).await;
    source.run(seconds(11)).await;
    let rested = hub.hls().bytes();
    source.run(seconds(60)).await;
    assert_eq!(hub.hls().bytes(), rested);
    fetch_all(&hub, &before);
    let asked = Instant::now();
    let after = media(&hub).await;
    assert!(asked.elapsed() < Duration::from_millis(50));
    assert!(after.media_sequence > before.media_sequence + before.entries.len() as u64 - 1);
    assert!(after.entries[0].discontinuity);
    assert!(after.entries.len() >= 5);
    fetch_all(&hub, &after);
    source.run(seconds(3)).await;
    check::successive(&after, &media(&hub).await).unwrap();
}

#[tokio::test(start_paused = true)]
async fn segment_requests_alone_keep_a_packager_awake() {
    let hub = hub(|options| options.hls.idle_stop = seconds(4));
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    let before = media(&hub).await;
    for _ in 0..8 {
        source.run(seconds(2)).await;
        hub.hls().segment(&key(), &before.entries.last().unwrap().uri);
    }
    let after = media(&hub).await;
    check::successive(&before, &after).unwrap();
    assert!(after.entries.iter().all(|entry| !entry.discontinuity));
}

#[tokio::test(start_paused = true)]
async fn a_resting_packagers_playlist_is_ended_with_its_stream() {
    let hub = hub(|options| options.hls.idle_stop = seconds(5));
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    media(&hub).await;
    source.run(seconds(8)).await;
    drop(source);
    sleep(seconds(6)).await;
    assert!(media(&hub).await.ended);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_every_playlist_and_frees_who_waits() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(8)).await;
    media(&hub).await;
    let early = {
        let hub = hub.clone();
        tokio::spawn(async move { hub.hls().media(&StreamKey::parse("live/none").unwrap()).await })
    };
    sleep(Duration::from_millis(10)).await;
    let asked = Instant::now();
    hub.shutdown();
    assert!(early.await.unwrap().is_err());
    assert!(asked.elapsed() <= Duration::from_millis(300));
    let last = media(&hub).await;
    assert!(last.ended);
    fetch_all(&hub, &last);
}

#[tokio::test(start_paused = true)]
async fn an_always_on_packager_needs_no_request_and_never_rests() {
    let hub = hub(|options| {
        options.hls = HlsOptions {
            mode: HlsMode::Always,
            idle_stop: seconds(1),
            ..HlsOptions::default()
        };
    });
    let mut source = Source::start(&hub, 25);
    source.run(seconds(30)).await;
    assert!(hub.hls().bytes() > 10_000);
    let playlist = media(&hub).await;
    assert_eq!(playlist.entries.len(), 6);
    drop(source);
    sleep(seconds(6)).await;
    assert!(media(&hub).await.ended);
    let mut source = Source::start(&hub, 25);
    source.run(seconds(4)).await;
    assert!(!media(&hub).await.ended);
}

#[tokio::test(start_paused = true)]
async fn without_hls_there_are_no_playlists() {
    let hub = hub(|options| options.hls.mode = HlsMode::Off);
    let mut source = Source::start(&hub, 25);
    source.run(seconds(5)).await;
    assert_eq!(hub.hls().media(&key()).await.unwrap_err(), HlsError::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_track_that_ts_cannot_carry_is_left_out_and_reported() {
    let hub = hub(|_| {});
    // G.711 A-law beside H.264.
    let mut source = Source::with_headers(&hub, 25, &[(TagType::Video, AVC_HEADER)]);
    source.with_audio = false;
    for _ in 0..100 {
        source.frame();
        let at = source.frames * 40;
        source
            .publisher
            .push(TagType::Audio, at, buf(&[0x72, 0x55, 0x55]))
            .unwrap();
        sleep(Duration::from_millis(40)).await;
    }
    let playlist = media(&hub).await;
    fetch_all(&hub, &playlist);
    let multivariant = hub.hls().multivariant(&key()).await.unwrap();
    let text = String::from_utf8(multivariant.text.to_vec()).unwrap();
    assert!(text.contains("CODECS=\"avc1.64001E\""), "{text}");
    let omitted = hub.stream(&key()).unwrap().snapshot().omitted;
    assert_eq!(omitted, ["hls: g711a audio"]);
}

#[tokio::test(start_paused = true)]
async fn delisted_segments_stay_for_a_window_and_then_go() {
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(14)).await;
    let before = media(&hub).await;
    let first = &before.entries[0].uri;
    source.run(seconds(8)).await;
    let after = media(&hub).await;
    assert!(after.entries.iter().all(|entry| entry.uri != *first));
    let held = hub.hls().segment(&key(), first).expect("retained");
    source.run(seconds(14)).await;
    assert!(hub.hls().segment(&key(), first).is_none());
    // Whoever was being sent it still has it.
    assert_eq!(held.parts.concat().len() as u64, held.bytes);
}

#[tokio::test(start_paused = true)]
async fn gzip_unpacks_to_the_same_text() {
    use std::io::Read;
    let hub = hub(|_| {});
    let mut source = Source::start(&hub, 25);
    source.run(seconds(14)).await;
    let body = hub.hls().media(&key()).await.unwrap();
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&body.gzip[..])
        .read_to_end(&mut text)
        .unwrap();
    assert_eq!(text, body.text);
    assert!(body.gzip.len() * 2 < body.text.len());
    assert_eq!(body.max_age_ms, 1000);
    let again = hub.hls().media(&key()).await.unwrap();
    assert!(Arc::ptr_eq(&body, &again));
    source.run(seconds(2)).await;
    assert_ne!(hub.hls().media(&key()).await.unwrap().etag, body.etag);
}
