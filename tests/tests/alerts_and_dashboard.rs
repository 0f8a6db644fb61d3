//! The shipped alert rules and dashboard speak of what the gateway really has: a real Prometheus scrapes one under load and
//! evaluates every expression.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::gateway::Gateway;
use spillway_tests::hook::{Endpoint, Reply};
use spillway_tests::http;
use spillway_tests::process::Process;
use spillway_tests::tools::{program, repository};
use spillway_tests::viewer::Watcher;
use spillway_tests::wait::{secs, until, within};
use tokio::process::Command;

const KEY: &str = "live/watched";
/// For what Prometheus has to scrape and evaluate first, each once a second.
const EVALUATED: Duration = Duration::from_secs(30);

fn shipped(path: &str) -> PathBuf {
    repository().join("config").join(path)
}

fn text_of(path: &str) -> String {
    let path = shipped(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

async fn promtool(words: &[&str], file: &str) {
    let mut command = Command::new(program("promtool"));
    command.args(words).arg(shipped(file)).kill_on_drop(true);
    let output = within(secs(30), &format!("promtool {words:?}"), command.output()).await;
    let output = output.expect("promtool, of Debian's package prometheus");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "promtool {words:?} {file}:\n{said}");
}

#[tokio::test]
async fn each_alert_fires_in_its_scenario_and_no_other_does() {
    promtool(&["check", "config"], "prometheus/prometheus.yml").await;
    promtool(&["test", "rules"], "prometheus/spillway.rules.test.yml").await;
    let scenarios = text_of("prometheus/spillway.rules.test.yml");
    for alert in alerts() {
        assert!(
            scenarios.contains(&format!("alertname=\"{alert}\"")),
            "{alert} has no scenario in spillway.rules.test.yml"
        );
    }
}

#[test]
fn each_alert_says_how_bad_it_is_and_what_to_do() {
    let rules = text_of("prometheus/spillway.rules.yml");
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap_or_default();
        for part in ["severity: ", "summary: ", "description: "] {
            assert!(rule.contains(part), "{name} has no {part}");
        }
    }
}

fn alerts() -> Vec<String> {
    let rules = text_of("prometheus/spillway.rules.yml");
    let names: Vec<_> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 15, "the alerts were not found: {names:?}");
    names
}

/// Every `expr` of the dashboard with its panel's title, the variables set to everything.
fn dashboard() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&text_of("grafana/dashboards/spillway.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let of_panels = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(|target| (&panel["title"], &target["expr"]))
    });
    let annotations = dashboard["annotations"]["list"].as_array().into_iter().flatten();
    let of_annotations = annotations
        .filter(|a| a["expr"].is_string())
        .map(|a| (&a["name"], &a["expr"]));
    let expressions = of_panels.chain(of_annotations).map(|(title, expr)| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let expr = ["$job", "$instance", "$stream"]
            .iter()
            .fold(text(expr), |expr, variable| expr.replace(variable, ".*"));
        (text(title), expr.replace("$__rate_interval", "5s"))
    });
    expressions.collect()
}

