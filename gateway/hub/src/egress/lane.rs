//! [`Lane`]: one task that writes each flush of a stream to many viewers.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Notify;
#[cfg(not(loom))]
use {socket2::SockRef, tokio::io::Interest};

use super::batch::Batch;
use super::flush::{Flush, Layout};
use super::format::Format;
use crate::alone::alone;
use crate::cursor::{Cursor, CursorRead};
use crate::frame::{Frame, Role};
use crate::stream::Stream;
use crate::viewer::Sent;

/// After so many writes a lane lets other tasks of its worker run: about half a millisecond.
const WRITES_PER_TURN: usize = 32;

/// The fewest chairs that are looked through for some that were left before the lane took them in.
const MIN_CLEAR: usize = 64;

/// Slices that the kernel takes in one call (`UIO_MAXIOV`).
#[cfg(not(loom))]
const MAX_SLICES: usize = 1024;

/// Where a lane writes: a socket that is not waited for.
pub trait Sink: Send + Sync + std::fmt::Debug {
    /// One vectored write that never blocks.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is taken now; anything else when the connection has failed.
    fn try_write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}

#[cfg(not(loom))] // tokio has no sockets under loom
impl Sink for tokio::net::TcpStream {
    /// By `send` and `sendmsg`: `writev` goes through the kernel's file layer first, a twentieth of a small write's cost.
    fn try_write_slices(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match slices {
            [slice] => self.try_write(slice),
            _ => self.try_io(Interest::WRITABLE, || {
                let slices = slices.get(..MAX_SLICES).unwrap_or(slices);
                SockRef::from(self).send_vectored(slices)
            }),
        }
    }
}

/// Why a seat was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftReason {
    /// The viewer's own task asked.
    Asked,
    /// The socket did not take everything.
    Slow,
    /// The connection has failed.
    Failed(io::ErrorKind),
    /// The stream's phase changed, or the lane ended.
    Closed,
}

/// Where a viewer goes on after it left its seat.
#[derive(Debug)]
pub struct Left {
    /// Why.
    pub reason: LeftReason,
    /// A frame that is half written, and how many of its bytes are: the viewer's task must finish it first.
    pub partial: Option<(Arc<Frame>, usize)>,
    pub(crate) next: u64,
    pub(crate) sent: Sent,
    pub(crate) bytes: u64,
}

