//! The accept loop and one connection's life.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use spillway_hub::{PerIp, Place};
use spillway_net::{ClientAddr, Entry, TlsStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::{debug, warn};

use super::connection::{Connection, Tasks, Transport};
use super::http2::{self, Activity, Unused};
use super::options::ServeOptions;
use super::socket::SharedSocket;
use super::stall::StallGuard;
use super::tune::{is_of_one_connection, tune};
use crate::http::answer;

/// Bytes of a response that hyper queues before it waits for the socket: one media batch.
const MAX_QUEUED_BYTES: usize = 256 * 1024;
/// hyper refuses smaller bounds than this.
const MIN_HEADER_BYTES: usize = 8 * 1024;
/// The pause after a failed `accept` such as EMFILE; it doubles up to the maximum while failures go on.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// How many refused connections are told so at once; the ones beyond are just closed.
const MAX_POLITE_REFUSALS: usize = 64;
/// How long an HTTP/2 connection without requests may take to answer the goodbye at a shutdown.
const GOODBYE: Duration = Duration::from_secs(1);
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

/// What a connection holds while it is open.
type Held = (OwnedSemaphorePermit, Place);

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
        if let Err(error) = tune(&stream) {
            debug!(%peer, %error, "socket options refused");
        }
        let door = &self.options.door;
        // Whom a PROXY header names is known only after it.
        let mut place = if door.proxy_protocol {
            None
        } else {
            let Some(place) = self.place(door.client_of(peer)) else {
                return self.turn_away(stream);
            };
            Some(place)
        };
        if let Some(place) = place.take_if(|_| door.is_open()) {
            return self.start(Entry::Plain(stream), door.client_of(peer), (slot, place));
        }
        let server = Arc::clone(self);
        self.tasks.spawn(async move {
            let admitted = tokio::select! {
                () = server.shutdown.cancelled() => return,
                admitted = server.options.door.admit(stream, peer) => admitted,
            };
            let Some((entry, client)) = admitted else { return };
            match (place.or_else(|| server.place(client)), entry) {
                (Some(place), entry) => server.start(entry, client, (slot, place)),
                (None, Entry::Plain(stream)) => server.turn_away(stream),
                (None, Entry::Tls(_)) => {}
            }
        });
    }

    /// A place out of the client's; a trusted proxy that names nobody brings many clients and is not counted.
    fn place(&self, client: ClientAddr) -> Option<Place> {
        let options = &self.options;
        let per_ip = if options.door.trusted.contains(client.ip()) {
            &PerIp::default()
        } else {
            &options.per_ip
        };
        let place = per_ip.take(client.ip());
        if place.is_none() {
            options.counters.refused_per_ip();
        }
        place
    }

    /// Closes a connection there is no room for, and says so where that takes no TLS.
    fn turn_away(&self, stream: TcpStream) {
        if self.options.door.tls.is_none()
            && let Ok(refusal) = Arc::clone(&self.refusals).try_acquire_owned()
        {
            self.tasks.spawn(async move {
                let _ended = timeout(REFUSAL_LINGER, refuse(stream)).await;
                drop(refusal);
            });
        }
    }

    fn start(self: &Arc<Self>, entry: Entry, client: ClientAddr, held: Held) {
        match entry {
            Entry::Plain(stream) => {
                let socket = Arc::new(stream);
                let io = self.guard(SharedSocket(Arc::clone(&socket)));
                let transport = Transport {
                    socket,
                    flushes: io.flushes(),
                    stall_timeout: self.options.stall_timeout,
                };
                let connection = self.connection(&io, client, false, Some(transport), held);
                let server = Arc::clone(self);
                connection
                    .clone()
                    .spawn(async move { server.run(io, connection).await });
            }
            Entry::Tls(stream) => {
                let session = stream.get_ref().1;
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                let certified = session.peer_certificates().is_some();
                let io = self.guard(stream);
                let connection = self.connection(&io, client, certified, None, held);
                let server = Arc::clone(self);
                connection.clone().spawn(async move {
                    if is_http2 {
                        server.run_http2(io, connection).await;
                    } else {
                        server.run(io, connection).await;
                    }
                });
            }
        }
    }

    fn guard<T>(&self, io: T) -> StallGuard<T> {
        StallGuard::new(io, self.options.stall_timeout)
    }

    fn connection<T>(
        &self,
        io: &StallGuard<T>,
        client: ClientAddr,
        certified: bool,
        transport: Option<Transport>,
        held: Held,
    ) -> Connection {
        Connection::new(
            client,
            certified,
            transport,
            io.stalled_flag(),
            self.tasks.clone(),
            Arc::clone(&self.options.counters),
            held,
        )
    }

    /// Has the router answer the request. Its [`Connection`] extension is as it is for this request's client.
    async fn answer(
        &self,
        request: hyper::Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response, Infallible> {
        connection.note_request();
        let Some(connection) = self.for_client_of(&request, connection) else {
            return Ok(answer::unavailable("too many connections\n", 2));
        };
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(connection.clone());
        let answer = self.router.clone().call(request).await;
        drop(connection); // it holds the client's place
        answer
    }

    /// The connection as it is for this request: of the client whom a trusted proxy names. Each request so named
    /// takes a place of its client's, as a connection of its own would. `None` when there is none left.
    fn for_client_of(
        &self,
        request: &hyper::Request<Incoming>,
        connection: &Connection,
    ) -> Option<Connection> {
        let trusted = &self.options.door.trusted;
        let own = connection.own_client();
        let Some(header) = trusted.header_from(own) else {
            return Some(connection.clone());
        };
        let values = request.headers().get_all(header).iter();
        let client = trusted.client_of_request(own, values.map(HeaderValue::as_bytes));
        let place = self.place(client)?;
        Some(connection.for_client(client, place))
    }

    async fn run<T>(&self, io: StallGuard<T>, connection: Connection)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service = service_fn(|request| self.answer(request, &connection));
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
        self.note_end(&connection, ended);
    }

    async fn run_http2(self: Arc<Self>, io: StallGuard<Box<TlsStream<TcpStream>>>, connection: Connection) {
        let activity = Activity::new();
        let service = service_fn(|request| {
            let (server, connection) = (Arc::clone(&self), connection.clone());
            let asked = activity.asked();
            async move {
                let answer = server.answer(request, &connection).await;
                answer.map(|answer| answer.map(|body| asked.answer(body)))
            }
        });
        let options = &self.options;
        let http = http2::builder(&connection, options.max_header_bytes);
        let mut http = pin!(http.serve_connection(TokioIo::new(io), service));
        let unused = activity.watch(options.header_timeout, options.stall_timeout);
        let ended = tokio::select! {
            ended = http.as_mut() => ended,
            unused = unused => match unused {
                Unused::Stalled => return connection.note_stalled(),
                Unused::Idle => {
                    http.as_mut().graceful_shutdown();
                    let Ok(ended) = timeout(options.header_timeout, http).await else { return };
                    ended
                }
            },
            () = self.shutdown.cancelled() => {
                if !connection.was_asked() {
                    return;
                }
                http.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = http => ended,
                    // Who has nothing more to get and does not answer the goodbye holds nobody up.
                    _unused = activity.watch(GOODBYE, options.stall_timeout) => return,
                }
            }
        };
        self.note_end(&connection, ended);
    }

    fn note_end(&self, connection: &Connection, ended: hyper::Result<()>) {
        if let Err(error) = ended {
            if error.is_parse_too_large() {
                self.options.counters.head_too_large();
            }
            let peer = connection.client();
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
