//! A client that polls the media playlist, fetches each new segment at once and checks each playlist against the one
//! before (rules P6 to P13 and R1 of the project's HLS notes).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::playlist::{MediaPlaylist, Multivariant, Segment};
use crate::http::{self, Request};
use crate::wait::until;

const POLL: Duration = Duration::from_millis(150);
const TS_PACKET: usize = 188;

/// The path of the media playlist, as the multivariant playlist names it.
///
/// # Panics
/// When there is no good multivariant playlist.
pub async fn media_path(http: SocketAddr, key: &str) -> String {
    let path = format!("/{key}/index.m3u8");
    let response = http::get(http, &path).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    let playlist = Multivariant::parse(&response.text())
        .unwrap_or_else(|error| panic!("{path}: {error}\n{}", response.text()));
    format!("/{key}/{}", playlist.uri)
}

/// The media playlist now.
///
/// # Panics
/// When it is not served or breaks a rule.
pub async fn fetch_media(http: SocketAddr, path: &str) -> MediaPlaylist {
    let response = http::get(http, path).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    MediaPlaylist::parse(&response.text())
        .unwrap_or_else(|error| panic!("{path}: {error}\n{}", response.text()))
}

/// What the poller saw.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Rules broken, in words.
    pub problems: Vec<String>,
    /// Each segment ever listed, with its bytes.
    pub segments: BTreeMap<u64, (Segment, Bytes)>,
    /// The first playlist.
    pub first: Option<MediaPlaylist>,
    /// The newest playlist.
    pub newest: Option<MediaPlaylist>,
    /// Longest time without a new segment while the stream was live.
    pub longest_wait: Duration,
    /// Number of playlists fetched.
    pub polls: usize,
    window_filled: bool,
}

impl Record {
    /// Fails if a rule was broken.
    ///
    /// # Panics
    /// With the rules broken.
    pub fn assert_no_problems(&self) {
        assert!(
            self.problems.is_empty(),
            "HLS rules broken:\n{}",
            self.problems.join("\n")
        );
    }

    /// Listed segments that carry DISCONTINUITY.
    #[must_use]
    pub fn discontinuities(&self) -> usize {
        self.segments
            .values()
            .filter(|(segment, _)| segment.discontinuity)
            .count()
    }

    /// All bytes of all segments in order.
    #[must_use]
    pub fn joined(&self) -> Vec<u8> {
        self.segments
            .values()
            .flat_map(|(_, bytes)| bytes.iter().copied())
            .collect()
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < 50 {
            self.problems.push(text);
        }
    }

