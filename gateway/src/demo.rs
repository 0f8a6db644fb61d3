//! `--demo`: a built-in clip, published in a loop through the real RTMP client.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Buf;
use spillway_flv::TagReader;
use spillway_flv::tag::TagType;
use spillway_rtmp::session::client::{ClientEvent, ClientMode, ClientOptions, ClientSession};
use spillway_rtmp::session::{MediaKind, SessionError};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auth::KEY_PARAMETER;

/// The stream the demo publishes.
pub const DEMO_STREAM: &str = "live/demo";

const CLIP: &[u8] = include_bytes!("../demo/clip.flv");
/// The pause before a lost demo publisher connects again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why the demo's publisher lost its connection.
#[derive(Debug, Error)]
enum DemoError {
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    #[error("the RTMP session failed: {0}")]
    Session(#[from] SessionError),
    #[error("the server refused the demo: {0}")]
    Refused(String),
    #[error("the server ended it, or another publisher took its stream over")]
    Ended,
}

/// One tag of the clip.
struct ClipTag {
    kind: MediaKind,
    timestamp_ms: u32,
    body: Vec<u8>,
}

/// Publishes the clip to the gateway at `server` until `shutdown`.
pub(crate) async fn run(server: SocketAddr, key: String, shutdown: CancellationToken) {
    let clip = read_clip();
    loop {
        let result = tokio::select! {
            () = shutdown.cancelled() => return,
            result = publish(server, &key, &clip) => result,
        };
        if let Err(error) = result {
            tracing::warn!(%error, "the demo's publisher stopped; it tries again");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }
}

fn read_clip() -> Vec<ClipTag> {
    let mut reader = TagReader::new(u32::MAX);
    let mut input = CLIP;
    let mut tags = Vec::new();
    while let Ok(Some(tag)) = reader.read(&mut input) {
        let kind = match tag.tag_type {
            TagType::Audio => MediaKind::Audio,
            TagType::Video => MediaKind::Video,
            TagType::Script => MediaKind::Data,
        };
        tags.push(ClipTag {
            kind,
            timestamp_ms: tag.timestamp_ms,
            body: tag.body.to_vec(),
        });
    }
    tags
}

/// The media time of one round of the clip: to the end of its last video frame.
fn round_ms(clip: &[ClipTag]) -> u32 {
    const FRAME_MS: u32 = 40;
    let video = clip.iter().filter(|tag| tag.kind == MediaKind::Video);
    video.map(|tag| tag.timestamp_ms).max().unwrap_or(0) + FRAME_MS
}

async fn publish(server: SocketAddr, key: &str, clip: &[ClipTag]) -> Result<(), DemoError> {
    let (app, name) = DEMO_STREAM.split_once('/').unwrap_or(("live", "demo"));
    let mut socket = TcpStream::connect(server).await?;
    socket.set_nodelay(true)?;
    let name = format!("{name}?{KEY_PARAMETER}={key}");
    let options = ClientOptions::new(&server.to_string(), app, &name, ClientMode::Publish);
    let mut session = ClientSession::new(options);
    exchange_until_ready(&mut socket, &mut session).await?;
    let start = Instant::now();
    let round_ms = round_ms(clip);
    for round in 0.. {
        let offset_ms = round_ms.wrapping_mul(round);
        // Headers and metadata need to be sent once; later rounds are one stream with the first.
        let skip = if round == 0 { 0 } else { header_tags(clip) };
        for tag in clip.iter().skip(skip) {
            let timestamp_ms = tag.timestamp_ms.wrapping_add(offset_ms);
            let due = start
                + Duration::from_millis(u64::from(round_ms) * u64::from(round))
                + Duration::from_millis(u64::from(tag.timestamp_ms));
            listen_until(&mut socket, &mut session, due).await?;
            session.write_media(tag.kind, timestamp_ms, &tag.body)?;
            flush(&mut socket, &mut session).await?;
        }
    }
    Ok(())
}

/// How many tags come before the first coded frame.
fn header_tags(clip: &[ClipTag]) -> usize {
    let is_frame = |tag: &ClipTag| matches!(tag.body.get(1), Some(1)) && tag.kind == MediaKind::Video;
    clip.iter().position(is_frame).unwrap_or(0)
}

async fn exchange_until_ready(socket: &mut TcpStream, session: &mut ClientSession) -> Result<(), DemoError> {
    flush(socket, session).await?;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let count = socket.read(&mut buffer).await?;
        if count == 0 {
            return Err(DemoError::Ended);
        }
        let ready = take_events(session, buffer.get(..count).unwrap_or_default())?;
        flush(socket, session).await?;
        if ready {
            return Ok(());
        }
    }
}

/// Waits for `due`, answering what the server says meanwhile.
async fn listen_until(
    socket: &mut TcpStream,
    session: &mut ClientSession,
    due: Instant,
) -> Result<(), DemoError> {
    let mut buffer = [0; 4096];
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(due) => return Ok(()),
            count = socket.read(&mut buffer) => {
                let count = count?;
                if count == 0 {
                    return Err(DemoError::Ended);
                }
                take_events(session, buffer.get(..count).unwrap_or_default())?;
                flush(socket, session).await?;
            }
        }
    }
}

fn take_events(session: &mut ClientSession, mut input: &[u8]) -> Result<bool, DemoError> {
    let mut ready = false;
    while let Some(event) = session.read(&mut input)? {
        match event {
            ClientEvent::Ready => ready = true,
            ClientEvent::Refused { description, .. } => return Err(DemoError::Refused(description)),
            ClientEvent::Ended => return Err(DemoError::Ended),
            _ => {}
        }
    }
    Ok(ready)
}

async fn flush(socket: &mut TcpStream, session: &mut ClientSession) -> Result<(), DemoError> {
    while !session.output().is_empty() {
        let count = socket.write(session.output()).await?;
        session.output().advance(count);
    }
    Ok(())
}
