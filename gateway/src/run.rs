//! Runs a gateway until it is told to stop.

use spillway_config::Config;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::demo::DEMO_STREAM;
use crate::error::StartError;
use crate::gateway::{Gateway, StartOptions};
use crate::workers;

/// Starts a gateway on a runtime of its own and returns after SIGTERM or SIGINT, when it has drained.
///
/// # Errors
/// [`StartError`] when it cannot start.
pub fn run(config: &Config, demo: bool) -> Result<(), StartError> {
    let workers = workers::count(config.runtime.workers);
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name("spillway")
        .enable_all()
        .build()
        .map_err(StartError::Runtime)?;
    let result = runtime.block_on(serve(config, StartOptions { workers, demo }));
    // Blocking tasks of the runtime, of which we start none, may not hold the exit up.
    runtime.shutdown_background();
    result
}

async fn serve(config: &Config, start: StartOptions) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
    let gateway = Gateway::start(config, start)?;
    announce(&gateway, start);
    let received = tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    tracing::info!(
        signal = received,
        "shutting down: no new connections, everyone is told"
    );
    tokio::select! {
        () = gateway.shutdown() => {}
        _ = terminate.recv() => tracing::warn!("second signal: leaving at once"),
        _ = interrupt.recv() => tracing::warn!("second signal: leaving at once"),
    }
    tracing::info!("stopped");
    Ok(())
}

fn announce(gateway: &Gateway, start: StartOptions) {
    let at = gateway.addresses();
    tracing::info!(
        rtmp = %at.rtmp, http = %at.http, admin = %at.admin, workers = start.workers,
        version = env!("CARGO_PKG_VERSION"), "spillway is ready"
    );
    if !start.demo {
        return;
    }
    let port = |address: std::net::SocketAddr| address.port();
    let (http, rtmp) = (port(at.http), port(at.rtmp));
    for (what, url) in [
        (
            "watch in a browser",
            format!("http://localhost:{http}/{DEMO_STREAM}"),
        ),
        ("RTMP", format!("rtmp://localhost:{rtmp}/{DEMO_STREAM}")),
        ("HTTP-FLV", format!("http://localhost:{http}/{DEMO_STREAM}.flv")),
        (
            "WebSocket-FLV",
            format!("ws://localhost:{http}/{DEMO_STREAM}.flv"),
        ),
        ("HLS", format!("http://localhost:{http}/{DEMO_STREAM}/index.m3u8")),
        ("metrics", format!("http://localhost:{}/metrics", at.admin.port())),
    ] {
        tracing::info!("demo: {what}: {url}");
    }
}
