//! Listen addresses.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// An address and port to listen on: `"0.0.0.0:1935"`, `"[::]:1935"`. Port 0 takes any free port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListenAddr(SocketAddr);

/// A text that is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an address to listen on: write an IP address and a port, such as \"0.0.0.0:1935\" for every \
     IPv4 interface, \"[::]:1935\" for every interface or \"127.0.0.1:1935\" for this machine only"
)]
pub struct AddressError {
    text: String,
}

impl ListenAddr {
    /// Listens on `address`.
    pub const fn new(address: SocketAddr) -> Self {
        Self(address)
    }

    /// As the standard library's address.
    pub const fn get(self) -> SocketAddr {
        self.0
    }

    /// Whether only programs on this machine can connect.
    pub fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }

    /// Whether both addresses ask for the same port of the same interface. Port 0 never does.
    pub fn collides_with(self, other: Self) -> bool {
        let both_kinds = |ip: IpAddr| ip.is_unspecified() && ip.is_ipv6();
        let (a, b) = (self.0.ip(), other.0.ip());
        let same_kind = a.is_ipv4() == b.is_ipv4();
        let overlap = a.to_canonical() == b.to_canonical()
            || (same_kind && (a.is_unspecified() || b.is_unspecified()))
            || both_kinds(a)
            || both_kinds(b);
        self.0.port() != 0 && self.0.port() == other.0.port() && overlap
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ListenAddr {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        text.trim()
            .parse()
            .map(Self)
            .map_err(|_| AddressError { text: text.into() })
    }
}

impl Serialize for ListenAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ListenAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for ListenAddr {
    fn schema_name() -> Cow<'static, str> {
        "ListenAddr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["0.0.0.0:1935", "[::]:1935", "127.0.0.1:0"] })
    }
}

/// An address to listen on, or `""` for none: `"0.0.0.0:8443"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionalAddr(Option<ListenAddr>);

impl OptionalAddr {
    /// Listens nowhere.
    pub const OFF: Self = Self(None);

    /// Listens on `address`.
    pub const fn on(address: ListenAddr) -> Self {
        Self(Some(address))
    }

    /// The address, if it listens.
    pub const fn get(self) -> Option<ListenAddr> {
        self.0
    }
}

impl fmt::Display for OptionalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => Ok(()),
        }
    }
}

impl Serialize for OptionalAddr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OptionalAddr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.trim().is_empty() {
            return Ok(Self::OFF);
        }
        text.parse()
            .map(Self::on)
            .map_err(|error| de::Error::custom(format!("{error}; \"\" for none")))
    }
}

impl JsonSchema for OptionalAddr {
    fn schema_name() -> Cow<'static, str> {
        "OptionalAddr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["", "0.0.0.0:8443", "[::]:8443"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> ListenAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_cannot_be_bound_is_refused_with_an_example() {
        for text in [
            "1935",
            ":1935",
            "localhost:1935",
            "0.0.0.0",
            "0.0.0.0:70000",
            "::1:80",
            "",
        ] {
            let error = text.parse::<ListenAddr>().unwrap_err().to_string();
            assert!(error.contains("0.0.0.0:1935"), "{error}");
        }
    }

    #[test]
    fn two_listeners_on_one_port_collide_where_their_interfaces_overlap() {
        let pairs = [
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "0.0.0.0:81", false),
            ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:0", "0.0.0.0:0", false),
        ];
        for (a, b, collide) in pairs {
            assert_eq!(address(a).collides_with(address(b)), collide, "{a} {b}");
            assert_eq!(address(b).collides_with(address(a)), collide, "{b} {a}");
        }
    }

    #[test]
    fn loopback_is_known_in_every_spelling() {
        for text in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(address(text).is_loopback(), "{text}");
        }
        for text in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1"] {
            assert!(!address(text).is_loopback(), "{text}");
        }
    }
}
