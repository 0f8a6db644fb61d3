//! The accept loop and one connection's life.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::{debug, warn};

use super::connection::{Connection, Tasks, Transport};
use super::options::ServeOptions;
use super::socket::SharedSocket;
use super::stall::StallGuard;
use super::tune::{is_of_one_connection, tune};

/// Bytes of a response that hyper queues before it waits for the socket: one media batch.
const MAX_QUEUED_BYTES: usize = 256 * 1024;
/// hyper refuses smaller bounds than this.
const MIN_HEADER_BYTES: usize = 8 * 1024;
/// The pause after a failed `accept` such as EMFILE; it doubles up to the maximum while failures go on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How many refused connections are told so at once; the ones beyond are just closed.
const MAX_POLITE_REFUSALS: usize = 64;
/// How long a refused connection may take to read its answer.
const REFUSAL_LINGER: Duration = Duration::from_secs(2);
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 21\r\n\
    Cache-Control: no-store\r\nRetry-After: 2\r\nAccess-Control-Allow-Origin: *\r\nConnection: close\r\n\r\n\
    too many connections\n";

/// Accepts connections and serves `router` on them until `shutdown` is cancelled; then closes the listener,
/// lets running answers end for at most `options.drain`, and cuts what is left.
///
/// A panic in a handler ends only its own connection. Requests carry a [`Connection`] extension.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    let server = Arc::new(Server {
        router,
        http: http_builder(&options),
        tasks: Tasks::default(),
        slots: options.slots.clone(),
        refusals: Arc::new(Semaphore::new(MAX_POLITE_REFUSALS)),
        shutdown,
        options,
    });
    server.accept_until_shutdown(&listener).await;
    drop(listener);
    server.drain().await;
}

fn http_builder(options: &ServeOptions) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.header_timeout)
        .max_header_size(options.max_header_bytes.max(MIN_HEADER_BYTES))
        .max_buf_size(MAX_QUEUED_BYTES.max(options.max_header_bytes))
        .writev(true)
        // FLV answers go past hyper and need what it holds to be out: see `Transport::flushed`.
        .pipeline_flush(false)
        .keep_alive(true);
    http
}

struct Server {
    router: Router,
    http: http1::Builder,
    tasks: Tasks,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    shutdown: CancellationToken,
    options: ServeOptions,
}

impl Server {
    async fn accept_until_shutdown(self: &Arc<Self>, listener: &TcpListener) {
        let mut pause = ACCEPT_PAUSE;
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    pause = ACCEPT_PAUSE;
                    self.admit(stream, peer);
                }
                Err(error) if is_of_one_connection(&error) => self.options.counters.accept_failed(),
                Err(error) => {
                    self.options.counters.accept_failed();
                    if pause == ACCEPT_PAUSE {
                        warn!(listener = self.options.name, %error, "accept failed; trying again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.options.counters.refused();
            return self.turn_away(stream);
        };
        let Some(place) = self.options.per_ip.take(peer.ip()) else {
            self.options.counters.refused_per_ip();
            return self.turn_away(stream);
        };
        if let Err(error) = tune(&stream) {
            debug!(%peer, %error, "socket options refused");
        }
        let socket = Arc::new(stream);
        let io = StallGuard::new(SharedSocket(Arc::clone(&socket)), self.options.stall_timeout);
        let transport = Transport {
            socket,
            flushes: io.flushes(),
            stall_timeout: self.options.stall_timeout,
        };
        let connection = Connection::new(
            peer,
            Some(transport),
            io.stalled_flag(),
            self.tasks.clone(),
            Arc::clone(&self.options.counters),
            (slot, place),
        );
        let server = Arc::clone(self);
        connection
            .clone()
            .spawn(async move { server.run(io, connection).await });
    }

    fn turn_away(&self, stream: TcpStream) {
        if let Ok(refusal) = Arc::clone(&self.refusals).try_acquire_owned() {
            self.tasks.spawn(async move {
                let _ended = timeout(REFUSAL_LINGER, refuse(stream)).await;
                drop(refusal);
            });
        }
    }

    async fn run(&self, io: StallGuard<SharedSocket>, connection: Connection) {
        let peer = connection.peer();
        let service = service_fn(|request: hyper::Request<Incoming>| {
            connection.note_request();
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(connection.clone());
            self.router.clone().call(request)
        });
        let mut http = pin!(
            self.http
                .serve_connection(TokioIo::new(io), service)
                .with_upgrades()
        );
        let ended = tokio::select! {
            ended = http.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                if !connection.was_asked() {
                    return; // no request, or half of one: there is nobody to tell
                }
                http.as_mut().graceful_shutdown();
                http.await
            }
        };
        if let Err(error) = ended {
            if error.is_parse_too_large() {
                self.options.counters.head_too_large();
            }
            debug!(listener = self.options.name, %peer, %error, "connection ended");
        }
    }

    async fn drain(&self) {
        self.tasks.tracker.close();
        if timeout(self.options.drain, self.tasks.tracker.wait())
            .await
            .is_err()
        {
            let left = self.tasks.tracker.len();
            warn!(
                listener = self.options.name,
                left, "connections cut at the end of the drain"
            );
            self.tasks.kill.cancel();
            self.tasks.tracker.wait().await;
        }
    }
}

/// Tells the peer that the listener is full, and reads what it sends so that the close is no reset which
/// would destroy the answer on its way.
async fn refuse(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(REFUSAL).await?;
    stream.shutdown().await?;
    let mut scrap = [0; 1024];
    while stream.read(&mut scrap).await? > 0 {}
    Ok(())
}
