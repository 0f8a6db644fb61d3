//! Which stream a name means, which names are refused, and who may publish.

use std::path::Path;

use spillway_tests::clip::Clip;
use spillway_tests::ffmpeg::publish_loop;
use spillway_tests::gateway::Gateway;
use spillway_tests::http::{self, Request};
use spillway_tests::process::Process;
use spillway_tests::rtmp;
use spillway_tests::tools;
use spillway_tests::viewer::Viewer;
use spillway_tests::wait::{secs, within};
use tokio::process::Command;

/// The same stream by whatever way its name was written.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_the_same_name_in_all_its_spellings() {
    let gateway = Gateway::with().start().await;
    let cases = [
        ("live/query?token=a%2Fb&x=1", "/live/query.flv", "live/query"),
        ("live/slash?token=a/b", "/live/slash.flv", "live/slash"),
        ("live?token=x/onapp", "/live/onapp.flv", "live/onapp"),
        ("live/room/key", "/live/room/key.flv", "live/room/key"),
        ("live/a/b/c", "/live/a/b/c.flv", "live/a/b/c"),
        ("live/suffix.flv", "/live/suffix.flv", "live/suffix"),
        (
            "live/with.dot-and_more",
            "/live/with.dot-and_more.flv",
            "live/with.dot-and_more",
        ),
        ("live/%E4%BD%A0", "/live/%E4%BD%A0.flv", "live/你"),
        ("live/好", "/live/%E5%A5%BD.flv", "live/%E5%A5%BD"),
    ];
    for (published, flv, played) in cases {
        let mut publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(published));
        let request = Request::get(flv);
        let response = within(secs(20), flv, http::open(gateway.http, request)).await;
        let response = response.unwrap_or_else(|error| panic!("{flv}: {error}"));
        assert_eq!(
            response.head.status,
            200,
            "published as {published}, asked as {flv}: {}",
            publisher.output().tail()
        );
        let mut viewer = Viewer::Rtmp(Box::new(rtmp::Viewer::open(gateway.rtmp, played).await));
        let tag = within(secs(15), played, viewer.next_tag()).await;
        assert!(tag.is_some(), "published as {published}, played as {played}");
        publisher.kill().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_would_climb_are_refused() {
    let gateway = Gateway::with().set("play.wait", "1s").start().await;
    for name in [
        "live/../etc",
        "live/%2e%2e/etc",
        "live/a%00b",
        "live/..",
        "live/a%5Cb",
    ] {
        let mut publisher = publish_loop(Clip::Plain, &gateway.rtmp_url(name));
        let status = publisher.wait(secs(15)).await;
        assert!(!status.success(), "published as {name}");
        let mut viewer = rtmp::Viewer::open(gateway.rtmp, name).await;
        assert!(
            within(secs(10), name, viewer.next_tag()).await.is_none(),
            "played {name}"
        );
    }
    for path in [
        "/live/../../etc/passwd.flv",
        "/live/%2e%2e/%2e%2e/etc/passwd.flv",
        "/live/a%00b.flv",
        "/live/%zz.flv",
    ] {
        let response = gateway.get(path).await;
        assert!(
            matches!(response.status, 400 | 404),
            "{path}: {}",
            response.status
        );
    }
    assert_eq!(gateway.admin_get("/livez").await.status, 200);
}

/// From elsewhere publishing needs a key or an explicit word, and the refusal says so; from loopback it does not.
#[tokio::test(flavor = "multi_thread")]
async fn publishing_from_elsewhere_is_refused_with_the_reason() {
    const ELSEWHERE: &str = "198.51.100.7";
    let gateway = Gateway::with().in_namespace_with(ELSEWHERE).start().await;
    let inside = |program: &Path, pid: i32| {
        let mut command = Command::new(tools::program("nsenter"));
        command.arg("-t").arg(pid.to_string()).arg("-n").arg(program);
        command
    };
    let publish = |host: &str, pid: i32| {
        let mut command = inside(&tools::ffmpeg(), pid);
        command
            .args(["-hide_banner", "-nostdin", "-v", "info", "-re", "-i"])
            .arg(Clip::Plain.file());
        command
            .args(["-c", "copy", "-f", "flv"])
            .arg(format!("rtmp://{host}:{}/live/guard", gateway.rtmp.port()));
        Process::spawn("ffmpeg publisher", command)
    };
    let mut refused = publish(ELSEWHERE, gateway.pid());
    let status = refused.wait(secs(15)).await;
    assert!(!status.success(), "a publisher from {ELSEWHERE} was let in");
    let said = refused.output().text();
    assert!(
        said.contains("auth.publish"),
        "the publisher was not told to set auth.publish_keys or auth.publish:\n{said}"
    );
    let log = gateway.log().text();
    assert!(
        log.contains("auth.publish"),
        "the log does not say what to set:\n{log}"
    );
    let mut local = publish("127.0.0.1", gateway.pid());
    local.wait_ok(secs(30)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_from_elsewhere_can_be_opened() {
    const ELSEWHERE: &str = "198.51.100.7";
    let gateway = Gateway::with()
        .in_namespace_with(ELSEWHERE)
        .set("auth.publish", "open")
        .start()
        .await;
    let mut command = Command::new(tools::program("nsenter"));
    command
        .arg("-t")
        .arg(gateway.pid().to_string())
        .arg("-n")
        .arg(tools::ffmpeg());
    command
        .args(["-hide_banner", "-nostdin", "-v", "info", "-re", "-i"])
        .arg(Clip::Plain.file());
    command.args(["-c", "copy", "-f", "flv"]);
    command.arg(format!("rtmp://{ELSEWHERE}:{}/live/guard", gateway.rtmp.port()));
    Process::spawn("ffmpeg publisher", command)
        .wait_ok(secs(30))
        .await;
}
