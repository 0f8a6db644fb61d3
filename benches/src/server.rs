//! The server under test: starting and stopping it, and what the kernel knows of it.

use crate::clock::{MILLISECOND_NS, SECOND_NS, nanoseconds, now_ns, sleep};
use crate::error::LoadError;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may take to accept connections.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How often a starting server is tried.
const START_PAUSE: Duration = Duration::from_micros(500);
/// How long a server may take to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(8);
const STOP_PAUSE: Duration = Duration::from_millis(20);

/// A running server.
#[derive(Debug)]
pub struct Server {
    pid: u32,
    child: Option<Child>,
    /// From exec to the first accepted connection, in milliseconds; `None` if it was running already.
    pub listening_after_ms: Option<f64>,
}

impl Server {
    /// Watches the process `pid`, which somebody else started.
    pub fn running(pid: u32) -> Self {
        Self {
            pid,
            child: None,
            listening_after_ms: None,
        }
    }

    /// Starts `command` with a shell, on core `cpu` if given, with its output in the file `log`, and
    /// waits until `address` accepts connections.
    ///
    /// # Errors
    /// [`LoadError::Io`] if it cannot be started, [`LoadError::NotListening`] if it does not listen.
    pub fn start(
        command: &str,
        cpu: Option<usize>,
        log: &Path,
        address: SocketAddr,
    ) -> Result<Self, LoadError> {
        let output = File::create(log).map_err(LoadError::io(log.display().to_string()))?;
        let errors = output
            .try_clone()
            .map_err(LoadError::io(log.display().to_string()))?;
        let mut process = match cpu {
            Some(cpu) => {
                let mut taskset = Command::new("taskset");
                taskset.args(["-c", &cpu.to_string(), "sh", "-c"]);
                taskset
            }
            None => {
                let mut shell = Command::new("sh");
                shell.arg("-c");
                shell
            }
        };
        let started_ns = now_ns();
        let child = process
            .arg(format!("exec {command}"))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(LoadError::io(format!("start {command}")))?;
        let mut server = Self {
            pid: child.id(),
            child: Some(child),
            listening_after_ms: None,
        };
        while TcpStream::connect(address).is_err() {
            let ended = server
                .child
                .as_mut()
                .and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || now_ns() - started_ns > nanoseconds(START_LIMIT) {
                return Err(LoadError::NotListening(address.to_string()));
            }
            sleep(START_PAUSE);
        }
        server.listening_after_ms = Some((now_ns() - started_ns) as f64 / MILLISECOND_NS as f64);
        Ok(server)
    }

    /// The server's first process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the kernel accounts to the server and its descendants now.
    pub fn sample(&self, cpu: Option<usize>) -> Sample {
        let mut sample = Sample {
            at_ns: now_ns(),
            ..Sample::default()
        };
        for pid in family(self.pid) {
            sample.add_process(pid);
        }
        if let Some(cpu) = cpu {
            sample.core_busy_s = core_busy_s(cpu);
        }
        sample.throttling = Throttling::of(self.pid);
        sample
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // A server that is gone already needs no signal.
            let _ = kill_process(pid, Signal::TERM);
        }
        let limit_ns = now_ns() + nanoseconds(STOP_LIMIT);
        while now_ns() < limit_ns {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            sleep(STOP_PAUSE);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Counters of a process family at one time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// When it was taken.
    pub at_ns: u64,
    /// CPU time in user mode, in seconds.
    pub user_s: f64,
    /// CPU time in the kernel, in seconds.
    pub system_s: f64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Resident memory that is not of files, in bytes.
    pub rss_anon_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the scheduler took the core away.
    pub involuntary_switches: u64,
    /// Time the server's core was not idle, all processes and interrupts, in seconds.
    pub core_busy_s: f64,
    /// What its control group was denied.
    pub throttling: Option<Throttling>,
}

impl Sample {
    /// CPU time, in seconds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }

