//! [`Gateway`]: everything started from one configuration, and stopped in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_access::Tickets;
use spillway_config::Config;
use spillway_hooks::{HookMetrics, Hooks};
use spillway_hub::{Hub, PerIp};
use spillway_web::{
    AccessCounters, AdminState, HlsGuests, HlsSessions, LiveAccess, LiveOptions, LiveState, ProcessState,
    Readiness, SchedulerDelay, ServeCounters, ServeOptions, admin_router, live_router, serve,
};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{self, Gate};
use crate::cgroup;
use crate::demo;
use crate::error::StartError;
use crate::log_lines;
use crate::net;
use crate::options;
use crate::random;
use crate::rtmp::{self, Admission, LogBudget, Rtmp};
use crate::scheduler;

/// The addresses the listeners are bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// RTMP.
    pub rtmp: SocketAddr,
    /// The viewers' HTTP.
    pub http: SocketAddr,
    /// Metrics, probes and the API.
    pub admin: SocketAddr,
}

/// How a gateway is started beside its configuration.
#[derive(Debug, Clone, Copy)]
pub struct StartOptions {
    /// The runtime's worker threads.
    pub workers: usize,
    /// Publish the built-in clip.
    pub demo: bool,
}

/// What the admin listener shows beside the hub.
struct AdminParts {
    workers: usize,
    http_counters: Arc<ServeCounters>,
    access: Arc<AccessCounters>,
    hooks: Option<HookMetrics>,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    hub: Hub,
    addresses: Addresses,
    readiness: Readiness,
    /// No new connections.
    stop_accepting: CancellationToken,
    /// The admin listener goes last, so that probes and metrics show the drain.
    stop_admin: CancellationToken,
    tasks: TaskTracker,
    admin: TaskTracker,
    grace: Duration,
}

impl Gateway {
    /// Binds all listeners and serves. It must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] when a listener cannot be bound.
    pub fn start(config: &Config, start: StartOptions) -> Result<Self, StartError> {
        let rtmp_listener = bind("rtmp.listen", config.rtmp.listen.get())?;
        let http_listener = bind("http.listen", config.http.listen.get())?;
        let admin_listener = bind("admin.listen", config.admin.listen.get())?;
        let addresses = Addresses {
            rtmp: local("rtmp.listen", &rtmp_listener)?,
            http: local("http.listen", &http_listener)?,
            admin: local("admin.listen", &admin_listener)?,
        };
        let gateway = Self {
            hub: Hub::new(options::hub(config, start.workers)),
            addresses,
            readiness: Readiness::default(),
            stop_accepting: CancellationToken::new(),
            stop_admin: CancellationToken::new(),
            tasks: TaskTracker::new(),
            admin: TaskTracker::new(),
            grace: config.shutdown.grace.into(),
        };
        let demo_key = random::key();
        let log_budget = Arc::new(LogBudget::new());
        let own_key = start.demo.then(|| demo_key.clone());
        let hooks = gateway.hooks(config)?;
        let hook_metrics = hooks.as_ref().map(|hooks| hooks.metrics().clone());
        let gate = Arc::new(Gate::new(&config.auth, own_key, log_budget.clone(), hooks)?);
        let access = live_access(config, &gate)?;
        if let Some(access) = &access {
            let (sessions, shutdown) = (access.sessions.clone(), gateway.stop_accepting.clone());
            gateway
                .tasks
                .spawn(async move { sessions.see_off(shutdown).await });
        }
        let slots = Arc::new(Semaphore::new(config.limits.max_connections as usize));
        let per_ip = PerIp::new(config.limits.max_connections_per_ip as usize);
        let admission = (slots, per_ip);
        let rtmp = Arc::new(Rtmp {
            hub: gateway.hub.clone(),
            gate: gate.clone(),
            options: options::rtmp(config),
            log_budget,
        });
        gateway.serve_rtmp(rtmp, admission.clone(), rtmp_listener);
        let http_counters = gateway.serve_http(config, access, admission, http_listener);
        let admin = AdminParts {
            workers: start.workers,
            http_counters,
            access: gate.counters(),
            hooks: hook_metrics,
        };
        gateway.serve_admin(config, admin, admin_listener);
        gateway
            .tasks
            .spawn(auth::keep_fresh(gate, gateway.stop_accepting.clone()));
        if start.demo {
            let target = loopback_of(addresses.rtmp);
            gateway
                .tasks
                .spawn(demo::run(target, demo_key, gateway.stop_accepting.clone()));
        }
        gateway.readiness.ready();
        Ok(gateway)
    }

    /// The hook, if there is one. What it has to deliver counts among what the shutdown waits for.
    fn hooks(&self, config: &Config) -> Result<Option<Hooks>, StartError> {
        let Some(options) = options::hooks(config)? else {
            return Ok(None);
        };
        let hooks = Hooks::new(options, self.tasks.clone(), self.stop_accepting.clone())?;
        Ok(Some(hooks))
    }

