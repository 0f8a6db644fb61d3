//! The gateway under test: the real binary on free ports.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Command;

use crate::http::{self, Response};
use crate::metrics::Metrics;
use crate::process::{Output, Process};
use crate::wait::{secs, until};

/// How long a start may take on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The binary under test: `SPILLWAY_BIN`, else the release build, else the debug build beside this test.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SPILLWAY_BIN") {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().expect("the test knows its own path");
    let target = test
        .ancestors()
        .find(|dir| dir.join("release").is_dir() || dir.join("debug").is_dir());
    let target = target.expect("the test runs from a cargo target folder");
    ["release", "debug"]
        .map(|profile| target.join(profile).join("spillway"))
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!(
                "no spillway under {}: cargo build --release -p spillway, or set SPILLWAY_BIN",
                target.display()
            )
        })
}

/// How to start a gateway: free loopback ports, everything else at its default.
#[derive(Default)]
pub struct Start {
    sets: Vec<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    address: Option<String>,
    under: Vec<String>,
}

impl Start {
    /// Sets a configuration key, as `--set key=value` does.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.sets.push(format!("{key}={value}"));
        self
    }

    /// Adds a command-line argument.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it in a network namespace of its own that has `address` beside the loopback addresses.
    #[must_use]
    pub fn in_namespace_with(mut self, address: &str) -> Self {
        self.address = Some(address.to_owned());
        self
    }

    /// Starts it by another program, which is to become it: `prlimit`, `bash -c`.
    #[must_use]
    pub fn under(mut self, program: &[&str]) -> Self {
        self.under = program.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Starts it and waits for the ready line.
    ///
    /// # Panics
    /// When it is not ready in time.
    pub async fn start(self) -> Gateway {
        self.start_with(ready_line).await
    }

    /// The same when the log is JSON: the ready line is then one of the text fields.
    ///
    /// # Panics
    /// When it is not ready in time.
    pub async fn start_json(self) -> Gateway {
        self.start_with(|log| ready_line(&json_as_words(log))).await
    }

    async fn start_with(self, ready: impl Fn(&str) -> Option<Listening>) -> Gateway {
        let host = if self.address.is_some() {
            "0.0.0.0"
        } else {
            "127.0.0.1"
        };
        let mut command = match &self.address {
            None => match self.under.split_first() {
                None => Command::new(binary()),
                Some((program, words)) => {
                    let mut command = Command::new(program);
                    command.args(words).arg(binary());
                    command
                }
            },
            Some(address) => {
                let mut command = Command::new("unshare");
                let script =
                    format!("ip link set lo up && ip addr add {address}/32 dev lo && exec \"$0\" \"$@\"");
                command.args(["--net", "sh", "-c", &script]).arg(binary());
                command
            }
        };
        command.args(&self.args);
        for (listener, host) in [("rtmp", host), ("http", host), ("admin", "127.0.0.1")] {
            command.arg("--set").arg(format!("{listener}.listen={host}:0"));
        }
        for set in &self.sets {
            command.arg("--set").arg(set);
        }
        command.envs(self.env);
        let process = Process::spawn("spillway", command);
        let addresses = process
            .wait_output(START_LIMIT, "ready line with rtmp= http= admin=", ready)
            .await;
        let loopback = |mut address: SocketAddr| {
            if address.ip().is_unspecified() {
                address.set_ip([127, 0, 0, 1].into());
            }
            address
        };
        let [rtmp, http, admin] = addresses.plain.map(loopback);
        let [rtmps, https, admin_tls] = addresses.tls.map(|address| address.map(loopback));
        Gateway {
            process,
            rtmp,
            http,
            admin,
            rtmps,
            https,
            admin_tls,
        }
    }
}

/// A running gateway; killed on drop.
pub struct Gateway {
    process: Process,
    /// RTMP listener.
    pub rtmp: SocketAddr,
    /// Listener for viewers.
    pub http: SocketAddr,
    /// Listener for metrics, probes and the API.
    pub admin: SocketAddr,
    /// RTMP under TLS, if it is on.
    pub rtmps: Option<SocketAddr>,
    /// Listener for viewers under TLS, if it is on.
    pub https: Option<SocketAddr>,
    /// Listener for metrics, probes and the API under TLS, if it is on.
    pub admin_tls: Option<SocketAddr>,
}

impl Gateway {
    /// How to start one.
    #[must_use]
    pub fn with() -> Start {
        Start::default()
    }

    /// `rtmp://HOST/key`.
    #[must_use]
    pub fn rtmp_url(&self, key: &str) -> String {
        format!("rtmp://{}/{key}", self.rtmp)
    }

