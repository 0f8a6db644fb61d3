//! Rules that hold between keys, and what is allowed but deserves a word.

use crate::model::{AccessKey, Config, Flush, HlsMode, PlayPolicy, PublishPolicy, is_empty};
use crate::pattern::StreamPattern;
use crate::range::RANGES;
use crate::secret::Secret;

/// A rule that a configuration breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The keys concerned, the one most likely wrong first.
    pub(crate) keys: Vec<&'static str>,
    pub(crate) message: String,
}

fn violation(keys: &[&'static str], message: String) -> Violation {
    Violation {
        keys: keys.to_vec(),
        message,
    }
}

/// Every rule `config` breaks.
pub(crate) fn violations(config: &Config) -> Vec<Violation> {
    let mut found = Vec::new();
    out_of_range(config, &mut found);
    listeners(config, &mut found);
    tls(config, &mut found);
    proxies(config, &mut found);
    memory(config, &mut found);
    hls(config, &mut found);
    admin(config, &mut found);
    auth(config, &mut found);
    hooks(config, &mut found);
    found
}

fn out_of_range(config: &Config, found: &mut Vec<Violation>) {
    let values = serde_json::to_value(config).unwrap_or_default();
    for (key, range) in RANGES {
        let value = values
            .pointer(&format!("/{}", key.replace('.', "/")))
            .unwrap_or_default();
        if !range.contains(value) {
            found.push(violation(
                &[key],
                format!("{value} is out of range: expected {range}"),
            ));
        }
    }
    if !config.ring.slots.is_power_of_two() {
        let slots = config.ring.slots;
        let next = slots.checked_next_power_of_two().unwrap_or(1 << 20);
        found.push(violation(
            &["ring.slots"],
            format!("{slots} is not a power of two: expected for example {next}"),
        ));
    }
}

fn listeners(config: &Config, found: &mut Vec<Violation>) {
    let all = [
        ("rtmp.listen", Some(config.rtmp.listen)),
        ("http.listen", Some(config.http.listen)),
        ("admin.listen", Some(config.admin.listen)),
        ("rtmps.listen", config.rtmps.listen.get()),
        ("https.listen", config.https.listen.get()),
        ("admin.tls_listen", config.admin.tls_listen.get()),
    ];
    let all: Vec<_> = all
        .into_iter()
        .filter_map(|(key, address)| Some((key, address?)))
        .collect();
    for (index, (later, address)) in all.iter().enumerate() {
        for (earlier, taken) in all.iter().take(index) {
            if address.collides_with(*taken) {
                let message =
                    format!("{address} is already taken by `{earlier}` ({taken}): give each its own port");
                found.push(violation(&[later, earlier], message));
            }
        }
    }
}

fn tls(config: &Config, found: &mut Vec<Violation>) {
    let tls = &config.tls;
    let listeners = [
        ("rtmps.listen", config.rtmps.listen),
        ("https.listen", config.https.listen),
        ("admin.tls_listen", config.admin.tls_listen),
    ];
    let wanted = listeners.iter().find(|(_, address)| address.get().is_some());
    if let Some((key, _)) = wanted
        && !tls.is_set()
    {
        let message =
            "it needs a certificate: set `tls.cert_file` and `tls.key_file`, or `tls.self_signed` to try"
                .into();
        found.push(violation(&[key, "tls.cert_file"], message));
    }
    let (cert, key) = (!is_empty(&tls.cert_file), !is_empty(&tls.key_file));
    if cert != key {
        let (there, missing) = if cert {
            ("tls.cert_file", "tls.key_file")
        } else {
            ("tls.key_file", "tls.cert_file")
        };
        let message = format!("`{missing}` is missing: certificate and key belong together");
        found.push(violation(&[there, missing], message));
    }
    if tls.self_signed && (cert || key) {
        let message =
            "a self-signed certificate and `tls.cert_file` exclude each other: remove one of both".into();
        found.push(violation(&["tls.self_signed", "tls.cert_file"], message));
    }
    let admin = config.admin.tls_listen.get();
    if let Some(address) = admin.filter(|address| !address.is_loopback())
        && !config.admin.tls_asks_for_certificate()
        && config.admin.tokens.is_empty()
    {
        let message = format!(
            "others than this machine can reach {address}, and nothing is asked of them: set `admin.tls_client_ca_file`, so that \
             only clients with a certificate come in, or `admin.tokens`, or listen on 127.0.0.1"
        );
        found.push(violation(
            &["admin.tls_listen", "admin.tls_client_ca_file"],
            message,
        ));
    }
    if config.admin.tls_asks_for_certificate() && config.admin.tls_listen.get().is_none() {
        let message = "no listener would ask for client certificates: set `admin.tls_listen` too".into();
        found.push(violation(
            &["admin.tls_client_ca_file", "admin.tls_listen"],
            message,
        ));
    }
}

fn proxies(config: &Config, found: &mut Vec<Violation>) {
    let listeners = [
        ("rtmp.proxy_protocol", config.rtmp.proxy_protocol),
        ("http.proxy_protocol", config.http.proxy_protocol),
        ("rtmps.proxy_protocol", config.rtmps.proxy_protocol),
        ("https.proxy_protocol", config.https.proxy_protocol),
    ];
    let wanted = listeners.iter().find(|(_, protocol)| protocol.is_required());
    if let Some((key, _)) = wanted
        && config.proxies.trusted.is_empty()
    {
        let message =
            "\"required\" lets nobody in without `proxies.trusted`: set the addresses of your proxies there"
                .into();
        found.push(violation(&[key, "proxies.trusted"], message));
    }
}

fn memory(config: &Config, found: &mut Vec<Violation>) {
    let (ring, play, limits) = (&config.ring, &config.play, &config.limits);
    if play.max_lag > ring.max_duration {
        let message = format!(
            "{} is more than the ring keeps (`ring.max_duration` is {}), so that no viewer could ever lag that far",
            play.max_lag, ring.max_duration
        );
        found.push(violation(&["play.max_lag", "ring.max_duration"], message));
    }
    if ring.max_bytes < limits.max_message {
        let message = format!(
            "{} does not hold even one message of the largest size allowed (`limits.max_message` is {})",
            ring.max_bytes, limits.max_message
        );
        found.push(violation(&["ring.max_bytes", "limits.max_message"], message));
    }
    if limits.partial_messages < limits.max_message {
        let message = format!(
            "{} does not hold even one message of the largest size allowed (`limits.max_message` is {})",
            limits.partial_messages, limits.max_message
        );
        found.push(violation(
            &["limits.partial_messages", "limits.max_message"],
            message,
        ));
    }
    let gathered = match play.flush {
        Flush::Auto => ("play.flush_max", play.flush_max),
        Flush::Every(period) => ("play.flush", period),
    };
    if gathered.1 >= play.max_lag {
        let message = format!(
            "{} is not below `play.max_lag` ({}): every viewer would count as lagging",
            gathered.1, play.max_lag
        );
        found.push(violation(&[gathered.0, "play.max_lag"], message));
    }
}

fn hls(config: &Config, found: &mut Vec<Violation>) {
    let hls = &config.hls;
    if hls.mode != HlsMode::Off && hls.max_segment_duration < hls.segment_duration {
        let message = format!(
            "{} is shorter than `hls.segment_duration` ({}): expected at least that",
            hls.max_segment_duration, hls.segment_duration
        );
        found.push(violation(
            &["hls.max_segment_duration", "hls.segment_duration"],
            message,
        ));
    }
}

fn admin(config: &Config, found: &mut Vec<Violation>) {
    let admin = &config.admin;
    if admin.tokens.is_empty() && !admin.listen.is_loopback() {
        let message = format!(
            "others than this machine can reach {}, and nothing is asked of them: set `admin.tokens`, to what \
             `openssl rand -hex 32` makes for one, or listen on 127.0.0.1",
            admin.listen
        );
        found.push(violation(&["admin.listen", "admin.tokens"], message));
    }
    let for_some = |key: &AccessKey| *key.stream() != StreamPattern::any();
    if admin.tokens.iter().any(for_some) {
        let message = "a token opens all of the admin listener: leave out `stream`".into();
        found.push(violation(&["admin.tokens"], message));
    }
    long_enough("admin.tokens", &admin.tokens, found);
}

fn auth(config: &Config, found: &mut Vec<Violation>) {
    let auth = &config.auth;
    let has_keys = !auth.publish_keys.is_empty();
    let keys = ["auth.publish", "auth.publish_keys"];
    match auth.publish {
        PublishPolicy::Keys if !has_keys => {
            let message =
                "\"keys\" lets nobody publish without `auth.publish_keys`: expected at least one key".into();
            found.push(violation(&keys, message));
        }
        PublishPolicy::Open if has_keys => {
            let message = "\"open\" lets everybody publish, so that `auth.publish_keys` would never be asked for: remove one \
                           of both, or set `auth.publish` to \"keys\" or \"local\""
                .into();
            found.push(violation(&keys, message));
        }
        PublishPolicy::Token if has_keys => found.push(violation(&keys, token_and_keys("publish"))),
        _ => {}
    }
    let has_keys = !auth.play_keys.is_empty();
    let keys = ["auth.play", "auth.play_keys"];
    match auth.play {
        PlayPolicy::Keys if !has_keys => {
            let message =
                "\"keys\" lets nobody play without `auth.play_keys`: expected at least one key".into();
            found.push(violation(&keys, message));
        }
        PlayPolicy::Open if has_keys => {
            let message = "\"open\" lets everybody play, so that `auth.play_keys` would never be asked for: remove one of \
                           both, or set `auth.play` to \"keys\""
                .into();
            found.push(violation(&keys, message));
        }
        PlayPolicy::Token if has_keys => found.push(violation(&keys, token_and_keys("play"))),
        _ => {}
    }
    tokens(config, found);
}

fn token_and_keys(side: &str) -> String {
    format!(
        "\"token\" takes signed links and JWTs, so that `auth.{side}_keys` would never be asked for: remove them, or set \
         `auth.{side}` to \"keys\""
    )
}

/// Tokens need something to be checked by.
fn tokens(config: &Config, found: &mut Vec<Violation>) {
    let auth = &config.auth;
    let can_check = !auth.link_keys.is_empty() || !auth.jwt.keys.is_empty() || !auth.jwt.jwks.is_empty();
    let wants = [
        ("auth.publish", auth.publish == PublishPolicy::Token),
        ("auth.play", auth.play == PlayPolicy::Token),
    ];
    for (key, wanted) in wants {
        if wanted && !can_check {
            let message = "\"token\" lets nobody in without something to check tokens by: set `auth.link_keys` for signed links, \
                           or `auth.jwt.keys` or `auth.jwt.jwks` for JWTs"
                .into();
            found.push(violation(
                &[key, "auth.link_keys", "auth.jwt.keys", "auth.jwt.jwks"],
                message,
            ));
        }
    }
    let secrets = [
        ("auth.link_keys", &auth.link_keys),
        ("auth.jwt.keys", &auth.jwt.keys),
    ];
    for (name, keys) in secrets {
        long_enough(name, keys, found);
    }
}

fn long_enough(name: &'static str, keys: &[AccessKey], found: &mut Vec<Violation>) {
    // Those in files are not read yet.
    let mut own = keys.iter().filter(|key| key.key_file().is_none());
    if own.any(|key| !is_strong(key.secret())) {
        found.push(violation(&[name], TOO_SHORT.into()));
    }
}

/// In characters: beyond any guessing, also by those who have something signed to try keys on.
const SHORTEST_STRONG_KEY: usize = 16;
/// See [`is_strong`].
pub(crate) const TOO_SHORT: &str = "at least 16 characters are needed, since shorter ones can be guessed: make one with `openssl rand -hex 32`";

/// Whether a key is long enough to sign links or tokens, or to open the admin listener.
pub(crate) fn is_strong(key: &Secret) -> bool {
    key.expose().len() >= SHORTEST_STRONG_KEY
}

fn hooks(config: &Config, found: &mut Vec<Violation>) {
    let hooks = &config.hooks;
    if hooks.is_set() && !is_web_address(&hooks.url) {
        // The text itself may hold a password, so it is not repeated.
        let message = "not an address that events can be sent to: expected http:// or https://, a host and perhaps a port and a \
                       path, without user, password or blanks, such as \"https://auth.example.net/spillway\""
            .into();
        found.push(violation(&["hooks.url"], message));
    }
    if hooks.secret.is_set() && !hooks.secret_file.is_empty() {
        let message = "both `hooks.secret` and `hooks.secret_file` are set: expected one of them".into();
        found.push(violation(&["hooks.secret_file", "hooks.secret"], message));
    }
    if hooks.secret.is_set() && !is_strong(&hooks.secret) {
        found.push(violation(&["hooks.secret"], TOO_SHORT.into()));
    }
    let auth = &config.auth;
    let sides = [
        (
            ["auth.publish", "auth.publish_keys", "hooks.url"],
            auth.publish == PublishPolicy::Hook,
            &auth.publish_keys,
        ),
        (
            ["auth.play", "auth.play_keys", "hooks.url"],
            auth.play == PlayPolicy::Hook,
            &auth.play_keys,
        ),
    ];
    for ([side, its_keys, url], by_hook, keys) in sides {
        if by_hook && !hooks.is_set() {
            let message =
                "\"hook\" lets nobody in without `hooks.url`: expected the address of a program to ask"
                    .into();
            found.push(violation(&[side, url], message));
        }
        if by_hook && !keys.is_empty() {
            let message = format!(
                "\"hook\" asks the program at `hooks.url`, so that `{its_keys}` would never be asked for: remove them, or set \
                 `{side}` to \"keys\""
            );
            found.push(violation(&[side, its_keys], message));
        }
    }
}

/// Whether it can be called: scheme, host and nothing that is not sent.
fn is_web_address(text: &str) -> bool {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split(['/', '?']).next().unwrap_or_default();
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        !host.is_empty() && !host.starts_with(':') && !host.contains('@') && plain
    })
}

