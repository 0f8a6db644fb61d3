use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use spillway_hub::PerIp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{ServeOptions, serve};

struct Server {
    address: SocketAddr,
    options: ServeOptions,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(router: Router, options: ServeOptions) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(listener, router, options.clone(), shutdown.clone()));
    Server {
        address,
        options,
        shutdown,
        task,
    }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request on its own connection and reads the whole answer.
    async fn ask(&self, request: &str) -> String {
        let mut client = self.connect().await;
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        timeout(Duration::from_secs(10), client.read_to_end(&mut answer))
            .await
            .unwrap()
            .unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn until(&self, what: impl Fn(super::ServeSnapshot) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !what(self.options.counters.snapshot()) {
            assert!(
                Instant::now() < deadline,
                "{:?}",
                self.options.counters.snapshot()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

fn options() -> ServeOptions {
    ServeOptions {
        drain: Duration::from_secs(5),
        counters: Arc::default(),
        ..ServeOptions::default()
    }
}

#[tokio::test]
async fn a_full_listener_says_so_and_recovers() {
    let server = start(
        hello(),
        ServeOptions {
            slots: Arc::new(tokio::sync::Semaphore::new(1)),
            ..options()
        },
    )
    .await;
    let first = server.connect().await;
    server.until(|c| c.open == 1).await;
    let refused = server.ask(GET).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for header in [
        "Access-Control-Allow-Origin: *",
        "Retry-After: ",
        "Cache-Control: no-store",
    ] {
        assert!(refused.contains(header), "{refused}");
    }
    assert!(refused.ends_with("\r\n\r\ntoo many connections\n"));
    assert_eq!(server.options.counters.snapshot().refused, 1);
    drop(first);
    server.until(|c| c.open == 0).await;
    assert!(server.ask(GET).await.ends_with("hello"));
}

#[tokio::test]
async fn an_address_that_has_enough_connections_is_told_so_and_others_are_not() {
    let server = start(
        hello(),
        ServeOptions {
            per_ip: PerIp::new(1),
            ..options()
        },
    )
    .await;
    let first = server.connect().await;
    server.until(|c| c.open == 1).await;
    let refused = server.ask(GET).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("Retry-After: "), "{refused}");
    let counted = server.options.counters.snapshot();
    assert_eq!((counted.refused_per_ip, counted.refused), (1, 0));
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let _other = other.connect(server.address).await.unwrap();
    server.until(|c| c.open == 2).await;
    drop(first);
    server.until(|c| c.open == 1).await;
    assert!(server.ask(GET).await.ends_with("hello"));
}

#[tokio::test]
async fn a_header_that_does_not_come_ends_the_connection() {
    let server = start(
        hello(),
        ServeOptions {
            header_timeout: Duration::from_millis(100),
            ..options()
        },
    )
    .await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let mut answer = Vec::new();
    timeout(Duration::from_secs(5), slow.read_to_end(&mut answer))
        .await
        .unwrap()
        .unwrap();
    server.until(|c| c.open == 0).await;
}

#[tokio::test]
async fn a_header_that_is_too_long_is_answered_431() {
    let server = start(
        hello(),
        ServeOptions {
            max_header_bytes: 8192,
            ..options()
        },
    )
    .await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n",
        "a".repeat(9000)
    );
    assert!(server.ask(&long).await.starts_with("HTTP/1.1 431 "));
    server.until(|c| c.heads_too_large == 1).await;
}

#[tokio::test]
async fn connections_are_kept_alive_and_answers_dated() {
    let server = start(hello(), options()).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut buf = vec![0; 1024];
        let count = client.read(&mut buf).await.unwrap();
        let answer = String::from_utf8_lossy(&buf[..count]).into_owned();
        assert!(answer.contains("date: ") && answer.ends_with("hello"), "{answer}");
    }
    assert_eq!(server.options.counters.snapshot().accepted, 1);
}

async fn fails() -> &'static str {
    panic!("a handler's mistake (this panic is part of a test)")
}

#[tokio::test]
async fn a_panic_ends_only_its_own_connection() {
    let server = start(hello().route("/panic", get(fails)), options()).await;
    let mut other = server.connect().await;
    assert_eq!(server.ask("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n").await, "");
    server.until(|c| c.panics == 1).await;
    other.write_all(GET.as_bytes()).await.unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("hello"));
}

fn endless(body: impl Fn() -> Body + Clone + Send + Sync + 'static) -> Router {
    hello().route("/endless", get(async move || body()))
}

#[tokio::test]
async fn shutdown_lets_answers_end_and_takes_no_new_ones() {
    let router = endless(|| {
        Body::from_stream(stream::once(async {
            sleep(Duration::from_millis(200)).await;
            Ok::<_, Infallible>(Bytes::from_static(b"the end"))
        }))
    });
    let server = start(router, options()).await;
    let mut running = server.connect().await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(idle.read(&mut [0; 1024]).await.unwrap() > 0);
    running
        .write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    sleep(Duration::from_millis(50)).await;
    server.shutdown.cancel();
    let mut answer = String::new();
    running.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("the end\r\n0\r\n\r\n"), "{answer}");
    assert_eq!(idle.read(&mut [0; 1024]).await.unwrap(), 0);
    timeout(Duration::from_secs(2), server.task)
        .await
        .unwrap()
        .unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn the_drain_ends_what_does_not_end_by_itself() {
    let router = endless(|| Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
    let server = start(
        router,
        ServeOptions {
            drain: Duration::from_millis(100),
            ..options()
        },
    )
    .await;
    let mut client = server.connect().await;
    client
        .write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    sleep(Duration::from_millis(50)).await;
    server.shutdown.cancel();
    timeout(Duration::from_secs(2), server.task)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_client_that_stops_reading_is_cut_and_counted() {
    let router =
        endless(|| Body::from_stream(stream::repeat_with(|| Ok::<_, Infallible>(vec![0_u8; 65_536]))));
    let server = start(
        router,
        ServeOptions {
            stall_timeout: Duration::from_millis(300),
            ..options()
        },
    )
    .await;
    let mut client = server.connect().await;
    client
        .write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    server.until(|c| c.stalled == 1 && c.open == 0).await;
}

/// Tells when an answer's body is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_while_nothing_is_sent() {
    let gone = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&gone);
    let router = endless(move || {
        let gone = Gone(Arc::clone(&seen));
        Body::from_stream(stream::unfold(gone, async |_| {
            std::future::pending::<Option<(Result<Bytes, Infallible>, Gone)>>().await
        }))
    });
    let server = start(router, options()).await;
    let mut client = server.connect().await;
    client
        .write_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(client.read(&mut [0; 1024]).await.unwrap() > 0);
    drop(client);
    server.until(|c| c.open == 0).await;
    assert!(gone.load(Ordering::Relaxed));
}
