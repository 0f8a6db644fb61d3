//! A WebSocket-FLV viewer.

use futures_util::StreamExt as _;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::flv::{Reader, Tag};
use crate::slow::{self, Socket};

/// A viewer that reads tags from binary messages.
pub struct Viewer {
    socket: WebSocketStream<Socket>,
    reader: Reader,
    closed_with: Option<u16>,
    bytes: Vec<u8>,
    keep_bytes: bool,
}

impl Viewer {
    /// Opens `url`.
    ///
    /// # Panics
    /// When the upgrade is refused.
    pub async fn open(url: &str) -> Self {
        let host = url.split('/').nth(2).unwrap_or_default();
        let to = host.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
        let socket = slow::connect(to, None).await;
        let socket = socket.unwrap_or_else(|error| panic!("{url}: {error}"));
        Self::over(Box::new(socket), url).await
    }

    /// Opens `url` over a connection to its host.
    ///
    /// # Panics
    /// When the upgrade is refused.
    pub async fn over(socket: Socket, url: &str) -> Self {
        let (socket, _) = client_async(url, socket)
            .await
            .unwrap_or_else(|error| panic!("{url}: {error}"));
        Self {
            socket,
            reader: Reader::default(),
            closed_with: None,
            bytes: Vec::new(),
            keep_bytes: false,
        }
    }

    /// Keeps all bytes, for [`Viewer::record`].
    #[must_use]
    pub const fn keeping_bytes(mut self) -> Self {
        self.keep_bytes = true;
        self
    }

    /// The next tag; `None` when the stream ended.
    ///
    /// # Panics
    /// On a text message: FLV is binary.
    pub async fn next_tag(&mut self) -> Option<Tag> {
        loop {
            if let Some(tag) = self.reader.next_tag() {
                return Some(tag);
            }
            match self.socket.next().await? {
                Ok(Message::Binary(piece)) => {
                    self.reader.push(&piece);
                    if self.keep_bytes {
                        self.bytes.extend_from_slice(&piece);
                    }
                }
                Ok(Message::Close(frame)) => self.closed_with = frame.map(|frame| frame.code.into()),
                Ok(Message::Text(text)) => panic!("a text message on an FLV WebSocket: {text}"),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    /// Reads to the end and gives the bytes of the FLV.
    pub async fn record(mut self) -> Vec<u8> {
        while self.next_tag().await.is_some() {}
        self.bytes
    }

    /// The close code, once the server closed with one.
    #[must_use]
    pub const fn closed_with(&self) -> Option<u16> {
        self.closed_with
    }
}