impl Config {
    /// What is allowed but deserves a word at the start: one sentence each, for the log.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.auth.publish == PublishPolicy::Open && !self.rtmp.listen.is_loopback() {
            warnings.push(
                "auth.publish is \"open\": everybody who can reach rtmp.listen can publish any stream".into(),
            );
        }
        if self.auth.jwt.is_jwks_forgeable() {
            warnings.push(
                "auth.jwt.jwks is fetched by http: whoever is on the way can put in a key and let anybody in; take https"
                    .into(),
            );
        }
        if self.auth.play != PlayPolicy::Open && self.http.list_streams {
            warnings.push(
                "http.list_streams shows the names of live streams to everybody, although auth.play is not \"open\"; set \
                 http.list_streams = false to keep them to yourself"
                    .into(),
            );
        }
        if self.hls.mode != HlsMode::Off && self.hls.segment_duration > self.ring.max_duration {
            warnings.push(format!(
                "ring.max_duration ({}) is shorter than hls.segment_duration ({}): the first HLS request of a stream waits for a \
                 whole segment",
                self.ring.max_duration, self.hls.segment_duration
            ));
        }
        self.warn_of_hooks(&mut warnings);
        warnings
    }

    fn warn_of_hooks(&self, warnings: &mut Vec<String>) {
        let host = |scheme| self.hooks.url.strip_prefix(scheme).unwrap_or_default();
        let local = ["127.", "localhost", "[::1]"];
        if !host("http://").is_empty() && !local.iter().any(|start| host("http://").starts_with(start)) {
            warnings.push(
                "hooks.url is http: keys that publishers and viewers bring are sent to it in the clear; use https outside a private \
                 network"
                    .into(),
            );
        }
        if self.hooks.is_set() && !self.hooks.secret.is_set() {
            warnings.push(
                "hooks.secret is not set: the program at hooks.url cannot tell events of this server from forged ones".into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{ByteSize, Period};

    fn broken(change: impl FnOnce(&mut Config)) -> Vec<&'static str> {
        let mut config = Config::default();
        change(&mut config);
        violations(&config)
            .iter()
            .map(|violation| violation.keys[0])
            .collect()
    }

    fn key() -> AccessKey {
        AccessKey::new(StreamPattern::any(), Secret::new("k").unwrap())
    }

    #[test]
    fn a_hook_needs_an_address_that_can_be_called_and_one_good_secret() {
        for url in [
            "https://a.example/hook?x=1",
            "http://[::1]:8000",
            "http://127.0.0.1/",
        ] {
            assert_eq!(broken(|c| c.hooks.url = url.into()), Vec::<&str>::new(), "{url}");
        }
        for url in [
            "a.example/hook",
            "ftp://a/",
            "https:///x",
            "http://:80/",
            "http://u:p@a/",
            "http://a b/",
            "http://a/#x",
        ] {
            assert_eq!(broken(|c| c.hooks.url = url.into()), ["hooks.url"], "{url}");
        }
        assert_eq!(broken(|c| c.auth.publish = PublishPolicy::Hook), ["auth.publish"]);
        assert_eq!(broken(|c| c.auth.play = PlayPolicy::Hook), ["auth.play"]);
        let keys_too = broken(|c| {
            c.hooks.url = "http://127.0.0.1/".into();
            c.auth.play = PlayPolicy::Hook;
            c.auth.play_keys.push(key());
        });
        assert_eq!(keys_too, ["auth.play"]);
        let secret = |text: &str| Secret::new(text).unwrap();
        assert_eq!(broken(|c| c.hooks.secret = secret("short")), ["hooks.secret"]);
        let both = broken(|c| {
            c.hooks.secret = secret("0123456789abcdef");
            c.hooks.secret_file = "secret".into();
        });
        assert_eq!(both, ["hooks.secret_file"]);
    }

    #[test]
    fn a_hook_in_the_clear_and_one_without_a_signature_deserve_a_word() {
        let warnings = |url: &str, secret: Option<&str>| {
            let mut config = Config::default();
            config.hooks.url = url.into();
            if let Some(secret) = secret {
                config.hooks.secret = Secret::new(secret).unwrap();
            }
            let of_hooks = |warning: &&String| warning.starts_with("hooks.");
            config.warnings().iter().filter(of_hooks).count()
        };
        assert_eq!(warnings("", None), 0);
        assert_eq!(warnings("http://a.example/", None), 2);
        assert_eq!(warnings("http://127.0.0.1:8000/", Some("0123456789abcdef")), 0);
        assert_eq!(warnings("https://a.example/", Some("0123456789abcdef")), 0);
    }

    #[test]
    fn the_defaults_break_no_rule_and_need_no_word() {
        assert_eq!(broken(|_| ()), Vec::<&str>::new());
        assert_eq!(Config::default().warnings(), Vec::<String>::new());
    }

    #[test]
    fn each_rule_names_the_key_that_breaks_it() {
        assert_eq!(broken(|c| c.hls.window = 2), ["hls.window"]);
        assert_eq!(
            broken(|c| c.hls.segment_duration = Period::from_millis(999)),
            ["hls.segment_duration"]
        );
        assert_eq!(
            broken(|c| c.hls.max_segment_duration = Period::from_secs(1)),
            ["hls.max_segment_duration"]
        );
        assert_eq!(broken(|c| c.ring.slots = 1_000), ["ring.slots"]);
        assert_eq!(
            broken(|c| c.ring.max_bytes = ByteSize::from_mib(8)),
            ["ring.max_bytes"]
        );
        assert_eq!(
            broken(|c| c.limits.partial_messages = ByteSize::from_mib(8)),
            ["limits.partial_messages"]
        );
        assert_eq!(
            broken(|c| c.play.max_lag = Period::from_secs(31)),
            ["play.max_lag"]
        );
        assert_eq!(
            broken(|c| c.play.flush = Flush::Every(Period::from_secs(3))),
            ["play.flush", "play.flush"]
        );
        assert_eq!(
            broken(|c| c.play.max_lag = Period::from_millis(300)),
            ["play.flush_max"]
        );
        assert_eq!(broken(|c| c.http.listen = c.rtmp.listen), ["http.listen"]);
        let elsewhere = "0.0.0.0:8081".parse().unwrap();
        assert_eq!(broken(|c| c.admin.listen = elsewhere), ["admin.listen"]);
        assert_eq!(broken(|c| c.admin.tokens.push(key())), ["admin.tokens"]);
        let token = || Secret::new("0123456789abcdef").unwrap();
        assert_eq!(
            broken(|c| {
                c.admin.listen = elsewhere;
                c.admin.tokens = vec![AccessKey::new(StreamPattern::any(), token())];
            }),
            Vec::<&str>::new()
        );
        let for_some = AccessKey::new("live/*".parse().unwrap(), token());
        assert_eq!(broken(|c| c.admin.tokens = vec![for_some]), ["admin.tokens"]);
        assert_eq!(broken(|c| c.auth.publish = PublishPolicy::Keys), ["auth.publish"]);
        assert_eq!(
            broken(|c| {
                c.auth.publish = PublishPolicy::Open;
                c.auth.publish_keys.push(key());
            }),
            ["auth.publish"]
        );
        assert_eq!(broken(|c| c.auth.publish_keys.push(key())), Vec::<&str>::new());
        assert_eq!(broken(|c| c.auth.play = PlayPolicy::Keys), ["auth.play"]);
        assert_eq!(broken(|c| c.auth.play_keys.push(key())), ["auth.play"]);
        assert_eq!(broken(|c| c.auth.play = PlayPolicy::Token), ["auth.play"]);
        assert_eq!(
            broken(|c| c.auth.publish = PublishPolicy::Token),
            ["auth.publish"]
        );
        assert_eq!(broken(|c| c.auth.link_keys.push(key())), ["auth.link_keys"]);
        assert_eq!(
            broken(|c| {
                c.auth.play = PlayPolicy::Token;
                c.auth.jwt.jwks = "keys.json".into();
            }),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn tls_and_proxies_need_what_they_work_with() {
        let some: crate::OptionalAddr = serde_json::from_str("\"0.0.0.0:8443\"").unwrap();
        assert_eq!(broken(|c| c.https.listen = some), ["https.listen"]);
        assert_eq!(
            broken(|c| {
                c.https.listen = some;
                c.rtmps.listen = some;
                c.tls.self_signed = true;
            }),
            ["https.listen"]
        );
        assert_eq!(broken(|c| c.tls.cert_file = "a".into()), ["tls.cert_file"]);
        assert_eq!(
            broken(|c| {
                c.tls.cert_file = "a".into();
                c.tls.key_file = "b".into();
                c.tls.self_signed = true;
            }),
            ["tls.self_signed"]
        );
        assert_eq!(
            broken(|c| c.admin.tls_client_ca_file = "a".into()),
            ["admin.tls_client_ca_file"]
        );
        let everywhere = |c: &mut Config| {
            c.admin.tls_listen = some;
            c.tls.self_signed = true;
        };
        assert_eq!(broken(everywhere), ["admin.tls_listen"]);
        assert_eq!(
            broken(|c| {
                everywhere(c);
                c.admin.tls_client_ca_file = "a".into();
            }),
            Vec::<&str>::new()
        );
        assert_eq!(
            broken(|c| c.http.proxy_protocol = crate::ProxyProtocol::Required),
            ["http.proxy_protocol"]
        );
    }

    #[test]
    fn doors_left_open_are_spoken_of() {
        let mut config = Config::default();
        config.auth.publish = PublishPolicy::Open;
        assert_eq!(config.warnings().len(), 1);
        config.rtmp.listen = "127.0.0.1:1935".parse().unwrap();
        assert_eq!(config.warnings().len(), 0);
        config.auth.play = PlayPolicy::Token;
        assert_eq!(config.warnings().len(), 1);
        config.auth.jwt.jwks = "http://keys.example/jwks.json".into();
        assert_eq!(config.warnings().len(), 2);
    }
}
