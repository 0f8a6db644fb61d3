//! The loop: connects players on schedule, reads their sockets, keeps their timers.

use super::hls::Segments;
use super::{Player, Protocol, Turn};
use crate::clock::{MILLISECOND_NS, now_ns, timespec};
use crate::error::LoadError;
use crate::meter::{Meter, Moment, SILENCE_NS, Shared};
use crate::url::Target;
use rustix::event::epoll;
use socket2::{Domain, Socket, Type};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Read at most so much at a time.
const READ_LEN: usize = 262_144;
/// Sockets taken from the kernel at a time.
const EVENTS: usize = 1_024;
/// Connections begun before sockets are looked at again.
const CONNECTS_PER_TURN: usize = 64;
/// The loop looks up at least so often.
const LONGEST_WAIT_NS: u64 = 50 * MILLISECOND_NS;
/// Connections from one source address to one server; there are 28,232 ports.
const PORTS_PER_SOURCE: u64 = 20_000;

/// Players of one protocol.
#[derive(Debug, Clone)]
pub struct Group {
    /// How they get their stream.
    pub protocol: Protocol,
    /// What they play: one target for each stream; players take them in turn.
    pub targets: Vec<Arc<Target>>,
    /// How many.
    pub players: u64,
}

/// What one loop is to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The players.
    pub groups: Vec<Group>,
    /// Time between two connects, in nanoseconds.
    pub stagger_ns: u64,
    /// HLS players begin over this time, in nanoseconds, so that their polls are spread.
    pub hls_spread_ns: u64,
    /// The number of the first player, for choosing source addresses.
    pub first_number: u64,
}

/// A player that is to be connected.
#[derive(Debug)]
struct Launch {
    at_ns: u64,
    protocol: Protocol,
    target: Arc<Target>,
}

#[derive(Debug)]
struct Slot {
    socket: Option<TcpStream>,
    connecting: bool,
    lost: bool,
    protocol: Protocol,
    target: Arc<Target>,
    player: Player,
}

/// One loop with its players.
pub struct Engine {
    epoll: OwnedFd,
    shared: Arc<Shared>,
    first_number: u64,
    launches: Vec<Launch>,
    slots: Vec<Slot>,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    meters: BTreeMap<Protocol, Meter>,
    segments: Segments,
    out: Vec<u8>,
}

/// What a turn left to do.
#[derive(Debug, Default)]
struct After {
    wake_ns: Option<u64>,
    close: bool,
}

