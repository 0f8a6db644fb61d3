//! A bad line between a client and the gateway: a TCP proxy that delays, loses for a while, and goes silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// What TCP does about a lost packet, as its user sees it: nothing more comes until it was sent again.
const RESEND: Duration = Duration::from_millis(200);
/// What is on its way at once; the sender waits beyond it.
const PIECES_ON_THE_LINE: usize = 256;

/// How bad the line is.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Each piece comes so much later.
    pub delay: Duration,
    /// One piece of so many is lost and sent again.
    pub lost_one_in: u64,
}

struct Shared {
    line: Line,
    silent: AtomicBool,
    heard: Notify,
    pieces: AtomicU64,
}

/// A proxy; its connections end with it.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of this machine for connections to `target`.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(target: SocketAddr, line: Line) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            line,
            silent: AtomicBool::new(false),
            heard: Notify::new(),
            pieces: AtomicU64::new(0),
        });
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(carry_both(client, target, Arc::clone(&of_task)));
            }
        });
        Self {
            address,
            shared,
            task,
        }
    }

    /// Where clients connect.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Carries nothing in either direction while `silent`; both connections stay open.
    pub fn go_silent(&self, silent: bool) {
        self.shared.silent.store(silent, Ordering::Release);
        self.shared.heard.notify_waiters();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry_both(client: TcpStream, target: SocketAddr, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::join!(
        carry(from_client, to_server, &shared),
        carry(from_server, to_client, &shared)
    );
}

/// Reads pieces and hands them on when they are due: the line is long, not thin.
async fn carry(mut from: OwnedReadHalf, to: OwnedWriteHalf, shared: &Shared) {
    let (line, pieces) = mpsc::channel(PIECES_ON_THE_LINE);
    let read = async move {
        let mut piece = vec![0; 1400];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            let due = Instant::now() + shared.line.delay;
            if line.send((due, piece[..count].to_vec())).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, deliver(pieces, to, shared));
}

async fn deliver(mut pieces: mpsc::Receiver<(Instant, Vec<u8>)>, mut to: OwnedWriteHalf, shared: &Shared) {
    while let Some((due, piece)) = pieces.recv().await {
        sleep_until(due).await;
        loop {
            let heard = shared.heard.notified();
            if !shared.silent.load(Ordering::Acquire) {
                break;
            }
            heard.await;
        }
        let number = shared.pieces.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_multiple_of(shared.line.lost_one_in.max(1)) {
            sleep(RESEND).await;
        }
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
    // Whoever hangs up is heard on the other side.
    let _ = to.shutdown().await;
}
