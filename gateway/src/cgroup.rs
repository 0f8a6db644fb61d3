//! What the control groups (version 1 and 2) let this process have, and how often they stopped it.
//!
//! Groups lie inside each other and each may set a bound: the smallest on the way up holds.

use std::path::{Path, PathBuf};

use spillway_web::{CpuGroup, Throttling};

/// How many processors the groups let this process use at a time, and how often the group with that quota, or else
/// the nearest one that counts, was stopped.
pub(crate) fn cpu() -> CpuGroup {
    cpu_of(&read)
}

/// How much memory this process may use: the smallest bound of its groups, else that of the machine.
pub(crate) fn memory_bytes() -> Option<u64> {
    memory_of(&read)
}

fn memory_of(read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    });
    let groups = folders(read, Controller::Memory);
    let bounds = groups.iter().filter_map(|(version, folder)| {
        let file = match version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        // "max" is no bound, and version 1 says so with a number beyond any machine's.
        read(&folder.join(file))?.trim().parse().ok()
    });
    bounds.chain(machine).min()
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `read` gives a file's content.
fn cpu_of(read: &impl Fn(&Path) -> Option<String>) -> CpuGroup {
    let mut cpu = CpuGroup::default();
    for (version, folder) in folders(read, Controller::Cpu) {
        let quota = quota(read, version, &folder);
        let is_smaller = quota.is_some_and(|quota| cpu.quota_cores.is_none_or(|smallest| quota < smallest));
        if is_smaller || cpu.throttling.is_none() {
            let counted = read(&folder.join("cpu.stat")).and_then(|text| throttling(&text));
            cpu.throttling = counted.or(cpu.throttling);
        }
        if is_smaller {
            cpu.quota_cores = quota;
        }
    }
    cpu
}

/// The quota that one group sets, in processors.
fn quota(read: &impl Fn(&Path) -> Option<String>, version: Version, folder: &Path) -> Option<f64> {
    match version {
        Version::One => {
            let quota = read(&folder.join("cpu.cfs_quota_us"))?;
            ratio(&quota, &read(&folder.join("cpu.cfs_period_us"))?)
        }
        Version::Two => {
            let text = read(&folder.join("cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            ratio(quota, period)
        }
    }
}

/// Processors from a quota and its period, both in microseconds. `None` for `max`, −1 and what does not read.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let quota: f64 = quota.trim().parse::<u64>().ok()? as f64;
    let period: f64 = period.trim().parse::<u64>().ok()? as f64;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// The counters of a `cpu.stat`: version 1 counts nanoseconds (`throttled_time`), version 2 microseconds
/// (`throttled_usec`). `None` where the kernel has no bandwidth control, and for version 2's root group.
fn throttling(text: &str) -> Option<Throttling> {
    let value = |name: &str| {
        text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .strip_prefix(' ')?
                .trim()
                .parse::<u64>()
                .ok()
        })
    };
    let nanoseconds = value("throttled_time").map(|time| time as f64 / 1e9);
    let microseconds = value("throttled_usec").map(|time| time as f64 / 1e6);
    Some(Throttling {
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        throttled_seconds: nanoseconds.or(microseconds)?,
    })
}

/// Whose files are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Cpu,
    Memory,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// Version of the control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The folders of this process's groups, each hierarchy from its own group upwards.
fn folders(read: &impl Fn(&Path) -> Option<String>, controller: Controller) -> Vec<(Version, PathBuf)> {
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mounts = read(Path::new("/proc/self/mountinfo")).unwrap_or_default();
    let mounts: Vec<Mount> = mounts
        .lines()
        .filter_map(|line| Mount::parse(line, controller))
        .collect();
    let mut folders = Vec::new();
    for group in groups.lines().filter_map(|line| Group::parse(line, controller)) {
        if let Some(mount) = mounts.iter().find(|mount| mount.version == group.version) {
            let above = mount.folders_above(group.path);
            folders.extend(above.into_iter().map(|folder| (group.version, folder)));
        }
    }
    folders
}

/// A line of `/proc/self/cgroup` that tells of the controller: `0::/path`, or `3:cpu,cpuacct:/path`.
#[derive(Debug, PartialEq, Eq)]
struct Group<'a> {
    version: Version,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str, controller: Controller) -> Option<Self> {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let version = if controllers.is_empty() {
            Version::Two
        } else if controllers.split(',').any(|name| name == controller.name()) {
            Version::One
        } else {
            return None;
        };
        Some(Self { version, path })
    }
}

