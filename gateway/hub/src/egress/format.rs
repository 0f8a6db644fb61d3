//! [`Format`]: a frame's bytes on one kind of connection.

use spillway_rtmp::chunk::head::{ChunkHead, OUT_CHUNK_SIZE};

use crate::frame::Frame;
use crate::session::Protocol;

/// How frames look on one kind of connection. Every byte is the frame's own, rendered once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// RTMP chunks of [`OUT_CHUNK_SIZE`].
    Rtmp,
    /// FLV tags, in an answer that ends with the connection (HTTP/1.0).
    Flv,
    /// FLV tags as chunks of the chunked transfer coding (HTTP/1.1, RFC 9112 §7.1).
    FlvChunked,
    /// FLV tags as binary WebSocket messages (RFC 6455 §5.6).
    Ws,
}

const CRLF: &[u8] = b"\r\n";

impl Format {
    /// The protocol whose viewers it is for.
    pub fn protocol(self) -> Protocol {
        match self {
            Self::Rtmp => Protocol::Rtmp,
            Self::Flv | Self::FlvChunked => Protocol::Flv,
            Self::Ws => Protocol::Ws,
        }
    }

    /// Shows the frame's bytes piece by piece; `head` stands in for the frame's own RTMP chunk heads.
    pub(crate) fn pieces<'a>(self, frame: &'a Frame, head: &'a ChunkHead, mut show: impl FnMut(&'a [u8])) {
        match self {
            Self::Rtmp => {
                show(head.head());
                for (n, data) in frame.body().chunks(OUT_CHUNK_SIZE as usize).enumerate() {
                    if n > 0 {
                        show(head.continuation());
                    }
                    show(data);
                }
            }
            Self::Flv => show(frame.tag()),
            Self::FlvChunked => {
                show(frame.transfer_head());
                show(frame.tag());
                show(CRLF);
            }
            Self::Ws => {
                show(frame.ws_head());
                show(frame.tag());
            }
        }
    }

    /// The bytes a frame takes.
    pub(crate) fn encoded_len(self, frame: &Frame, head: &ChunkHead) -> usize {
        let mut length = 0;
        self.pieces(frame, head, |piece| length += piece.len());
        length
    }
}
