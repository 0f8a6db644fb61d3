//! Publishing an FLV file, in a loop.

use crate::clock::MILLISECOND_NS;
use crate::error::LoadError;
use spillway_flv::{TagReader, TagType};
use spillway_rtmp::session::MediaKind;
use std::path::Path;
use std::sync::Arc;

/// Longest tag body read from a file.
const MAX_BODY_LEN: u32 = 0xFF_FFFF;
/// Time from the last tag of one round to the first of the next.
const ROUND_PAUSE_MS: u32 = 20;

/// One message of a clip.
#[derive(Debug, Clone)]
struct Message {
    kind: MediaKind,
    timestamp_ms: u32,
    body: bytes::Bytes,
}

/// A clip in memory, shared by all its publishers.
#[derive(Debug, Clone)]
pub struct Clip {
    messages: Arc<[Message]>,
    round_ms: u32,
}

impl Clip {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`LoadError::Io`] or [`LoadError::Clip`] if there is no FLV to be read there.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        let bytes = std::fs::read(path).map_err(LoadError::io(path.display().to_string()))?;
        let (mut reader, mut messages) = (TagReader::new(MAX_BODY_LEN), Vec::new());
        let mut input = bytes.as_slice();
        while let Some(tag) = reader
            .read(&mut input)
            .map_err(|error| LoadError::Clip(error.to_string()))?
        {
            let kind = match tag.tag_type {
                TagType::Audio => MediaKind::Audio,
                TagType::Video => MediaKind::Video,
                TagType::Script => MediaKind::Data,
            };
            messages.push(Message {
                kind,
                timestamp_ms: tag.timestamp_ms,
                body: tag.body,
            });
        }
        let last = messages.iter().map(|message| message.timestamp_ms).max();
        let last = last.ok_or_else(|| LoadError::Clip(format!("{} has no tags", path.display())))?;
        Ok(Self {
            messages: messages.into(),
            round_ms: last + ROUND_PAUSE_MS,
        })
    }
}

/// Where one publisher is in a clip.
#[derive(Debug, Clone)]
pub struct ClipCursor {
    clip: Clip,
    next: usize,
    offset_ms: u32,
}

impl ClipCursor {
    /// The beginning of `clip`.
    pub fn new(clip: Clip) -> Self {
        Self {
            clip,
            next: 0,
            offset_ms: 0,
        }
    }

    /// When the next message is due, in nanoseconds from the start.
    pub fn due_ns(&self) -> u64 {
        let message = self.clip.messages.get(self.next);
        u64::from(self.offset_ms + message.map_or(0, |message| message.timestamp_ms)) * MILLISECOND_NS
    }

    /// Puts the next message's body in `body`; returns its kind and timestamp.
    pub fn make(&mut self, body: &mut Vec<u8>) -> (MediaKind, u32) {
        body.clear();
        let Some(message) = self.clip.messages.get(self.next) else {
            return (MediaKind::Data, self.offset_ms);
        };
        body.extend_from_slice(&message.body);
        let made = (message.kind, self.offset_ms + message.timestamp_ms);
        self.next += 1;
        if self.next == self.clip.messages.len() {
            self.next = 0;
            self.offset_ms += self.clip.round_ms;
        }
        made
    }
}
