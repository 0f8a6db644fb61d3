//! What a media message allocates on its way from the publisher's bytes to the players' sockets: one buffer of the
//! payload's size, a few small things, and nothing at all for each viewer.
//!
//! The counting allocator sees all threads. What others allocate only adds to a count, so each count is the least of
//! several rounds that do the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use parking_lot::{Mutex, MutexGuard};
use spillway_bench::generator::StreamShape;
use spillway_bench::work::{HD, Material, PASS_MS, Published, SMALL, Wire};
use spillway_hub::{
    Batch, Format, Hub, HubOptions, Protocol, Publisher, Seat, SessionInfo, Sink, StreamKey, TagType, Viewer,
};
use spillway_rtmp::session::{MediaKind, ServerEvent};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use std::alloc::System;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Passes until the ring is full: it holds 30 seconds.
const FILL_PASSES: usize = 20;
/// Rounds of which the least counts.
const ROUNDS: usize = 5;
/// Allocations of a message besides its payload, at most.
const SMALL_ALLOCATIONS: usize = 3;
/// And their bytes: a frame's record is most of them.
const SMALL_BYTES: usize = 512;
const FORMATS: [Format; 4] = [Format::Rtmp, Format::Flv, Format::FlvChunked, Format::Ws];

/// Tests take turns: each would count the others' allocations.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

fn key() -> StreamKey {
    StreamKey::parse("live/a").unwrap()
}

fn info(protocol: Protocol) -> SessionInfo {
    SessionInfo::new(protocol, SocketAddr::from(([127, 0, 0, 1], 9)))
}

/// A socket that takes everything.
#[derive(Debug, Default)]
struct Drain(AtomicUsize);

impl Sink for Drain {
    fn try_write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// A player's own task.
struct Player {
    viewer: Viewer,
    batch: Batch,
    format: Format,
    message_stream_id: u32,
    socket: Arc<Drain>,
    seat: Option<Seat>,
}

impl Player {
    /// Writes all there is.
    fn drive(&mut self) {
        loop {
            if self.batch.is_done() {
                if !self.viewer.poll(self.batch.refill()).unwrap() {
                    return;
                }
                self.batch.begin(self.message_stream_id);
            }
            let socket = &self.socket;
            let written = self
                .batch
                .write_with(|slices| socket.try_write_slices(slices))
                .unwrap();
            self.viewer.sent(written as u64);
        }
    }

    fn sit(&mut self) {
        self.seat = self.viewer.sit(self.format, &self.socket);
        assert!(self.seat.is_some(), "up to date");
    }
}

/// A gateway without sockets: a publisher's bytes in, players' bytes out.
struct Gateway {
    hub: Hub,
    published: Published,
    publisher: Publisher,
    wire: Wire,
    base_ms: u32,
}

impl Gateway {
    fn new(shape: StreamShape) -> Self {
        let hub = Hub::new(HubOptions::default());
        let mut published = Published::new();
        let [headers, wire] = Material::new(shape).wires(&mut published.client);
        let publisher = hub.publish(key(), info(Protocol::Rtmp)).unwrap();
        let mut gateway = Self {
            hub,
            published,
            publisher,
            wire,
            base_ms: 0,
        };
        for arrival in headers.arrivals {
            gateway.arrive(&arrival);
        }
        gateway.pass();
        gateway
    }

    /// Takes in one message; returns its payload's length.
    fn arrive(&mut self, mut bytes: &[u8]) -> usize {
        let mut payload = 0;
        while let Some(event) = self.published.server.read(&mut bytes).unwrap() {
            let ServerEvent::Media {
                kind,
                timestamp_ms,
                buf,
            } = event
            else {
                continue;
            };
            let kind = match kind {
                MediaKind::Audio => TagType::Audio,
                MediaKind::Video => TagType::Video,
                other => panic!("{other:?}"),
            };
            payload = buf.len();
            self.publisher
                .push(kind, self.base_ms.wrapping_add(timestamp_ms), buf)
                .unwrap();
        }
        self.published.server.output().clear();
        payload
    }

    /// Takes in all messages of two seconds.
    fn pass(&mut self) {
        let wire = std::mem::replace(&mut self.wire, Wire { arrivals: Vec::new() });
        for arrival in &wire.arrivals {
            self.arrive(arrival);
        }
        self.wire = wire;
        self.base_ms = self.base_ms.wrapping_add(PASS_MS);
    }

    async fn player(&self, format: Format, message_stream_id: u32) -> Player {
        let mut player = Player {
            viewer: self.hub.attach(&key(), info(format.protocol())).await.unwrap(),
            batch: Batch::new(format),
            format,
            message_stream_id,
            socket: Arc::default(),
            seat: None,
        };
        player.drive();
        player
    }

