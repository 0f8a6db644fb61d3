//! Viewers in lanes: every byte arrives once and in order, however slowly a socket takes it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use spillway_hub::{
    Batch, EndReason, Format, Hub, HubOptions, LeftReason, Protocol, Publisher, Seat, SessionInfo, Sink,
    StreamKey, TagType, Viewer,
};

/// A socket that takes `room` bytes before it blocks.
#[derive(Debug, Default)]
struct Pipe {
    taken: Mutex<Vec<u8>>,
    room: AtomicUsize,
    writes: AtomicUsize,
    broken: std::sync::atomic::AtomicBool,
    panics: std::sync::atomic::AtomicBool,
}

impl Pipe {
    fn new(room: usize) -> Arc<Self> {
        Arc::new(Self {
            room: AtomicUsize::new(room),
            ..Self::default()
        })
    }
}

impl Sink for Pipe {
    fn try_write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "a bug in one write");
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut taken = self.taken.lock();
        let mut count = 0;
        for byte in slices.iter().flat_map(|slice| slice.iter()) {
            if self.room.load(Ordering::Relaxed) == 0 {
                break;
            }
            self.room.fetch_sub(1, Ordering::Relaxed);
            taken.push(*byte);
            count += 1;
        }
        if count == 0 {
            Err(io::ErrorKind::WouldBlock.into())
        } else {
            Ok(count)
        }
    }
}

fn key() -> StreamKey {
    StreamKey::parse("live/a").unwrap()
}

fn info(protocol: Protocol) -> SessionInfo {
    SessionInfo::new(protocol, SocketAddr::from(([127, 0, 0, 1], 9)))
}

struct Source {
    publisher: Publisher,
    frames: u32,
}

impl Source {
    fn start(hub: &Hub) -> Self {
        let mut source = Self {
            publisher: hub.publish(key(), info(Protocol::Rtmp)).unwrap(),
            frames: 0,
        };
        let avc = [
            0x17, 0, 0, 0, 0, 1, 0x42, 0xC0, 0x1E, 0xFF, 0xE1, 0, 4, 0x67, 0x42, 0xC0, 0x1E, 1, 0, 2, 0x68,
            0xCE,
        ];
        source.push(TagType::Video, &avc);
        source.push(TagType::Audio, &[0xAF, 0, 0x12, 0x10]);
        source
    }

    fn push(&mut self, kind: TagType, body: &[u8]) {
        let buf = [&[0; 11], body].concat();
        self.publisher.push(kind, self.frames * 40, buf).unwrap();
    }

    fn frame(&mut self, size: usize) {
        let key = self.frames.is_multiple_of(10);
        let mut body = vec![if key { 0x17 } else { 0x27 }, 1, 0, 0, 0];
        body.extend_from_slice(&u32::try_from(size).unwrap().to_be_bytes());
        body.push(if key { 0x65 } else { 0x41 });
        body.resize(9 + size, u8::try_from(self.frames % 251).unwrap());
        self.push(TagType::Video, &body);
        self.push(TagType::Audio, &[0xAF, 1, 0x21, 0x10]);
        self.frames += 1;
    }
}

/// A viewer's own task, as a connection would run it.
struct Driver {
    viewer: Viewer,
    batch: Batch,
    pipe: Arc<Pipe>,
    format: Format,
    seat: Option<Seat>,
}

impl Driver {
    async fn attach(hub: &Hub, format: Format, pipe: Arc<Pipe>) -> Self {
        let viewer = hub.attach(&key(), info(format.protocol())).await.unwrap();
        Self {
            viewer,
            batch: Batch::new(format),
            pipe,
            format,
            seat: None,
        }
    }

    /// Writes until there is nothing more or the pipe is full; takes a seat when up to date.
    fn drive(&mut self) {
        if let Some(seat) = self.seat.take() {
            let left = self.viewer.stand(seat);
            if let Some((frame, written)) = left.partial {
                self.batch.resume(frame, written);
            }
        }
        loop {
            if self.batch.is_done() && !self.viewer.poll(self.batch.refill()).unwrap() {
                break;
            }
            if self
                .batch
                .write_with(|slices| self.pipe.try_write_slices(slices))
                .is_err()
            {
                return;
            }
        }
        self.seat = self.viewer.sit(self.format, &self.pipe);
    }
}

