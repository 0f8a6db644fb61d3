//! Publishers: one thread sends the frames of all streams, each at its exact time.

use crate::clip::{Clip, ClipCursor};
use crate::clock::{MILLISECOND_NS, SECOND_NS, now_ns, sleep_until, timespec};
use crate::error::LoadError;
use crate::generator::{AUDIO_SEQUENCE_HEADER, Generator, StreamShape, VIDEO_SEQUENCE_HEADER};
use crate::meter::{Shared, Times};
use crate::scan::Track;
use crate::url::Target;
use rustix::event::epoll;
use spillway_amf::Value;
use spillway_flv::Metadata;
use spillway_rtmp::session::{ClientEvent, ClientMode, ClientOptions, ClientSession, MediaKind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Answers of servers are read in pieces of this size.
const READ_LEN: usize = 16_384;
/// Sockets taken from the kernel at a time.
const EVENTS: usize = 256;
/// The loop looks up at least so often.
const LONGEST_WAIT_NS: u64 = 50 * MILLISECOND_NS;
/// Time between two publishers' connects.
const CONNECT_PAUSE_NS: u64 = MILLISECOND_NS;

/// What publishers send.
#[derive(Debug, Clone)]
pub enum Material {
    /// Generated frames with stamps.
    Generated(StreamShape),
    /// A file, over and over.
    Clip(Clip),
}

/// What publishers did in the measured window.
#[derive(Debug, Default)]
pub struct PublisherMeter {
    /// Frames written.
    pub frames: u64,
    /// Bytes written to sockets.
    pub bytes: u64,
    /// How late frames were written: what the load machine adds.
    pub lateness: Times,
    /// Frames given up because the server did not read.
    pub dropped: u64,
    /// Why publishers were lost, in the whole run.
    pub losses: BTreeMap<String, u64>,
}

#[derive(Debug)]
enum Source {
    Generated(Generator),
    Clip(ClipCursor),
}

impl Source {
    fn due_ns(&self) -> u64 {
        match self {
            Self::Generated(generator) => generator.due_ns(),
            Self::Clip(cursor) => cursor.due_ns(),
        }
    }

    fn make(&mut self, sent_ns: u64, body: &mut Vec<u8>) -> (MediaKind, u32) {
        match self {
            Self::Generated(generator) => {
                let made = generator.make(sent_ns, body);
                let kind = match made.track {
                    Track::Audio => MediaKind::Audio,
                    Track::Video => MediaKind::Video,
                };
                (kind, made.dts_ms)
            }
            Self::Clip(cursor) => cursor.make(body),
        }
    }
}

struct Publisher {
    socket: TcpStream,
    session: ClientSession,
    source: Source,
    /// When the stream's time 0 was; `None` until the server accepts the publish.
    start_ns: Option<u64>,
    wants_room: bool,
    lost: bool,
}

/// The thread's state.
pub struct Publishers {
    epoll: OwnedFd,
    shared: Arc<Shared>,
    material: Material,
    all: Vec<Publisher>,
    total: u64,
    due: BinaryHeap<Reverse<(u64, usize)>>,
    meter: PublisherMeter,
    body: Vec<u8>,
}

impl Publishers {
    /// Connects a publisher to each of `targets`.
    ///
    /// # Errors
    /// [`LoadError::Io`] if the server cannot be reached.
    pub fn connect(
        targets: &[Arc<Target>],
        material: Material,
        shared: Arc<Shared>,
    ) -> Result<Self, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(LoadError::errno("epoll"))?;
        let filler = crate::generator::filler();
        let mut publishers = Self {
            epoll,
            shared,
            material,
            all: Vec::with_capacity(targets.len()),
            total: targets.len() as u64,
            due: BinaryHeap::new(),
            meter: PublisherMeter::default(),
            body: Vec::new(),
        };
        for (number, target) in (0..).zip(targets) {
            let source = match &publishers.material {
                Material::Generated(shape) => {
                    Source::Generated(Generator::new(*shape, number, Arc::clone(&filler)))
                }
                Material::Clip(clip) => Source::Clip(ClipCursor::new(clip.clone())),
            };
            publishers.add(target, source)?;
            sleep_until(now_ns() + CONNECT_PAUSE_NS);
        }
        Ok(publishers)
    }

    fn add(&mut self, target: &Target, source: Source) -> Result<(), LoadError> {
        let (app, name) = target.app_and_name()?;
        let connecting = || format!("connect publisher to {}", target.host_port);
        let socket = TcpStream::connect(target.address).map_err(LoadError::io(connecting()))?;
        socket
            .set_nonblocking(true)
            .map_err(LoadError::io(connecting()))?;
        socket.set_nodelay(true).map_err(LoadError::io(connecting()))?;
        let data = epoll::EventData::new_u64(self.all.len() as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)
            .map_err(LoadError::errno("epoll add"))?;
        let session = ClientSession::new(ClientOptions::new(
            &target.host_port,
            app,
            name,
            ClientMode::Publish,
        ));
        self.all.push(Publisher {
            socket,
            session,
            source,
            start_ns: None,
            wants_room: false,
            lost: false,
        });
        self.flush(self.all.len() - 1);
        Ok(())
    }

    /// Publishes until told to stop; returns what was measured.
    ///
    /// # Errors
    /// [`LoadError::Io`] if epoll fails.
    pub fn run(mut self) -> Result<PublisherMeter, LoadError> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buf = vec![0; READ_LEN];
        while !self.shared.stopped() {
            let next = self.due.peek().map_or(u64::MAX, |Reverse((due_ns, _))| *due_ns);
            let timeout = timespec(next.saturating_sub(now_ns()).min(LONGEST_WAIT_NS));
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(LoadError::errno("epoll")(errno)),
            }
            for event in &events {
                self.ready(event.data.u64() as usize, &mut buf);
            }
            while let Some(Reverse((due_ns, index))) = self.due.peek().copied() {
                if due_ns > now_ns() || self.shared.stopped() {
                    break;
                }
                self.due.pop();
                self.publish(index, due_ns);
            }
        }
        for publisher in &mut self.all {
            // The server is about to be stopped: whether it still hears the goodbye is no matter.
            let _ = publisher.session.stop();
            let _ = publisher.socket.write(publisher.session.output());
        }
        Ok(self.meter)
    }

    fn publish(&mut self, index: usize, due_ns: u64) {
        let Some(publisher) = self.all.get_mut(index) else {
            return;
        };
        let Some(start_ns) = publisher.start_ns.filter(|_| !publisher.lost) else {
            return;
        };
        let sent_ns = now_ns();
        let in_window = self.shared.in_window(sent_ns);
        let (kind, timestamp_ms) = publisher.source.make(sent_ns, &mut self.body);
        let written = publisher.session.write_media(kind, timestamp_ms, &self.body);
        if in_window {
            self.meter.frames += 1;
            self.meter.lateness.record_ns(sent_ns.saturating_sub(due_ns));
            self.meter.dropped += u64::from(written.is_err());
        }
        self.due
            .push(Reverse((start_ns + publisher.source.due_ns(), index)));
        self.flush(index);
    }

    fn ready(&mut self, index: usize, buf: &mut [u8]) {
        let Some(publisher) = self.all.get_mut(index).filter(|publisher| !publisher.lost) else {
            return;
        };
        let read = match publisher.socket.read(buf) {
            Ok(0) => Err(LoadError::Closed),
            Ok(len) => self.take(index, buf.get(..len).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(LoadError::io("read")(error)),
        };
        match read {
            Ok(()) => self.flush(index),
            Err(error) => self.lose(index, &error),
        }
    }

    fn take(&mut self, index: usize, mut input: &[u8]) -> Result<(), LoadError> {
        let Some(publisher) = self.all.get_mut(index) else {
            return Ok(());
        };
        while let Some(event) = publisher.session.read(&mut input)? {
            match event {
                ClientEvent::Ready => {
                    let start_ns = now_ns() + self.total_phase_ns(index);
                    return self.begin(index, start_ns);
                }
                ClientEvent::Refused { code, description } => {
                    return Err(LoadError::Refused(format!("{code} {description}")));
                }
                ClientEvent::Ended => return Err(LoadError::Closed),
                ClientEvent::Media { .. } => {}
            }
        }
        Ok(())
    }

    /// Streams begin spread over one frame, so that their frames do not fall together.
    fn total_phase_ns(&self, index: usize) -> u64 {
        let frame_ns = match &self.material {
            Material::Generated(shape) => SECOND_NS / shape.frames_per_second.max(1),
            Material::Clip(_) => SECOND_NS / 25,
        };
        frame_ns * index as u64 / self.total.max(1)
    }

    fn begin(&mut self, index: usize, start_ns: u64) -> Result<(), LoadError> {
        let Some(publisher) = self.all.get_mut(index) else {
            return Ok(());
        };
        if let Material::Generated(shape) = &self.material {
            let mut metadata = Metadata::new();
            metadata.set("width", Value::Number(1280.0));
            metadata.set("height", Value::Number(720.0));
            metadata.set("framerate", Value::Number(shape.frames_per_second as f64));
            let session = &mut publisher.session;
            if shape.frames_per_second > 0 {
                metadata.set("videocodecid", Value::Number(7.0));
            }
            if shape.audio_bits_per_second > 0 {
                metadata.set("audiocodecid", Value::Number(10.0));
            }
            session.write_media(MediaKind::Data, 0, &metadata.to_body())?;
            if shape.frames_per_second > 0 {
                session.write_media(MediaKind::Video, 0, &VIDEO_SEQUENCE_HEADER)?;
            }
            if shape.audio_bits_per_second > 0 {
                session.write_media(MediaKind::Audio, 0, &AUDIO_SEQUENCE_HEADER)?;
            }
        }
        publisher.start_ns = Some(start_ns);
        self.due
            .push(Reverse((start_ns + publisher.source.due_ns(), index)));
        self.shared.count(&self.shared.publishing);
        Ok(())
    }

    /// Writes what the session has to say, as far as the socket takes it.
    fn flush(&mut self, index: usize) {
        let Some(publisher) = self.all.get_mut(index) else {
            return;
        };
        let output = publisher.session.output();
        while !output.is_empty() {
            match publisher.socket.write(output) {
                Ok(len) => {
                    let _ = output.split_to(len);
                    if self.shared.in_window(now_ns()) {
                        self.meter.bytes += len as u64;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return self.lose(index, &LoadError::io("write")(error)),
            }
        }
        let wants_room = !output.is_empty();
        if wants_room != publisher.wants_room {
            publisher.wants_room = wants_room;
            let flags = match wants_room {
                true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
                false => epoll::EventFlags::IN,
            };
            let data = epoll::EventData::new_u64(index as u64);
            if let Err(errno) = epoll::modify(&self.epoll, &publisher.socket, data, flags) {
                self.lose(index, &LoadError::errno("epoll modify")(errno));
            }
        }
    }

    fn lose(&mut self, index: usize, error: &LoadError) {
        let Some(publisher) = self.all.get_mut(index).filter(|publisher| !publisher.lost) else {
            return;
        };
        publisher.lost = true;
        // It would be reported ready for ever; if it cannot be taken out, it is read in vain.
        let _ = epoll::delete(&self.epoll, &publisher.socket);
        self.shared.count(&self.shared.unpublished);
        *self.meter.losses.entry(error.to_string()).or_default() += 1;
    }
}
