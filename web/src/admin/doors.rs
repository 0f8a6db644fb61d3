//! Metrics of what stands before the listeners: TLS and proxies.

use spillway_net::{Certificates, Door, DoorSnapshot};

use super::families::{Families, Series};

/// Adds the families.
pub(super) fn collect(doors: &[Door], out: &mut Families) {
    let of_tls = |value: fn(DoorSnapshot) -> u64| series(doors, |door| door.tls.is_some(), value);
    out.counter(
        "spillway_tls_handshakes_total",
        "TLS handshakes done",
        &["listener"],
        of_tls(|door| door.tls_handshakes),
    );
    out.counter(
        "spillway_tls_handshake_failures_total",
        "Connections closed because their TLS handshake failed or took longer than limits.handshake_timeout",
        &["listener"],
        of_tls(|door| door.tls_failures),
    );
    out.counter(
        "spillway_proxy_header_failures_total",
        "Connections closed for want of a PROXY header from one of proxies.trusted",
        &["listener"],
        series(doors, |door| door.proxy_protocol, |door| door.proxy_refusals),
    );
    out.gauge(
        "spillway_tls_certificate_expiry_timestamp_seconds",
        "When the certificate in force expires, in seconds since 1970",
        &["listener"],
        with_tls(doors).map(|(name, certificates)| (vec![name], certificates.expires() as f64)),
    );
    out.counter(
        "spillway_tls_certificate_reload_failures_total",
        "Changed certificate files that could not be used, so that the old certificate stays in force",
        &[],
        // All listeners have the same certificates.
        with_tls(doors)
            .take(1)
            .map(|(_, certificates)| (vec![], certificates.failures() as f64)),
    );
}

fn with_tls(doors: &[Door]) -> impl Iterator<Item = (&str, &Certificates)> {
    let tls = doors
        .iter()
        .filter_map(|door| Some((door.name, door.tls.as_ref()?)));
    tls.map(|(name, (certificates, _))| (name, &**certificates))
}

fn series(doors: &[Door], counts: fn(&Door) -> bool, value: fn(DoorSnapshot) -> u64) -> Vec<Series<'_>> {
    let doors = doors.iter().filter(|door| counts(door));
    doors
        .map(|door| (vec![door.name], value(door.counters.snapshot()) as f64))
        .collect()
}
