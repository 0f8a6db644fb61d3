//! `floor`: what sending costs when nothing else is done.
//!
//! A plain epoll loop writes the same bytes to every socket that connects, once per merge window.
//! There is no dialogue, no parsing, no task and no queue; what a real server costs above this is
//! its own doing. Its players are `spillway-load --raw`.

use bytes::BytesMut;
use clap::Parser;
use rustix::event::epoll;
use spillway_bench::clock::{MILLISECOND_NS, nanoseconds, now_ns, timespec};
use spillway_bench::error::LoadError;
use spillway_bench::generator::{
    AUDIO_SEQUENCE_HEADER, Generator, StreamShape, VIDEO_SEQUENCE_HEADER, filler,
};
use spillway_bench::host;
use spillway_bench::options::duration;
use spillway_bench::scan::Track;
use spillway_rtmp::chunk::{ChunkWriter, OUT_CHUNK_SIZE};
use spillway_rtmp::message::{self, chunk_stream, type_id};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;
/// Bytes that may wait for a player that does not read before it is cut off.
const MAX_BEHIND_BYTES: usize = 4 << 20;
/// The message stream players are told their media is on.
const MESSAGE_STREAM_ID: u32 = 1;

/// Writes one generated stream to every connection, and does nothing else.
#[derive(Debug, Parser)]
#[command(name = "floor", version)]
struct Options {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1935")]
    listen: SocketAddr,
    /// One write per player in this time; 0ms: one for each frame.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration)]
    merge: Duration,
    /// TCP congestion control of the players' sockets; default: the system's.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Bits per second, audio included.
    #[arg(long, value_name = "BITS", default_value_t = 237_000)]
    bitrate: u64,
    /// Bits per second of the audio track.
    #[arg(long, value_name = "BITS", default_value_t = 64_000)]
    audio_bitrate: u64,
    /// Video frames per second.
    #[arg(long, value_name = "N", default_value_t = 25)]
    fps: u64,
    /// Frames from one key frame to the next.
    #[arg(long, value_name = "FRAMES", default_value_t = 50)]
    gop: u64,
}

struct Player {
    socket: TcpStream,
    /// What the socket did not take.
    behind: Vec<u8>,
}

struct Floor {
    generator: Generator,
    writer: ChunkWriter,
    start_ns: u64,
    greeting: BytesMut,
    batch: BytesMut,
    body: Vec<u8>,
    players: Vec<Player>,
}

fn main() -> ExitCode {
    match serve(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &Options) -> Result<(), LoadError> {
    host::raise_open_files();
    host::sharpen_timers();
    let listener = listen(options.listen, options.congestion.as_deref())?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(LoadError::errno("epoll"))?;
    let data = epoll::EventData::new_u64(0);
    epoll::add(&epoll, &listener, data, epoll::EventFlags::IN).map_err(LoadError::errno("epoll add"))?;
    let mut floor = Floor::new(options)?;
    let merge_ns = nanoseconds(options.merge);
    let mut flush_ns = floor.start_ns + merge_ns;
    let mut events = Vec::with_capacity(1);
    loop {
        let next_ns = if merge_ns == 0 {
            floor.due_ns()
        } else {
            floor.due_ns().min(flush_ns)
        };
        let timeout = timespec(next_ns.saturating_sub(now_ns()));
        events.clear();
        match epoll::wait(
            &epoll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&timeout),
        ) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => floor.accept(&listener)?,
            Err(errno) => return Err(LoadError::errno("epoll")(errno)),
        }
        while floor.due_ns() <= now_ns() {
            floor.frame()?;
            if merge_ns == 0 {
                floor.flush();
                // Under overload, too, connections are accepted between two frames.
                break;
            }
        }
        if merge_ns > 0 && now_ns() >= flush_ns {
            floor.flush();
            while flush_ns <= now_ns() {
                flush_ns += merge_ns;
            }
        }
    }
}

