//! Who may publish: the one place that decides, for every way in.

use std::net::IpAddr;

use spillway_config::PublishPolicy;
use spillway_hub::StreamKey;

/// The URL parameter that carries a publisher's key: `rtmp://HOST/APP/NAME?key=SECRET`.
pub(crate) const KEY_PARAMETER: &str = "key";

/// The rules in force.
#[derive(Debug, Clone)]
pub(crate) struct Auth {
    rules: spillway_config::Auth,
    /// A key of this process's own, for the demo's publisher.
    own_key: Option<String>,
}

impl Auth {
    /// The rules of the configuration, and a key with which this process itself may publish anything.
    pub(crate) fn new(rules: spillway_config::Auth, own_key: Option<String>) -> Self {
        Self { rules, own_key }
    }

    /// Decides on a publisher.
    ///
    /// # Errors
    /// What to tell the publisher: it says what to change and never repeats a secret.
    pub(crate) fn publish(
        &self,
        peer: IpAddr,
        stream: &StreamKey,
        params: &[(String, String)],
    ) -> Result<(), &'static str> {
        let given = params
            .iter()
            .find(|(name, _)| name == KEY_PARAMETER)
            .map(|(_, value)| value.as_str());
        match (self.rules.publish, given) {
            (PublishPolicy::Open, _) => Ok(()),
            (_, Some(secret)) if self.own_key.as_deref() == Some(secret) => Ok(()),
            (_, Some(secret)) if self.rules.is_publish_key(stream.as_str(), secret.as_bytes()) => Ok(()),
            (PublishPolicy::Local, None) if peer.to_canonical().is_loopback() => Ok(()),
            (_, Some(_)) => {
                Err("the publish key is wrong for this stream; check ?key=... at the end of the stream name")
            }
            (_, None) if self.rules.publish_keys.is_empty() => Err(
                "publishing without a key works over loopback (127.0.0.1, localhost) only: set auth.publish_keys on the server and publish with ?key=SECRET, or set auth.publish = \"open\"",
            ),
            (_, None) => {
                Err("this server needs a publish key: add ?key=SECRET to the end of the stream name")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(toml: &str) -> Auth {
        let sets = toml.lines().map(|line| format!("auth.{}", line.trim())).collect();
        let input = spillway_config::LoadInput {
            file: None,
            env: vec![],
            sets,
        };
        Auth::new(
            spillway_config::Config::load(&input).unwrap().auth,
            Some("own-own-own".into()),
        )
    }

    fn try_publish(auth: &Auth, peer: &str, stream: &str, secret: Option<&str>) -> Result<(), &'static str> {
        let params: Vec<_> = secret
            .map(|s| ("key".to_owned(), s.to_owned()))
            .into_iter()
            .collect();
        auth.publish(peer.parse().unwrap(), &StreamKey::parse(stream).unwrap(), &params)
    }

    #[test]
    fn by_default_only_this_machine_publishes_without_a_key() {
        let auth = auth("publish=local");
        for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(try_publish(&auth, loopback, "live/a", None).is_ok());
        }
        let refusal = try_publish(&auth, "192.0.2.1", "live/a", None).unwrap_err();
        assert!(refusal.contains("auth.publish_keys") && refusal.contains("auth.publish = \"open\""));
    }

    #[test]
    fn a_key_opens_the_streams_it_names_and_no_others() {
        let auth = auth(
            r#"publish_keys=[{stream = "live/*", key = "s3cret-s3cret"}, {stream = "tv/one", key = "other-other"}]"#,
        );
        assert!(try_publish(&auth, "192.0.2.1", "live/a", Some("s3cret-s3cret")).is_ok());
        assert!(try_publish(&auth, "192.0.2.1", "tv/one", Some("other-other")).is_ok());
        for (stream, secret) in [
            ("tv/one", "s3cret-s3cret"),
            ("live/a", "other-other"),
            ("live/a", "s3cret-s3cre"),
            ("live/a", ""),
        ] {
            let refusal = try_publish(&auth, "192.0.2.1", stream, Some(secret)).unwrap_err();
            assert!(refusal.contains("wrong") && !refusal.contains("s3cret"));
        }
        assert!(
            try_publish(&auth, "192.0.2.1", "live/a", None)
                .unwrap_err()
                .contains("?key=")
        );
    }

    #[test]
    fn with_keys_required_this_machine_needs_one_too() {
        let auth = auth("publish=keys\npublish_keys=[\"kkkkkkkkkkkk\"]");
        assert!(try_publish(&auth, "127.0.0.1", "live/a", None).is_err());
        assert!(try_publish(&auth, "127.0.0.1", "live/a", Some("kkkkkkkkkkkk")).is_ok());
    }

    #[test]
    fn the_demo_publishes_whatever_the_rules_are() {
        let auth = auth("publish=keys\npublish_keys=[\"kkkkkkkkkkkk\"]");
        assert!(try_publish(&auth, "192.0.2.1", "live/demo", Some("own-own-own")).is_ok());
    }

    #[test]
    fn a_wrong_key_is_refused_even_from_this_machine() {
        let auth = auth("publish_keys=[\"kkkkkkkkkkkk\"]");
        assert!(try_publish(&auth, "127.0.0.1", "live/a", Some("x")).is_err());
    }
}
