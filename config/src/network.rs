//! Networks: addresses with a prefix length.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// An address or a network: `"192.0.2.7"`, `"10.0.0.0/8"`, `"2001:db8::/32"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address or network: write it as \"192.0.2.7\", \"10.0.0.0/8\" or \"2001:db8::/32\"")]
pub struct NetworkError {
    text: String,
}

impl Network {
    /// As the library's type.
    pub const fn get(self) -> IpNet {
        self.0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let network = text.parse::<IpNet>().ok();
        let address = || {
            text.parse::<IpAddr>()
                .ok()
                .map(|ip| IpNet::from(ip.to_canonical()))
        };
        network.or_else(address).map(Self).ok_or_else(|| NetworkError {
            text: text.to_owned(),
        })
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl JsonSchema for Network {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["192.0.2.7", "10.0.0.0/8", "2001:db8::/32"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_is_a_network_of_one() {
        for (text, shown) in [
            ("192.0.2.7", "192.0.2.7/32"),
            ("::1", "::1/128"),
            ("10.0.0.0/8", "10.0.0.0/8"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
        }
        for text in ["", "10.0.0.0/33", "10.0.0", "example.com"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