/// Lets lanes do what they can.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_seated_viewer_gets_the_same_bytes_as_one_that_serves_itself() {
    for format in [Format::Rtmp, Format::Flv, Format::FlvChunked, Format::Ws] {
        let hub = Hub::new(HubOptions::default());
        let mut source = Source::start(&hub);
        source.frame(100);
        let mut own = Driver::attach(&hub, format, Pipe::new(usize::MAX)).await;
        let mut seated = Driver::attach(&hub, format, Pipe::new(usize::MAX)).await;
        own.drive();
        drop(own.seat.take());
        seated.drive();
        assert!(seated.seat.is_some());
        for n in 0..48 {
            source.frame(if n == 7 { 200_000 } else { 500 });
            settle().await;
        }
        assert!(seated.pipe.writes.load(Ordering::Relaxed) > 30, "the lane wrote");
        let mut own = Driver::attach(&hub, format, Pipe::new(usize::MAX)).await;
        own.drive();
        let tail = own.pipe.taken.lock().clone();
        let all = seated.pipe.taken.lock().clone();
        // The newcomer's headers stand before the last GOP; the GOP itself is the end of both.
        let gop = &tail[tail.len() - 4000..];
        assert!(all.ends_with(gop), "{format:?}");
        let left = seated.viewer.stand(seated.seat.take().unwrap());
        assert_eq!((left.reason, left.partial.is_none()), (LeftReason::Asked, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_socket_is_handed_back_and_loses_no_byte() {
    let hub = Hub::new(HubOptions {
        max_lag: Duration::from_secs(1000),
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub);
    source.frame(300);
    let mut slow = Driver::attach(&hub, Format::Rtmp, Pipe::new(900)).await;
    let mut fast = Driver::attach(&hub, Format::Rtmp, Pipe::new(usize::MAX)).await;
    slow.drive();
    fast.drive();
    for n in 0..60 {
        source.frame(100 + n * 7);
        settle().await;
        slow.pipe.room.fetch_add(397, Ordering::Relaxed);
        slow.drive();
        fast.drive();
    }
    slow.pipe.room.store(usize::MAX, Ordering::Relaxed);
    slow.drive();
    fast.drive();
    assert_eq!(*slow.pipe.taken.lock(), *fast.pipe.taken.lock());
}

#[tokio::test(start_paused = true)]
async fn a_failed_socket_is_handed_back_with_its_error() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub);
    source.frame(300);
    let mut driver = Driver::attach(&hub, Format::Ws, Pipe::new(usize::MAX)).await;
    driver.drive();
    driver.pipe.broken.store(true, Ordering::Relaxed);
    source.frame(300);
    let seat = driver.seat.take().unwrap();
    tokio::time::timeout(Duration::from_secs(1), seat.handed_back())
        .await
        .unwrap();
    assert_eq!(
        driver.viewer.stand(seat).reason,
        LeftReason::Failed(io::ErrorKind::BrokenPipe)
    );
}

#[tokio::test(start_paused = true)]
async fn seats_are_handed_back_when_the_stream_ends() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub);
    source.frame(300);
    let mut driver = Driver::attach(&hub, Format::Flv, Pipe::new(usize::MAX)).await;
    driver.drive();
    settle().await;
    drop(source);
    let seat = driver.seat.take().unwrap();
    tokio::time::timeout(Duration::from_secs(20), seat.handed_back())
        .await
        .unwrap();
    assert_eq!(driver.viewer.stand(seat).reason, LeftReason::Closed);
    assert!(
        driver.viewer.sit(driver.format, &driver.pipe).is_none(),
        "there is nothing to sit for"
    );
    assert_eq!(driver.viewer.poll(&mut Vec::new()), Err(EndReason::StreamEnded));
}

#[tokio::test(start_paused = true)]
async fn a_viewer_that_leaves_is_no_longer_written_to() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub);
    source.frame(300);
    let mut driver = Driver::attach(&hub, Format::Flv, Pipe::new(usize::MAX)).await;
    driver.drive();
    settle().await;
    let pipe = driver.pipe.clone();
    drop(driver);
    let before = pipe.taken.lock().len();
    source.frame(300);
    settle().await;
    assert_eq!(pipe.taken.lock().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_in_a_lane_does_not_get_frames_twice() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub);
    source.frame(50);
    let mut first = Driver::attach(&hub, Format::Flv, Pipe::new(usize::MAX)).await;
    first.drive();
    for n in 0..9 {
        source.frame(50);
        settle().await;
        if n == 4 {
            let mut second = Driver::attach(&hub, Format::Flv, Pipe::new(usize::MAX)).await;
            second.drive();
            for _ in 0..4 {
                source.frame(50);
                settle().await;
            }
            let (one, two) = (first.pipe.taken.lock().clone(), second.pipe.taken.lock().clone());
            assert_eq!(one, two, "both began at the same key frame");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_header_that_a_full_socket_did_not_take_is_sent_later() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub);
    source.frame(100);
    let mut driver = Driver::attach(&hub, Format::Flv, Pipe::new(usize::MAX)).await;
    driver.drive();
    settle().await;
    source.frame(100);
    settle().await;
    driver.pipe.room.store(0, Ordering::Relaxed);
    let other = [
        0x17, 0, 0, 0, 0, 1, 0x4D, 0x40, 0x1F, 0xFF, 0xE1, 0, 4, 0x67, 0x4D, 0x40, 0x1F, 1, 0, 2, 0x68, 0xCF,
    ];
    source.push(TagType::Video, &other);
    settle().await;
    driver.pipe.room.store(usize::MAX, Ordering::Relaxed);
    driver.drive();
    assert!(
        driver
            .pipe
            .taken
            .lock()
            .windows(other.len())
            .any(|bytes| bytes == other)
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_lane_hands_everybody_back_and_is_counted() {
    let hub = Hub::new(HubOptions::default());
    let mut source = Source::start(&hub);
    source.frame(100);
    let mut drivers = Vec::new();
    for _ in 0..3 {
        let mut driver = Driver::attach(&hub, Format::Flv, Pipe::new(usize::MAX)).await;
        driver.drive();
        drivers.push(driver);
    }
    settle().await;
    drivers[1].pipe.panics.store(true, Ordering::Relaxed);
    source.frame(100);
    settle().await;
    assert_eq!(hub.stats().panics.get(), 1);
    for driver in &mut drivers {
        let seat = driver.seat.take().unwrap();
        tokio::time::timeout(Duration::from_secs(1), seat.handed_back())
            .await
            .unwrap();
        driver.seat = Some(seat);
        driver.drive();
    }
    for _ in 0..3 {
        source.frame(100);
        settle().await;
    }
    let first = drivers[0].pipe.taken.lock().clone();
    assert!(
        drivers.iter().all(|driver| *driver.pipe.taken.lock() == first),
        "all of them go on in a new lane"
    );
}
