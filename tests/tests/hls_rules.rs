//! The rules of HLS, seen by a client of the running server. Rule names (P1 …, H1 …, R1 …) are those of RFC 8216 as
//! sorted in the project's notes.

use std::io::Read as _;
use std::time::Duration;

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::{publish_loop, publish_once};
use spillway_tests::gateway::{Gateway, Start};
use spillway_tests::hls::{self, Multivariant, Poller, Record};
use spillway_tests::http::{self, Request, Response};
use spillway_tests::process::Process;
use spillway_tests::wait::{secs, until};

const KEY: &str = "live/hls";

/// Segments of one second, so that windows pass in a few seconds.
fn quick() -> Start {
    Gateway::with().set("hls.segment_duration", "1s")
}

fn assert_cors(response: &Response, what: &str) {
    let origin = response.header("access-control-allow-origin");
    assert!(
        matches!(origin, Some("*" | "http://page.test")),
        "{what}: Access-Control-Allow-Origin {origin:?} (H7)"
    );
}

fn max_age(response: &Response) -> Option<f64> {
    let value = response.header("cache-control")?;
    value
        .split(',')
        .find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok())
}

/// Ten windows of playlists over two restarts of the publisher.
#[tokio::test(flavor = "multi_thread")]
async fn each_playlist_follows_from_the_one_before() {
    let gateway = quick().set("hls.window", "4").start().await;
    let mut publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    for _ in 0..2 {
        poller.wait_segments(secs(25), 8).await;
        publisher.kill().await;
        publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    }
    let record = poller.wait_segments(secs(30), 12).await;
    record.assert_no_problems();
    assert_eq!(
        record.discontinuities(),
        2,
        "one DISCONTINUITY for each restart (P14)"
    );
    let newest = record.newest.as_ref().expect("a playlist");
    let first = record.first.as_ref().expect("a playlist");
    let left = newest.discontinuity_sequence - first.discontinuity_sequence;
    assert_eq!(left, 2, "both DISCONTINUITY tags have left the window (P7)");
    assert_eq!(newest.target_duration, 1);
    assert!(
        newest.independent_segments,
        "each segment starts with a key frame and the playlist does not say so (P20)"
    );
    assert!(
        newest.segments.len() <= 4,
        "{} segments listed, 4 configured",
        newest.segments.len()
    );
    assert_sequence_has_no_hole(&record);
    publisher.kill().await;
}

fn assert_sequence_has_no_hole(record: &Record) {
    let sequences: Vec<u64> = record.segments.keys().copied().collect();
    for pair in sequences.windows(2) {
        assert_eq!(pair[0] + 1, pair[1], "media sequence numbers {sequences:?}");
    }
}

/// P10: while the publisher runs a new segment comes each segment duration.
#[tokio::test(flavor = "multi_thread")]
async fn new_segments_come_in_time() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(30), 7).await;
    record.assert_no_problems();
    let newest = record.newest.as_ref().expect("a playlist");
    assert_eq!(newest.target_duration, 2, "2 s is the default");
    assert!(
        newest.segments.len() <= 6,
        "6 listed is the default, not {}",
        newest.segments.len()
    );
    assert!(
        record.longest_wait <= Duration::from_millis(3200),
        "waited {:?} for a segment (P10)",
        record.longest_wait
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    let last = newest
        .segments
        .last()
        .and_then(|segment| segment.program_date_time_ms)
        .expect("a date");
    let age = i64::try_from(now.as_millis()).expect("fits") - last;
    assert!(
        (1000..9000).contains(&age),
        "the last listed segment is dated {age} ms ago (P13)"
    );
}

/// The whole of what was listed decodes without an error, and EXTINF tells its length.
#[tokio::test(flavor = "multi_thread")]
async fn segments_decode_without_error_when_joined() {
    let gateway = quick().start().await;
    let _publisher = publish_once(Clip::BFrames, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(30), 3).await;
    record.assert_no_problems();
    let frames =
        spillway_tests::frames::of_bytes(Clip::BFrames.ffmpeg(), &record.joined(), "joined.ts").await;
    frames.assert_no_errors("joined segments");
    let listed: f64 = record
        .segments
        .values()
        .map(|(segment, _)| segment.duration_s)
        .sum();
    #[allow(clippy::cast_precision_loss)]
    let pictures = frames.video.len() as f64;
    let expected = listed * f64::from(spillway_tests::clip::FPS);
    assert!(
        (pictures - expected).abs() <= 2.0,
        "{pictures} pictures in {listed:.3} s of EXTINF"
    );
}

