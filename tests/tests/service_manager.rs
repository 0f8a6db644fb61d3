//! Under systemd: it is told when the gateway listens, lives and ends, and finds no fault with the shipped unit.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdDatagram};

use rustix::process::Signal;
use spillway_tests::gateway::{Gateway, binary};
use spillway_tests::tools::{program, repository};
use spillway_tests::wait::{secs, within};
use tokio::net::UnixDatagram;
use tokio::process::Command;

/// What a service manager hears.
struct Manager(UnixDatagram);

impl Manager {
    fn listening(socket: StdDatagram) -> Self {
        socket
            .set_nonblocking(true)
            .expect("a socket that can be awaited");
        Self(UnixDatagram::from_std(socket).expect("a socket"))
    }

    async fn hears(&self, what: &str) {
        let heard = async {
            let mut buf = [0; 512];
            loop {
                let length = self.0.recv(&mut buf).await.expect("a datagram");
                let text = std::str::from_utf8(&buf[..length]).expect("text");
                if text.lines().any(|line| line == what) {
                    return;
                }
            }
        };
        within(secs(20), &format!("the service manager to hear {what}"), heard).await;
    }
}

#[tokio::test]
async fn the_service_manager_hears_when_it_listens_and_when_it_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let manager = Manager::listening(StdDatagram::bind(&path).expect("a socket"));
    let mut gateway = Gateway::with()
        .env("NOTIFY_SOCKET", path.to_str().expect("a plain path"))
        .start()
        .await;
    manager.hears("READY=1").await;
    assert_eq!(gateway.admin_get("/readyz").await.status, 200);
    gateway.process().signal(Signal::TERM);
    manager.hears("STOPPING=1").await;
    gateway.process().wait_ok(secs(15)).await;
}

#[tokio::test]
async fn the_service_manager_gets_signs_of_life_at_an_abstract_name() {
    let name = format!("spillway-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let manager = Manager::listening(StdDatagram::bind_addr(&address).expect("a socket"));
    let _gateway = Gateway::with()
        .env("NOTIFY_SOCKET", &format!("@{name}"))
        .env("WATCHDOG_USEC", "100000")
        .start()
        .await;
    for _ in 0..3 {
        manager.hears("WATCHDOG=1").await;
    }
}

#[tokio::test]
async fn a_service_manager_that_cannot_be_told_is_spoken_of_and_nothing_else_happens() {
    let gateway = Gateway::with()
        .env("NOTIFY_SOCKET", "/nowhere/notify")
        .start()
        .await;
    assert_eq!(gateway.admin_get("/readyz").await.status, 200);
    let log = gateway.log().text();
    assert!(log.contains("NOTIFY_SOCKET"), "{log}");
}

#[tokio::test]
async fn systemd_finds_no_fault_with_the_unit_and_little_exposed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unit = folder.path().join("spillway.service");
    let text =
        std::fs::read_to_string(repository().join("config/systemd/spillway.service")).expect("the unit");
    let binary = binary().canonicalize().expect("the binary's path");
    let here = text.replace("/usr/bin/spillway", binary.to_str().expect("a plain path"));
    assert_ne!(text, here, "the unit does not start /usr/bin/spillway");
    std::fs::write(&unit, here).expect("a unit file");
    for words in [
        &["verify", "--man=no"][..],
        // The overall exposure in tenths: below 2.0 of 10.
        &["security", "--offline=true", "--threshold=20", "--no-pager"],
    ] {
        let mut command = Command::new(program("systemd-analyze"));
        command.args(words).arg(&unit).kill_on_drop(true);
        let output = within(secs(30), "systemd-analyze", command.output()).await;
        let output = output.expect("systemd-analyze, of Debian's package systemd");
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        let faultless = words[0] != "verify" || !said.contains("spillway.service");
        assert!(
            output.status.success() && faultless,
            "systemd-analyze {words:?}:\n{said}"
        );
    }
}