    /// CPU time since `earlier`, as a share of one core.
    pub fn core_share_since(&self, earlier: &Self) -> f64 {
        let elapsed_ns = self.at_ns.saturating_sub(earlier.at_ns).max(1);
        (self.cpu_s() - earlier.cpu_s()) * SECOND_NS as f64 / elapsed_ns as f64
    }

    fn add_process(&mut self, pid: u32) {
        let folder = format!("/proc/{pid}");
        let Ok(stat) = fs::read_to_string(format!("{folder}/stat")) else {
            return;
        };
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        // proc_pid_stat(5): behind the command in parentheses the first field is the third, state.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let field = |number: usize| {
            fields
                .get(number - 3)
                .and_then(|field| field.parse::<u64>().ok())
                .unwrap_or(0)
        };
        self.user_s += field(14) as f64 / ticks;
        self.system_s += field(15) as f64 / ticks;
        let status = fs::read_to_string(format!("{folder}/status")).unwrap_or_default();
        let value = |key| status_value(&status, key);
        self.rss_bytes += value("VmRSS:") * 1024;
        self.rss_anon_bytes += value("RssAnon:") * 1024;
        self.threads += value("Threads:");
        for task in fs::read_dir(format!("{folder}/task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            self.voluntary_switches += status_value(&status, "voluntary_ctxt_switches:");
            self.involuntary_switches += status_value(&status, "nonvoluntary_ctxt_switches:");
        }
    }

    /// This process's own counters.
    pub fn of_self() -> Self {
        let mut sample = Self {
            at_ns: now_ns(),
            ..Self::default()
        };
        sample.add_process(std::process::id());
        sample
    }
}

/// CPU bandwidth control of a control group, version 1 or 2.
#[derive(Debug, Clone, Copy, Default)]
pub struct Throttling {
    /// Periods in which the group ran into its quota.
    pub periods: u64,
    /// Time it was kept from running, in seconds.
    pub seconds: f64,
}

impl Throttling {
    fn of(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let mounts: &[&str] = match controllers {
                "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
                _ if controllers.split(',').any(|name| name == "cpu") => &["/sys/fs/cgroup/cpu"],
                _ => return None,
            };
            mounts
                .iter()
                .find_map(|mount| Self::read(&format!("{mount}{path}/cpu.stat")))
        })
    }

    fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let values: BTreeMap<&str, u64> = text
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(key, value)| Some((key, value.parse().ok()?)))
            .collect();
        let periods = *values.get("nr_throttled")?;
        let microseconds = values.get("throttled_usec").map(|time| *time as f64 / 1e6);
        let seconds = microseconds.or_else(|| {
            values
                .get("throttled_time")
                .map(|time| *time as f64 / SECOND_NS as f64)
        });
        Some(Self {
            periods,
            seconds: seconds.unwrap_or_default(),
        })
    }
}

fn status_value(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

/// Time core `cpu` was not idle since boot.
fn core_busy_s(cpu: usize) -> f64 {
    let name = format!("cpu{cpu} ");
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(line) = stat.lines().find(|line| line.starts_with(&name)) else {
        return 0.0;
    };
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| fields.get(*at)).sum();
    busy as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// `root` and all its descendants.
fn family(root: u32) -> Vec<u32> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        parents.insert(pid, parent.unwrap_or_default());
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(
            parents
                .iter()
                .filter(|(_, of)| **of == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_threads_and_a_family() {
        let sample = Sample::of_self();
        assert!(sample.rss_bytes > 100_000 && sample.rss_anon_bytes < sample.rss_bytes);
        assert!(sample.threads >= 1);
        assert_eq!(family(std::process::id()), [std::process::id()]);
    }

    #[test]
    fn a_command_that_ends_is_not_waited_for() {
        let log = std::env::temp_dir().join("spillway-load-server-test.log");
        let address = "127.0.0.1:9".parse().unwrap();
        let started = Server::start("false", None, &log, address);
        assert!(matches!(started, Err(LoadError::NotListening(_))));
    }
}
