//! How many worker threads: as many as the processors this process may really use.
//!
//! A container with half a processor on a machine of 64 should not run 64 workers: they would use up the quota of a
//! period in its first moments and then all stand still until the next, which viewers see as jitter. So both the CPU
//! affinity and the quota of the control groups (version 1 and 2) count. A quota is rounded up: with 1.5 processors the
//! second worker is worth having.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;

/// The number of workers for `configured` (`runtime.workers`), where 0 asks the system.
pub(crate) fn count(configured: u32) -> usize {
    let processors = Processors::detect();
    let workers = processors.workers(configured);
    tracing::debug!(%processors, configured, workers, "counted the workers");
    workers
}

/// The processors this process may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Processors {
    /// Those it is allowed to run on.
    pub(crate) affinity: usize,
    /// How many of them its control groups let it use at a time; `None` for all.
    pub(crate) quota: Option<f64>,
}

impl Processors {
    /// Asks the system.
    pub(crate) fn detect() -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        Self {
            affinity: affinity(),
            quota: quota(read),
        }
    }

    /// The number of workers: `configured` (`runtime.workers`), or with 0 as many as there are processors to use, at
    /// least 1.
    pub(crate) fn workers(self, configured: u32) -> usize {
        match usize::try_from(configured) {
            Ok(configured) if configured > 0 => configured,
            _ => {
                let affinity = self.affinity.max(1);
                // Saturates, and a quota above the affinity does not count.
                let quota = self.quota.map_or(affinity, |quota| quota.ceil() as usize);
                quota.clamp(1, affinity)
            }
        }
    }
}

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota {
            Some(quota) => write!(f, "{} processors, a quota of {quota:.2}", self.affinity),
            None => write!(f, "{} processors", self.affinity),
        }
    }
}

/// The number of processors in the CPU affinity mask.
fn affinity() -> usize {
    let counted = rustix::thread::sched_getaffinity(None)
        .map(|set| set.count() as usize)
        .unwrap_or_default();
    // The mask asked for holds 1,024 processors; a larger machine refuses it.
    if counted > 0 {
        counted
    } else {
        std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
    }
}

/// The smallest quota of the control groups above this process, in processors. `read` gives a file's content.
fn quota(read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let mut smallest: Option<f64> = None;
    for group in groups.lines().filter_map(Group::parse) {
        let Some(mount) = mounts.iter().find(|mount| mount.version == group.version) else {
            continue;
        };
        for folder in mount.folders_above(group.path) {
            let found = match group.version {
                Version::One => read(&folder.join("cpu.cfs_quota_us"))
                    .zip(read(&folder.join("cpu.cfs_period_us")))
                    .and_then(|(quota, period)| ratio(&quota, &period)),
                Version::Two => read(&folder.join("cpu.max")).and_then(|text| {
                    text.split_once(' ')
                        .and_then(|(quota, period)| ratio(quota, period))
                }),
            };
            if let Some(found) = found {
                smallest = Some(smallest.map_or(found, |smallest| smallest.min(found)));
            }
        }
    }
    smallest
}

/// Processors from a quota and its period, both in microseconds. `None` for `max`, −1 and what does not read.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.trim().parse::<u64>().ok()? as f64;
    let period: f64 = period.trim().parse::<u64>().ok()? as f64;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// Version of the control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A line of `/proc/self/cgroup` that tells of processors: `0::/path`, or `3:cpu,cpuacct:/path`.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    version: Version,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let version = if controllers.is_empty() {
            Version::Two
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            Version::One
        } else {
            return None;
        };
        Some(Self { version, path })
    }
}

/// A line of `/proc/self/mountinfo` of a control group file system that tells of processors.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is seen at the mount point.
    root: String,
    point: String,
}

impl Mount {
    /// `36 35 98:0 /root /point options fields - type source super-options` (proc(5)).
    fn parse(line: &str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescape(place.next()?), unescape(place.next()?));
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup2" => Version::Two,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "cpu") => Version::One,
            _ => return None,
        };
        Some(Self { version, root, point })
    }

    /// The folders of the group `path` and of all groups above it, as far as they are seen here.
    fn folders_above(&self, path: &str) -> Vec<std::path::PathBuf> {
        let point = Path::new(&self.point);
        // In a container the path may be the host's, of which the mount shows only the part below its root.
        let below = Path::new(path).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let clean = below
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        let below = if clean { below } else { Path::new("") };
        below.ancestors().map(|part| point.join(part)).collect()
    }
}

