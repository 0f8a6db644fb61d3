use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::signature::signature;

const SOON: Duration = Duration::from_secs(20);

/// An endpoint whose answers the test gives, event by event.
struct Endpoint {
    address: SocketAddr,
    events: mpsc::Receiver<Received>,
}

/// An event that waits for its answer.
struct Received {
    socket: TcpStream,
    head: String,
    text: String,
}

impl Endpoint {
    async fn new() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    async fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, events) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let heard = heard.clone();
                tokio::spawn(async move {
                    if let Some(received) = Received::read(socket).await {
                        let _ = heard.send(received).await;
                    }
                });
            }
        });
        Self { address, events }
    }

    async fn next(&mut self) -> Received {
        let next = tokio::time::timeout(SOON, self.events.recv());
        next.await.expect("an event in time").expect("an event")
    }

    /// The next event, which must be of this kind, allowed or taken.
    async fn take(&mut self, kind: &str) -> Value {
        let received = self.next().await;
        let event = received.event();
        assert_eq!(event["event"], kind);
        received.answer(204, "").await;
        event
    }

    fn is_quiet(&mut self) -> bool {
        self.events.try_recv().is_err()
    }
}

impl Received {
    async fn read(mut socket: TcpStream) -> Option<Self> {
        let mut bytes = Vec::new();
        loop {
            if socket.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, text)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length: usize = header(head, "content-length")?.parse().ok()?;
            if text.len() == length {
                let (head, text) = (head.to_owned(), text.to_owned());
                return Some(Self { socket, head, text });
            }
        }
    }

    fn event(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    async fn answer(mut self, status: u16, body: &str) {
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        // Whoever asked may be gone.
        let _ = self.socket.write_all(answer.as_bytes()).await;
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn options(address: SocketAddr) -> HookOptions {
    HookOptions {
        uri: format!("http://{address}/hook").parse().unwrap(),
        secret: Some(b"hook-secret".to_vec()),
        ca_file: None,
        events: EventKind::ALL.to_vec(),
        timeout: Duration::from_secs(10),
        retries: 20,
        fail_open: false,
        cache: Duration::ZERO,
        max_in_flight: 4,
        max_sessions: 100,
        random,
    }
}

fn hooks(options: HookOptions) -> Hooks {
    Hooks::new(options, TaskTracker::new(), CancellationToken::new()).unwrap()
}

fn guest(kind: EventKind, stream: &str) -> Guest {
    Guest {
        kind,
        protocol: "rtmp",
        peer: [192, 0, 2, 1].into(),
        app: "live".into(),
        stream: Some(stream.into()),
        params: vec![("key".into(), "hunter2".into())],
    }
}

fn asking(hooks: &Hooks, kind: EventKind, stream: &str) -> tokio::task::JoinHandle<Result<Granted, Denied>> {
    let (hooks, guest) = (hooks.clone(), guest(kind, stream));
    tokio::spawn(async move { hooks.ask(guest).await })
}

#[tokio::test]
async fn who_is_let_in_has_its_end_told_under_its_new_name() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Publish, "live/s3cret");
    let received = endpoint.next().await;
    let start = received.event();
    assert_eq!(
        (&start["event"], &start["asks"], &start["stream"]),
        (&json!("publish"), &json!(true), &json!("live/s3cret"))
    );
    let code = header(&received.head, "spillway-signature").unwrap();
    let time = code
        .strip_prefix("t=")
        .unwrap()
        .split_once(',')
        .unwrap()
        .0
        .parse()
        .unwrap();
    assert_eq!(code, signature(b"hook-secret", time, received.text.as_bytes()));
    assert_eq!(header(&received.head, "spillway-event-id").unwrap(), start["id"]);
    received
        .answer(200, r#"{"allow":true,"rename":"public","lifetime_seconds":9}"#)
        .await;
    let granted = asked.await.unwrap().unwrap();
    assert_eq!(granted.terms.rename.as_deref(), Some("public"));
    assert_eq!(granted.terms.lifetime, Some(Duration::from_secs(9)));
    assert!(endpoint.is_quiet());
    granted.lease.end("replaced");
    let end = endpoint.take("unpublish").await;
    assert_eq!(
        (&end["session"], &end["reason"], &end["renamed"]),
        (&start["session"], &json!("replaced"), &json!("public"))
    );
    assert_eq!(
        end["sequence"].as_u64(),
        start["sequence"].as_u64().map(|first| first + 1)
    );
    assert_ne!(end["id"], start["id"]);
}

#[tokio::test]
async fn who_is_refused_has_no_end_and_hears_no_secret() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Publish, "live/s3cret");
    let reason = r#"{"allow":false,"reason":"no stream s3cret\nwith key hunter2"}"#;
    endpoint.next().await.answer(403, reason).await;
    let denied = asked.await.unwrap().unwrap_err();
    assert_eq!(denied, Denied::Refused(Some("no stream ... with key ...".into())));
    let asked = asking(&hooks, EventKind::Play, "live/a");
    endpoint.take("play").await;
    drop(asked.await.unwrap().unwrap());
    endpoint.take("stop").await;
    assert!(endpoint.is_quiet());
}

