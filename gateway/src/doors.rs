//! What stands between `accept` and a session, for each listener, as the configuration wants it.

use std::sync::Arc;

use spillway_config::{Config, ForwardedHeader as ConfigHeader, ProxyProtocol};
use spillway_net::{Certificates, Door, ForwardedHeader, LogBudget, TlsUse, TrustedProxies};

/// What the doors of all listeners share.
#[derive(Debug)]
pub(crate) struct Doors {
    template: Door,
    certificates: Option<Arc<Certificates>>,
    made: Vec<Door>,
}

impl Doors {
    /// `certificates` are there when a listener speaks TLS.
    pub(crate) fn new(
        config: &Config,
        certificates: Option<Arc<Certificates>>,
        log_budget: Arc<LogBudget>,
    ) -> Self {
        let header = match config.proxies.header {
            ConfigHeader::XForwardedFor => ForwardedHeader::XForwardedFor,
            ConfigHeader::Forwarded => ForwardedHeader::Forwarded,
            _ => ForwardedHeader::Off,
        };
        let networks = config.proxies.trusted.iter().map(|network| network.get());
        Self {
            template: Door {
                trusted: Arc::new(TrustedProxies::new(networks.collect(), header)),
                timeout: config.limits.handshake_timeout.into(),
                log_budget,
                ..Door::open("")
            },
            certificates,
            made: Vec::new(),
        }
    }

    /// The door of the listener `name`.
    pub(crate) fn door(&mut self, name: &'static str, proxy: ProxyProtocol, tls: Option<TlsUse>) -> Door {
        let door = Door {
            name,
            proxy_protocol: proxy.is_required(),
            tls: self.certificates.clone().zip(tls),
            counters: Arc::default(),
            ..self.template.clone()
        };
        self.made.push(door.clone());
        door
    }

    /// The log lines that strangers may cause, at the doors and behind.
    pub(crate) fn log_budget(&self) -> Arc<LogBudget> {
        self.template.log_budget.clone()
    }

    /// All doors made so far.
    pub(crate) fn made(&self) -> Vec<Door> {
        self.made.clone()
    }
}