impl Left {
    /// Puts what is half written into `batch`, which is done, to be finished before anything else.
    ///
    /// # Errors
    /// What the connection failed with while the lane wrote to it.
    pub fn resume_in(self, batch: &mut Batch) -> io::Result<()> {
        if let Some((frame, written)) = self.partial {
            batch.resume(frame, written);
        }
        match self.reason {
            LeftReason::Failed(kind) => Err(kind.into()),
            LeftReason::Asked | LeftReason::Slow | LeftReason::Closed => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Place {
    /// `None` once left: a chair nobody sits on holds no socket open.
    sink: Option<Arc<dyn Sink>>,
    /// `None` while seated.
    left: Option<LeftReason>,
    /// The next frame the viewer needs.
    next: u64,
    partial: Option<(Arc<Frame>, usize)>,
    sent: Sent,
}

#[derive(Debug)]
struct Chair {
    place: Mutex<Place>,
    handed_back: Notify,
    bytes: AtomicU64,
}

impl Place {
    /// Notes why the seat is left, unless that is known already.
    fn leave(&mut self, reason: LeftReason) -> LeftReason {
        self.sink = None;
        *self.left.get_or_insert(reason)
    }
}

impl Chair {
    fn leave(&self, place: &mut Place, reason: LeftReason) {
        place.leave(reason);
        self.handed_back.notify_one();
    }
}

/// A viewer's seat in a lane, held by the viewer's own task, which writes nothing while it sits.
#[derive(Debug)]
pub struct Seat(Arc<Chair>);

impl Seat {
    /// Waits until the lane hands the viewer back; [`Viewer::stand`](crate::Viewer::stand) then says where it
    /// goes on.
    pub async fn handed_back(&self) {
        loop {
            let notified = self.0.handed_back.notified();
            if self.0.place.lock().left.is_some() {
                return;
            }
            notified.await;
        }
    }

    /// Leaves the seat, if it was not left yet. Afterwards the viewer's task is the only writer.
    pub(crate) fn leave(self) -> Left {
        let mut place = self.0.place.lock();
        let reason = place.leave(LeftReason::Asked);
        Left {
            reason,
            partial: place.partial.take(),
            next: place.next,
            sent: place.sent,
            bytes: self.0.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Seat {
    /// The lane drops a chair nobody sits on at its next flush.
    fn drop(&mut self) {
        self.0.place.lock().leave(LeftReason::Asked);
    }
}

/// What lanes differ in: the bytes they write, and whether side information is among them.
type Kind = (Format, bool);

/// The lanes of one stream.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: Mutex<Vec<(Kind, Arc<Lane>)>>,
}

/// New seats of a lane, until its task takes them in.
#[derive(Debug)]
struct Lane {
    joining: Mutex<Joining>,
}

#[derive(Debug, Default)]
struct Joining {
    chairs: Vec<Arc<Chair>>,
    /// How many chairs there may be before those that were left again are cleared away.
    clear_at: usize,
    /// Seats taken in, by the lane's own count.
    seated: usize,
    closed: bool,
}

impl Lanes {
    /// Seats a viewer that needs `next` and has `sent`: in the emptiest of at most `width` lanes.
    pub(crate) fn sit(
        &self,
        stream: &Arc<Stream>,
        kind: Kind,
        width: usize,
        sink: Arc<dyn Sink>,
        next: u64,
        sent: Sent,
    ) -> Seat {
        let place = Place {
            sink: Some(sink),
            left: None,
            next,
            partial: None,
            sent,
        };
        let chair = Arc::new(Chair {
            place: Mutex::new(place),
            handed_back: Notify::new(),
            bytes: AtomicU64::new(0),
        });
        let mut lanes = self.lanes.lock();
        lanes.retain(|(_, lane)| !lane.joining.lock().closed);
        let mine = || lanes.iter().filter(|(k, _)| *k == kind).map(|(_, lane)| lane);
        let emptiest = mine().min_by_key(|lane| lane.joining.lock().count()).cloned();
        let lane = match emptiest {
            Some(lane) if mine().count() >= width.max(1) || lane.joining.lock().count() == 0 => lane,
            _ => {
                let lane = Arc::new(Lane {
                    joining: Mutex::default(),
                });
                lanes.push((kind, lane.clone()));
                let (task, stats) = (
                    run(lane.clone(), Arc::downgrade(stream), kind),
                    stream.process_stats(),
                );
                tokio::spawn(async move { alone(&stats, "lane", task).await });
                lane
            }
        };
        let mut joining = lane.joining.lock();
        if joining.closed {
            chair.place.lock().leave(LeftReason::Closed);
        } else {
            joining.push(chair.clone());
        }
        Seat(chair)
    }
}

impl Joining {
    fn push(&mut self, chair: Arc<Chair>) {
        if self.chairs.len() >= self.clear_at {
            self.chairs.retain(|chair| chair.place.lock().left.is_none());
            self.clear_at = (2 * self.chairs.len()).max(MIN_CLEAR);
        }
        self.chairs.push(chair);
    }

    fn count(&self) -> usize {
        self.chairs.len() + self.seated
    }
}

/// Writes each flush to every seat, until the lane is empty or the stream is over.
async fn run(lane: Arc<Lane>, stream: Weak<Stream>, kind: Kind) {
    let Some(mut wake) = stream.upgrade().map(|stream| stream.subscribe()) else {
        return;
    };
    let mut floor = Floor {
        lane,
        chairs: Vec::new(),
        cursor: None,
        kind,
    };
    loop {
        wake.borrow_and_update();
        {
            let Some(stream) = stream.upgrade() else { return };
            if !floor.take_in(stream.phase().is_open()) {
                return;
            }
            floor.serve(&stream, stream.flushed()).await;
        }
        if wake.changed().await.is_err() {
            return;
        }
    }
}

/// The seats of a lane and how far they were served.
struct Floor {
    lane: Arc<Lane>,
    chairs: Vec<Arc<Chair>>,
    cursor: Option<Cursor>,
    kind: Kind,
}

impl Drop for Floor {
    /// However the lane ends, nobody is left sitting.
    fn drop(&mut self) {
        let mut joining = self.lane.joining.lock();
        joining.closed = true;
        self.chairs.append(&mut joining.chairs);
        drop(joining);
        self.hand_back_all();
    }
}

impl Floor {
    /// Seats those who came since; `false`, and the lane is closed, when there is nobody to serve.
    fn take_in(&mut self, open: bool) -> bool {
        let mut joining = self.lane.joining.lock();
        self.chairs.append(&mut joining.chairs);
        joining.seated = self.chairs.len();
        joining.closed = !open || self.chairs.is_empty();
        !joining.closed
    }

    /// Serves everything below `flushed`.
    async fn serve(&mut self, stream: &Arc<Stream>, flushed: u64) {
        let needed = || self.chairs.iter().map(|chair| chair.place.lock().next).min();
        let start = self.cursor.or_else(|| needed().map(|next| Cursor { next }));
        let Some(mut cursor) = start else { return };
        let mut frames = Vec::new();
        loop {
            frames.clear();
            let first = cursor.next;
            match cursor.read(stream.ring(), flushed, &mut frames) {
                CursorRead::Frames => self.deliver(stream, first, cursor.next, &frames).await,
                CursorRead::Empty => break,
                CursorRead::Overrun => {
                    // The lane itself was too slow: each viewer's own policy says what it skips.
                    self.cursor = None;
                    self.hand_back_all();
                    return;
                }
            }
        }
        self.cursor = Some(cursor);
    }

    /// Renders the frames once and writes them to every seat.
    async fn deliver(&mut self, stream: &Arc<Stream>, first: u64, end: u64, frames: &[Arc<Frame>]) {
        let (format, enhanced) = self.kind;
        let wanted = |frame: &&Arc<Frame>| enhanced || frame.role() != Role::SideInfo;
        let layout = Layout::of(format, frames.iter().filter(wanted));
        let flush = Flush::new(&layout);
        let mut total = 0;
        let mut index = 0;
        let mut writes = 0;
        while let Some(chair) = self.chairs.get(index) {
            match chair.take(&flush, first, end) {
                Written::All(bytes) => {
                    total += bytes;
                    index += 1;
                }
                Written::HandedBack(bytes) => {
                    total += bytes;
                    self.chairs.swap_remove(index);
                }
            }
            writes += 1;
            if writes % WRITES_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        stream.count_sent(format.protocol(), total);
    }

    fn hand_back_all(&mut self) {
        for chair in self.chairs.drain(..) {
            let mut place = chair.place.lock();
            if place.left.is_none() {
                chair.leave(&mut place, LeftReason::Closed);
            }
        }
    }
}

enum Written {
    All(u64),
    HandedBack(u64),
}

impl Chair {
    /// Writes what the seat needs of the frames `first..end`.
    fn take(&self, flush: &Flush<'_>, first: u64, end: u64) -> Written {
        let mut place = self.place.lock();
        if place.left.is_none() && place.next < first {
            self.leave(&mut place, LeftReason::Slow);
        }
        let Some(sink) = place.sink.as_ref() else {
            return Written::HandedBack(0);
        };
        let start = flush.start_of(place.next);
        let wanted = flush.bytes() - start;
        let result = match wanted {
            0 => Ok(0),
            _ => flush.write_from(start, |slices| sink.try_write_slices(slices)),
        };
        let (written, reason) = match result {
            Ok(written) if written == wanted => (written, None),
            Ok(written) => (written, Some(LeftReason::Slow)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (0, Some(LeftReason::Slow)),
            Err(error) => (0, Some(LeftReason::Failed(error.kind()))),
        };
        match reason {
            None => place.next = place.next.max(end),
            Some(_) => place.stop_at(flush, start + written),
        }
        for header in flush.headers_below(place.next) {
            place.sent.take(header);
        }
        self.bytes.fetch_add(written as u64, Ordering::Relaxed);
        match reason {
            None => Written::All(written as u64),
            Some(reason) => {
                self.leave(&mut place, reason);
                Written::HandedBack(written as u64)
            }
        }
    }
}

impl Place {
    /// Notes that the seat has had the flush up to this byte.
    fn stop_at(&mut self, flush: &Flush<'_>, byte: usize) {
        match flush.frame_at(byte) {
            Some((frame, 0)) => self.next = self.next.max(frame.seq()),
            Some((frame, written)) => {
                self.partial = Some((frame.clone(), written));
                self.next = frame.seq() + 1;
            }
            None => {}
        }
    }
}