/// P12, H5: listed, then retained for as many again, then 404 at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_listed_then_retained_then_gone() {
    let gateway = quick().set("hls.window", "3").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(30), 9).await;
    record.assert_no_problems();
    let folder = format!("/{KEY}/");
    let uri = |record: &Record, sequence: u64| {
        record
            .segments
            .get(&sequence)
            .map(|(segment, bytes)| (format!("{folder}{}", segment.uri), bytes.clone()))
    };
    let newest = *record.segments.keys().next_back().expect("segments");
    let first_listed = record.newest.as_ref().expect("a playlist").media_sequence;
    // The one delisted last is sure to be retained for some time yet.
    let (path, bytes) = uri(&record, first_listed - 1).expect("a delisted segment");
    let retained = gateway.get(&path).await;
    assert_eq!(
        retained.status, 200,
        "{path} left the window just now (newest is {newest}) (P12)"
    );
    assert_eq!(
        retained.body, bytes,
        "{path}: other bytes under the same name (P18)"
    );

    let started = std::time::Instant::now();
    let gone = until(secs(15), &format!("{path} to expire"), || async {
        let response = gateway.get(&path).await;
        (response.status != 200).then_some(response)
    })
    .await;
    let lived = started.elapsed();
    assert_eq!(gone.status, 404, "{path} expired");
    assert!(
        lived >= Duration::from_millis(1500),
        "retained for only {lived:?} after delisting (P12)"
    );
    assert_cors(&gone, "expired segment");
    assert_eq!(
        gone.header("cache-control"),
        Some("no-store"),
        "expired segment (H5)"
    );
    assert!(gone.body.len() < 512, "the 404 has {} bytes", gone.body.len());
    let asked = std::time::Instant::now();
    assert_eq!(gateway.get(&path).await.status, 404);
    assert!(
        asked.elapsed() < Duration::from_millis(200),
        "the 404 took {:?}",
        asked.elapsed()
    );
}

/// H19: an answer under way is not cut when its segment expires.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_under_way_is_completed() {
    let gateway = quick().set("hls.window", "3").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(20), 3).await;
    let (segment, bytes) = record.segments.values().next_back().expect("segments");
    let path = format!("/{KEY}/{}", segment.uri);
    let request = Request::get(&path).receive_buffer(spillway_tests::slow::SMALL_BUFFER);
    let mut slow = http::open(gateway.http, request).await.expect("an answer");
    let mut received = slow.next().await.expect("a body").expect("a piece").to_vec();
    until(secs(20), &format!("{path} to expire"), || async {
        (gateway.get(&path).await.status == 404).then_some(())
    })
    .await;
    while let Some(piece) = slow.next().await.expect("the rest of the body") {
        received.extend_from_slice(&piece);
    }
    assert!(
        slow.ended_cleanly(),
        "cut after {} of {} bytes",
        received.len(),
        bytes.len()
    );
    assert_eq!(received, *bytes, "the bytes of a response under way");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_carry_the_headers_players_need() {
    let gateway = quick().start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(20), 3).await;
    let media = hls::media_path(gateway.http, KEY).await;
    let segment = format!(
        "/{KEY}/{}",
        record.segments.values().next_back().expect("segments").0.uri
    );
    let multivariant = format!("/{KEY}/index.m3u8");
    for path in [&media, &multivariant] {
        let response = gateway.get(path).await;
        assert_eq!(
            response.header("content-type"),
            Some("application/vnd.apple.mpegurl"),
            "{path} (H1)"
        );
        assert_cors(&response, path);
        assert!(response.header("content-length").is_some(), "{path} (H11)");
        assert!(response.header("date").is_some(), "{path} (H17)");
        check_head(&gateway, path, &response).await;
        check_gzip(&gateway, path).await;
        let range = http::fetch(gateway.http, Request::get(path).header("Range", "bytes=0-")).await;
        assert!(
            matches!(range.status, 200 | 206),
            "{path}: Range: bytes=0- gave {} (H10)",
            range.status
        );
        check_preflight(&gateway, path).await;
    }
    let playlist = gateway.get(&media).await;
    assert!(
        max_age(&playlist).is_none_or(|age| age <= 1.0),
        "{:?} (H3)",
        playlist.header("cache-control")
    );
    check_not_modified(&gateway, &multivariant).await;

    let whole = gateway.get(&segment).await;
    assert_cors(&whole, "segment");
    assert!(
        max_age(&whole).is_some_and(|age| age >= 3.0),
        "{:?} (H4)",
        whole.header("cache-control")
    );
    assert!(
        whole.header("content-encoding").is_none(),
        "segments are not compressed (H2)"
    );
    check_head(&gateway, &segment, &whole).await;
    check_not_modified(&gateway, &segment).await;
    check_ranges(&gateway, &segment, &whole).await;
    check_preflight(&gateway, &segment).await;
}

