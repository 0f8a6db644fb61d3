//! The shipped Kubernetes manifests fit the API and the gateway.

use spillway_tests::gateway::{Gateway, binary};
use spillway_tests::http::{self, Request};
use spillway_tests::tools::repository;
use spillway_tests::wait::{secs, within};
use tokio::process::Command;

#[tokio::test]
async fn the_manifests_fit_the_api_and_the_gateway() {
    let python = repository().join(".tools/venv/bin/python");
    assert!(
        python.is_file(),
        "{} is missing: run tests/run --only install",
        python.display()
    );
    let mut command = Command::new(python);
    command
        .arg(repository().join("tests/kubernetes.py"))
        .arg(binary())
        .kill_on_drop(true);
    let output = within(secs(60), "tests/kubernetes.py", command.output())
        .await
        .expect("Python");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "tests/kubernetes.py:\n{said}");
}

/// The kubelet asks by the pod's address and brings no token; Prometheus brings one.
#[tokio::test]
async fn probes_need_no_token_where_metrics_do() {
    let token = "0123456789abcdef0123456789abcdef";
    let gateway = Gateway::with()
        .set("admin.listen", "0.0.0.0:0")
        .env("SPILLWAY__ADMIN__TOKENS", token)
        .start()
        .await;
    let ask = |path: &str| Request::get(path);
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/metrics", 401)] {
        assert_eq!(
            http::fetch(gateway.admin, ask(path)).await.status,
            status,
            "{path}"
        );
    }
    let scrape = ask("/metrics").header("Authorization", &format!("Bearer {token}"));
    assert_eq!(http::fetch(gateway.admin, scrape).await.status, 200);
}
