//! Counting a server's system calls, with strace.

use crate::clock::sleep;
use crate::error::LoadError;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// System calls by name that `pid` and its threads make in `time`.
///
/// # Errors
/// [`LoadError::Io`] if there is no strace, or it may not look.
pub fn system_calls(pid: u32, time: Duration) -> Result<BTreeMap<String, u64>, LoadError> {
    let summary = std::env::temp_dir().join(format!("spillway-load-strace-{}", std::process::id()));
    let mut strace = Command::new("strace")
        .args(["-c", "-f", "-p", &pid.to_string(), "-o"])
        .arg(&summary)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(LoadError::io("start strace"))?;
    sleep(time);
    if let Some(strace) = i32::try_from(strace.id()).ok().and_then(Pid::from_raw) {
        // If it is gone already, its summary is there or missing all the same.
        let _ = kill_process(strace, Signal::INT);
    }
    strace.wait().map_err(LoadError::io("strace"))?;
    let text = fs::read_to_string(&summary).map_err(LoadError::io("read strace's summary"))?;
    let _ = fs::remove_file(&summary);
    Ok(parse(&text))
}

/// Reads lines such as `45.56 0.012 3 4000 12 sendmsg`; the number of errors may be missing.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let rows = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields
            .last()
            .filter(|name| fields.len() >= 5 && **name != "total")?;
        Some(((*name).to_owned(), fields.get(3)?.parse().ok()?))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n \
                    90.00    0.010000           2      4000        12 sendmsg\n \
                    10.00    0.001000           1       700           epoll_wait\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.011000           2      4700        12 total\n";
        let calls = parse(text);
        assert_eq!(
            calls,
            BTreeMap::from([("sendmsg".to_owned(), 4000), ("epoll_wait".to_owned(), 700)])
        );
    }
}