/// H9.
async fn check_head(gateway: &Gateway, path: &str, get: &Response) {
    let head = http::fetch(gateway.http, Request::new("HEAD", path)).await;
    assert_eq!((head.status, head.body.len()), (200, 0), "HEAD {path}");
    for name in ["content-type", "cache-control", "access-control-allow-origin"] {
        assert_eq!(head.header(name), get.header(name), "HEAD {path}: {name}");
    }
    assert!(
        head.header("content-length").is_some(),
        "HEAD {path}: no Content-Length"
    );
}

/// H2.
async fn check_gzip(gateway: &Gateway, path: &str) {
    let packed = http::fetch(
        gateway.http,
        Request::get(path).header("Accept-Encoding", "gzip, deflate, br"),
    )
    .await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path} (H2)");
    let vary = packed.header("vary").unwrap_or_default().to_ascii_lowercase();
    assert!(vary.contains("accept-encoding"), "{path}: Vary {vary:?} (H2)");
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.body.as_ref())
        .read_to_string(&mut text)
        .expect("gzip");
    assert!(text.starts_with("#EXTM3U\n"), "{path}: {text}");
    let refused = http::fetch(
        gateway.http,
        Request::get(path).header("Accept-Encoding", "gzip;q=0, identity"),
    )
    .await;
    assert_eq!(
        refused.header("content-encoding"),
        None,
        "{path}: gzip;q=0 means no"
    );
}

/// H8.
async fn check_preflight(gateway: &Gateway, path: &str) {
    let request = Request::new("OPTIONS", path)
        .header("Access-Control-Request-Method", "GET")
        .header("Access-Control-Request-Headers", "range");
    let response = http::fetch(gateway.http, request).await;
    assert!(
        matches!(response.status, 200 | 204),
        "OPTIONS {path}: {}",
        response.status
    );
    assert_cors(&response, "preflight");
    let methods = response
        .header("access-control-allow-methods")
        .unwrap_or_default();
    assert!(
        methods == "*" || methods.contains("GET"),
        "OPTIONS {path}: methods {methods:?} (H8)"
    );
    let headers = response
        .header("access-control-allow-headers")
        .unwrap_or_default()
        .to_ascii_lowercase();
    assert!(
        headers == "*" || headers.contains("range"),
        "OPTIONS {path}: headers {headers:?} (H8)"
    );
}

/// H12. The playlist may have moved on between the two requests: then the answer is the new one.
async fn check_not_modified(gateway: &Gateway, path: &str) {
    let first = gateway.get(path).await;
    let tag = first
        .header("etag")
        .unwrap_or_else(|| panic!("{path} has no ETag (H12)"))
        .to_owned();
    let again = http::fetch(gateway.http, Request::get(path).header("If-None-Match", &tag)).await;
    if again.header("etag") == Some(tag.as_str()) {
        assert_eq!(
            (again.status, again.body.len()),
            (304, 0),
            "{path} If-None-Match (H12)"
        );
        assert_cors(&again, "304");
        assert_eq!(
            again.header("cache-control"),
            first.header("cache-control"),
            "{path}: 304 (H12)"
        );
    } else {
        assert_eq!(again.status, 200, "{path}");
    }
}

