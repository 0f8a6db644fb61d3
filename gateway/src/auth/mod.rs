//! Who may publish and who may play: the one place that decides, for every way in.

mod hook;
mod key_place;
mod key_set;
mod rules;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use spillway_access::{
    Action, Decision, Grant, KeySet, Ledger, LedgerOptions, Mode, Policy, Reason, Refusal, Request, parameter,
};
use spillway_config::constant_time_eq;
use spillway_hooks::{EventKind, Guest, Hooks};
use spillway_hub::{Protocol, SessionInfo};
use spillway_net::LogBudget;
use spillway_rtmp::name::StreamPath;
use spillway_web::{AccessCounters, Gatekeeper, Pass, Visit};

pub(crate) use key_set::{KeySetError, keep_fresh};
pub(crate) use rules::addresses;

/// The URL parameter that carries a publisher's key: `rtmp://HOST/APP/NAME?key=SECRET`.
pub(crate) const KEY_PARAMETER: &str = parameter::KEY;

/// The parameters that somebody who guesses would try values of.
const GUESSED: [&str; 3] = [parameter::KEY, parameter::TOKEN, parameter::SIGNATURE];

/// The rules in force, and what is known of those who ask.
#[derive(Debug)]
pub(crate) struct Gate {
    policy: Policy,
    keys: ArcSwap<KeySet>,
    key_source: Option<key_set::KeySource>,
    ledger: Mutex<Ledger>,
    counters: Arc<AccessCounters>,
    log_budget: Arc<LogBudget>,
    hooks: Option<Hooks>,
    /// A key of this process's own, for the demo's publisher.
    own_key: Option<String>,
}

impl Gate {
    /// The rules of the configuration, and a key with which this process itself may publish anything.
    ///
    /// # Errors
    /// When the JWKS cannot be used.
    pub(crate) fn new(
        rules: &spillway_config::Auth,
        own_key: Option<String>,
        log_budget: Arc<LogBudget>,
        hooks: Option<Hooks>,
    ) -> Result<Self, KeySetError> {
        let counters = Arc::<AccessCounters>::default();
        let (key_source, keys): (_, Option<KeySet>) = key_set::KeySource::open(&rules.jwt)?.unzip();
        if let Some(keys) = keys.as_ref().filter(|keys| !keys.is_empty()) {
            counters.key_set_read(Some(keys.len()));
        }
        Ok(Self {
            policy: rules::policy(rules),
            keys: ArcSwap::from_pointee(keys.unwrap_or_default()),
            key_source,
            ledger: Mutex::new(Ledger::new(LedgerOptions {
                free_failures: rules.free_failures,
            })),
            counters,
            log_budget,
            hooks,
            own_key,
        })
    }

    /// What it counts.
    pub(crate) fn counters(&self) -> Arc<AccessCounters> {
        self.counters.clone()
    }

    /// Whether nothing is asked of viewers, so that nobody needs to look at them.
    pub(crate) fn is_open_to_viewers(&self) -> bool {
        let play = self.policy.side(Action::Play);
        play.mode == Mode::Open && play.addresses.is_empty() && self.watcher(Action::Play).is_none()
    }

    async fn judge(&self, visit: &Visit, now: u64) -> Result<Pass, Refusal> {
        if visit.action == Action::Publish && self.is_own(visit) {
            return Ok(Pass::default());
        }
        if let Some(wait) = self.wait_of(visit, now) {
            return Err(Refusal::too_many_failures(wait));
        }
        let request = Request {
            action: visit.action,
            stream: visit.stream.as_str(),
            peer: visit.ip(),
            local: visit.local,
            params: &visit.params,
            now,
        };
        let mut decision = self.policy.decide(&request, &self.keys.load());
        if self.has_newer_keys(&decision, visit).await {
            decision = self.policy.decide(&request, &self.keys.load());
        }
        match decision {
            Decision::Granted(grant) => Ok(self.granted(visit, grant)),
            Decision::Refused(refusal) => Err(refusal),
            Decision::AskHook => match &self.hooks {
                Some(hooks) => hook::ask(hooks, visit).await,
                None => Err(Refusal::new(Reason::HookFailed, "the server has nobody to ask")),
            },
        }
    }

    /// The hook that is told of such sessions whatever decides on them.
    fn watcher(&self, action: Action) -> Option<&Hooks> {
        self.hooks
            .as_ref()
            .filter(|hooks| hooks.sends(hook::kind(action)))
    }

    fn granted(&self, visit: &Visit, grant: Grant) -> Pass {
        // Of a session nothing is known whose playlists are everybody's.
        let is_anybody = grant.open && visit.session.protocol == Protocol::Hls;
        let watcher = self.watcher(visit.action).filter(|_| !is_anybody);
        Pass {
            grant,
            lease: watcher.map(|hooks| hook::tell(hooks, visit)),
            ..Pass::default()
        }
    }

