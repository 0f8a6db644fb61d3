//! HTTP/1.1 responses: the head, and a body with a length, in chunks or to the end.

use super::carry::take;
use crate::error::LoadError;

/// Longest response head read.
const MAX_HEAD_LEN: usize = 16_384;
/// Longest chunk-size line read.
const MAX_LINE_LEN: usize = 256;

/// A response's status line and the headers that matter here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
}

/// Collects a response head over several reads.
#[derive(Debug, Default)]
pub(crate) struct HeadReader(Vec<u8>);

impl HeadReader {
    /// Takes from the front of `input` until the head is complete.
    pub(crate) fn read(&mut self, input: &mut &[u8]) -> Result<Option<Head>, LoadError> {
        while let Some((byte, rest)) = input.split_first() {
            self.0.push(*byte);
            *input = rest;
            if self.0.ends_with(b"\r\n\r\n") {
                let head = Head::parse(&self.0);
                self.0 = Vec::new();
                return head.map(Some);
            }
        }
        if self.0.len() > MAX_HEAD_LEN {
            return Err(LoadError::Protocol("an HTTP head without an end"));
        }
        Ok(None)
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, LoadError> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .filter(|line| line.starts_with("HTTP/1."))
            .and_then(|line| line.split(' ').nth(1))
            .and_then(|status| status.parse().ok())
            .ok_or(LoadError::Protocol("no HTTP status line"))?;
        let mut head = Self {
            status,
            ..Self::default()
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.content_length = value.parse().ok(),
                "transfer-encoding" => head.chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => head.close = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        Ok(head)
    }
}

#[derive(Debug)]
enum Part {
    /// Missing bytes of a body with a known length.
    Length(u64),
    /// A body that ends with the connection.
    ToTheEnd,
    /// In a chunk-size line.
    Line(Vec<u8>),
    /// Missing bytes of a chunk, its line end included.
    Chunk(u64),
    /// In the lines behind the last chunk.
    Trailer(Vec<u8>),
    Done,
}

/// Takes a body apart.
#[derive(Debug)]
pub(crate) struct Body(Part);

impl Body {
    /// The body that follows `head`.
    pub(crate) fn new(head: &Head) -> Self {
        Self(match head {
            Head { chunked: true, .. } => Part::Line(Vec::new()),
            Head {
                content_length: Some(0),
                ..
            }
            | Head {
                status: 204 | 304, ..
            } => Part::Done,
            Head {
                content_length: Some(length),
                ..
            } => Part::Length(*length),
            _ => Part::ToTheEnd,
        })
    }

    /// Whether all of it has been read.
    pub(crate) fn done(&self) -> bool {
        matches!(self.0, Part::Done)
    }

    /// The next piece of content at the front of `input`; `None` when the input is used up or
    /// the body complete.
    pub(crate) fn read<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, LoadError> {
        while !input.is_empty() {
            match &mut self.0 {
                Part::Done => return Ok(None),
                Part::ToTheEnd => return Ok(Some(std::mem::take(input))),
                Part::Length(missing) => {
                    let piece = take(input, usize::try_from(*missing).unwrap_or(usize::MAX));
                    *missing -= piece.len() as u64;
                    if *missing == 0 {
                        self.0 = Part::Done;
                    }
                    return Ok(Some(piece));
                }
                Part::Chunk(missing) => {
                    let content = missing.saturating_sub(2);
                    let piece = take(input, usize::try_from(*missing).unwrap_or(usize::MAX));
                    *missing -= piece.len() as u64;
                    if *missing == 0 {
                        self.0 = Part::Line(Vec::new());
                    }
                    let piece = piece.get(..piece.len().min(content as usize)).unwrap_or(piece);
                    if !piece.is_empty() {
                        return Ok(Some(piece));
                    }
                }
                Part::Line(line) => {
                    if let Some(size) = read_line(line, input)? {
                        self.0 = match size {
                            0 => Part::Trailer(Vec::new()),
                            size => Part::Chunk(size.saturating_add(2)),
                        };
                    }
                }
                Part::Trailer(line) => {
                    line.extend_from_slice(take(input, 1));
                    if line.ends_with(b"\r\n\r\n") || line == b"\r\n" {
                        self.0 = Part::Done;
                    } else if line.len() > MAX_HEAD_LEN {
                        return Err(LoadError::Protocol("a chunked body without an end"));
                    }
                }
            }
        }
        Ok(None)
    }
}

/// Reads a chunk-size line (RFC 9112 §7.1).
fn read_line(line: &mut Vec<u8>, input: &mut &[u8]) -> Result<Option<u64>, LoadError> {
    while !input.is_empty() {
        line.extend_from_slice(take(input, 1));
        if line.ends_with(b"\r\n") {
            let text = String::from_utf8_lossy(line);
            let digits = text.split([';', '\r']).next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16);
            return size
                .map(Some)
                .map_err(|_| LoadError::Protocol("a chunk size that is no number"));
        }
        if line.len() > MAX_LINE_LEN {
            return Err(LoadError::Protocol("a chunk size without an end"));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(response: &[u8], at: usize) -> (Head, Vec<u8>, bool) {
        let (mut reader, mut head, mut body) = (HeadReader::default(), None, None);
        let mut content = Vec::new();
        for mut input in [&response[..at], &response[at..]] {
            if head.is_none() {
                head = reader.read(&mut input).unwrap();
                body = head.as_ref().map(Body::new);
            }
            while let Some(piece) = body.as_mut().and_then(|body| body.read(&mut input).unwrap()) {
                content.extend_from_slice(piece);
            }
        }
        (head.unwrap(), content, body.unwrap().done())
    }

    #[test]
    fn any_split_gives_head_and_content() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0a;x=y\r\n0123456789\r\n0\r\n\r\n";
        for at in 0..=chunked.len() {
            let (head, content, done) = content(chunked, at);
            assert!(head.chunked && head.status == 200 && done, "split at {at}");
            assert_eq!(content, b"abc0123456789", "split at {at}");
        }
        let sized = b"HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\nConnection: close\r\n\r\nnone";
        for at in 0..=sized.len() {
            let (head, content, done) = content(sized, at);
            assert_eq!(
                (head.status, head.content_length, head.close, done),
                (404, Some(4), true, true)
            );
            assert_eq!(content, b"none");
        }
    }
}
