//! The PROXY protocol, versions 1 and 2, as proxies send it: who the client behind a connection is.
//!
//! Pure: it is given the bytes read so far and says how many more surely belong to the header, so that not one byte
//! of what follows is ever taken. Specification: `proxy-protocol.txt` of HAProxy, §2.1 (version 1) and §2.2
//! (version 2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use thiserror::Error;

/// The longest version 1 header, CR and LF included (§2.1).
pub const MAX_V1_BYTES: usize = 107;
/// The longest version 2 header taken. Addresses need at most 232 bytes (§2.2); the rest is room for the type-length
/// values that clouds and TLS terminating proxies add. It lives on the stack while the header is read.
pub const MAX_V2_BYTES: usize = 2048;
/// The longest header of either version.
pub const MAX_HEADER_BYTES: usize = MAX_V2_BYTES;

/// What both versions have at least: the shortest version 1 header is `PROXY UNKNOWN` with CR and LF.
const SHORTEST: usize = 15;
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_HEAD: usize = 16;
const V1_PREFIX: &[u8] = b"PROXY ";

/// What is known after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// At least so many more bytes belong to the header.
    Needs(usize),
    /// The header is whole: exactly the bytes given.
    Done(Source),
}

/// Whom a header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The client's address.
    Client(SocketAddr),
    /// The proxy speaks for itself (`LOCAL`, health checks), or does not say (`UNKNOWN`, `UNSPEC`, other families).
    Unknown,
}

/// Why bytes are no PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// Neither version's signature: a peer that sends no header.
    #[error("no PROXY header came first")]
    NoHeader,
    /// A version 1 line that is too long or does not read.
    #[error("the PROXY header (version 1) does not read")]
    BadLine,
    /// A version 2 header with an unknown version or command.
    #[error("the PROXY header (version 2) has an unknown version or command: {0:#04x}")]
    BadVersion(u8),
    /// A version 2 header whose addresses do not fit into its length.
    #[error("the PROXY header (version 2) is too short for its addresses: {0} bytes")]
    TooShort(u16),
    /// A version 2 header longer than [`MAX_V2_BYTES`].
    #[error("the PROXY header (version 2) has {0} bytes after its head; at most {max} are taken", max = MAX_V2_BYTES - V2_HEAD)]
    TooLong(u16),
}

/// Looks at all bytes read so far. Feed it until it is [`Progress::Done`]: first with nothing, then each time with
/// as many more bytes as it needs, never more.
///
/// # Errors
/// [`ProxyError`]: the peer is no proxy, or a broken one.
pub fn parse(bytes: &[u8]) -> Result<Progress, ProxyError> {
    let signature = V2_SIGNATURE.iter().zip(bytes).all(|(a, b)| a == b);
    let line = V1_PREFIX.iter().zip(bytes).all(|(a, b)| a == b);
    if !signature && !line {
        return Err(ProxyError::NoHeader);
    }
    if bytes.len() < SHORTEST {
        return Ok(Progress::Needs(SHORTEST - bytes.len()));
    }
    if signature {
        parse_v2(bytes)
    } else {
        parse_v1(bytes)
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Progress, ProxyError> {
    if let Some(line) = bytes.strip_suffix(b"\r\n") {
        let text = std::str::from_utf8(line).map_err(|_| ProxyError::BadLine)?;
        return line_source(text).map(Progress::Done).ok_or(ProxyError::BadLine);
    }
    let broken = bytes.contains(&b'\n') || bytes.len() >= MAX_V1_BYTES;
    if broken {
        return Err(ProxyError::BadLine);
    }
    // A line feed follows a carriage return; nothing else may.
    Ok(Progress::Needs(if bytes.ends_with(b"\r") {
        1
    } else {
        2.min(MAX_V1_BYTES - bytes.len())
    }))
}

/// `PROXY TCP4 SOURCE DESTINATION SOURCE-PORT DESTINATION-PORT`, or `PROXY UNKNOWN` and anything.
fn line_source(line: &str) -> Option<Source> {
    let mut words = line.split(' ');
    if words.next() != Some("PROXY") {
        return None;
    }
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(Source::Unknown);
    }
    let (source, destination) = (words.next()?, words.next()?);
    let (port, to_port) = (port(words.next()?)?, port(words.next()?)?);
    let _ = to_port;
    if words.next().is_some() {
        return None;
    }
    let ip = match family {
        "TCP4" => {
            destination.parse::<Ipv4Addr>().ok()?;
            IpAddr::V4(source.parse().ok()?)
        }
        "TCP6" => {
            destination.parse::<Ipv6Addr>().ok()?;
            IpAddr::V6(source.parse().ok()?)
        }
        _ => return None,
    };
    Some(Source::Client(SocketAddr::new(ip, port)))
}

/// Digits only, without a leading zero (§2.1).
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

fn parse_v2(bytes: &[u8]) -> Result<Progress, ProxyError> {
    let Some((head, body)) = bytes.split_first_chunk::<V2_HEAD>() else {
        return Ok(Progress::Needs(V2_HEAD.saturating_sub(bytes.len()).max(1)));
    };
    let [version_command, family, high, low] = [head[12], head[13], head[14], head[15]];
    let length = u16::from_be_bytes([high, low]);
    if version_command >> 4 != 2 || version_command & 0x0F > 1 {
        return Err(ProxyError::BadVersion(version_command));
    }
    if usize::from(length) > MAX_V2_BYTES - V2_HEAD {
        return Err(ProxyError::TooLong(length));
    }
    if body.len() < usize::from(length) {
        return Ok(Progress::Needs(usize::from(length) - body.len()));
    }
    if version_command & 0x0F == 0 {
        return Ok(Progress::Done(Source::Unknown));
    }
    let too_short = ProxyError::TooShort(length);
    let source = match family {
        // TCP over IPv4 and over IPv6; what is for datagrams and UNIX sockets names nobody that could be here.
        0x11 => {
            let (address, rest) = body.split_first_chunk::<4>().ok_or(too_short)?;
            client((*address).into(), rest, 4).ok_or(too_short)?
        }
        0x21 => {
            let (address, rest) = body.split_first_chunk::<16>().ok_or(too_short)?;
            client((*address).into(), rest, 16).ok_or(too_short)?
        }
        _ => Source::Unknown,
    };
    Ok(Progress::Done(source))
}

/// `rest` is the destination's address, of `width` bytes, then both ports.
fn client(ip: IpAddr, rest: &[u8], width: usize) -> Option<Source> {
    let port = rest.get(width..width + 2)?;
    rest.get(width + 2..width + 4)?;
    let port = u16::from_be_bytes(port.try_into().ok()?);
    Some(Source::Client(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests;
