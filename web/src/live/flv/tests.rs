//! HTTP-FLV on real sockets, where the tags go past hyper.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_hub::{EndReason, Hub, HubOptions, Protocol, SessionInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::super::tests::{listen, listen_with};
use crate::serve::ServeOptions;
use crate::testing::{Source, hub, key};

const GET_FLV: &str = "GET /live/cam.flv HTTP/1.1\r\nHost: x\r\n\r\n";
const FLV_HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// A client with a small window.
async fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    socket.connect(address).await.unwrap()
}

async fn read_head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

/// Reads at most 16 KiB a millisecond.
async fn read_slowly_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut wire = Vec::new();
    let mut buf = vec![0; 16 * 1024];
    loop {
        match timeout(Duration::from_secs(10), client.read(&mut buf))
            .await
            .unwrap()
        {
            Ok(0) | Err(_) => return wire,
            Ok(count) => wire.extend(&buf[..count]),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Takes the chunked transfer coding off (RFC 9112 §7.1): the content and what follows it, or `None` if it is
/// cut off before its end.
fn dechunk(mut wire: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    loop {
        let end = wire.windows(2).position(|w| w == b"\r\n")?;
        let size = std::str::from_utf8(&wire[..end]).expect("a chunk size");
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        let (chunk, rest) = wire[end + 2..].split_at_checked(size)?;
        let (tail, rest) = rest.split_at_checked(2)?;
        assert_eq!(tail, b"\r\n", "a chunk of {size} bytes does not end");
        if size == 0 {
            return Some((content, rest));
        }
        content.extend(chunk);
        wire = rest;
    }
}

/// All tags of the stream, from the newest key frame to its end.
async fn witness(hub: &Hub) -> tokio::task::JoinHandle<Vec<u8>> {
    let info = SessionInfo::new(Protocol::Rtmp, ([127, 0, 0, 1], 1).into());
    let mut viewer = hub.attach(&key("live/cam"), info).await.unwrap();
    let (mut frames, mut content) = (Vec::new(), FLV_HEADER.to_vec());
    tokio::spawn(async move {
        while viewer.next(&mut frames).await.is_ok() {
            for frame in &frames {
                content.extend_from_slice(frame.tag());
            }
        }
        content
    })
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to that");
}

#[tokio::test]
async fn a_slow_reader_gets_every_byte_of_every_chunk() {
    let hub = Hub::new(HubOptions {
        linger: Duration::from_millis(100),
        max_lag: Duration::from_secs(60),
        ..HubOptions::default()
    });
    let mut source = Source::start(&hub, "live/cam");
    let witness = witness(&hub).await;
    let mut client = connect(listen(&hub).await).await;
    let request = GET_FLV.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    assert!(
        read_head(&mut client)
            .await
            .contains("transfer-encoding: chunked")
    );
    let feed = tokio::spawn(async move {
        for _ in 0..25 {
            source.gop_of(10, 12_000);
            sleep(Duration::from_millis(10)).await;
        }
    });
    let wire = read_slowly_to_end(&mut client).await;
    feed.await.unwrap();
    let expected = witness.await.unwrap();
    let (content, rest) = dechunk(&wire).expect("a whole answer");
    assert!(expected.len() > 250 * 12_000);
    assert!(content == expected && rest.is_empty());
}

/// hyper must have sent the answers before, and this one's head, before the first tag goes past it: also with
/// further requests waiting in its read buffer.
#[tokio::test]
async fn tags_never_overtake_what_hyper_has_to_say() {
    let hub = hub();
    let source = Source::start(&hub, "live/cam");
    let witness = witness(&hub).await;
    let mut client = connect(listen(&hub).await).await;
    let list = "GET /streams.json HTTP/1.1\r\nHost: x\r\n\r\n";
    let last = list.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client
        .write_all([list, GET_FLV, &last].concat().as_bytes())
        .await
        .unwrap();
    until(|| {
        hub.stream(&key("live/cam"))
            .is_some_and(|s| s.snapshot().viewers[Protocol::Flv.index()] == 1)
    })
    .await;
    drop(source);
    let head = read_head(&mut client).await;
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
    let mut json = vec![0; length];
    client.read_exact(&mut json).await.unwrap();
    assert!(json.starts_with(b"{\"total\":1"));
    assert!(read_head(&mut client).await.contains("video/x-flv"));
    let wire = read_slowly_to_end(&mut client).await;
    let (content, rest) = dechunk(&wire).expect("a whole answer");
    assert!(content == witness.await.unwrap());
    assert!(rest.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn a_stalled_viewer_is_cut_at_once_and_its_answer_stays_unfinished() {
    let hub = hub();
    let stall_timeout = Duration::from_secs(1);
    let options = ServeOptions {
        stall_timeout,
        counters: Arc::default(),
        ..ServeOptions::default()
    };
    let counters = options.counters.clone();
    let mut source = Source::start(&hub, "live/cam");
    let mut client = connect(listen_with(&hub, options).await).await;
    client.write_all(GET_FLV.as_bytes()).await.unwrap();
    read_head(&mut client).await;
    source.gop_of(20, 100_000);
    until(|| hub.stats().viewer_ends(Protocol::Flv, EndReason::Stalled) == 1).await;
    timeout(stall_timeout / 2, until(|| counters.snapshot().open == 0))
        .await
        .expect("the connection is still open");
    assert_eq!(counters.snapshot().stalled, 1);
    let wire = read_slowly_to_end(&mut client).await;
    assert!(!wire.ends_with(b"\r\n0\r\n\r\n"));
    assert_eq!(dechunk(&wire), None);
}
