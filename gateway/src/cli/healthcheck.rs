//! `spillway healthcheck`: one HTTP request without an HTTP client, so that an image needs no curl.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// As much of an answer as is read: probes answer with a line or two.
const MAX_ANSWER_BYTES: u64 = 4_096;

/// What to ask: host, port and path of an `http://` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host and port as they stand in the URL, port added.
    authority: String,
    path: String,
}

/// Why a gateway counts as unhealthy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// The URL is not one that can be asked.
    #[error("{url:?} is not a URL to ask: expected for example http://127.0.0.1:8081/readyz")]
    BadUrl {
        /// The URL given.
        url: String,
    },
    /// The configured listener takes any free port, so that nobody can know which.
    #[error(
        "admin.listen has port 0, any free port: name the one taken, as in --url http://127.0.0.1:PORT/readyz"
    )]
    UnknownPort,
    /// Nothing accepts connections there.
    #[error("cannot connect to {authority}: {source}")]
    Connect {
        /// Host and port.
        authority: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke or the time ran out before the whole answer came.
    #[error("no answer from {authority}: {source}")]
    NoAnswer {
        /// Host and port.
        authority: String,
        /// Why.
        source: io::Error,
    },
    /// Something answers there, but not with HTTP.
    #[error("{authority} does not speak HTTP")]
    NotHttp {
        /// Host and port.
        authority: String,
    },
    /// The gateway itself says no.
    #[error("answered {status}{}", .reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Status {
        /// The HTTP status.
        status: u16,
        /// The first line of the body, if there is one.
        reason: Option<String>,
    },
}

impl Target {
    /// The `path` of the listener bound to `address`. A listener on every interface is asked over loopback.
    ///
    /// # Errors
    /// [`HealthError::UnknownPort`] for port 0.
    pub fn of_listener(address: SocketAddr, path: &str) -> Result<Self, HealthError> {
        if address.port() == 0 {
            return Err(HealthError::UnknownPort);
        }
        let ip = match address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        Ok(Self {
            authority: SocketAddr::new(ip, address.port()).to_string(),
            path: path.to_owned(),
        })
    }
}

impl FromStr for Target {
    type Err = HealthError;

    fn from_str(url: &str) -> Result<Self, HealthError> {
        let bad = || HealthError::BadUrl { url: url.to_owned() };
        let rest = url.strip_prefix("http://").ok_or_else(bad)?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
        let printable = url.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !printable {
            return Err(bad());
        }
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:80")
        };
        Ok(Self {
            authority,
            path: path.to_owned(),
        })
    }
}

/// Asks `target` and waits for its answer, `timeout` at most in all.
///
/// # Errors
/// [`HealthError`] unless the answer's status is 2xx.
pub fn healthcheck(target: &Target, timeout: Duration) -> Result<(), HealthError> {
    let deadline = Instant::now() + timeout;
    let authority = &target.authority;
    let mut connection = connect(authority, deadline).map_err(|source| HealthError::Connect {
        authority: authority.clone(),
        source,
    })?;
    let answer = exchange(&mut connection, target, deadline).map_err(|source| HealthError::NoAnswer {
        authority: authority.clone(),
        source,
    })?;
    judge(&answer).unwrap_or_else(|| {
        Err(HealthError::NotHttp {
            authority: authority.clone(),
        })
    })
}

/// The time left, as an error once there is none: a time-out of zero would mean none at all.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"))
    } else {
        Ok(left)
    }
}