/// A connection may die while the endpoint thinks.
#[tokio::test]
async fn who_leaves_while_the_endpoint_is_asked_has_its_end_told() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    let received = endpoint.next().await;
    asked.abort();
    assert!(asked.await.is_err());
    let session = received.event()["session"].clone();
    received.answer(200, r#"{"allow":true}"#).await;
    assert_eq!(endpoint.take("unpublish").await["session"], session);
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_with_the_same_event() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    let first = endpoint.next().await;
    let text = first.text.clone();
    first.answer(500, "").await;
    let second = endpoint.next().await;
    assert_eq!(
        (&second.text, header(&second.head, "spillway-attempt")),
        (&text, Some("2"))
    );
    drop(second);
    let third = endpoint.next().await;
    assert_eq!(
        (&third.text, header(&third.head, "spillway-attempt")),
        (&text, Some("3"))
    );
    third.answer(204, "").await;
    let lease = asked.await.unwrap().unwrap().lease;
    drop(lease);
    for _ in 0..3 {
        endpoint.next().await.answer(503, "").await;
    }
    endpoint.take("unpublish").await;
}

#[tokio::test]
async fn an_answer_that_decides_nothing_keeps_out_and_what_may_have_started_is_ended() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    let received = endpoint.next().await;
    let session = received.event()["session"].clone();
    received.answer(200, "yes").await;
    assert_eq!(
        asked.await.unwrap().unwrap_err(),
        Denied::Failed(Failure::BadAnswer)
    );
    let end = endpoint.take("unpublish").await;
    assert_eq!(
        (&end["session"], &end["reason"]),
        (&session, &json!("hook_failed"))
    );
}

#[tokio::test]
async fn a_viewer_cannot_be_sent_to_another_stream() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Play, "live/a");
    let received = endpoint.next().await;
    received.answer(200, r#"{"allow":true,"rename":"b"}"#).await;
    assert_eq!(
        asked.await.unwrap().unwrap_err(),
        Denied::Failed(Failure::BadAnswer)
    );
    endpoint.take("stop").await;
}

#[tokio::test]
async fn a_dead_endpoint_keeps_out_and_is_told_nothing_later() {
    let endpoint = Endpoint::new().await;
    let address = endpoint.address;
    drop(endpoint);
    let unused = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    assert_ne!(address, unused);
    let hooks = hooks(HookOptions {
        timeout: Duration::from_millis(300),
        ..options(unused)
    });
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    assert_eq!(
        asked.await.unwrap().unwrap_err(),
        Denied::Failed(Failure::Connect)
    );
    assert_eq!(hooks.0.order.lock().len(), 0);
}

/// It may come back meanwhile.
#[tokio::test]
async fn an_endpoint_that_lets_in_while_it_is_dead_hears_of_start_and_end_when_it_is_back() {
    let address = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let hooks = hooks(HookOptions {
        timeout: Duration::from_millis(300),
        fail_open: true,
        ..options(address)
    });
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    let granted = asked.await.unwrap().unwrap();
    assert_eq!(granted.terms, Terms::default());
    drop(granted.lease);
    let mut endpoint = Endpoint::at(address).await;
    let start = endpoint.take("publish").await;
    let end = endpoint.take("unpublish").await;
    assert_eq!(start["session"], end["session"]);
    assert!(start["sequence"].as_u64() < end["sequence"].as_u64());
}

#[tokio::test]
async fn a_publisher_that_returns_is_asked_about_once_its_last_end_is_told() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    endpoint.take("publish").await;
    drop(asked.await.unwrap().unwrap());
    let asked = asking(&hooks, EventKind::Publish, "live/a");
    let first = endpoint.next().await;
    assert_eq!(first.event()["event"], "unpublish");
    first.answer(500, "").await;
    endpoint.take("unpublish").await;
    endpoint.take("publish").await;
    drop(asked.await.unwrap().unwrap());
    endpoint.take("unpublish").await;
}

