//! The gateway in a real control group with a CPU quota. Needs root and a group that can be made; says so if not.

use std::path::{Path, PathBuf};

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::gateway::Gateway;
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until};

const KEY: &str = "live/quota";

/// A control group of our own with a quota of a hundredth of a processor; removed on drop, once it is empty.
struct Group(PathBuf);

impl Group {
    fn make() -> std::io::Result<Self> {
        let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").is_file();
        let parent = if unified {
            std::fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu")?;
            "/sys/fs/cgroup"
        } else {
            "/sys/fs/cgroup/cpu"
        };
        let path = Path::new(parent).join(format!("spillway-test-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        let group = Self(path);
        if unified {
            std::fs::write(group.0.join("cpu.max"), "1000 100000")?;
        } else {
            std::fs::write(group.0.join("cpu.cfs_period_us"), "100000")?;
            std::fs::write(group.0.join("cpu.cfs_quota_us"), "1000")?;
        }
        Ok(group)
    }

    fn take_in(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("the group takes the gateway");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that is left behind by a failed test is empty and harmless.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_by_a_real_quota_is_in_the_metrics() {
    let group = match Group::make() {
        Ok(group) => group,
        Err(error) => {
            eprintln!("skipped: no control group with a CPU quota can be made here: {error}");
            return;
        }
    };
    let mut gateway = Gateway::with().start().await;
    let _publisher = publish_loop(Clip::Fat, &gateway.rtmp_url(KEY));
    let _watchers = Watcher::all(&gateway, KEY).await;
    group.take_in(gateway.pid());
    let metrics = until(secs(30), "periods in which the gateway was stopped", || async {
        let metrics = gateway.metrics().await;
        (metrics.named("spillway_cgroup_cpu_throttled_periods_total") >= 1.0
            && metrics.named("spillway_cgroup_cpu_throttled_seconds_total") > 0.0)
            .then_some(metrics)
    })
    .await;
    assert_eq!(metrics.named("spillway_cgroup_cpu_quota_cores"), 0.01);
    assert!(
        metrics.named("spillway_cgroup_cpu_periods_total")
            >= metrics.named("spillway_cgroup_cpu_throttled_periods_total")
    );
    // Nothing is left in the group, so that it can be removed.
    gateway.process().kill().await;
}
