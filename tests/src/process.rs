//! One child process: output kept, signals, an end that is waited for, killed on drop.

use std::fmt::Write as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// Lines of output shown when something went wrong.
const SHOWN_LINES: usize = 60;

/// What a process has written to its output and error streams, merged as it came.
#[derive(Clone)]
pub struct Output {
    text: Arc<Mutex<String>>,
    changed: watch::Receiver<u64>,
}

impl Output {
    /// All text so far, without terminal colours.
    #[must_use]
    pub fn text(&self) -> String {
        strip_colours(&self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last lines, for a failure message.
    #[must_use]
    pub fn tail(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }
}

/// A running child process.
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    output: Output,
}

impl Process {
    /// Starts `command` with no input; `name` is used in messages.
    ///
    /// # Panics
    /// When the program cannot be started.
    #[must_use]
    pub fn spawn(name: &str, mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => panic!(
                "{name}: cannot start {:?}: {error}",
                command.as_std().get_program()
            ),
        };
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.expect("a child that was just started has a pid");
        let (changed_tx, changed) = watch::channel(0);
        let changed_tx = Arc::new(changed_tx);
        let text = Arc::new(Mutex::new(String::new()));
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(collect(stdout, Arc::clone(&text), Arc::clone(&changed_tx)));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(collect(stderr, Arc::clone(&text), changed_tx));
        }
        Self {
            name: name.to_owned(),
            child,
            pid,
            output: Output { text, changed },
        }
    }

    /// The process id.
    #[must_use]
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// What it has written so far.
    #[must_use]
    pub const fn output(&self) -> &Output {
        &self.output
    }

    /// Sends a signal; a process that has ended already is no error.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it is still running after `limit`; the message holds its last lines.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(Ok(status)) => {
                self.drain().await;
                status
            }
            Ok(Err(error)) => panic!("{}: cannot wait for it: {error}", self.name),
            Err(_) => panic!(
                "{}: still running after {limit:?}; it said:\n{}",
                self.name,
                self.output.tail()
            ),
        }
    }

    /// Waits for a successful end.
    ///
    /// # Panics
    /// When it failed or is still running after `limit`.
    pub async fn wait_ok(&mut self, limit: Duration) {
        let status = self.wait(limit).await;
        assert!(
            status.success(),
            "{}: ended with {status}; it said:\n{}",
            self.name,
            self.output.tail()
        );
    }

    /// Kills it at once (SIGKILL) and waits until it is gone.
    pub async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }

    /// Waits until `find` gives something for the output so far.
    ///
    /// # Panics
    /// When it gave nothing within `limit`, or the output ended before.
    pub async fn wait_output<T>(
        &self,
        limit: Duration,
        what: &str,
        mut find: impl FnMut(&str) -> Option<T>,
    ) -> T {
        let mut changed = self.output.changed.clone();
        let search = async {
            loop {
                changed.mark_unchanged();
                if let Some(found) = find(&self.output.text()) {
                    return Some(found);
                }
                if changed.changed().await.is_err() {
                    return find(&self.output.text());
                }
            }
        };
        match tokio::time::timeout(limit, search).await {
            Ok(Some(found)) => found,
            Ok(None) => panic!(
                "{}: ended without {what}; it said:\n{}",
                self.name,
                self.output.tail()
            ),
            Err(_) => panic!(
                "{}: no {what} within {limit:?}; it said:\n{}",
                self.name,
                self.output.tail()
            ),
        }
    }

    async fn drain(&self) {
        let mut changed = self.output.changed.clone();
        let closed = async { while changed.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), closed).await;
    }
}

async fn collect(
    mut stream: impl AsyncRead + Unpin,
    text: Arc<Mutex<String>>,
    changed: Arc<watch::Sender<u64>>,
) {
    let mut buffer = [0_u8; 8192];
    while let Ok(count) = stream.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        let piece = String::from_utf8_lossy(&buffer[..count]).into_owned();
        let _ = text
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write_str(&piece);
        changed.send_modify(|version| *version += 1);
    }
}

fn strip_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let tail = &rest[at + 2..];
        let end = tail
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(tail.len(), |end| end + 1);
        rest = &tail[end..];
    }
    plain.push_str(rest);
    plain
}
