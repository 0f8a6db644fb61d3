//! Runs a gateway until it is told to stop.

use std::net::SocketAddr;

use spillway_config::Config;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::demo::DEMO_STREAM;
use crate::error::StartError;
use crate::gateway::{Gateway, StartOptions};
use crate::service_manager::{Change, ServiceManager};
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
    // Blocking tasks of the runtime, such as a read of certificate files, may not hold the exit up.
    runtime.shutdown_background();
    result
}

async fn serve(config: &Config, start: StartOptions) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Signals)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(StartError::Signals)?;
    let manager = ServiceManager::of_process();
    let gateway = Gateway::start(config, start)?;
    announce(&gateway, start);
    manager.tell(Change::Ready).await;
    let received = loop {
        tokio::select! {
            _ = terminate.recv() => break "SIGTERM",
            _ = interrupt.recv() => break "SIGINT",
            _ = hang_up.recv() => gateway.reload_certificates(),
            never = manager.stay_alive() => match never {},
        }
    };
    manager.tell(Change::Stopping).await;
    tracing::info!(
        signal = received,
        "shutting down: no new connections, everyone is told"
    );
    tokio::select! {
        () = gateway.shutdown() => {}
        never = manager.stay_alive() => match never {},
        _ = terminate.recv() => tracing::warn!("second signal: leaving at once"),
        _ = interrupt.recv() => tracing::warn!("second signal: leaving at once"),
    }
    tracing::info!("stopped");
    Ok(())
}

fn announce(gateway: &Gateway, start: StartOptions) {
    let at = gateway.addresses();
    let some = |address: Option<SocketAddr>| address.map(tracing::field::display);
    tracing::info!(
        rtmp = %at.rtmp, http = %at.http, admin = %at.admin,
        rtmps = some(at.rtmps), https = some(at.https), admin_tls = some(at.admin_tls), workers = start.workers,
        version = env!("CARGO_PKG_VERSION"), "spillway is ready"
    );
    if !start.demo {
        return;
    }
    // Under TLS where it is configured.
    let scheme = |plain, tls: Option<SocketAddr>, address: SocketAddr| {
        let (secure, at) = tls.map_or(("", address), |tls| ("s", tls));
        format!("{plain}{secure}://localhost:{}", at.port())
    };
    let http = scheme("http", at.https, at.http);
    let ws = scheme("ws", at.https, at.http);
    let rtmp = scheme("rtmp", at.rtmps, at.rtmp);
    let stream = DEMO_STREAM;
    for (what, url) in [
        ("watch in a browser", format!("{http}/{stream}")),
        ("RTMP", format!("{rtmp}/{stream}")),
        ("HTTP-FLV", format!("{http}/{stream}.flv")),
        ("WebSocket-FLV", format!("{ws}/{stream}.flv")),
        ("HLS", format!("{http}/{stream}/index.m3u8")),
        ("metrics", format!("http://localhost:{}/metrics", at.admin.port())),
    ] {
        tracing::info!("demo: {what}: {url}");
    }
}