/// Blanks and the like stand in mountinfo as three octal digits: `\040`.
fn unescape(text: &str) -> String {
    let mut out = text.to_owned();
    for (escaped, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(escaped, plain);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota_of(files: &[(&str, &str)]) -> Option<f64> {
        quota(|path| {
            files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| (*text).to_owned())
        })
    }

    fn workers(affinity: usize, quota: Option<f64>, configured: u32) -> usize {
        Processors { affinity, quota }.workers(configured)
    }

    #[test]
    fn a_quota_is_rounded_up_and_never_leaves_nothing() {
        assert_eq!(workers(64, None, 0), 64);
        assert_eq!(workers(64, Some(0.5), 0), 1);
        assert_eq!(workers(64, Some(1.5), 0), 2);
        assert_eq!(workers(64, Some(2.0), 0), 2);
        assert_eq!(workers(2, Some(8.0), 0), 2);
        assert_eq!(workers(0, None, 0), 1);
        assert_eq!(workers(4, Some(f64::MAX), 0), 4);
    }

    #[test]
    fn a_configured_number_holds_whatever_the_machine_is() {
        assert_eq!(workers(64, Some(0.5), 3), 3);
        assert_eq!(workers(1, None, 16), 16);
    }

    #[test]
    fn a_version_2_quota_counts_in_a_container() {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            (
                "/proc/self/mountinfo",
                "30 20 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
            ),
            ("/sys/fs/cgroup/cpu.max", "150000 100000\n"),
        ];
        assert_eq!(quota_of(&files), Some(1.5));
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let files = [
            ("/proc/self/cgroup", "0::/system.slice/spillway.service\n"),
            (
                "/proc/self/mountinfo",
                "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
            ),
            (
                "/sys/fs/cgroup/system.slice/spillway.service/cpu.max",
                "400000 100000\n",
            ),
            ("/sys/fs/cgroup/system.slice/cpu.max", "200000 100000\n"),
        ];
        assert_eq!(quota_of(&files), Some(2.0));
    }

    #[test]
    fn max_is_no_quota() {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            (
                "/proc/self/mountinfo",
                "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
            ),
            ("/sys/fs/cgroup/cpu.max", "max 100000\n"),
        ];
        assert_eq!(quota_of(&files), None);
    }

    #[test]
    fn a_version_1_quota_counts_under_the_path_that_the_container_sees() {
        let files = [
            (
                "/proc/self/cgroup",
                "9:name=systemd:/docker/ef\n4:memory:/docker/ef\n1:cpu,cpuacct:/docker/ef\n0::/docker/ef\n",
            ),
            (
                "/proc/self/mountinfo",
                "77 76 0:46 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                 78 77 0:29 /docker/ef /sys/fs/cgroup/cpu ro,nosuid,noexec - cgroup cgroup rw,cpu,cpuacct\n\
                 79 77 0:30 /docker/ef /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
            ),
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota_of(&files), Some(0.5));
        let mut unlimited = files;
        unlimited[2].1 = "-1\n";
        assert_eq!(quota_of(&unlimited), None);
    }

    #[test]
    fn a_path_outside_the_mount_is_looked_up_at_the_mount_point() {
        let files = [
            ("/proc/self/cgroup", "0::/../sibling\n"),
            (
                "/proc/self/mountinfo",
                "30 20 0:26 /docker/a /cg\\040roups rw - cgroup2 cgroup rw\n",
            ),
            ("/cg roups/cpu.max", "300000 100000\n"),
        ];
        assert_eq!(quota_of(&files), Some(3.0));
    }

    #[test]
    fn no_control_groups_and_nonsense_are_no_quota() {
        assert_eq!(quota_of(&[]), None);
        for text in [
            "", "max", "100000", "0 100000", "100000 0", "-1 -1", "a b", "1e9 5",
        ] {
            let files = [
                ("/proc/self/cgroup", "\n:\n0::/\nx:cpu\n"),
                (
                    "/proc/self/mountinfo",
                    "\n - \n30 20 0:26 / /c rw - cgroup2 cgroup rw\n30 20 - cgroup\n",
                ),
                ("/c/cpu.max", text),
            ];
            assert_eq!(quota_of(&files), None, "{text}");
        }
    }

    #[test]
    fn this_machine_has_a_processor() {
        let processors = Processors::detect();
        assert!(processors.affinity >= 1);
        assert!(processors.workers(0) >= 1);
        assert!(processors.workers(0) <= processors.affinity);
    }
}
