//! A small HTTP/1 client that shows each byte of the answer: no pooling, no redirects, no decoding but of chunks.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::slow::{self, Socket};
use crate::wait::within;

/// How long a whole answer may take; playlists may be held for 8 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    headers: Vec<(String, String)>,
    receive_buffer: Option<usize>,
    from: Option<IpAddr>,
}

impl Request {
    /// GET `target` (path and query) by HTTP/1.1.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A request by HTTP/1.1.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version: "HTTP/1.1",
            headers: vec![("Origin".to_owned(), "http://page.test".to_owned())],
            receive_buffer: None,
            from: None,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Speaks HTTP/1.0.
    #[must_use]
    pub const fn http10(mut self) -> Self {
        self.version = "HTTP/1.0";
        self
    }

    /// Asks the kernel for a receive buffer of this size, so that a reader who stops closes its window soon.
    #[must_use]
    pub const fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer = Some(bytes);
        self
    }

    /// Connects from this address.
    #[must_use]
    pub const fn from(mut self, address: IpAddr) -> Self {
        self.from = Some(address);
        self
    }
}

/// Status line and headers.
#[derive(Clone, Debug)]
pub struct Head {
    /// `HTTP/1.1` or `HTTP/1.0`.
    pub version: String,
    /// Status code.
    pub status: u16,
    /// Headers in the order sent, names as sent.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status line and headers.
    pub head: Head,
    /// Status code.
    pub status: u16,
    /// Body, chunks joined.
    pub body: Bytes,
}

impl Response {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

#[derive(Clone, Copy)]
enum Framing {
    Length(u64),
    Chunk { left: u64 },
    UntilClose,
    Done,
}

/// An answer whose body is read piece by piece.
pub struct Stream {
    /// Status line and headers.
    pub head: Head,
    socket: Socket,
    buffer: BytesMut,
    framing: Framing,
    clean_end: bool,
}

impl Stream {
    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let framing = self.framing;
            match framing {
                Framing::Done => return Ok(None),
                Framing::Length(0) => {
                    self.clean_end = true;
                    self.framing = Framing::Done;
                }
                Framing::Length(left) if !self.buffer.is_empty() => {
                    let piece = take(&mut self.buffer, left);
                    self.framing = Framing::Length(left - piece.len() as u64);
                    return Ok(Some(piece));
                }
                Framing::UntilClose if !self.buffer.is_empty() => {
                    return Ok(Some(self.buffer.split().freeze()));
                }
                Framing::Chunk { left: 0 } if self.read_chunk_head()? => {}
                Framing::Chunk { left } if left > 0 && !self.buffer.is_empty() => {
                    // The line end after the chunk counts as part of it: two bytes are dropped.
                    let piece = take(&mut self.buffer, left);
                    let left_now = left - piece.len() as u64;
                    self.framing = Framing::Chunk { left: left_now };
                    let data = piece.slice(
                        ..piece
                            .len()
                            .min(usize::try_from(left.saturating_sub(2)).unwrap_or(usize::MAX)),
                    );
                    if !data.is_empty() {
                        return Ok(Some(data));
                    }
                }
                _ => {
                    if self.socket.read_buf(&mut self.buffer).await? == 0 {
                        self.clean_end |= matches!(self.framing, Framing::UntilClose);
                        self.framing = Framing::Done;
                    }
                }
            }
        }
    }

    /// Whether the body ended as its framing says: full length, last chunk, or (without either) a closed connection.
    #[must_use]
    pub const fn ended_cleanly(&self) -> bool {
        self.clean_end
    }

    fn read_chunk_head(&mut self) -> io::Result<bool> {
        let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(false);
        };
        let line = self.buffer.split_to(at);
        self.buffer.advance(2);
        let text = std::str::from_utf8(&line).unwrap_or_default();
        let size = text.split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(size.trim(), 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("chunk head {text:?}")))?;
        if size == 0 {
            self.clean_end = true;
            self.framing = Framing::Done;
        } else {
            self.framing = Framing::Chunk { left: size + 2 };
        }
        Ok(true)
    }
}

fn take(buffer: &mut BytesMut, most: u64) -> Bytes {
    let count = buffer.len().min(usize::try_from(most).unwrap_or(usize::MAX));
    buffer.split_to(count).freeze()
}

/// Sends a request and reads the head of the answer.
///
/// # Errors
/// When the connection is refused or broken, or the answer is no HTTP.
pub async fn open(to: SocketAddr, request: Request) -> io::Result<Stream> {
    let socket = slow::connect_from(request.from, to, request.receive_buffer).await?;
    open_over(Box::new(socket), &to.to_string(), request).await
}

/// The same over a connection to `host`.
///
/// # Errors
/// When the connection breaks, or the answer is no HTTP.
pub async fn open_over(mut socket: Socket, host: &str, request: Request) -> io::Result<Stream> {
    let mut text = format!(
        "{} {} {}\r\nHost: {host}\r\n",
        request.method, request.target, request.version
    );
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    socket.write_all(text.as_bytes()).await?;
    let mut buffer = BytesMut::with_capacity(16 * 1024);
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if socket.read_buf(&mut buffer).await? == 0 {
            let seen = String::from_utf8_lossy(&buffer).into_owned();
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("closed within the head: {seen:?}"),
            ));
        }
    };
    let head_bytes = buffer.split_to(end + 4);
    let head = parse_head(&String::from_utf8_lossy(&head_bytes))
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "malformed status line or header"))?;
    let framing = framing(&request.method, &head);
    Ok(Stream {
        head,
        socket,
        buffer,
        framing,
        clean_end: false,
    })
}

fn framing(method: &str, head: &Head) -> Framing {
    if method == "HEAD" || matches!(head.status, 100..=199 | 204 | 304) {
        return Framing::Length(0);
    }
    if head
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
    {
        return Framing::Chunk { left: 0 };
    }
    head.header("content-length")
        .and_then(|value| value.parse().ok())
        .map_or(Framing::UntilClose, Framing::Length)
}

fn parse_head(text: &str) -> Option<Head> {
    let mut lines = text.split("\r\n");
    let mut status_line = lines.next()?.splitn(3, ' ');
    let version = status_line.next()?.to_owned();
    let status = status_line.next()?.parse().ok()?;
    let headers = lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            line.split_once(':')
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Head {
        version,
        status,
        headers,
    })
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// When the connection is refused or broken, or the answer is no HTTP.
pub async fn send(to: SocketAddr, request: Request) -> io::Result<Response> {
    read_whole(open(to, request).await?).await
}

/// Reads an answer to its end.
///
/// # Errors
/// When the connection broke or the body was cut.
pub async fn read_whole(mut stream: Stream) -> io::Result<Response> {
    let mut body = BytesMut::new();
    while let Some(piece) = stream.next().await? {
        body.extend_from_slice(&piece);
    }
    if !stream.ended_cleanly() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("body cut after {} bytes", body.len()),
        ));
    }
    Ok(Response {
        status: stream.head.status,
        head: stream.head,
        body: body.freeze(),
    })
}

/// Sends a request and reads the whole answer in time.
///
/// # Panics
/// When there is none.
pub async fn fetch(to: SocketAddr, request: Request) -> Response {
    let what = format!("{request:?}");
    within(ANSWER_LIMIT, &what, send(to, request))
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// GET in time.
///
/// # Panics
/// When there is no answer.
pub async fn get(to: SocketAddr, target: &str) -> Response {
    fetch(to, Request::get(target)).await
}
