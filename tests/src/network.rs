//! A second network: a namespace joined to this one by a cable that can be pulled, filtered and made thin.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Networks made by this process.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A network namespace with one cable to this one; removed on drop.
pub struct Network {
    name: String,
    /// Our end of the cable, and theirs.
    cable: [String; 2],
    address: Ipv4Addr,
}

impl Network {
    /// Joins a new namespace to this one.
    ///
    /// # Panics
    /// Where that is not allowed: it takes root (`CAP_NET_ADMIN`) and a kernel with network namespaces.
    #[must_use]
    pub fn join() -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let name = format!("spw{id}-{number}");
        // Interface names have at most 15 characters.
        let cable = ["a", "b"].map(|end| format!("sp{}{end}{number}", id % 10_000_000));
        // One of 2^16 networks of four addresses in 10.192.0.0/10.
        let base = 0x0AC0_0000 | ((id.wrapping_mul(16) + number) & 0xFFFF) << 2;
        let network = Self {
            name,
            cable,
            address: Ipv4Addr::from(base + 1),
        };
        let [ours, theirs] = &network.cable;
        let inside = Ipv4Addr::from(base + 2);
        let name = &network.name;
        for line in [
            format!("netns add {name}"),
            format!("link add {ours} type veth peer name {theirs} netns {name}"),
            format!("addr add {}/30 dev {ours}", network.address),
            format!("link set {ours} up"),
            format!("-n {name} addr add {inside}/30 dev {theirs}"),
            format!("-n {name} link set {theirs} up"),
        ] {
            ip(&line);
        }
        network
    }

    /// Our address on the cable: what programs inside connect to.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command that runs inside.
    #[must_use]
    pub fn command(&self, program: &Path) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Pulls the cable, or plugs it in again: both ends see it.
    pub fn plug(&self, plugged: bool) {
        let state = if plugged { "up" } else { "down" };
        ip(&format!("link set {} {state}", self.cable[0]));
    }

    /// Drops every packet in both directions, or none: nobody sees it.
    pub fn swallow(&self, all: bool) {
        let change = if all { "-A" } else { "-D" };
        for chain in ["INPUT", "OUTPUT"] {
            let line = format!("netns exec {} iptables -w {change} {chain} -j DROP", self.name);
            ip(&line);
        }
    }

    /// What goes out of the namespace passes at this rate, with at most 400 ms of it in line.
    pub fn make_thin(&self, kbit_per_second: u32) {
        let [_, theirs] = &self.cable;
        run(
            "tc",
            &format!(
                "-n {} qdisc replace dev {theirs} root tbf rate {kbit_per_second}kbit burst 10kb latency 400ms",
                self.name
            ),
        );
    }

    /// As wide as before.
    pub fn make_wide(&self) {
        let [_, theirs] = &self.cable;
        run("tc", &format!("-n {} qdisc del dev {theirs} root", self.name));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // What is left behind by a failure holds nobody up.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

fn ip(line: &str) {
    run("ip", line);
}

/// Runs a command given as one line.
fn run(program: &str, line: &str) {
    let output = Command::new(program).args(line.split(' ')).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; tests/run --only install"));
    assert!(
        output.status.success(),
        "{program} {line}: {}; network namespaces need root (CAP_NET_ADMIN) and a kernel that has them",
        String::from_utf8_lossy(&output.stderr).trim()
    );
}
