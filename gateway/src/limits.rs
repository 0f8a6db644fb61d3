//! The process's limit of open files, which is its limit of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no connections: listeners, the runtime's own, logs, and room to spare.
const OTHER_FILES: u64 = 64;

/// The part of a limit that is hardly larger than that which connections get all the same.
const LEAST_SHARE: u64 = 4;

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
    /// How many of `max_connections` (`limits.max_connections`) there is room for: those beyond can be told that there
    /// is none, which takes a descriptor.
    pub(crate) fn room_for(self, max_connections: u32) -> u32 {
        let Some(files) = self.now else {
            return max_connections;
        };
        let room = files.saturating_sub(OTHER_FILES).max(files / LEAST_SHARE);
        u32::try_from(room).map_or(max_connections, |room| room.min(max_connections))
    }

    /// The words for the log if there is no room for `max_connections` (`limits.max_connections`).
    pub(crate) fn warning(self, max_connections: u32) -> Option<String> {
        let fit = self.room_for(max_connections);
        if fit == max_connections {
            return None;
        }
        let files = u64::from(max_connections) + OTHER_FILES;
        Some(format!(
            "the limit of open files leaves room for {fit} connections, which holds in place of limits.max_connections \
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
        assert_eq!(files(Some(20_064)).warning(20_000), None);
        assert!(files(Some(20_063)).warning(20_000).is_some());
        assert_eq!(files(None).warning(u32::MAX), None);
        assert!(files(Some(0)).warning(1).is_some());
    }

    #[test]
    fn no_more_connections_are_let_in_than_there_are_files_for() {
        let room = |now, max| OpenFiles { before: now, now }.room_for(max);
        assert_eq!(room(Some(4_096), 20_000), 4_032);
        assert_eq!(room(Some(100_000), 20_000), 20_000);
        assert_eq!(room(Some(40), 20_000), 10);
        assert_eq!(room(None, 20_000), 20_000);
    }
}
