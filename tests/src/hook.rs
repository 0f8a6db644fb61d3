//! An endpoint for hooks: answers each event as the test says, and remembers them.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::gateway::{Gateway, Start};
use crate::wait::secs;

/// The secret that events are signed with.
pub const SECRET: &str = "hook-secret-0123456789abcdef";

/// An answer to an event.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    body: String,
    after: Duration,
}

impl Reply {
    /// Lets in.
    #[must_use]
    pub fn allow() -> Self {
        Self::status(204)
    }

    /// Nothing but a status.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self {
            status,
            body: String::new(),
            after: Duration::ZERO,
        }
    }

    /// 200 with this body.
    #[must_use]
    pub fn json(body: &Value) -> Self {
        Self {
            body: body.to_string(),
            ..Self::status(200)
        }
    }

    /// The same, later.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        Self { after: time, ..self }
    }
}

/// An event that was answered with 2xx or 403, in the order of the answers.
#[derive(Clone, Debug)]
pub struct Event(pub Value);

impl Event {
    /// The value of a field as text; empty if it is not there.
    #[must_use]
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// Whether it is of this kind.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        self.text("event") == kind
    }
}

type Answers = dyn Fn(&Event) -> Reply + Send + Sync;

/// A running endpoint.
pub struct Endpoint {
    address: SocketAddr,
    events: Arc<Mutex<Vec<Event>>>,
    count: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Endpoint {
    /// Answers every event with what `answer` says of it.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(answer: impl Fn(&Event) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let (counter, count) = watch::channel(0);
        let (answer, book): (Arc<Answers>, _) = (Arc::new(answer), events.clone());
        let counter = Arc::new(counter);
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (answer, book, counter) = (answer.clone(), book.clone(), counter.clone());
                tokio::spawn(async move {
                    if serve(socket, &*answer, &book).await.is_some() {
                        counter.send_modify(|count| *count += 1);
                    }
                });
            }
        });
        Self {
            address,
            events,
            count,
            task,
        }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// A gateway that asks it about publishers and viewers.
    #[must_use]
    pub fn gateway(&self) -> Start {
        Gateway::with()
            .set("auth.publish", "hook")
            .set("auth.play", "hook")
            .set("hooks.url", &self.url())
            .env("SPILLWAY__HOOKS__SECRET", SECRET)
    }

    /// The events so far, each once.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashSet::new();
        let first = |event: &&Event| seen.insert(event.text("id").to_owned());
        events.iter().filter(first).cloned().collect()
    }

    /// The events of a kind so far.
    #[must_use]
    pub fn events_of(&self, kind: &str) -> Vec<Event> {
        self.events().into_iter().filter(|event| event.is(kind)).collect()
    }

    /// Waits until there are `count` events of a kind; gives them.
    ///
    /// # Panics
    /// When there are not in time.
    pub async fn wait(&self, kind: &str, count: usize) -> Vec<Event> {
        let mut changes = self.count.clone();
        let enough = changes.wait_for(|_| self.events_of(kind).len() >= count);
        let result = tokio::time::timeout(secs(20), enough).await;
        assert!(
            result.is_ok(),
            "waited in vain for {count} times {kind}: {:#?}",
            self.events()
        );
        self.events_of(kind)
    }
}

/// Reads one event and answers it; `None` if it did not count.
async fn serve(mut socket: TcpStream, answer: &Answers, book: &Mutex<Vec<Event>>) -> Option<()> {
    let event = read(&mut socket).await?;
    let Reply { status, body, after } = answer(&event);
    tokio::time::sleep(after).await;
    let counts = matches!(status, 200..=299 | 403);
    if counts {
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        book.push(event);
    }
    let length = body.len();
    let head = format!("HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    // The gateway may have given up.
    let _ = socket.write_all(head.as_bytes()).await;
    counts.then_some(())
}

async fn read(socket: &mut TcpStream) -> Option<Event> {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))?;
        if body.len() == length.parse::<usize>().ok()? {
            return Some(Event(serde_json::from_str(body).ok()?));
        }
    }
}
