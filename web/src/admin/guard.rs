//! [`Guard`]: who may use the admin listener.

use std::net::IpAddr;
use std::time::Instant;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::uri::{Authority, InvalidUri};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use parking_lot::Mutex;
use spillway_access::{AddressRules, Ledger, LedgerOptions};
use spillway_config::Secret;
use spillway_hub::Counter;

use crate::http::answer;
use crate::serve::Connection;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Answered without a token: they say nothing but alive and ready, and whoever probes has no secrets.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// The rules of the admin listener.
#[derive(Debug, Clone, Default)]
pub struct AdminAccess {
    /// The tokens that open it to those without a certificate; without any the listener must be one that this machine
    /// alone reaches.
    pub tokens: Vec<Secret>,
    /// The addresses let in at all.
    pub addresses: AddressRules,
    /// Wrong tokens of one address that cost no wait.
    pub free_failures: u32,
}

/// Why a request to the admin listener is refused. The label is the metric's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The address is not let in.
    Address,
    /// The request is for another host: a page in a browser on this machine had its name point here (DNS rebinding).
    Host,
    /// The request comes from a page of another site.
    Origin,
    /// There is no token.
    NoToken,
    /// The token is wrong.
    WrongToken,
    /// The address offered too many wrong tokens and has to wait, in seconds.
    TooManyFailures(u32),
}

impl Refused {
    const LABELS: [&str; 6] = [
        "address",
        "host",
        "origin",
        "no_token",
        "wrong_token",
        "too_many_failures",
    ];

    fn index(self) -> usize {
        match self {
            Self::Address => 0,
            Self::Host => 1,
            Self::Origin => 2,
            Self::NoToken => 3,
            Self::WrongToken => 4,
            Self::TooManyFailures(_) => 5,
        }
    }

    pub(super) fn answer(self) -> Response {
        let (status, text) = match self {
            Self::Address => (
                StatusCode::FORBIDDEN,
                "this address is not let in (admin.allow, admin.deny)\n",
            ),
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "ask for it by address or as localhost, or set admin.tokens to reach it by another name\n",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "pages of other sites may change nothing here\n",
            ),
            Self::NoToken | Self::WrongToken => (
                StatusCode::UNAUTHORIZED,
                "this needs one of admin.tokens: send \"Authorization: Bearer TOKEN\"\n",
            ),
            Self::TooManyFailures(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many wrong tokens from this address; try again later\n",
            ),
        };
        let mut response = answer::error(status, text);
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Self::TooManyFailures(seconds) = self {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Stands before every route of the admin listener.
#[derive(Debug)]
pub(super) struct Guard {
    access: AdminAccess,
    ledger: Mutex<Ledger>,
    /// The ledger's time counts from here.
    start: Instant,
    refused: [Counter; Refused::LABELS.len()],
}

impl Guard {
    pub(super) fn new(access: AdminAccess) -> Self {
        Self {
            ledger: Mutex::new(Ledger::new(LedgerOptions {
                free_failures: access.free_failures,
            })),
            access,
            start: Instant::now(),
            refused: Default::default(),
        }
    }

    /// Refusals so far, by label.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refused::LABELS
            .into_iter()
            .zip(self.refused.iter().map(Counter::get))
    }

    /// Whether the request may go on.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refused> {
        let peer = request
            .extensions()
            .get::<Connection>()
            .cloned()
            .unwrap_or_default()
            .peer();
        let now = self.start.elapsed().as_secs();
        let result = self.judge(peer.ip().to_canonical(), request, now);
        if let Err(refused) = result {
            self.refused[refused.index()].add(1);
            tracing::debug!(%peer, reason = Refused::LABELS[refused.index()], "request to the admin listener refused");
        }
        result
    }

    fn judge(&self, ip: IpAddr, request: &Request, now: u64) -> Result<(), Refused> {
        if !self.access.addresses.lets_in(ip) {
            return Err(Refused::Address);
        }
        let headers = request.headers();
        if !matches!(*request.method(), Method::GET | Method::HEAD) && is_cross_site(headers) {
            return Err(Refused::Origin);
        }
        let connection = request.extensions().get::<Connection>();
        if connection.is_some_and(Connection::is_certified) {
            return Ok(());
        }
        if self.access.tokens.is_empty() {
            // Whoever has no token is known by being on this machine, and a browser there is on many sites.
            let host = request
                .uri()
                .authority()
                .cloned()
                .map(Ok)
                .or_else(|| host_of(headers));
            let is_meant = host.is_none_or(|host| host.is_ok_and(|host| is_this_machine(host.host())));
            return if is_meant { Ok(()) } else { Err(Refused::Host) };
        }
        if PROBES.contains(&request.uri().path()) {
            return Ok(());
        }
        self.by_token(ip, bearer(headers).ok_or(Refused::NoToken)?, now)
    }

