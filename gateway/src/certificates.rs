//! The certificates of this process: loaded at the start, taken up anew while it runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use spillway_config::Config;
use spillway_net::{Certificates, Origin, Reloaded, TlsError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often the files are looked at: soon enough for whoever renews them, and a few small files each time.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
const DAY_SECS: i64 = 24 * 3600;

/// The certificates that the configuration names; `None` when no listener speaks TLS.
///
/// # Errors
/// [`TlsError`]: why they cannot be used.
pub(crate) fn load(config: &Config) -> Result<Option<Arc<Certificates>>, TlsError> {
    let listeners = [config.rtmps.listen, config.https.listen, config.admin.tls_listen];
    if listeners.iter().all(|listener| listener.get().is_none()) {
        return Ok(None);
    }
    let origin = if config.tls.self_signed {
        Origin::SelfSigned(own_names())
    } else {
        Origin::Files {
            chain: config.tls.cert_file.clone(),
            key: config.tls.key_file.clone(),
        }
    };
    let client_ca = &config.admin.tls_client_ca_file;
    let client_ca = config.admin.tls_asks_for_certificate().then(|| client_ca.clone());
    Certificates::load(origin, client_ca).map(|loaded| Some(Arc::new(loaded)))
}

/// The names by which this machine is reached, as far as it knows them.
fn own_names() -> Vec<String> {
    let host = rustix::system::uname()
        .nodename()
        .to_str()
        .map(str::to_owned)
        .ok();
    let host = host.filter(|name| !name.is_empty() && name.is_ascii() && name != "localhost");
    let always = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    always.into_iter().chain(host).collect()
}

/// The word for the log about certificates that have expired or soon will.
pub(crate) fn warning(certificates: &Certificates) -> Option<String> {
    match days_left(certificates) {
        _ if certificates.is_expired() => {
            Some("the certificate of tls.cert_file has expired: players will refuse it".to_owned())
        }
        days if days < 7 => Some(format!(
            "the certificate of tls.cert_file expires in {days} days: renew it; the new files are taken up at once"
        )),
        _ => None,
    }
}

fn days_left(certificates: &Certificates) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    certificates.expires().saturating_sub(now) / DAY_SECS
}

/// Takes up changed files until `stop`, every few seconds and whenever `asked`.
pub(crate) async fn keep(certificates: Arc<Certificates>, asked: Arc<Notify>, stop: CancellationToken) {
    loop {
        let by_signal = tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_PERIOD) => false,
            () = asked.notified() => true,
        };
        let reading = certificates.clone();
        // Files may be on a network.
        match tokio::task::spawn_blocking(move || reading.reload()).await {
            Ok(Ok(Reloaded::Changed)) => {
                let days = days_left(&certificates);
                tracing::info!(
                    expires_in_days = days,
                    "new certificates: new connections see them"
                );
                if let Some(warning) = warning(&certificates) {
                    tracing::warn!("{warning}");
                }
            }
            Ok(Ok(Reloaded::Unchanged)) if by_signal => {
                tracing::info!("SIGHUP: the certificate files are unchanged");
            }
            Ok(Ok(Reloaded::Unchanged)) => {}
            Ok(Err(error)) => {
                tracing::error!("the new certificates are not taken, the old ones stay in force: {error}");
            }
            Err(error) => tracing::error!(%error, "reading the certificates failed"),
        }
    }
}