    /// What each message of a pass costs with these players: its payload's length and its allocations.
    fn costs(&mut self, players: &mut [Player]) -> Vec<(usize, Stats)> {
        for _ in 0..FILL_PASSES {
            self.pass();
            players.iter_mut().for_each(Player::drive);
        }
        let wire = self.wire.clone();
        let mut costs: Vec<(usize, Stats)> = Vec::new();
        for round in 0..ROUNDS {
            for (at, arrival) in wire.arrivals.iter().enumerate() {
                let region = Region::new(ALLOCATOR);
                let payload = self.arrive(arrival);
                players.iter_mut().for_each(Player::drive);
                let cost = region.change();
                match costs.get_mut(at) {
                    Some(least) if cost.allocations < least.1.allocations => least.1 = cost,
                    Some(_) => {}
                    None => costs.push((payload, cost)),
                }
                assert!(round == 0 || costs[at].0 == payload, "all rounds do the same");
            }
            self.base_ms = self.base_ms.wrapping_add(PASS_MS);
        }
        costs
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

/// One buffer holds the payload: with every allocation counted, the bytes of all of them leave no room for another.
fn assert_one_buffer(costs: &[(usize, Stats)]) {
    for (at, (payload, cost)) in costs.iter().enumerate() {
        let seen = format!("message {at} of {payload} bytes: {cost:?}");
        assert!(cost.bytes_allocated >= *payload, "{seen}");
        assert!(cost.bytes_allocated < payload + SMALL_BYTES, "{seen}");
        assert_eq!(cost.reallocations, 0, "{seen}");
        assert!((1..=1 + SMALL_ALLOCATIONS).contains(&cost.allocations), "{seen}");
    }
}

#[test]
fn a_message_is_one_buffer_from_the_publishers_bytes_to_every_player() {
    let _turn = alone();
    runtime().block_on(async {
        let mut gateway = Gateway::new(HD);
        let mut players = Vec::new();
        for format in FORMATS {
            players.extend([gateway.player(format, 1).await, gateway.player(format, 1).await]);
            players.push(gateway.player(format, 1).await);
        }
        let costs = gateway.costs(&mut players);
        let large = costs.iter().filter(|(payload, _)| *payload > 8 * SMALL_BYTES);
        assert!(
            large.count() > 50,
            "payloads stand out from the small allocations"
        );
        assert_one_buffer(&costs);
        assert!(
            players
                .iter()
                .all(|player| player.socket.0.load(Ordering::Relaxed) > 1 << 20)
        );
    });
}

#[test]
fn a_viewer_that_keeps_up_allocates_nothing() {
    let _turn = alone();
    runtime().block_on(async {
        for shape in [SMALL, HD] {
            let mut gateway = Gateway::new(shape);
            let without = gateway.costs(&mut []);
            let mut players = Vec::new();
            for n in 0..3 {
                for format in FORMATS {
                    players.push(gateway.player(format, 1 + n).await);
                }
            }
            let with = gateway.costs(&mut players);
            for (at, (without, with)) in without.iter().zip(&with).enumerate() {
                assert_eq!(with.1.allocations, without.1.allocations, "message {at}");
                assert_eq!(with.1.bytes_allocated, without.1.bytes_allocated, "message {at}");
            }
        }
    });
}

/// The allocations of a pass with so many players seated in a lane of each format.
async fn seated(players_each: usize) -> usize {
    let mut gateway = Gateway::new(SMALL);
    let mut players = Vec::new();
    for _ in 0..FILL_PASSES {
        gateway.pass();
    }
    for format in FORMATS {
        for _ in 0..players_each {
            let mut player = gateway.player(format, 1).await;
            player.sit();
            players.push(player);
        }
    }
    let wire = gateway.wire.clone();
    let mut least = usize::MAX;
    for _ in 0..ROUNDS {
        let region = Region::new(ALLOCATOR);
        for arrival in &wire.arrivals {
            gateway.arrive(arrival);
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
        least = least.min(region.change().allocations);
        gateway.base_ms = gateway.base_ms.wrapping_add(PASS_MS);
    }
    let sent: Vec<_> = players
        .iter()
        .map(|player| player.socket.0.load(Ordering::Relaxed))
        .collect();
    assert!(
        sent.iter().all(|bytes| *bytes > ROUNDS * 50_000),
        "all were served: {sent:?}"
    );
    least
}

#[test]
fn a_lane_allocates_the_same_for_few_and_for_many_seats() {
    let _turn = alone();
    runtime().block_on(async {
        let (few, many) = (seated(1).await, seated(12).await);
        assert_eq!(few, many);
    });
}