impl Engine {
    /// A loop that will carry out `plan`.
    ///
    /// # Errors
    /// [`LoadError::Io`] if there is no epoll instance to be had.
    pub fn new(plan: &Plan, shared: Arc<Shared>) -> Result<Self, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(LoadError::errno("epoll"))?;
        let start_ns = now_ns();
        let (mut launches, mut meters) = (Vec::new(), BTreeMap::new());
        for group in &plan.groups {
            let meter: &mut Meter = meters.entry(group.protocol).or_default();
            meter.players += group.players;
            let spread_ns = match group.protocol {
                Protocol::Hls => plan.hls_spread_ns / group.players.max(1),
                _ => 0,
            };
            let pause_ns = plan.stagger_ns.max(spread_ns);
            for (number, target) in (0..group.players).zip(group.targets.iter().cycle()) {
                let at_ns = start_ns + number * pause_ns;
                launches.push(Launch {
                    at_ns,
                    protocol: group.protocol,
                    target: Arc::clone(target),
                });
            }
        }
        launches.sort_by_key(|launch| Reverse(launch.at_ns));
        Ok(Self {
            epoll,
            shared,
            first_number: plan.first_number,
            slots: Vec::with_capacity(launches.len()),
            launches,
            timers: BinaryHeap::new(),
            meters,
            segments: Segments::default(),
            out: Vec::new(),
        })
    }

    /// Runs until told to stop; returns what was measured.
    ///
    /// # Errors
    /// [`LoadError::Io`] if epoll fails.
    pub fn run(mut self) -> Result<BTreeMap<Protocol, Meter>, LoadError> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buf = vec![0; READ_LEN];
        let mut frames_told = 0;
        while !self.shared.stopped() {
            let now = now_ns();
            self.launch(now);
            self.fire(now);
            let wait_ns = self.wait_ns(now_ns());
            events.clear();
            let timeout = timespec(wait_ns);
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
            let frames = self.meters.values().map(|meter| meter.frames_ever).sum();
            self.shared
                .frames
                .fetch_add(frames - frames_told, Ordering::Relaxed);
            frames_told = frames;
        }
        self.count_silent(now_ns());
        Ok(self.meters)
    }

    /// A player that has heard nothing for long at the end is silent; those lost count apart.
    fn count_silent(&mut self, now_ns: u64) {
        for slot in self
            .slots
            .iter()
            .filter(|slot| !slot.lost && slot.protocol != Protocol::Hls)
        {
            if slot.player.watch.last_frame_ns + SILENCE_NS < now_ns {
                self.meters.entry(slot.protocol).or_default().silent += 1;
            }
        }
    }

    fn wait_ns(&self, now_ns: u64) -> u64 {
        let launch = self.launches.last().map(|launch| launch.at_ns);
        let timer = self.timers.peek().map(|Reverse((at_ns, _))| *at_ns);
        let next = launch.into_iter().chain(timer).min().unwrap_or(u64::MAX);
        next.saturating_sub(now_ns).min(LONGEST_WAIT_NS)
    }

    fn launch(&mut self, now_ns: u64) {
        for _ in 0..CONNECTS_PER_TURN {
            let Some(launch) = self.launches.pop_if(|launch| launch.at_ns <= now_ns) else {
                return;
            };
            let number = self.first_number + self.slots.len() as u64;
            let player = Player::new(
                launch.protocol,
                Arc::clone(&launch.target),
                number,
                crate::clock::now_ns(),
            );
            self.slots.push(Slot {
                socket: None,
                connecting: false,
                lost: false,
                protocol: launch.protocol,
                target: launch.target,
                player,
            });
            self.connect(self.slots.len() - 1);
        }
    }

    fn fire(&mut self, now_ns: u64) {
        while let Some(Reverse((_, index))) = self
            .timers
            .peek()
            .filter(|Reverse((at, _))| *at <= now_ns)
            .copied()
        {
            self.timers.pop();
            match self.slots.get(index) {
                Some(slot) if slot.socket.is_none() && !slot.lost => self.connect(index),
                Some(slot) if !slot.connecting && !slot.lost => {
                    self.turn(index, now_ns, |player, turn| {
                        player.wake(turn);
                        Ok(())
                    });
                }
                _ => {}
            }
        }
    }

    fn connect(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let number = self.first_number + index as u64;
        match begin_connect(slot.target.address, number) {
            Ok(socket) => {
                let flags = epoll::EventFlags::OUT;
                let data = epoll::EventData::new_u64(index as u64);
                let added = epoll::add(&self.epoll, &socket, data, flags);
                slot.socket = Some(socket);
                slot.connecting = true;
                if let Err(errno) = added {
                    self.lose(index, &LoadError::errno("epoll add")(errno));
                }
            }
            Err(error) => self.lose(index, &error),
        }
    }

    fn ready(&mut self, index: usize, buf: &mut [u8]) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let Some(socket) = &mut slot.socket else { return };
        if slot.connecting {
            slot.connecting = false;
            let failure = socket.take_error().unwrap_or_else(Some);
            let data = epoll::EventData::new_u64(index as u64);
            let modified = epoll::modify(&self.epoll, &*socket, data, epoll::EventFlags::IN);
            if let Some(error) = failure.or_else(|| modified.err().map(Into::into)) {
                return self.lose(index, &LoadError::io("connect")(error));
            }
            self.shared.count(&self.shared.connected);
            return self.turn(index, now_ns(), |player, turn| {
                player.connected(turn);
                Ok(())
            });
        }
        match socket.read(buf) {
            Ok(0) => self.closed(index),
            Ok(len) => {
                let input = buf.get(..len).unwrap_or_default();
                let now = now_ns();
                let meter = self.meters.entry(slot.protocol).or_default();
                if self.shared.in_window(now) {
                    meter.bytes += len as u64;
                    meter.reads += 1;
                }
                self.turn(index, now, |player, turn| player.read(input, turn));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => self.lose(index, &LoadError::io("read")(error)),
        }
    }

    fn closed(&mut self, index: usize) {
        let mut goes_on = false;
        self.turn(index, now_ns(), |player, turn| {
            goes_on = player.closed(turn);
            if goes_on { Ok(()) } else { Err(LoadError::Closed) }
        });
    }

    /// Lets a player act, then does what it asked for.
    fn turn(
        &mut self,
        index: usize,
        now_ns: u64,
        act: impl FnOnce(&mut Player, &mut Turn<'_>) -> Result<(), LoadError>,
    ) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        self.out.clear();
        let was_playing = slot.player.watch.playing();
        let window = self.shared.window();
        let meter = self.meters.entry(slot.protocol).or_default();
        let moment = Moment {
            now_ns,
            window,
            meter,
        };
        let mut turn = Turn {
            moment,
            out: &mut self.out,
            wake_ns: None,
            close: false,
            segments: &mut self.segments,
        };
        let result = act(&mut slot.player, &mut turn);
        let after = After {
            wake_ns: turn.wake_ns,
            close: turn.close,
        };
        if !was_playing && slot.player.watch.playing() {
            self.shared.count(&self.shared.playing);
        }
        if let Err(error) = result {
            return self.lose(index, &error);
        }
        self.follow(index, &after);
    }

    fn follow(&mut self, index: usize, after: &After) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if after.close {
            slot.socket = None;
        }
        if let Some(at_ns) = after.wake_ns {
            self.timers.push(Reverse((at_ns, index)));
        }
        if self.out.is_empty() {
            return;
        }
        let Some(socket) = &mut slot.socket else { return };
        // A few hundred bytes on a connection that has room for many thousand: it fits or the
        // connection is broken.
        if let Err(error) = socket.write_all(&self.out) {
            self.lose(index, &LoadError::io("write")(error));
        }
    }

    fn lose(&mut self, index: usize, error: &LoadError) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.socket = None;
        if !slot.lost {
            slot.lost = true;
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            self.meters
                .entry(slot.protocol)
                .or_default()
                .lose(error.to_string());
        }
    }
}

/// Begins a connection to `address`, from a loopback address that has ports left.
fn begin_connect(address: SocketAddr, number: u64) -> Result<TcpStream, LoadError> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, None).map_err(LoadError::io("socket"))?;
    socket.set_nonblocking(true).map_err(LoadError::io("socket"))?;
    socket.set_tcp_nodelay(true).map_err(LoadError::io("socket"))?;
    let source = (number / PORTS_PER_SOURCE) as u8;
    if address.ip().is_loopback() && address.is_ipv4() && source > 0 {
        let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, source.saturating_add(1)), 0));
        socket.bind(&from.into()).map_err(LoadError::io("bind"))?;
    }
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) => return Err(LoadError::io("connect")(error)),
    }
    Ok(socket.into())
}