fn connect(authority: &str, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn exchange(connection: &mut TcpStream, target: &Target, deadline: Instant) -> io::Result<Vec<u8>> {
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: spillway-healthcheck\r\nConnection: close\r\n\r\n",
        target.path, target.authority
    );
    connection.set_write_timeout(Some(left(deadline)?))?;
    connection.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 1_024];
    while (answer.len() as u64) < MAX_ANSWER_BYTES {
        connection.set_read_timeout(Some(left(deadline)?))?;
        match connection.read(&mut part) {
            Ok(0) => break,
            Ok(len) => answer.extend(part.iter().take(len)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// What an HTTP answer says; `None` if it is no HTTP answer.
fn judge(answer: &[u8]) -> Option<Result<(), HealthError>> {
    let text = String::from_utf8_lossy(answer);
    let status: u16 = text
        .strip_prefix("HTTP/1.")?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    if (200..300).contains(&status) {
        return Some(Ok(()));
    }
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let reason = body.lines().map(str::trim).find(|line| !line.is_empty());
    let reason = reason.map(|line| line.chars().filter(|c| !c.is_control()).take(200).collect());
    Some(Err(HealthError::Status { status, reason }))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that reads one request and answers with `answer`, or keeps silent.
    fn server(answer: Option<&'static str>) -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::of_listener(listener.local_addr().unwrap(), "/readyz").unwrap();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 1_024];
            let len = connection.read(&mut request).unwrap();
            assert!(request[..len].starts_with(b"GET /readyz HTTP/1.0\r\nHost: 127.0.0.1:"));
            match answer {
                Some(answer) => connection.write_all(answer.as_bytes()).unwrap(),
                // Waits until the other side has given up.
                None => drop(connection.read(&mut request)),
            }
        });
        target
    }

    fn ask(answer: Option<&'static str>) -> Result<(), String> {
        healthcheck(&server(answer), Duration::from_millis(500)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_ready_gateway_is_healthy() {
        assert_eq!(
            ask(Some("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n")),
            Ok(())
        );
        assert_eq!(ask(Some("HTTP/1.0 204 No Content\r\n\r\n")), Ok(()));
    }

    #[test]
    fn a_draining_gateway_is_not_and_its_reason_is_told() {
        let answer = ask(Some("HTTP/1.1 503 Service Unavailable\r\n\r\ndraining\n"));
        assert_eq!(answer, Err("answered 503: draining".into()));
        assert_eq!(
            ask(Some("HTTP/1.1 503 Service Unavailable\r\n\r\n")),
            Err("answered 503".into())
        );
    }

    #[test]
    fn silence_and_nonsense_are_unhealthy() {
        let silent = ask(None).unwrap_err();
        assert!(silent.ends_with("timed out"), "{silent}");
        assert!(
            ask(Some("SSH-2.0-x\r\n"))
                .unwrap_err()
                .ends_with("does not speak HTTP")
        );
        assert!(ask(Some("")).unwrap_err().ends_with("does not speak HTTP"));
    }

    #[test]
    fn a_listener_on_every_interface_is_asked_over_loopback() {
        let authority =
            |text: &str| Target::of_listener(text.parse().unwrap(), "/").map(|target| target.authority);
        assert_eq!(authority("0.0.0.0:8081").unwrap(), "127.0.0.1:8081");
        assert_eq!(authority("[::]:8081").unwrap(), "[::1]:8081");
        assert_eq!(authority("10.0.0.7:8081").unwrap(), "10.0.0.7:8081");
        assert!(matches!(authority("0.0.0.0:0"), Err(HealthError::UnknownPort)));
    }

    #[test]
    fn urls_are_read_or_refused() {
        let parts = |url: &str| {
            url.parse::<Target>()
                .map(|target| (target.authority, target.path))
                .ok()
        };
        let expected = |authority: &str, path: &str| Some((authority.to_owned(), path.to_owned()));
        assert_eq!(
            parts("http://gateway:8081/livez"),
            expected("gateway:8081", "/livez")
        );
        assert_eq!(parts("http://gateway"), expected("gateway:80", "/"));
        assert_eq!(
            parts("http://[::1]:8081/readyz"),
            expected("[::1]:8081", "/readyz")
        );
        assert_eq!(parts("http://[::1]/readyz"), expected("[::1]:80", "/readyz"));
        for url in [
            "",
            "gateway:8081",
            "https://gateway/",
            "http:///x",
            "http://a b/",
            "http://a/\r\nX: y",
            "http://u@h/",
        ] {
            assert_eq!(parts(url), None, "{url}");
        }
    }
}