/// H10.
async fn check_ranges(gateway: &Gateway, path: &str, whole: &Response) {
    let total = whole.body.len();
    for (range, from, to) in [
        ("bytes=0-187", 0, 188),
        ("bytes=188-", 188, total),
        ("bytes=-376", total - 376, total),
        ("bytes=0-", 0, total),
        (&format!("bytes=100-{}", total * 2), 100, total),
    ] {
        let part = http::fetch(gateway.http, Request::get(path).header("Range", range)).await;
        assert_eq!(part.status, 206, "Range: {range}");
        assert_eq!(part.body, whole.body.slice(from..to), "Range: {range}");
        let expected = format!("bytes {from}-{}/{total}", to - 1);
        assert_eq!(
            part.header("content-range"),
            Some(expected.as_str()),
            "Range: {range}"
        );
        assert_cors(&part, range);
    }
    let beyond = http::fetch(
        gateway.http,
        Request::get(path).header("Range", &format!("bytes={total}-")),
    )
    .await;
    assert_eq!(beyond.status, 416, "Range beyond the end");
    assert_cors(&beyond, "416");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_multivariant_playlist_is_true() {
    let gateway = Gateway::with().start().await;
    let cases = [
        (Clip::Plain, "live/av", Some("320x180"), 2),
        (Clip::AudioOnly, "live/audio", None, 1),
        (Clip::VideoOnly, "live/video", Some("320x180"), 1),
    ];
    let publishers: Vec<Process> = cases
        .iter()
        .map(|(clip, key, ..)| publish_loop(*clip, &gateway.rtmp_url(key)))
        .collect();
    for (clip, key, resolution, codecs) in cases {
        gateway.wait_live(key).await;
        let text = gateway.get(&format!("/{key}/index.m3u8")).await.text();
        let playlist = Multivariant::parse(&text).unwrap_or_else(|error| panic!("{key}: {error}\n{text}"));
        assert_eq!(playlist.attribute("RESOLUTION"), resolution, "{key} (M4)");
        let list: Vec<&str> = playlist.attribute("CODECS").expect("CODECS").split(',').collect();
        assert_eq!(list.len(), codecs, "{key}: {list:?} (M3)");
        let named = |prefix: &str| list.iter().any(|codec| codec.starts_with(prefix));
        assert_eq!(named("avc1.6400"), clip.has_video(), "{key}: {list:?} (M3)");
        assert_eq!(named("mp4a.40.2"), clip.has_audio(), "{key}: {list:?} (M3)");
        let bandwidth: u64 = playlist
            .attribute("BANDWIDTH")
            .and_then(|value| value.parse().ok())
            .expect("BANDWIDTH");
        assert!(
            (40_000..2_000_000).contains(&bandwidth),
            "{key}: BANDWIDTH {bandwidth} (M1)"
        );
        let outer = gateway.get(&format!("/{key}.m3u8")).await;
        assert_eq!(outer.status, 200, "/{key}.m3u8");
        let outer = Multivariant::parse(&outer.text()).unwrap_or_else(|error| panic!("/{key}.m3u8: {error}"));
        let app = key.split_once('/').expect("an app").0;
        let media = gateway.get(&format!("/{app}/{}", outer.uri)).await;
        assert_eq!(media.status, 200, "the media playlist that /{key}.m3u8 names");
    }
    drop(publishers);
}

/// S6 and T4: a stream of one track is listed and decodes as that track.
#[tokio::test(flavor = "multi_thread")]
async fn one_track_is_enough() {
    let gateway = quick().start().await;
    for (clip, key) in [(Clip::AudioOnly, "live/audio"), (Clip::VideoOnly, "live/video")] {
        let _publisher = publish_loop(clip, &gateway.rtmp_url(key));
        gateway.wait_live(key).await;
        let poller = Poller::start(gateway.http, key).await;
        let record = poller.wait_segments(secs(30), 4).await;
        record.assert_no_problems();
        let newest = record.segments.values().next_back().expect("segments").1.clone();
        let frames = spillway_tests::frames::of_bytes(clip.ffmpeg(), &newest, "one.ts").await;
        assert_eq!(frames.video.is_empty(), !clip.has_video(), "{clip:?}");
        assert_eq!(frames.audio.is_empty(), !clip.has_audio(), "{clip:?}");
    }
}

/// X5: the first request is held, not refused, and the wait is one key frame interval and not more.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_is_held_until_there_is_something_to_play() {
    let gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    gateway.wait_live(KEY).await;
    let started = std::time::Instant::now();
    let path = hls::media_path(gateway.http, KEY).await;
    let playlist = hls::fetch_media(gateway.http, &path).await;
    assert!(
        !playlist.segments.is_empty(),
        "an empty playlist kills five of ten players"
    );
    assert!(
        started.elapsed() < secs(5),
        "held for {:?} with key frames 2 s apart",
        started.elapsed()
    );
}