    fn compare(&mut self, before: &MediaPlaylist, now: &MediaPlaylist) {
        if before.ended && before != now {
            self.problem("the playlist changed after ENDLIST (P16)".to_owned());
        }
        if now.target_duration != before.target_duration {
            self.problem(format!(
                "TARGETDURATION {} became {} (P4)",
                before.target_duration, now.target_duration
            ));
        }
        if now.media_sequence < before.media_sequence {
            self.problem(format!(
                "MEDIA-SEQUENCE fell from {} to {} (P6)",
                before.media_sequence, now.media_sequence
            ));
            return;
        }
        let removed = before
            .segments
            .iter()
            .filter(|segment| segment.sequence < now.media_sequence);
        let dropped_tags = removed.filter(|segment| segment.discontinuity).count() as u64;
        let next = before.media_sequence + before.segments.len() as u64;
        if now.media_sequence <= next
            && now.discontinuity_sequence != before.discontinuity_sequence + dropped_tags
        {
            self.problem(format!(
                "DISCONTINUITY-SEQUENCE {} became {} while {dropped_tags} tags left the window (P7)",
                before.discontinuity_sequence, now.discontinuity_sequence
            ));
        }
        for segment in &before.segments {
            let Some(index) = segment.sequence.checked_sub(now.media_sequence) else {
                continue;
            };
            let same = usize::try_from(index)
                .ok()
                .and_then(|index| now.segments.get(index));
            match same {
                None => self.problem(format!("segment {} vanished from the end (P8)", segment.uri)),
                Some(same) if same != segment => {
                    self.problem(format!(
                        "listed segment changed (P8): {segment:?} became {same:?}"
                    ));
                }
                Some(_) => {}
            }
        }
        for segment in &now.segments {
            let known = self.segments.values().find(|(old, _)| old.uri == segment.uri);
            if let Some((old, _)) = known.filter(|(old, _)| old.sequence != segment.sequence) {
                let text = format!(
                    "name {} used for {} and {} (P18)",
                    old.uri, old.sequence, segment.sequence
                );
                self.problem(text);
            }
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn check_window(&mut self, now: &MediaPlaylist) {
        let enough = now.duration_s() >= 3.0 * now.target_duration as f64 - 0.01;
        if self.window_filled && !enough && !now.ended {
            self.problem(format!(
                "window fell to {:.2} s, under 3 target durations (P11)",
                now.duration_s()
            ));
        }
        self.window_filled |= enough;
    }
}

/// The polling client; stops on drop.
pub struct Poller {
    record: Arc<Mutex<Record>>,
    task: JoinHandle<()>,
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Poller {
    /// Starts polling `/key/…` as the multivariant playlist says.
    pub async fn start(http: SocketAddr, key: &str) -> Self {
        let path = media_path(http, key).await;
        let record = Arc::new(Mutex::new(Record::default()));
        let task = tokio::spawn(poll(http, path, Arc::clone(&record)));
        Self { record, task }
    }

    /// What it saw so far.
    #[must_use]
    pub fn record(&self) -> Record {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `wanted` is true of the record.
    ///
    /// # Panics
    /// When it is not within `limit`; the message holds the newest playlist.
    pub async fn wait(&self, limit: Duration, what: &str, wanted: impl Fn(&Record) -> bool) -> Record {
        let shown = || {
            let record = self.record();
            format!(
                "{what}; problems {:?}; newest playlist {:#?}",
                record.problems, record.newest
            )
        };
        let started = Instant::now();
        until(limit + Duration::from_secs(5), what, || async {
            let record = self.record();
            if wanted(&record) {
                return Some(record);
            }
            assert!(
                started.elapsed() < limit,
                "waited {limit:?} in vain for: {}",
                shown()
            );
            None
        })
        .await
    }

    /// Waits for `count` more segments than are known now.
    pub async fn wait_segments(&self, limit: Duration, count: usize) -> Record {
        let wanted = self.record().segments.len() + count;
        self.wait(limit, &format!("{count} more segments"), |record| {
            record.segments.len() >= wanted
        })
        .await
    }
}

async fn poll(http: SocketAddr, path: String, shared: Arc<Mutex<Record>>) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let mut last_new = Instant::now();
    loop {
        let answer = http::send(http, Request::get(&path)).await;
        let now = match answer {
            Err(error) => Err(format!("{path}: {error}")),
            Ok(answer) if answer.status != 200 => {
                Err(format!("{path}: {} (P: never an error)", answer.status))
            }
            Ok(answer) => {
                MediaPlaylist::parse(&answer.text()).map_err(|error| format!("{error}\n{}", answer.text()))
            }
        };
        let mut fresh = Vec::new();
        {
            let mut record = shared.lock().unwrap_or_else(PoisonError::into_inner);
            record.polls += 1;
            match now {
                Err(problem) => record.problem(problem),
                Ok(now) => {
                    if let Some(before) = record.newest.clone() {
                        record.compare(&before, &now);
                    }
                    record.check_window(&now);
                    let listed = now
                        .segments
                        .iter()
                        .filter(|segment| !record.segments.contains_key(&segment.sequence));
                    fresh.extend(listed.cloned());
                    if record.first.is_none() {
                        record.first = Some(now.clone());
                    }
                    record.newest = Some(now);
                }
            }
        }
        for segment in fresh {
            let waited = last_new.elapsed();
            last_new = Instant::now();
            let body = fetch_segment(http, &format!("{folder}/{}", segment.uri)).await;
            let mut record = shared.lock().unwrap_or_else(PoisonError::into_inner);
            record.longest_wait = record.longest_wait.max(waited);
            let bytes = body.unwrap_or_else(|problem| {
                record.problem(problem);
                Bytes::new()
            });
            record.segments.insert(segment.sequence, (segment, bytes));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn fetch_segment(http: SocketAddr, path: &str) -> Result<Bytes, String> {
    let answer = http::send(http, Request::get(path))
        .await
        .map_err(|error| format!("{path}: {error}"))?;
    if answer.status != 200 {
        return Err(format!("listed segment {path}: {} (P9)", answer.status));
    }
    let length = answer
        .header("content-length")
        .and_then(|value| value.parse::<usize>().ok());
    if length != Some(answer.body.len()) {
        return Err(format!(
            "{path}: Content-Length {length:?}, {} bytes (H11)",
            answer.body.len()
        ));
    }
    if answer.header("content-type") != Some("video/mp2t") {
        return Err(format!(
            "{path}: Content-Type {:?} (H1)",
            answer.header("content-type")
        ));
    }
    let whole_packets = answer.body.len().is_multiple_of(TS_PACKET) && !answer.body.is_empty();
    if !whole_packets
        || answer
            .body
            .chunks(TS_PACKET)
            .any(|packet| packet.first() != Some(&0x47))
    {
        return Err(format!(
            "{path}: {} bytes are no whole TS packets (T1)",
            answer.body.len()
        ));
    }
    Ok(answer.body)
}
