//! URLs of the four protocols, with a place for the stream's number.

use crate::error::LoadError;
use std::net::{SocketAddr, ToSocketAddrs};

/// What stands for the stream's number in a URL template.
const NUMBER: &str = "{n}";

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Where to connect.
    pub address: SocketAddr,
    /// `host:port` as written, or with the default port added.
    pub host_port: String,
    /// Everything behind the host, from the slash on.
    pub path: String,
}

impl Target {
    /// The URL that `template` gives for stream `number`, resolved.
    ///
    /// # Errors
    /// [`LoadError::Url`] for other schemes, a missing path or an unknown host.
    pub fn new(template: &str, number: u32) -> Result<Self, LoadError> {
        let url = template.replace(NUMBER, &number.to_string());
        let refused = |reason| LoadError::Url {
            url: url.clone(),
            reason,
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refused("no scheme"))?;
        let default_port = match scheme {
            "rtmp" => 1935,
            "http" | "ws" | "raw" => 80,
            _ => return Err(refused("the scheme is none of rtmp, http, ws, raw")),
        };
        let (host, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        let host_port = match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            _ => format!("{host}:{default_port}"),
        };
        let address = host_port
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next())
            .ok_or_else(|| refused("the host is not known"))?;
        Ok(Self {
            address,
            host_port,
            path: path.to_owned(),
        })
    }

    /// Application and stream name of an RTMP URL.
    ///
    /// # Errors
    /// [`LoadError::Url`] if the path does not have both.
    pub fn app_and_name(&self) -> Result<(&str, &str), LoadError> {
        let path = self.path.trim_start_matches('/');
        let end = path.find('?').unwrap_or(path.len());
        let slash = path.get(..end).and_then(|path| path.rfind('/'));
        slash
            .and_then(|slash| Some((path.get(..slash)?, path.get(slash + 1..)?)))
            .ok_or(LoadError::Url {
                url: self.path.clone(),
                reason: "no /app/name",
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ports_and_names_are_found() {
        let target = Target::new("rtmp://127.0.0.1/live/s{n}?key=a/b", 7).unwrap();
        assert_eq!(target.address, "127.0.0.1:1935".parse().unwrap());
        assert_eq!(target.app_and_name().unwrap(), ("live", "s7?key=a/b"));
        let target = Target::new("http://127.0.0.1:8080/live/s{n}.flv", 12).unwrap();
        assert_eq!(
            (target.host_port.as_str(), target.path.as_str()),
            ("127.0.0.1:8080", "/live/s12.flv")
        );
        assert!(Target::new("ftp://127.0.0.1/x", 0).is_err());
    }
}
