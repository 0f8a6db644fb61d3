//! An HLS player: polls the playlist once per target duration and gets each new segment once.

use super::Turn;
use super::http::{Body, Head, HeadReader};
use super::playlist::{MediaPlaylist, Playlist, resolve};
use super::ts::TsScan;
use crate::clock::{MILLISECOND_NS, SECOND_NS};
use crate::error::LoadError;
use crate::meter::Watch;
use crate::url::Target;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Segments fetched back to back at the beginning.
const JOIN_SEGMENTS: usize = 3;
/// Pause before a playlist that was not there is asked for again.
const RETRY_NS: u64 = SECOND_NS;
/// One player in so many takes its segments apart.
const CHECK_EVERY: u64 = 50;
/// Longest playlist read.
const MAX_PLAYLIST_LEN: usize = 1 << 20;
/// Segments remembered for comparison.
const MAX_SEGMENTS: usize = 65_536;

/// Checksum and length of each segment as the first player got it.
#[derive(Debug, Default)]
pub(crate) struct Segments(HashMap<String, (u32, u64)>);

impl Segments {
    /// Whether a segment is the same as other players got it.
    fn same(&mut self, path: &str, content: (u32, u64)) -> bool {
        if self.0.len() >= MAX_SEGMENTS {
            self.0.clear();
        }
        match self.0.entry(path.to_owned()) {
            Entry::Occupied(known) => *known.get() == content,
            Entry::Vacant(place) => {
                place.insert(content);
                true
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Playlist,
    Segment,
}

/// A request that is to be made, or being made.
#[derive(Debug)]
struct Job {
    kind: Kind,
    path: String,
    due_ns: u64,
}

/// A response being read.
#[derive(Debug)]
struct Response {
    head: Head,
    body: Body,
    text: Vec<u8>,
    checksum: crc32fast::Hasher,
    bytes: u64,
}

/// One HLS player.
#[derive(Debug)]
pub(crate) struct HlsPlayer {
    target: Arc<Target>,
    playlist_path: String,
    jobs: VecDeque<Job>,
    /// Whether the first of the jobs has been asked for.
    asked: bool,
    connected: bool,
    head: HeadReader,
    response: Option<Response>,
    polled_ns: u64,
    target_ns: u64,
    last_sequence: Option<u64>,
    checker: Option<TsScan>,
}

impl HlsPlayer {
    /// A player of the playlist at `target` that begins at `now_ns`.
    pub(crate) fn new(target: Arc<Target>, number: u64, now_ns: u64) -> Self {
        let first = Job {
            kind: Kind::Playlist,
            path: target.path.clone(),
            due_ns: now_ns,
        };
        Self {
            playlist_path: target.path.clone(),
            target,
            jobs: VecDeque::from([first]),
            asked: false,
            connected: false,
            head: HeadReader::default(),
            response: None,
            polled_ns: now_ns,
            target_ns: 2 * SECOND_NS,
            last_sequence: None,
            checker: number.is_multiple_of(CHECK_EVERY).then(TsScan::default),
        }
    }

    /// The connection stands.
    pub(crate) fn connected(&mut self, turn: &mut Turn<'_>) {
        turn.moment.meter.connections += 1;
        self.connected = true;
        self.ask(turn);
    }

    /// A poll is due.
    pub(crate) fn wake(&mut self, turn: &mut Turn<'_>) {
        self.ask(turn);
    }

    /// The connection is gone: what was asked for is asked for again on a new one.
    pub(crate) fn closed(&mut self, turn: &mut Turn<'_>) -> bool {
        self.connected = false;
        self.head = HeadReader::default();
        let interrupted = self.response.take().is_some();
        turn.close = true;
        if std::mem::take(&mut self.asked) {
            turn.wake_ns = Some(turn.moment.now_ns);
        }
        if interrupted {
            *turn
                .moment
                .meter
                .losses
                .entry("HLS response cut off".to_owned())
                .or_default() += 1;
        }
        true
    }

    /// Takes what was read from the socket.
    pub(crate) fn read(
        &mut self,
        mut input: &[u8],
        turn: &mut Turn<'_>,
        watch: &mut Watch,
    ) -> Result<(), LoadError> {
        loop {
            if self.response.is_none() {
                let Some(head) = self.head.read(&mut input)? else {
                    return Ok(());
                };
                let body = Body::new(&head);
                let checksum = crc32fast::Hasher::new();
                self.response = Some(Response {
                    head,
                    body,
                    text: Vec::new(),
                    checksum,
                    bytes: 0,
                });
            }
            if !self.body(&mut input, turn, watch)? {
                return Ok(());
            }
            self.complete(turn, watch)?;
        }
    }

    /// Reads on in the body; whether it is complete.
    fn body(&mut self, input: &mut &[u8], turn: &mut Turn<'_>, watch: &mut Watch) -> Result<bool, LoadError> {
        let Some(response) = &mut self.response else {
            return Ok(false);
        };
        let kind = self.jobs.front().map(|job| job.kind);
        while let Some(piece) = response.body.read(input)? {
            response.bytes += piece.len() as u64;
            if kind == Some(Kind::Segment) {
                response.checksum.update(piece);
                if let Some(checker) = &mut self.checker {
                    checker.read(piece, &mut turn.moment, watch);
                }
            } else if response.text.len() + piece.len() <= MAX_PLAYLIST_LEN {
                response.text.extend_from_slice(piece);
            }
        }
        Ok(response.body.done())
    }

    /// Takes a complete response and goes on to the next request.
    fn complete(&mut self, turn: &mut Turn<'_>, watch: &mut Watch) -> Result<(), LoadError> {
        let (Some(response), Some(job)) = (self.response.take(), self.jobs.pop_front()) else {
            return Err(LoadError::Protocol("a response without a request"));
        };
        self.asked = false;
        let now_ns = turn.moment.now_ns;
        let label = match job.kind {
            Kind::Playlist => "playlist",
            Kind::Segment => "segment",
        };
        let in_window = turn.moment.in_window();
        let meter = &mut *turn.moment.meter;
        *meter.statuses.entry((label, response.head.status)).or_default() += 1;
        if in_window {
            let times = match job.kind {
                Kind::Playlist => &mut meter.playlist,
                Kind::Segment => &mut meter.segment,
            };
            times.record_ns(now_ns.saturating_sub(job.due_ns));
        }
        match job.kind {
            Kind::Segment => self.segment(&job.path, response.head.status, &response, turn, watch),
            Kind::Playlist if response.head.status == 200 => {
                self.playlist(&String::from_utf8_lossy(&response.text), now_ns)?;
            }
            Kind::Playlist => self.poll_at(now_ns + RETRY_NS),
        }
        if response.head.close {
            self.connected = false;
            turn.close = true;
        }
        if let Some(next) = self.jobs.front_mut().filter(|next| next.kind == Kind::Segment) {
            next.due_ns = next.due_ns.max(now_ns);
        }
        self.ask(turn);
        Ok(())
    }

    fn segment(
        &mut self,
        path: &str,
        status: u16,
        response: &Response,
        turn: &mut Turn<'_>,
        watch: &mut Watch,
    ) {
        if status != 200 {
            turn.moment.meter.listed_not_served += 1;
            return;
        }
        if let Some(checker) = &mut self.checker {
            checker.finish(&mut turn.moment, watch);
            if turn.moment.in_window() && checker.newest_sent_ns > 0 {
                let age_ns = turn.moment.now_ns.saturating_sub(checker.newest_sent_ns);
                turn.moment.meter.edge_age.record_ns(age_ns);
            }
        }
        watch.arrived(&mut turn.moment);
        let content = (response.checksum.clone().finalize(), response.bytes);
        turn.moment.meter.altered += u64::from(!turn.segments.same(path, content));
    }

    fn playlist(&mut self, text: &str, now_ns: u64) -> Result<(), LoadError> {
        match Playlist::parse(text) {
            None => Err(LoadError::Protocol("the playlist is none")),
            Some(Playlist::Multivariant(uri)) => {
                self.playlist_path = resolve(&self.playlist_path, &uri);
                self.poll_at(now_ns);
                Ok(())
            }
            Some(Playlist::Media(playlist)) => self.media_playlist(playlist, now_ns),
        }
    }

    fn media_playlist(&mut self, playlist: MediaPlaylist, now_ns: u64) -> Result<(), LoadError> {
        self.target_ns = playlist.target_s * SECOND_NS;
        let listed = playlist.segments.len();
        let newest = playlist.segments.last().map(|(sequence, _)| *sequence);
        if newest < self.last_sequence {
            return Err(LoadError::Protocol("the media sequence went back"));
        }
        let first_wanted = match self.last_sequence {
            Some(last) => last + 1,
            None => playlist
                .segments
                .get(listed.saturating_sub(JOIN_SEGMENTS))
                .map_or(0, |(sequence, _)| *sequence),
        };
        let before = self.jobs.len();
        for (sequence, uri) in playlist.segments {
            if sequence >= first_wanted {
                let path = resolve(&self.playlist_path, &uri);
                self.jobs.push_back(Job {
                    kind: Kind::Segment,
                    path,
                    due_ns: now_ns,
                });
            }
        }
        self.last_sequence = newest;
        if playlist.ended {
            return Ok(());
        }
        // RFC 8216 §6.3.4: one target duration from the last poll if the playlist changed, else half of it.
        let pause_ns = if self.jobs.len() > before {
            self.target_ns
        } else {
            self.target_ns / 2
        };
        self.poll_at((self.polled_ns + pause_ns).max(now_ns + MILLISECOND_NS));
        Ok(())
    }

    fn poll_at(&mut self, due_ns: u64) {
        self.jobs.push_back(Job {
            kind: Kind::Playlist,
            path: self.playlist_path.clone(),
            due_ns,
        });
    }

    /// Sends the next request if it is due, or asks to be called when it is.
    fn ask(&mut self, turn: &mut Turn<'_>) {
        let Some(job) = self.jobs.front() else { return };
        if self.asked {
            return;
        }
        if !self.connected || job.due_ns > turn.moment.now_ns {
            turn.wake_ns = Some(job.due_ns);
            return;
        }
        if job.kind == Kind::Playlist {
            self.polled_ns = job.due_ns;
        }
        let host = &self.target.host_port;
        let agent = concat!("spillway-load/", env!("CARGO_PKG_VERSION"));
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n",
            job.path
        );
        turn.out.extend_from_slice(request.as_bytes());
        self.asked = true;
    }
}