    /// Whether the end of each viewer is to be told to somebody.
    pub(crate) fn sees_viewers_off(&self) -> bool {
        let by_hook = self.policy.side(Action::Play).mode == Mode::Hook;
        self.hooks.is_some() && by_hook || self.watcher(Action::Play).is_some()
    }

    /// Whether the hook is asked about RTMP clients as soon as they connect.
    pub(crate) fn asks_of_clients(&self) -> bool {
        let wants = |hooks: &Hooks| hooks.sends(EventKind::Connect);
        self.hooks.as_ref().is_some_and(wants)
    }

    /// Asks the hook about an RTMP client that has connected.
    ///
    /// # Errors
    /// What to tell the client.
    pub(crate) async fn connect(&self, session: SessionInfo, app: &StreamPath) -> Result<(), Refusal> {
        let Some(hooks) = &self.hooks else { return Ok(()) };
        let guest = Guest {
            kind: EventKind::Connect,
            protocol: session.protocol.label(),
            peer: session.peer.ip(),
            app: app.path.clone(),
            stream: None,
            params: app.params.clone(),
        };
        let Err(denied) = hooks.ask(guest).await else {
            return Ok(());
        };
        let refusal = hook::refusal(denied);
        if let Some(left_out) = self.log_budget.take() {
            tracing::warn!(
                session = %session.id, peer = %session.peer, reason = refusal.reason.label(), left_out,
                "client refused: {}", refusal.text
            );
        }
        Err(refusal)
    }

    /// Where the hook gives publishers' streams their names, what they come with may be a secret.
    fn is_name_secret(&self, visit: &Visit) -> bool {
        visit.action == Action::Publish && self.policy.side(Action::Publish).mode == Mode::Hook
    }

    /// The stream's name as the log may show it.
    fn shown<'a>(&self, visit: &'a Visit) -> &'a str {
        if self.is_name_secret(visit) {
            visit.stream.app()
        } else {
            visit.stream.as_str()
        }
    }

    /// How long somebody who guessed has to wait with whatever is offered next, in seconds.
    fn wait_of(&self, visit: &Visit, now: u64) -> Option<u32> {
        let offers =
            GUESSED.iter().any(|name| visit.params.get(name).is_some()) || self.is_name_secret(visit);
        let asked_for = self.policy.side(visit.action).mode != Mode::Open;
        (offers && asked_for).then(|| self.ledger.lock().wait(visit.ip(), now))?
    }

    /// The demo's publisher has a key that works whatever the rules are.
    fn is_own(&self, visit: &Visit) -> bool {
        let offered = visit.params.get(parameter::KEY);
        let own = self.own_key.as_deref().zip(offered);
        own.is_some_and(|(own, offered)| constant_time_eq(own.as_bytes(), offered.as_bytes()))
    }

    /// Reads the key set anew if there is none, or if the token names a key that is not in it.
    async fn has_newer_keys(&self, decision: &Decision, visit: &Visit) -> bool {
        let (Decision::Refused(refusal), Some(source)) = (decision, &self.key_source) else {
            return false;
        };
        let token = visit.params.get(parameter::TOKEN).unwrap_or_default();
        let may_help = match refusal.reason {
            Reason::NoKeys => true,
            Reason::BadToken => self.policy.jwt.names_unknown_key(token, &self.keys.load()),
            _ => false,
        };
        may_help && source.renew_soon(self).await
    }

    fn note(&self, visit: &Visit, refusal: &Refusal, now: u64) {
        let is_wrong_name = refusal.reason == Reason::Hook && self.is_name_secret(visit);
        if refusal.reason.is_guess() || is_wrong_name {
            self.ledger.lock().note_failure(visit.ip(), now);
        }
        if let Some(left_out) = self.log_budget.take() {
            let session = visit.session;
            let who = match visit.action {
                Action::Publish => "publisher",
                Action::Play => "viewer",
            };
            tracing::warn!(
                session = %session.id, peer = %session.peer, protocol = session.protocol.label(),
                stream = self.shown(visit), reason = refusal.reason.label(), left_out,
                "{who} refused: {}", refusal.text
            );
        }
    }
}

impl Gatekeeper for Gate {
    fn decide<'a>(&'a self, visit: &'a Visit) -> BoxFuture<'a, Result<Pass, Refusal>> {
        async move {
            let now = self.now();
            let result = self.judge(visit, now).await;
            let refusal = result.as_ref().err();
            self.counters
                .decided(visit.action, refusal.map(|refusal| refusal.reason));
            if let Some(refusal) = refusal {
                self.note(visit, refusal, now);
            }
            result
        }
        .boxed()
    }

    fn lets_in(&self, ip: IpAddr) -> bool {
        let let_in = self.policy.side(Action::Play).addresses.lets_in(ip);
        if !let_in {
            self.counters.decided(Action::Play, Some(Reason::Address));
        }
        let_in
    }

    fn now(&self) -> u64 {
        unix_now()
    }
}

/// Seconds since 1970.
fn unix_now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
