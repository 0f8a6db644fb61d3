//! The hub: frames into the ring and out of it.

use super::wire::tag_type;
use super::{Material, PASS_MS, Published, Wire, Work};
use crate::generator::StreamShape;
use spillway_flv::TagType;
use spillway_hub::{Frame, Hub, HubOptions, Protocol, Publisher, SessionInfo, StreamKey, Viewer};
use spillway_rtmp::session::ServerEvent;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Passes until the ring is full and evicts a frame for each that comes: it holds 30 seconds.
const FILL_PASSES: u32 = 20;

fn key() -> StreamKey {
    StreamKey::parse("live/a").expect("a valid name")
}

fn info(protocol: Protocol) -> SessionInfo {
    SessionInfo::new(protocol, SocketAddr::from(([127, 0, 0, 1], 9)))
}

/// A hub with one publisher, in a runtime that is driven only while viewers attach: pushing needs none.
#[derive(Debug)]
struct Room {
    publisher: Publisher,
    hub: Hub,
    base_ms: u32,
    runtime: Runtime,
}

impl Room {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime without sockets");
        let guard = runtime.enter();
        let hub = Hub::new(HubOptions::default());
        let publisher = hub.publish(key(), info(Protocol::Rtmp)).expect("a free name");
        drop(guard);
        let mut room = Self {
            publisher,
            hub,
            base_ms: 0,
            runtime,
        };
        for header in Material::headers() {
            room.push(header.kind, 0, header.buffer());
        }
        room
    }

    fn push(&mut self, kind: TagType, timestamp_ms: u32, buffer: Vec<u8>) {
        self.publisher
            .push(kind, self.base_ms.wrapping_add(timestamp_ms), buffer)
            .expect("nobody else publishes");
    }

    fn next_pass(&mut self) {
        self.base_ms = self.base_ms.wrapping_add(PASS_MS);
    }

    fn attach(&mut self) -> Viewer {
        self.runtime
            .block_on(self.hub.attach(&key(), info(Protocol::Flv)))
            .expect("the stream is live")
    }
}

/// The buffers that the other works of this module consume, made and dropped.
#[derive(Debug)]
pub struct Buffers {
    material: Material,
}

impl Buffers {
    /// Buffers for a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        Self {
            material: Material::new(shape),
        }
    }
}

impl Work for Buffers {
    fn pass(&mut self) {
        for message in &self.material.messages {
            black_box(message.buffer());
        }
    }

    fn items(&self) -> u64 {
        self.material.count()
    }
}

/// Messages into a full ring, nobody watching.
#[derive(Debug)]
pub struct Pushing {
    room: Room,
    material: Material,
}

impl Pushing {
    /// Pushes a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut work = Self {
            room: Room::new(),
            material: Material::new(shape),
        };
        for _ in 0..FILL_PASSES {
            work.pass();
        }
        work
    }

    /// The messages.
    pub fn material(&self) -> &Material {
        &self.material
    }

    /// Pushes the messages of one pass from buffers made before.
    pub fn push_all(&mut self, buffers: Vec<Vec<u8>>) {
        for (message, buffer) in self.material.messages.iter().zip(buffers) {
            self.room.push(message.kind, message.timestamp_ms, buffer);
        }
        self.room.next_pass();
    }
}

impl Work for Pushing {
    fn pass(&mut self) {
        for message in &self.material.messages {
            self.room
                .push(message.kind, message.timestamp_ms, message.buffer());
        }
        self.room.next_pass();
    }

    fn items(&self) -> u64 {
        self.material.count()
    }
}

/// Messages into a full ring, and one viewer that looks for each.
#[derive(Debug)]
pub struct Attended {
    viewer: Viewer,
    batch: Vec<Arc<Frame>>,
    pushing: Pushing,
}

impl Attended {
    /// Pushes a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut pushing = Pushing::new(shape);
        let viewer = pushing.room.attach();
        let mut work = Self {
            viewer,
            batch: Vec::new(),
            pushing,
        };
        work.look();
        work.pass();
        work
    }

    /// The messages.
    pub fn material(&self) -> &Material {
        self.pushing.material()
    }

    /// Pushes one pass from buffers made before; the viewer looks after each.
    pub fn push_all(&mut self, buffers: Vec<Vec<u8>>) {
        for (at, buffer) in buffers.into_iter().enumerate() {
            if let Some(message) = self.pushing.material.messages.get(at) {
                self.pushing.room.push(message.kind, message.timestamp_ms, buffer);
            }
            self.look();
        }
        self.pushing.room.next_pass();
    }

    fn look(&mut self) {
        while self.viewer.poll(&mut self.batch).expect("the stream is live") {
            black_box(&self.batch);
        }
    }
}

impl Work for Attended {
    fn pass(&mut self) {
        for at in 0..self.pushing.material.messages.len() {
            if let Some(message) = self.pushing.material.messages.get(at) {
                let buffer = message.buffer();
                self.pushing.room.push(message.kind, message.timestamp_ms, buffer);
            }
            self.look();
        }
        self.pushing.room.next_pass();
    }

    fn items(&self) -> u64 {
        self.pushing.items()
    }
}

/// A publisher's bytes through its server session into the ring, nobody watching.
#[derive(Debug)]
pub struct Ingesting {
    published: Published,
    wire: Wire,
    room: Room,
}

impl Ingesting {
    /// Takes in a stream of this shape.
    pub fn new(shape: StreamShape) -> Self {
        let mut published = Published::new();
        let [headers, wire] = Material::new(shape).wires(&mut published.client);
        let mut work = Self {
            published,
            wire: headers,
            room: Room::new(),
        };
        work.pass();
        work.wire = wire;
        for _ in 0..FILL_PASSES {
            work.pass();
        }
        work
    }
}

impl Work for Ingesting {
    fn pass(&mut self) {
        let mut messages = 0;
        for mut arrival in self.wire.arrivals.iter().map(Vec::as_slice) {
            let server = &mut self.published.server;
            while let Some(event) = server.read(&mut arrival).expect("valid chunks") {
                let ServerEvent::Media {
                    kind,
                    timestamp_ms,
                    buf,
                } = event
                else {
                    continue;
                };
                if let Some(kind) = tag_type(kind) {
                    self.room.push(kind, timestamp_ms, buf);
                    messages += 1;
                }
            }
            self.published.server.output().clear();
        }
        assert_eq!(messages, self.wire.arrivals.len());
        self.room.next_pass();
    }

    fn items(&self) -> u64 {
        self.wire.arrivals.len() as u64
    }
}