    fn by_token(&self, ip: IpAddr, offered: &str, now: u64) -> Result<(), Refused> {
        let mut ledger = self.ledger.lock();
        if let Some(wait) = ledger.wait(ip, now) {
            return Err(Refused::TooManyFailures(wait));
        }
        // Every token is tried, so that the time taken does not tell which one matched.
        let matching = self
            .access
            .tokens
            .iter()
            .filter(|token| token.matches(offered.as_bytes()));
        if matching.count() > 0 {
            return Ok(());
        }
        ledger.note_failure(ip, now);
        Err(Refused::WrongToken)
    }
}

/// Whether a browser says that a page of another site sent the request. Other programs say nothing.
fn is_cross_site(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    headers.get(ORIGIN).is_some_and(|origin| {
        let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        origin.is_none_or(|(_, authority)| Some(authority) != host)
    })
}

/// Where the request is meant to go: the `Host` header; one that is no authority names nothing that is here.
fn host_of(headers: &HeaderMap) -> Option<Result<Authority, InvalidUri>> {
    headers.get(HOST).map(|host| Authority::try_from(host.as_bytes()))
}

/// Whether no name server can make `host` mean something else.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// The token of `Authorization: Bearer` (RFC 6750 §2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const IP: &str = "192.0.2.1";
    const TOKEN: &str = "a-token-of-some-length";

    fn guard(tokens: &[&str]) -> Guard {
        Guard::new(AdminAccess {
            tokens: tokens.iter().map(|token| Secret::new(*token).unwrap()).collect(),
            addresses: AddressRules::default(),
            free_failures: 2,
        })
    }

    fn judge(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Refused> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.judge(IP.parse().unwrap(), &request.body(Body::empty()).unwrap(), 0)
    }

    #[test]
    fn without_a_token_only_the_machines_own_names_are_answered() {
        let guard = guard(&[]);
        for host in [
            "localhost",
            "LocalHost:8081",
            "127.0.0.1:8081",
            "[::1]:8081",
            "localhost.",
        ] {
            assert_eq!(
                judge(&guard, "GET", "/metrics", &[("host", host)]),
                Ok(()),
                "{host}"
            );
        }
        assert_eq!(judge(&guard, "GET", "/metrics", &[]), Ok(()));
        for host in [
            "evil.example",
            "localhost.evil.example:8081",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert_eq!(
                judge(&guard, "GET", "/metrics", &[("host", host)]),
                Err(Refused::Host),
                "{host}"
            );
        }
    }

    #[test]
    fn with_tokens_one_of_them_is_needed_for_everything_but_probes() {
        let guard = guard(&["another-token-of-length", TOKEN]);
        let bearer = format!("Bearer {TOKEN}");
        let named = [("host", "gateway.example:8081"), ("authorization", &bearer)];
        assert_eq!(judge(&guard, "GET", "/metrics", &named), Ok(()));
        assert_eq!(
            judge(&guard, "GET", "/readyz", &[("host", "gateway.example")]),
            Ok(())
        );
        for path in ["/", "/metrics", "/api/v1/streams", "/readyz/x"] {
            assert_eq!(judge(&guard, "GET", path, &[]), Err(Refused::NoToken), "{path}");
        }
        assert_eq!(
            judge(&guard, "GET", "/", &[("authorization", "Basic eDp5")]),
            Err(Refused::NoToken)
        );
    }

    #[test]
    fn who_guesses_tokens_has_to_wait() {
        let guard = guard(&[TOKEN]);
        for _ in 0..2 {
            let wrong = judge(&guard, "GET", "/", &[("authorization", "Bearer x")]);
            assert_eq!(wrong, Err(Refused::WrongToken));
        }
        let right = format!("Bearer {TOKEN}");
        let waits = judge(&guard, "GET", "/", &[("authorization", &right)]);
        assert_eq!(waits, Err(Refused::TooManyFailures(1)));
    }

    #[test]
    fn pages_of_other_sites_cannot_send_what_changes_something() {
        let guard = guard(&[]);
        let host = ("host", "localhost:8081");
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:9999"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let refused = judge(&guard, "POST", "/api/v1/streams", &[host, foreign]);
            assert_eq!(refused, Err(Refused::Origin), "{foreign:?}");
        }
        for own in [
            ("origin", "http://localhost:8081"),
            ("sec-fetch-site", "same-origin"),
            ("accept", "*/*"),
        ] {
            assert_eq!(
                judge(&guard, "DELETE", "/api/v1/streams", &[host, own]),
                Ok(()),
                "{own:?}"
            );
        }
    }

    #[test]
    fn addresses_that_are_not_let_in_are_not_even_told_whether_it_is_alive() {
        let guard = Guard::new(AdminAccess {
            addresses: AddressRules {
                allow: vec!["10.0.0.0/8".parse().unwrap()],
                deny: Vec::new(),
            },
            ..AdminAccess::default()
        });
        assert_eq!(judge(&guard, "GET", "/livez", &[]), Err(Refused::Address));
    }
}