/// The metrics that an expression names.
fn metrics_in(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("spillway_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

/// A gateway with one of everything: a stream, viewers of each protocol, one refused and one who left, a hook.
struct Busy {
    gateway: Gateway,
    _publisher: Process,
    _watchers: Vec<Watcher>,
    _hook: Endpoint,
}

impl Busy {
    async fn start() -> Self {
        let hook = Endpoint::start(|_| Reply::allow()).await;
        let gateway = hook
            .gateway()
            .set("limits.max_viewers_per_stream", "4")
            .start()
            .await;
        let publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(KEY));
        let watchers = Watcher::all(&gateway, KEY).await;
        for watcher in &watchers {
            watcher.wait_more(secs(15), 25).await;
        }
        let leaves = spillway_tests::flv::Viewer::open(gateway.http, KEY).await;
        drop(leaves);
        until(secs(15), "the viewer's end and a second key frame", || async {
            let left = gateway.viewer_ends("client").await >= 1.0;
            (left && gateway.metrics().await.named("spillway_stream_gop_seconds") > 0.0).then_some(())
        })
        .await;
        Self {
            gateway,
            _publisher: publisher,
            _watchers: watchers,
            _hook: hook,
        }
    }

    /// More viewers than the stream may have.
    async fn be_refused(&self) -> Vec<http::Stream> {
        let mut let_in = Vec::new();
        loop {
            let request = http::Request::get(&format!("/{KEY}.flv"));
            let stream = within(secs(15), "an answer", http::open(self.gateway.http, request)).await;
            let stream = stream.expect("an answer");
            if stream.head.status != 200 {
                return let_in;
            }
            let_in.push(stream);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_dashboard_name_metrics_that_are_there() {
    let busy = Busy::start().await;
    let there = metrics_in(&busy.gateway.admin_get("/metrics").await.text());
    // A control group counts only where there is one, and a quota only where it is set.
    let conditional =
        std::fs::read_to_string(repository().join("web/src/admin/process.rs")).expect("a source");
    let conditional: BTreeSet<_> = metrics_in(&conditional)
        .into_iter()
        .filter(|name| name.starts_with("spillway_cgroup_"))
        .collect();
    let dashboard = dashboard();
    assert!(dashboard.len() > 30, "{} expressions", dashboard.len());
    let rules = text_of("prometheus/spillway.rules.yml");
    let expressions: String = dashboard
        .iter()
        .map(|(_, expr)| expr.as_str())
        .chain(rules.lines().filter(|line| !line.contains("name: ")))
        .map(|text| format!("{text}\n"))
        .collect();
    let missing: Vec<_> = metrics_in(&expressions)
        .into_iter()
        .filter(|name| !there.contains(name) && !conditional.contains(name))
        .collect();
    assert!(missing.is_empty(), "no such metrics: {missing:?}");
}

/// Debian's Prometheus, which scrapes one gateway with the shipped rules.
struct Prometheus {
    _process: Process,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    async fn start(gateway: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\n\
             scrape_configs: [{{ job_name: spillway, static_configs: [{{ targets: ['{gateway}'] }}] }}]\n",
            shipped("prometheus/spillway.rules.yml").display()
        );
        std::fs::write(&config, text).expect("a configuration file");
        let mut command = Command::new(program("prometheus"));
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg("--web.listen-address=127.0.0.1:0");
        let process = Process::spawn("prometheus", command);
        let address = process
            .wait_output(secs(30), "its address and that it is ready", |said| {
                said.contains("Server is ready").then_some(())?;
                let line = said.lines().find(|line| line.contains("msg=\"Listening on\""))?;
                line.split_once("address=")?
                    .1
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .await;
        Self {
            _process: process,
            address,
            _folder: folder,
        }
    }

    async fn api(&self, path: &str) -> Value {
        let answer = http::get(self.address, &format!("/api/v1/{path}")).await;
        let body: Value = serde_json::from_str(&answer.text()).unwrap_or_default();
        assert_eq!(body["status"], "success", "{path}: {}", answer.text());
        body["data"].clone()
    }

    /// How many series an expression gives now.
    async fn series(&self, expr: &str) -> usize {
        let encoded: String = expr.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.api(&format!("query?query={encoded}")).await;
        data["result"].as_array().map_or(0, Vec::len)
    }

    async fn wait_series(&self, what: &str, expr: &str) {
        until(EVALUATED, &format!("{what}: {expr}"), || async {
            (self.series(expr).await > 0).then_some(())
        })
        .await;
    }

    /// The rules, once each has been evaluated; one that cannot be is an error.
    async fn wait_rules(&self) {
        until(EVALUATED, "every rule to be evaluated", || async {
            let data = self.api("rules").await;
            let groups = data["groups"].as_array().cloned().unwrap_or_default();
            let rules: Vec<Value> = groups
                .iter()
                .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
                .collect();
            for rule in &rules {
                assert_ne!(rule["health"], "err", "{rule}");
            }
            let done = rules.len() == alerts().len() && rules.iter().all(|rule| rule["health"] == "ok");
            done.then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_evaluates_the_rules_and_the_dashboard_over_a_loaded_gateway() {
    let busy = Busy::start().await;
    let prometheus = Prometheus::start(busy.gateway.admin).await;
    prometheus.wait_rules().await;
    for (title, expr) in dashboard() {
        // Nothing is throttled without a quota, and nothing was restarted.
        if expr.contains("spillway_cgroup_") || expr.contains("changes(") {
            prometheus.series(&expr).await;
        } else {
            prometheus.wait_series(&title, &expr).await;
        }
    }
    let firing = r#"ALERTS{alertstate="firing"}"#;
    let refused = r#"ALERTS{alertname="SpillwayRefusedByLimit",alertstate="firing",limit="viewers"}"#;
    assert_eq!(prometheus.series(firing).await, 0, "nothing is wrong yet");
    let _viewers = busy.be_refused().await;
    prometheus
        .wait_series("the alert on a viewer refused by a limit", refused)
        .await;
    assert_eq!(prometheus.series(firing).await, 1, "no other alert");
}
