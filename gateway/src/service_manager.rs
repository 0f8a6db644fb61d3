//! [`ServiceManager`]: what systemd is told of this process, as sd_notify(3) has it: a datagram for each change, to the
//! socket that `NOTIFY_SOCKET` names. Without one nobody is told and nothing is lost.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdDatagram};
use std::time::Duration;

use tokio::net::UnixDatagram;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// How long a datagram may wait for room in the manager's queue: a manager that hangs holds nothing up.
const SEND_LIMIT: Duration = Duration::from_secs(1);

/// A change of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It listens.
    Ready,
    /// It has begun to end.
    Stopping,
    /// Its tasks still run.
    Alive,
}

impl Change {
    const fn message(self) -> &'static str {
        match self {
            Self::Ready => "READY=1\nSTATUS=listening",
            Self::Stopping => "STOPPING=1\nSTATUS=viewers and publishers are told; no new connections",
            Self::Alive => "WATCHDOG=1",
        }
    }
}

/// What the environment says of the service manager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Environment {
    socket: Option<OsString>,
    /// Between two signs of life: half of what the manager waits for one.
    watchdog: Option<Duration>,
}

impl Environment {
    /// `WATCHDOG_USEC` counts only for the process that `WATCHDOG_PID` names, if it names one.
    fn read(variable: impl Fn(&str) -> Option<OsString>, pid: u32) -> Self {
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = variable("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(pid.into());
        let limit_us = number("WATCHDOG_USEC").filter(|us| is_ours && *us > 1);
        Self {
            socket: variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()),
            watchdog: limit_us.map(|us| Duration::from_micros(us / 2)),
        }
    }
}

/// A path, or with `@` in place of the first byte a name in the abstract namespace.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a path nor an abstract name",
        )),
    }
}

fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = StdDatagram::unbound()?;
    socket.connect_addr(&address(name)?)?;
    socket.set_nonblocking(true)?;
    UnixDatagram::from_std(socket)
}

/// Whoever started this process and wants to hear of it.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The one of this process. It must be called inside a tokio runtime.
    pub(crate) fn of_process() -> Self {
        let Environment { socket, watchdog } =
            Environment::read(|name| std::env::var_os(name), std::process::id());
        let socket = socket.and_then(|name| {
            connect(&name)
                .inspect_err(|error| {
                    tracing::warn!(socket = ?name, %error, "the service manager cannot be told anything (NOTIFY_SOCKET)");
                })
                .ok()
        });
        Self { socket, watchdog }
    }

    /// Tells it.
    pub(crate) async fn tell(&self, change: Change) {
        let Some(socket) = &self.socket else {
            return;
        };
        let sent = timeout(SEND_LIMIT, socket.send(change.message().as_bytes())).await;
        match sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(_) => {}
            Err(error) => tracing::warn!(?change, %error, "the service manager could not be told"),
        }
    }

    /// Gives signs of life for as long as the runtime's tasks run, if the manager waits for them (`WatchdogSec=`).
    pub(crate) async fn stay_alive(&self) -> std::convert::Infallible {
        let Some(every) = self.watchdog.filter(|_| self.socket.is_some()) else {
            return std::future::pending().await;
        };
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.tell(Change::Alive).await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Environment::read(find, 7)
    }

    #[test]
    fn without_a_manager_nobody_is_told() {
        assert_eq!(environment(&[]), Environment::default());
        assert_eq!(environment(&[("NOTIFY_SOCKET", "")]), Environment::default());
    }

    #[test]
    fn signs_of_life_come_twice_as_often_as_they_are_waited_for() {
        let second = Some(Duration::from_secs(1));
        let of = |variables: &[(&str, &str)]| environment(variables).watchdog;
        assert_eq!(of(&[("WATCHDOG_USEC", "2000000")]), second);
        assert_eq!(of(&[("WATCHDOG_USEC", "2000000"), ("WATCHDOG_PID", "7")]), second);
        assert_eq!(of(&[("WATCHDOG_USEC", "2000000"), ("WATCHDOG_PID", "8")]), None);
        for wrong in ["", "0", "1", "-5", "soon", "99999999999999999999"] {
            assert_eq!(of(&[("WATCHDOG_USEC", wrong)]), None, "{wrong}");
        }
    }

    #[test]
    fn sockets_are_paths_or_abstract_names() {
        let path = address(OsStr::new("/run/systemd/notify")).unwrap();
        assert_eq!(path.as_pathname().unwrap().to_str(), Some("/run/systemd/notify"));
        let name = address(OsStr::new("@spillway/notify")).unwrap();
        assert_eq!(name.as_abstract_name(), Some(&b"spillway/notify"[..]));
        for wrong in ["notify", "vsock:2:9999", &format!("/{}", "long".repeat(50))] {
            assert!(address(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_manager_that_is_gone_ends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = StdDatagram::bind(&path).unwrap();
        let manager = ServiceManager {
            socket: Some(connect(path.as_os_str()).unwrap()),
            watchdog: None,
        };
        manager.tell(Change::Ready).await;
        let mut buf = [0; 64];
        let length = listener.recv(&mut buf).unwrap();
        assert!(buf[..length].starts_with(b"READY=1\n"));
        drop(listener);
        manager.tell(Change::Stopping).await;
    }
}
