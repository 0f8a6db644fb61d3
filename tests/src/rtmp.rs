//! An RTMP viewer and a raw publisher on the client session of `spillway-rtmp`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use spillway_rtmp::session::MediaKind;
use spillway_rtmp::session::client::{ClientEvent, ClientMode, ClientOptions, ClientSession};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep_until};

use crate::flv::Tag;
use crate::slow::{self, Socket};

const HEAD_ROOM: usize = 11;

struct Connection {
    socket: Socket,
    session: ClientSession,
    input: BytesMut,
}

impl Connection {
    fn over(socket: Socket, host: &str, key: &str, mode: ClientMode) -> Self {
        let (app, name) = key.split_once('/').unwrap_or((key, ""));
        let session = ClientSession::new(ClientOptions::new(host, app, name, mode));
        Self {
            socket,
            session,
            input: BytesMut::with_capacity(16 * 1024),
        }
    }

    /// The next event; `None` when the peer closed.
    async fn next(&mut self) -> io::Result<Option<ClientEvent>> {
        loop {
            let mut rest: &[u8] = &self.input;
            let before = rest.len();
            let event = self.session.read(&mut rest).map_err(io::Error::other)?;
            let used = before - rest.len();
            self.input.advance(used);
            self.flush().await?;
            if event.is_some() {
                return Ok(event);
            }
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let output = self.session.output();
        if !output.is_empty() {
            self.socket.write_all_buf(output).await?;
        }
        Ok(())
    }
}

/// A viewer that reads messages as tags.
pub struct Viewer {
    connection: Connection,
    ended_with: Option<String>,
}

impl Viewer {
    /// Connects and asks to play `app/name`.
    ///
    /// # Panics
    /// When the connection is refused.
    pub async fn open(to: SocketAddr, key: &str) -> Self {
        Self::open_with(to, key, None).await
    }

    /// The same with a small receive buffer, for a viewer that takes little.
    pub async fn open_narrow(to: SocketAddr, key: &str) -> Self {
        Self::open_with(to, key, Some(slow::SMALL_BUFFER)).await
    }

    async fn open_with(to: SocketAddr, key: &str, buffer: Option<usize>) -> Self {
        let socket = slow::connect(to, buffer).await;
        let socket = socket.unwrap_or_else(|error| panic!("rtmp://{to}/{key}: {error}"));
        Self::over(Box::new(socket), &to.to_string(), key)
    }

    /// Asks to play `app/name` over a connection to `host`.
    #[must_use]
    pub fn over(socket: Socket, host: &str, key: &str) -> Self {
        Self {
            connection: Connection::over(socket, host, key, ClientMode::Play),
            ended_with: None,
        }
    }

    /// The next media message; `None` when the stream ended.
    pub async fn next_tag(&mut self) -> Option<Tag> {
        loop {
            match self.connection.next().await.ok()?? {
                ClientEvent::Media {
                    kind,
                    timestamp_ms,
                    buf,
                } => {
                    let kind = match kind {
                        MediaKind::Audio => 8,
                        MediaKind::Video => 9,
                        _ => 18,
                    };
                    let body = Bytes::from(buf).slice(HEAD_ROOM..);
                    return Some(Tag {
                        kind,
                        timestamp_ms,
                        body,
                    });
                }
                ClientEvent::Refused { code, description } => {
                    self.ended_with = Some(format!("{code}: {description}"));
                    return None;
                }
                ClientEvent::Ended => {
                    self.ended_with = Some("ended".to_owned());
                    return None;
                }
                _ => {}
            }
        }
    }

    /// How the server ended the stream, if it did and did not just close.
    #[must_use]
    pub fn ended_with(&self) -> Option<&str> {
        self.ended_with.as_deref()
    }
}

/// A publisher that sends what it is told, whether it makes sense or not.
pub struct Publisher {
    connection: Connection,
    /// When the first tag was sent, and its time.
    started: Option<(Instant, u32)>,
}

impl Publisher {
    /// Connects and publishes `app/name`.
    ///
    /// # Errors
    /// When the connection is refused or broken; with the server's words when it refused the publish.
    pub async fn open(to: SocketAddr, key: &str) -> io::Result<Self> {
        let socket = slow::connect(to, None).await?;
        let mut connection = Connection::over(Box::new(socket), &to.to_string(), key, ClientMode::Publish);
        loop {
            match connection.next().await? {
                Some(ClientEvent::Ready) => break,
                Some(ClientEvent::Refused { code, description }) => {
                    return Err(io::Error::other(format!("{code}: {description}")));
                }
                Some(_) => {}
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(Self {
            connection,
            started: None,
        })
    }

    /// Sends a tag, with another time if wanted.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn send(&mut self, tag: &Tag, timestamp_ms: u32) -> io::Result<()> {
        let kind = match tag.kind {
            8 => MediaKind::Audio,
            9 => MediaKind::Video,
            _ => MediaKind::Data,
        };
        let session = &mut self.connection.session;
        let written = session.write_media(kind, timestamp_ms, &tag.body);
        written.map_err(io::Error::other)?;
        self.connection.flush().await
    }

    /// Sends tags in real time by their own times, each with the time that `map` gives it.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn play(&mut self, tags: &[Tag], map: impl Fn(u32) -> u32) -> io::Result<()> {
        for tag in tags {
            let (start, first_ms) = *self.started.get_or_insert((Instant::now(), tag.timestamp_ms));
            let after = u64::from(tag.timestamp_ms.saturating_sub(first_ms));
            sleep_until(start + Duration::from_millis(after)).await;
            self.send(tag, map(tag.timestamp_ms)).await?;
        }
        Ok(())
    }

    /// Sends bytes past all protocol.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.socket.write_all(bytes).await
    }

    /// Reads until the server ends the publish or closes; its words, if it had some.
    pub async fn ended_with(&mut self) -> String {
        loop {
            match self.connection.next().await {
                Ok(Some(ClientEvent::Refused { code, description })) => {
                    return format!("{code}: {description}");
                }
                Ok(Some(ClientEvent::Ended)) => return "ended".to_owned(),
                Ok(Some(_)) => {}
                Ok(None) => return "closed".to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    }
}