    fn serve_rtmp(&self, rtmp: Arc<Rtmp>, admission: Admission, listener: TcpListener) {
        let (tasks, stop) = (self.tasks.clone(), self.stop_accepting.clone());
        self.tasks
            .spawn(rtmp::listen(rtmp, listener, admission, tasks, stop));
    }

    fn serve_http(
        &self,
        config: &Config,
        access: Option<LiveAccess>,
        admission: Admission,
        http: TcpListener,
    ) -> Arc<ServeCounters> {
        let (slots, per_ip) = admission;
        let counters = Arc::<ServeCounters>::default();
        let http_options = ServeOptions {
            name: "http",
            slots,
            per_ip,
            max_header_bytes: config.limits.http_header.as_usize(),
            header_timeout: config.limits.handshake_timeout.into(),
            stall_timeout: config.play.stall_timeout.into(),
            drain: self.grace,
            counters: counters.clone(),
        };
        let live = live_router(LiveState {
            hub: self.hub.clone(),
            access,
            options: LiveOptions {
                list_streams: config.http.list_streams,
                player: true,
                rtmp_port: Some(self.addresses.rtmp.port()),
            },
        });
        self.tasks
            .spawn(serve(http, live, http_options, self.stop_accepting.clone()));
        counters
    }

    fn serve_admin(&self, config: &Config, parts: AdminParts, admin: TcpListener) {
        let counters = Arc::<ServeCounters>::default();
        let delay = SchedulerDelay::new();
        let admin_options = ServeOptions {
            name: "admin",
            slots: Arc::new(Semaphore::new(ADMIN_CONNECTIONS)),
            drain: ADMIN_DRAIN,
            counters: counters.clone(),
            ..ServeOptions::default()
        };
        let router = admin_router(AdminState {
            hub: self.hub.clone(),
            admin: options::admin(config),
            readiness: self.readiness.clone(),
            listeners: vec![("http", parts.http_counters), ("admin", counters)],
            access: parts.access,
            hooks: parts.hooks,
            max_streams: config.metrics.max_streams as usize,
            version: env!("CARGO_PKG_VERSION"),
            process: ProcessState {
                workers: parts.workers,
                scheduler_delay: delay.clone(),
                cpu_group: cgroup::cpu,
                lost_log_lines: log_lines::lost_by_reason,
            },
        });
        self.admin.spawn(scheduler::probe(delay, self.stop_admin.clone()));
        self.admin
            .spawn(serve(admin, router, admin_options, self.stop_admin.clone()));
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Its streams.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Stops in order: nothing new is let in and `/readyz` says so; publishers and viewers are told; what
    /// has not ended after `shutdown.grace` is cut. The admin listener answers to the end.
    pub async fn shutdown(self) {
        self.readiness.draining();
        self.stop_accepting.cancel();
        self.hub.shutdown();
        self.tasks.close();
        // What is left of the grace belongs to the admin listener.
        let drain = self.grace.saturating_sub(ADMIN_DRAIN);
        if tokio::time::timeout(drain, self.tasks.wait()).await.is_err() {
            tracing::warn!(
                open = self.tasks.len(),
                "shutdown.grace is over; the connections left are cut"
            );
        }
        self.stop_admin.cancel();
        self.admin.close();
        // Its listener cuts what is left of its own accord; if not, the process ends all the same.
        let _ = tokio::time::timeout(ADMIN_DRAIN, self.admin.wait()).await;
    }
}

/// Probes and scrapes, not viewers.
const ADMIN_CONNECTIONS: usize = 256;
const ADMIN_DRAIN: Duration = Duration::from_millis(200);

fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    net::bind(address).map_err(|source| StartError::Bind { key, address, source })
}

fn local(key: &'static str, listener: &TcpListener) -> Result<SocketAddr, StartError> {
    listener
        .local_addr()
        .map_err(|source| StartError::LocalAddress { key, source })
}

/// Who decides on viewers, unless everybody may play everything.
fn live_access(config: &Config, gate: &Arc<Gate>) -> Result<Option<LiveAccess>, StartError> {
    if gate.is_open_to_viewers() {
        return Ok(None);
    }
    let sessions = HlsSessions {
        tickets: Tickets::random().ok_or(StartError::NoRandomNumbers)?,
        lifetime: config.auth.session_lifetime.into(),
        guests: gate
            .sees_viewers_off()
            .then(|| HlsGuests::new(config.hls.idle_stop.into())),
    };
    Ok(Some(LiveAccess {
        gate: gate.clone(),
        sessions: Arc::new(sessions),
    }))
}

/// How this process reaches a listener of its own.
fn loopback_of(address: SocketAddr) -> SocketAddr {
    let ip = match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => std::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        _ => address.ip(),
    };
    SocketAddr::new(ip, address.port())
}