fn listen(address: SocketAddr, congestion: Option<&str>) -> Result<TcpListener, LoadError> {
    let what = || format!("listen on {address}");
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).map_err(LoadError::io(what()))?;
    socket.set_reuse_address(true).map_err(LoadError::io(what()))?;
    socket.set_nonblocking(true).map_err(LoadError::io(what()))?;
    socket.bind(&address.into()).map_err(LoadError::io(what()))?;
    if let Some(congestion) = congestion {
        // Accepted sockets inherit it.
        socket
            .set_tcp_congestion(congestion.as_bytes())
            .map_err(LoadError::io(format!("congestion control {congestion}")))?;
    }
    socket.listen(BACKLOG).map_err(LoadError::io(what()))?;
    Ok(socket.into())
}

impl Floor {
    fn new(options: &Options) -> Result<Self, LoadError> {
        let shape = StreamShape {
            bits_per_second: options.bitrate,
            audio_bits_per_second: options.audio_bitrate,
            frames_per_second: options.fps,
            gop_frames: options.gop,
            b_frames: 0,
        };
        let mut floor = Self {
            generator: Generator::new(shape, 0, filler()),
            writer: ChunkWriter::new(),
            start_ns: now_ns() + MILLISECOND_NS,
            greeting: BytesMut::new(),
            batch: BytesMut::new(),
            body: Vec::new(),
            players: Vec::new(),
        };
        let chunk_size = message::set_chunk_size(OUT_CHUNK_SIZE);
        floor.message(chunk_stream::CONTROL, 0, type_id::SET_CHUNK_SIZE, 0, &chunk_size)?;
        floor.writer.set_chunk_size(OUT_CHUNK_SIZE);
        floor.message(
            chunk_stream::VIDEO,
            0,
            type_id::VIDEO,
            MESSAGE_STREAM_ID,
            &VIDEO_SEQUENCE_HEADER,
        )?;
        floor.message(
            chunk_stream::AUDIO,
            0,
            type_id::AUDIO,
            MESSAGE_STREAM_ID,
            &AUDIO_SEQUENCE_HEADER,
        )?;
        floor.greeting = floor.batch.split();
        Ok(floor)
    }

    fn due_ns(&self) -> u64 {
        self.start_ns + self.generator.due_ns()
    }

    fn message(
        &mut self,
        csid: u32,
        time_ms: u32,
        type_id: u8,
        stream: u32,
        body: &[u8],
    ) -> Result<(), LoadError> {
        self.writer
            .write(&mut self.batch, csid, time_ms, type_id, stream, body)
            .map_err(|_| LoadError::Options("a frame is longer than RTMP can say".to_owned()))
    }

    /// Adds the next frame to the batch.
    fn frame(&mut self) -> Result<(), LoadError> {
        let mut body = std::mem::take(&mut self.body);
        let made = self.generator.make(now_ns(), &mut body);
        let (chunk_stream, type_id) = match made.track {
            Track::Audio => (chunk_stream::AUDIO, type_id::AUDIO),
            Track::Video => (chunk_stream::VIDEO, type_id::VIDEO),
        };
        let result = self.message(chunk_stream, made.dts_ms, type_id, MESSAGE_STREAM_ID, &body);
        self.body = body;
        result
    }

    fn accept(&mut self, listener: &TcpListener) -> Result<(), LoadError> {
        loop {
            match listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(true).map_err(LoadError::io("accept"))?;
                    socket.set_nodelay(true).map_err(LoadError::io("accept"))?;
                    let mut player = Player {
                        socket,
                        behind: Vec::new(),
                    };
                    if player.send(&self.greeting) {
                        self.players.push(player);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // A connection that is gone again is no reason to end.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(LoadError::io("accept")(error)),
            }
        }
    }

    /// Writes the batch to all.
    fn flush(&mut self) {
        let batch = self.batch.split();
        self.players.retain_mut(|player| player.send(&batch));
    }
}

impl Player {
    /// Writes `bytes`; `false` if the player is gone or too far behind.
    fn send(&mut self, bytes: &[u8]) -> bool {
        if !self.behind.is_empty() {
            self.behind.extend_from_slice(bytes);
            let behind = std::mem::take(&mut self.behind);
            return self.write(&behind);
        }
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> bool {
        let written = match self.socket.write(bytes) {
            Ok(written) => written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return false,
        };
        let rest = bytes.get(written..).unwrap_or_default();
        self.behind.extend_from_slice(rest);
        rest.len() <= MAX_BEHIND_BYTES
    }
}
