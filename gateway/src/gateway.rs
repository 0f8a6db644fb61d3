//! [`Gateway`]: everything started from one configuration, and stopped in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use spillway_access::Tickets;
use spillway_config::Config;
use spillway_hooks::{HookMetrics, Hooks};
use spillway_hub::{Hub, PerIp};
use spillway_net::{Door, LogBudget};
use spillway_web::{
    AccessCounters, AdminState, HlsGuests, HlsSessions, LiveAccess, LiveOptions, LiveState, ProcessState,
    Readiness, Router, SchedulerDelay, ServeCounters, ServeOptions, admin_router, live_router, serve,
};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{self, Gate};
use crate::certificates;
use crate::cgroup;
use crate::demo;
use crate::doors::Doors;
use crate::error::StartError;
use crate::listeners::{Addresses, Listeners};
use crate::log_lines;
use crate::options;
use crate::random;
use crate::rtmp::{self, Admission, Rtmp};
use crate::scheduler;

/// How a gateway is started beside its configuration.
#[derive(Debug, Clone, Copy)]
pub struct StartOptions {
    /// The runtime's worker threads.
    pub workers: usize,
    /// Publish the built-in clip.
    pub demo: bool,
}

/// A listener's name and counters.
type ListenerCounters = (&'static str, Arc<ServeCounters>);

/// What the admin routes show beside the hub.
struct AdminParts {
    workers: usize,
    counters: Vec<ListenerCounters>,
    doors: Vec<Door>,
    access: Arc<AccessCounters>,
    hooks: Option<HookMetrics>,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    hub: Hub,
    addresses: Addresses,
    readiness: Readiness,
    reload: Arc<Notify>,
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
        if start.demo && config.rtmp.proxy_protocol.is_required() {
            return Err(StartError::DemoBehindProxy);
        }
        let certificates = certificates::load(config)?;
        if let Some(warning) = certificates.as_ref().and_then(|c| certificates::warning(c)) {
            tracing::warn!("{warning}");
        }
        let listeners = Listeners::bind(config)?;
        let gateway = Self {
            hub: Hub::new(options::hub(config, start.workers)),
            addresses: listeners.addresses()?,
            readiness: Readiness::default(),
            reload: Arc::default(),
            stop_accepting: CancellationToken::new(),
            stop_admin: CancellationToken::new(),
            tasks: TaskTracker::new(),
            admin: TaskTracker::new(),
            grace: config.shutdown.grace.into(),
        };
        let demo_key = start.demo.then(random::key);
        let log_budget = Arc::<LogBudget>::default();
        let hooks = gateway.hooks(config)?;
        let hook_metrics = hooks.as_ref().map(|hooks| hooks.metrics().clone());
        let gate = Gate::new(&config.auth, demo_key.clone(), log_budget.clone(), hooks)?;
        let gate = Arc::new(gate);
        let doors = Doors::new(config, certificates.clone(), log_budget);
        gateway.serve_all(config, start.workers, &gate, hook_metrics, listeners, doors)?;
        let stop = || gateway.stop_accepting.clone();
        gateway.tasks.spawn(auth::keep_fresh(gate, stop()));
        if let Some(certificates) = certificates {
            let keeper = certificates::keep(certificates, gateway.reload.clone(), stop());
            gateway.tasks.spawn(keeper);
        }
        if let Some(key) = demo_key {
            let target = loopback_of(gateway.addresses.rtmp);
            gateway.tasks.spawn(demo::run(target, key, stop()));
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

    fn serve_all(
        &self,
        config: &Config,
        workers: usize,
        gate: &Arc<Gate>,
        hooks: Option<HookMetrics>,
        listeners: Listeners,
        mut doors: Doors,
    ) -> Result<(), StartError> {
        let slots = Arc::new(Semaphore::new(config.limits.max_connections as usize));
        let per_ip = PerIp::new(config.limits.max_connections_per_ip as usize);
        let rtmp = Arc::new(Rtmp {
            hub: self.hub.clone(),
            gate: gate.clone(),
            options: options::rtmp(config),
            log_budget: doors.log_budget(),
        });
        let mut counters = Vec::new();
        let (rtmp_listeners, live_listeners, admin_listeners) = listeners.with_doors(config, &mut doors);
        for (listener, door) in rtmp_listeners {
            self.serve_rtmp(&rtmp, (slots.clone(), per_ip.clone()), listener, door);
        }
        let access = live_access(config, gate)?;
        if let Some(access) = &access {
            let (sessions, stop) = (access.sessions.clone(), self.stop_accepting.clone());
            self.tasks.spawn(async move { sessions.see_off(stop).await });
        }
        let live = self.live_router(config, access);
        for (listener, door) in live_listeners {
            let admission = (slots.clone(), per_ip.clone());
            counters.push(self.serve_live(config, live.clone(), admission, listener, door));
        }
        let admin = AdminParts {
            workers,
            counters,
            doors: doors.made(),
            access: gate.counters(),
            hooks,
        };
        self.serve_admin(config, admin, admin_listeners);
        Ok(())
    }

    fn serve_rtmp(&self, rtmp: &Arc<Rtmp>, admission: Admission, socket: TcpListener, door: Door) {
        let (tasks, stop) = (self.tasks.clone(), self.stop_accepting.clone());
        let listener = rtmp::Listener { socket, door };
        self.tasks
            .spawn(rtmp::listen(rtmp.clone(), listener, admission, tasks, stop));
    }

    fn live_router(&self, config: &Config, access: Option<LiveAccess>) -> Router {
        live_router(LiveState {
            hub: self.hub.clone(),
            access,
            options: LiveOptions {
                list_streams: config.http.list_streams,
                player: true,
                rtmp_port: Some(self.addresses.rtmp.port()),
                rtmps_port: self.addresses.rtmps.map(|address| address.port()),
            },
        })
    }

    fn serve_live(
        &self,
        config: &Config,
        router: Router,
        (slots, per_ip): Admission,
        listener: TcpListener,
        door: Door,
    ) -> ListenerCounters {
        let counters = Arc::<ServeCounters>::default();
        let name = door.name;
        let options = ServeOptions {
            name,
            door,
            slots,
            per_ip,
            max_header_bytes: config.limits.http_header.as_usize(),
            header_timeout: config.limits.handshake_timeout.into(),
            stall_timeout: config.play.stall_timeout.into(),
            drain: self.grace,
            counters: counters.clone(),
        };
        self.tasks
            .spawn(serve(listener, router, options, self.stop_accepting.clone()));
        (name, counters)
    }

    fn serve_admin(&self, config: &Config, parts: AdminParts, listeners: Vec<(TcpListener, Door)>) {
        let slots = Arc::new(Semaphore::new(ADMIN_CONNECTIONS));
        let delay = SchedulerDelay::new();
        let mut counters = parts.counters;
        let own = counters.len();
        counters.extend(listeners.iter().map(|(_, door)| (door.name, Arc::default())));
        let own_counters: Vec<_> = counters.iter().skip(own).cloned().collect();
        let router = admin_router(AdminState {
            hub: self.hub.clone(),
            admin: options::admin(config),
            readiness: self.readiness.clone(),
            listeners: counters,
            doors: parts.doors,
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
        for ((listener, door), (name, counters)) in listeners.into_iter().zip(own_counters) {
            let options = ServeOptions {
                name,
                door,
                slots: slots.clone(),
                drain: ADMIN_DRAIN,
                counters,
                ..ServeOptions::default()
            };
            self.admin
                .spawn(serve(listener, router.clone(), options, self.stop_admin.clone()));
        }
    }

    /// Looks at the certificate files now and takes them up if they have changed.
    pub fn reload_certificates(&self) {
        self.reload.notify_one();
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
