//! The process's limit of open files, which is its limit of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no connections: listeners, the runtime's own, logs, and room to spare.
const OTHER_FILES: u64 = 64;

/// The limit of open files (`RLIMIT_NOFILE`), raised as far as it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// The limit the process was started with; `None` for none at all.
    pub(crate) before: Option<u64>,
    /// The limit that now holds; `None` for none at all.
    pub(crate) now: Option<u64>,
}

/// Raises the soft limit of open files to the hard one. Where the kernel refuses, the old limit stays.
pub(crate) fn raise_nofile() -> OpenFiles {
    let Rlimit {
        current: before,
        maximum,
    } = getrlimit(Resource::Nofile);
    if before != maximum {
        // A refusal shows in what is read back.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
    OpenFiles {
        before,
        now: getrlimit(Resource::Nofile).current,
    }
}

impl OpenFiles {
    /// The words for the log if the limit is below `max_connections` (`limits.max_connections`).
    pub(crate) fn warning(self, max_connections: u32) -> Option<String> {
        let small = self.now.filter(|files| *files < u64::from(max_connections))?;
        let fit = small.saturating_sub(OTHER_FILES);
        let files = u64::from(max_connections) + OTHER_FILES;
        Some(format!(
            "the limit of open files leaves room for {fit} connections, fewer than limits.max_connections \
             ({max_connections}): start with a hard limit of at least {files} (ulimit -Hn {files}; LimitNOFILE={files} \
             in a systemd unit; ulimits.nofile in a compose file), or set limits.max_connections lower"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raise_nofile().now, hard);
        assert_eq!(raise_nofile().before, hard);
    }

    #[test]
    fn a_small_limit_is_spoken_of() {
        let files = |now| OpenFiles {
            before: Some(1_024),
            now,
        };
        let warning = files(Some(4_096)).warning(20_000).unwrap();
        assert!(
            warning.contains("room for 4032 connections") && warning.contains("20064"),
            "{warning}"
        );
        assert_eq!(files(Some(20_000)).warning(20_000), None);
        assert_eq!(files(None).warning(u32::MAX), None);
        assert!(files(Some(0)).warning(1).is_some());
    }
}
