//! `X-Forwarded-For` and `Forwarded` (RFC 7239): the hops that proxies say a request came by.

use std::net::{IpAddr, SocketAddr};

/// The header in which the trusted proxies name their clients. Only one is read: a proxy that writes the one passes
/// the other on as the client made it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, as nginx, HAProxy, Caddy, Traefik and the clouds write it.
    #[default]
    XForwardedFor,
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// Neither.
    Off,
}

impl ForwardedHeader {
    /// The header's name in lower case.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::XForwardedFor => Some("x-forwarded-for"),
            Self::Forwarded => Some("forwarded"),
            Self::Off => None,
        }
    }
}

/// The hops from the nearest on; `None` for one that does not name an address. The header may come in several lines.
pub(crate) fn hops_from_the_right<'a>(
    header: ForwardedHeader,
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = Option<SocketAddr>> {
    let hops = lines.rev().flat_map(|line| line.rsplit(|b| *b == b','));
    hops.map(move |hop| {
        let hop = std::str::from_utf8(hop).ok()?.trim();
        match header {
            ForwardedHeader::XForwardedFor => address(hop),
            ForwardedHeader::Forwarded => element_for(hop),
            ForwardedHeader::Off => None,
        }
    })
}

/// The `for=` of one element (RFC 7239 §4). No address has a comma or semicolon in it, so a quoted one that does is
/// cut apart and reads as nothing.
fn element_for(element: &str) -> Option<SocketAddr> {
    let value = element.split(';').find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        name.eq_ignore_ascii_case("for").then_some(value)
    })?;
    match value.strip_prefix('"') {
        Some(quoted) => address(quoted.strip_suffix('"')?),
        None => address(value),
    }
}

/// An address with or without a port; IPv6 with or without brackets.
fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, 0));
    }
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let ip = text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
    Some(SocketAddr::new(ip, 0))
}