#[tokio::test]
async fn a_slow_answer_delays_only_its_own_session() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let slow = asking(&hooks, EventKind::Publish, "live/slow");
    let kept = endpoint.next().await;
    for stream in ["live/a", "live/slow"] {
        let quick = asking(&hooks, EventKind::Publish, stream);
        endpoint.next().await.answer(403, "").await;
        assert_eq!(quick.await.unwrap().unwrap_err(), Denied::Refused(None));
    }
    assert!(!slow.is_finished());
    kept.answer(204, "").await;
    assert!(slow.await.unwrap().is_ok());
}

#[tokio::test]
async fn beyond_the_calls_and_sessions_that_may_be_the_configuration_decides() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(HookOptions {
        max_in_flight: 1,
        max_sessions: 2,
        timeout: Duration::from_secs(2),
        ..options(endpoint.address)
    });
    let slow = asking(&hooks, EventKind::Play, "live/a");
    let kept = endpoint.next().await;
    let busy = asking(&hooks, EventKind::Play, "live/b").await.unwrap();
    assert_eq!(busy.unwrap_err(), Denied::Failed(Failure::Busy));
    kept.answer(204, "").await;
    let first = slow.await.unwrap().unwrap();
    let asked = asking(&hooks, EventKind::Play, "live/b");
    endpoint.take("play").await;
    let second = asked.await.unwrap().unwrap();
    let full = asking(&hooks, EventKind::Play, "live/c").await.unwrap();
    assert_eq!(full.unwrap_err(), Denied::Failed(Failure::TooManySessions));
    drop((first, second));
    endpoint.take("stop").await;
    endpoint.take("stop").await;
}

#[tokio::test]
async fn a_kept_answer_is_not_asked_for_again_and_each_session_is_told_of() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(HookOptions {
        cache: Duration::from_secs(600),
        ..options(endpoint.address)
    });
    let asked = asking(&hooks, EventKind::Play, "live/a");
    endpoint
        .next()
        .await
        .answer(200, r#"{"allow":true,"lifetime_seconds":60}"#)
        .await;
    let first = asked.await.unwrap().unwrap();
    let second = asking(&hooks, EventKind::Play, "live/a").await.unwrap().unwrap();
    assert_eq!(second.terms, first.terms);
    let told = endpoint.take("play").await;
    assert_eq!(told["asks"], false);
    drop(second);
    assert_eq!(endpoint.take("stop").await["session"], told["session"]);
    let other = asking(&hooks, EventKind::Play, "live/b");
    let received = endpoint.next().await;
    assert_eq!(received.event()["asks"], true);
    received.answer(403, "").await;
    assert!(other.await.unwrap().is_err());
    assert!(asking(&hooks, EventKind::Play, "live/b").await.unwrap().is_err());
    assert!(endpoint.is_quiet());
    drop(first);
}

#[tokio::test]
async fn events_that_are_not_wanted_are_not_sent() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(HookOptions {
        events: vec![EventKind::Publish, EventKind::Stop],
        ..options(endpoint.address)
    });
    drop(hooks.tell(guest(EventKind::Publish, "live/a")));
    drop(hooks.tell(guest(EventKind::Play, "live/a")));
    let told = endpoint.take("publish").await;
    assert_eq!(told["asks"], false);
    hooks.0.tasks.close();
    tokio::time::timeout(SOON, hooks.0.tasks.wait()).await.unwrap();
    assert!(endpoint.is_quiet());
}

#[tokio::test]
async fn at_the_end_of_the_process_each_event_has_few_attempts_left() {
    let mut endpoint = Endpoint::new().await;
    let hooks = hooks(options(endpoint.address));
    let lease = hooks.tell(guest(EventKind::Publish, "live/a"));
    endpoint.take("publish").await;
    hooks.0.shutdown.cancel();
    lease.end("shutdown");
    for _ in 0..3 {
        let received = endpoint.next().await;
        assert_eq!(received.event()["reason"], "shutdown");
        received.answer(500, "").await;
    }
    hooks.0.tasks.close();
    tokio::time::timeout(SOON, hooks.0.tasks.wait()).await.unwrap();
    assert!(hooks.0.order.lock().is_empty());
}