/// A line of `/proc/self/mountinfo` of a control group file system that tells of the controller.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is seen at the mount point.
    root: String,
    point: String,
}

impl Mount {
    /// `36 35 98:0 /root /point options fields - type source super-options` (proc(5)).
    fn parse(line: &str, controller: Controller) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (unescape(place.next()?), unescape(place.next()?));
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup2" => Version::Two,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == controller.name()) => Version::One,
            _ => return None,
        };
        Some(Self { version, root, point })
    }

    /// The folders of the group `path` and of all groups above it, as far as they are seen here.
    fn folders_above(&self, path: &str) -> Vec<PathBuf> {
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

    fn cpu_in(files: &[(&str, &str)]) -> CpuGroup {
        cpu_of(&|path: &Path| {
            files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| (*text).to_owned())
        })
    }

    fn quota_of(files: &[(&str, &str)]) -> Option<f64> {
        cpu_in(files).quota_cores
    }

    const MOUNT_2: (&str, &str) = (
        "/proc/self/mountinfo",
        "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
    );

    #[test]
    fn throttling_is_that_of_the_group_with_the_smallest_quota() {
        let files = [
            ("/proc/self/cgroup", "0::/outer/inner\n"),
            MOUNT_2,
            ("/sys/fs/cgroup/outer/inner/cpu.max", "400000 100000\n"),
            (
                "/sys/fs/cgroup/outer/inner/cpu.stat",
                "nr_periods 1\nnr_throttled 1\nthrottled_usec 1\n",
            ),
            ("/sys/fs/cgroup/outer/cpu.max", "50000 100000\n"),
            (
                "/sys/fs/cgroup/outer/cpu.stat",
                "usage_usec 77\nnr_periods 120\nnr_throttled 60\nthrottled_usec 2500000\nnr_bursts 0\n",
            ),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec 99\n"),
        ];
        let cpu = cpu_in(&files);
        assert_eq!(cpu.quota_cores, Some(0.5));
        let expected = Throttling {
            periods: 120,
            throttled_periods: 60,
            throttled_seconds: 2.5,
        };
        assert_eq!(cpu.throttling, Some(expected));
    }

    fn memory_in(files: &[(&str, &str)]) -> Option<u64> {
        memory_of(&|path: &Path| {
            files
                .iter()
                .find(|(name, _)| Path::new(name) == path)
                .map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn memory_is_the_smallest_bound_of_the_groups_or_the_machines() {
        let machine = ("/proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n");
        let group = ("/proc/self/cgroup", "4:memory:/docker/ef\n0::/a/b\n");
        let mounts = (
            "/proc/self/mountinfo",
            "30 20 0:26 / /two rw - cgroup2 cgroup rw\n\
             31 20 0:27 /docker/ef /one rw - cgroup cgroup rw,memory\n",
        );
        let one = |text| ("/one/memory.limit_in_bytes", text);
        let two = |text| ("/two/a/memory.max", text);
        for (one_text, two_text, expected) in [
            ("9223372036854771712\n", "max\n", 2 << 20),
            ("1000000\n", "max\n", 1_000_000),
            ("1000000\n", "500000\n", 500_000),
            ("x", "", 2 << 20),
        ] {
            let files = [machine, group, mounts, one(one_text), two(two_text)];
            assert_eq!(memory_in(&files), Some(expected), "{one_text} {two_text}");
        }
        assert_eq!(memory_in(&[machine]), Some(2 << 20));
        assert_eq!(memory_in(&[]), None);
    }

    #[test]
    fn version_1_counts_nanoseconds() {
        let files = [
            ("/proc/self/cgroup", "1:cpu:/\n"),
            (
                "/proc/self/mountinfo",
                "78 77 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
            ),
            (
                "/sys/fs/cgroup/cpu/cpu.stat",
                "nr_periods 7\nnr_throttled 3\nthrottled_time 1500000000\n",
            ),
        ];
        let throttling = cpu_in(&files).throttling.unwrap();
        assert_eq!((throttling.periods, throttling.throttled_periods), (7, 3));
        assert_eq!(throttling.throttled_seconds, 1.5);
    }

    #[test]
    fn without_bandwidth_control_nothing_is_counted() {
        for text in [
            "",
            "usage_usec 5\n",
            "nr_periods x\nnr_throttled 1\nthrottled_usec 1\n",
        ] {
            let files = [
                ("/proc/self/cgroup", "0::/\n"),
                MOUNT_2,
                ("/sys/fs/cgroup/cpu.stat", text),
            ];
            assert_eq!(cpu_in(&files), CpuGroup::default(), "{text:?}");
        }
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
}