/// A request before the publisher is held as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_come_before_the_publisher() {
    let gateway = Gateway::with().start().await;
    let request = gateway.get("/live/hls/index.m3u8");
    let publisher = async {
        gateway.wait_connections(gateway.http, 1).await;
        publish_loop(Clip::Plain, &gateway.rtmp_url(KEY))
    };
    let (response, _publisher) = tokio::join!(request, publisher);
    assert_eq!(response.status, 200, "{}", response.text());
}

/// R7: the packager stops when nobody asks any more, and goes on with higher numbers.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_packager_stops_and_goes_on_with_higher_numbers() {
    let gateway = quick().set("hls.idle_stop", "3s").start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(20), 4).await;
    drop(poller);
    let last = record.segments.values().next_back().expect("segments").0.clone();
    // Longer than the idle time without a request: the condition under test, nothing to be awaited.
    tokio::time::sleep(secs(8)).await;
    let poller = Poller::start(gateway.http, KEY).await;
    let record = poller.wait_segments(secs(20), 3).await;
    record.assert_no_problems();
    let first = record.segments.values().next().expect("segments").0.clone();
    assert!(
        first.sequence > last.sequence,
        "media sequence {} after {}",
        first.sequence,
        last.sequence
    );
    assert_ne!(first.uri, last.uri, "a name used twice");
    let (Some(before), Some(after)) = (last.program_date_time_ms, first.program_date_time_ms) else {
        panic!("segments without date");
    };
    assert!(
        after - before > 4000,
        "the packager ran on for {} ms without a request",
        after - before
    );
}

/// R2: a restart of the process goes on with higher numbers and other names.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_process_keeps_numbers_rising() {
    let mut names = Vec::new();
    let mut last = 0;
    for _ in 0..2 {
        let gateway = quick().start().await;
        let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
        let poller = Poller::start(gateway.http, KEY).await;
        let record = poller.wait_segments(secs(20), 4).await;
        let first = *record.segments.keys().next().expect("segments");
        assert!(
            first > last,
            "media sequence {first} after {last} of the process before"
        );
        last = *record.segments.keys().next_back().expect("segments");
        for (segment, _) in record.segments.values() {
            assert!(
                !names.contains(&segment.uri),
                "{} was used before the restart",
                segment.uri
            );
            names.push(segment.uri.clone());
        }
    }
}

/// R4: while the publisher is away the last playlist is served, and so are its segments.
#[tokio::test(flavor = "multi_thread")]
async fn the_playlist_stays_while_the_publisher_is_away() {
    let gateway = quick().set("publish.linger", "6s").start().await;
    let mut publisher = publish_once(Clip::Fat, &gateway.rtmp_url(KEY));
    let poller = Poller::start(gateway.http, KEY).await;
    poller.wait_segments(secs(20), 4).await;
    publisher.kill().await;
    // Half of the linger without a publisher.
    tokio::time::sleep(secs(3)).await;
    let path = hls::media_path(gateway.http, KEY).await;
    let playlist = hls::fetch_media(gateway.http, &path).await;
    assert!(!playlist.ended);
    for segment in &playlist.segments {
        let response = gateway.get(&format!("/{KEY}/{}", segment.uri)).await;
        assert_eq!(response.status, 200, "listed segment {} (P9)", segment.uri);
    }
    poller.record().assert_no_problems();
}

/// H16: names that were never a segment are refused cheaply.
#[tokio::test(flavor = "multi_thread")]
async fn strange_names_are_404_with_cors() {
    let gateway = quick().start().await;
    let _publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
    let _poller = Poller::start(gateway.http, KEY).await;
    for path in [
        "/live/hls/0.ts",
        "/live/hls/nothing.ts",
        "/live/hls/99999999999999999999999.ts",
        "/live/hls/media.exe",
        "/live/hls/..%2f..%2fetc%2fpasswd",
        "/live/hls/%00.ts",
    ] {
        let response = gateway.get(path).await;
        assert!(
            matches!(response.status, 400 | 404),
            "{path}: {}",
            response.status
        );
        assert_cors(&response, path);
    }
}