    /// `http://HOST/path` of the viewers' listener.
    #[must_use]
    pub fn http_url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.http)
    }

    /// `ws://HOST/path` of the viewers' listener.
    #[must_use]
    pub fn ws_url(&self, path: &str) -> String {
        format!("ws://{}/{path}", self.http)
    }

    /// The log so far.
    #[must_use]
    pub const fn log(&self) -> &Output {
        self.process.output()
    }

    /// The process, for signals and waits.
    pub const fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid().as_raw_nonzero().get()
    }

    /// GET on the viewers' listener.
    pub async fn get(&self, path: &str) -> Response {
        http::get(self.http, path).await
    }

    /// GET on the admin listener.
    pub async fn admin_get(&self, path: &str) -> Response {
        http::get(self.admin, path).await
    }

    /// The metrics now.
    ///
    /// # Panics
    /// When `/metrics` does not answer 200 with well-formed text.
    pub async fn metrics(&self) -> Metrics {
        let response = self.admin_get("/metrics").await;
        assert_eq!(response.status, 200, "/metrics: {}", response.text());
        Metrics::parse(&response.text())
    }

    /// Resident memory of the process in bytes.
    ///
    /// # Panics
    /// When the process is gone.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("a VmRSS line");
        let kib: u64 = line
            .trim()
            .trim_end_matches("kB")
            .trim()
            .parse()
            .expect("VmRSS in kB");
        kib * 1024
    }

    /// Files and sockets that it has open.
    ///
    /// # Panics
    /// When the process is gone.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.pid());
        let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        entries.count()
    }

    /// Waits until it has no more than `count` files and sockets open.
    pub async fn wait_open_files(&self, count: usize) {
        until(secs(15), "descriptors to be freed", || async {
            (self.open_files() <= count).then_some(())
        })
        .await;
    }

    /// How often publishers' sessions ended so.
    pub async fn publisher_ends(&self, reason: &str) -> f64 {
        let of = |sample: &crate::metrics::Sample| {
            sample.name == "spillway_publisher_sessions_ended_total" && sample.label("reason") == Some(reason)
        };
        self.metrics().await.sum(of)
    }

    /// How often viewers' sessions ended so.
    pub async fn viewer_ends(&self, reason: &str) -> f64 {
        let of = |sample: &crate::metrics::Sample| {
            sample.name == "spillway_viewer_sessions_ended_total" && sample.label("reason") == Some(reason)
        };
        self.metrics().await.sum(of)
    }

    /// Connections that a listener has established now.
    #[must_use]
    pub fn connections(&self, listener: SocketAddr) -> usize {
        let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", self.pid())).unwrap_or_default();
        let port = format!(":{:04X}", listener.port());
        table
            .lines()
            .skip(1)
            .filter(|line| {
                let mut fields = line.split_ascii_whitespace().skip(1);
                let local_is_listener = fields.next().is_some_and(|local| local.ends_with(&port));
                local_is_listener && fields.nth(1) == Some("01")
            })
            .count()
    }

    /// Waits until a listener has at least `count` established connections.
    pub async fn wait_connections(&self, listener: SocketAddr, count: usize) {
        let what = format!("{count} connections to {listener}");
        until(secs(15), &what, || async {
            (self.connections(listener) >= count).then_some(())
        })
        .await;
    }

    /// Waits until the stream is live: its FLV is answered.
    pub async fn wait_live(&self, key: &str) {
        let path = format!("/{key}.flv");
        until(secs(15), &format!("{key} to be live"), || async {
            let stream = http::open(self.http, http::Request::get(&path)).await.ok()?;
            (stream.head.status == 200).then_some(())
        })
        .await;
    }

    /// SIGTERM, then its end.
    pub async fn terminate(&mut self, limit: Duration) -> ExitStatus {
        self.process.signal(Signal::TERM);
        self.process.wait(limit).await
    }
}

/// `{"fields":{"rtmp":"1.2.3.4:5",…}}` as `rtmp=1.2.3.4:5 …`, line by line.
fn json_as_words(log: &str) -> String {
    log.lines()
        .map(|line| line.replace("\":\"", "=").replace(['"', '{', '}', ','], " ") + "\n")
        .collect()
}

/// What the ready line says of the listeners: RTMP, viewers, operators; each without and with TLS.
struct Listening {
    plain: [SocketAddr; 3],
    tls: [Option<SocketAddr>; 3],
}

fn ready_line(log: &str) -> Option<Listening> {
    log.lines().find_map(|line| {
        let address = |name: &str| -> Option<SocketAddr> {
            let value = line
                .split_ascii_whitespace()
                .find_map(|word| word.strip_prefix(name))?;
            value.trim_matches(['"', ',']).parse().ok()
        };
        Some(Listening {
            plain: [address("rtmp=")?, address("http=")?, address("admin=")?],
            tls: ["rtmps=", "https=", "admin_tls="].map(address),
        })
    })
}
