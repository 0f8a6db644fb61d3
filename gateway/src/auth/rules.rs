//! From the configuration to the rules.

use spillway_access::{AddressRules, JwtRules, Mode, Policy, Side};
use spillway_config::{Auth, Network, PlayPolicy, PublishPolicy};

/// The rules of the configuration.
pub(super) fn policy(auth: &Auth) -> Policy {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Policy {
        publish: Side {
            mode: match auth.publish {
                PublishPolicy::Open => Mode::Open,
                PublishPolicy::Local => Mode::Local,
                PublishPolicy::Token => Mode::Token,
                PublishPolicy::Hook => Mode::Hook,
                _ => Mode::Keys,
            },
            keys: auth.publish_keys.clone(),
            addresses: addresses(&auth.publish_allow, &auth.publish_deny),
        },
        play: Side {
            mode: match auth.play {
                PlayPolicy::Open => Mode::Open,
                PlayPolicy::Token => Mode::Token,
                PlayPolicy::Hook => Mode::Hook,
                _ => Mode::Keys,
            },
            keys: auth.play_keys.clone(),
            addresses: addresses(&auth.play_allow, &auth.play_deny),
        },
        links: auth.link_keys.clone(),
        jwt: JwtRules {
            secrets: auth.jwt.keys.clone(),
            issuer: text(&auth.jwt.issuer),
            audience: text(&auth.jwt.audience),
            has_key_set: !auth.jwt.jwks.is_empty(),
        },
    }
}

/// The rules of a pair of lists.
pub(crate) fn addresses(allow: &[Network], deny: &[Network]) -> AddressRules {
    let nets = |networks: &[Network]| networks.iter().map(|network| network.get()).collect();
    AddressRules {
        allow: nets(allow),
        deny: nets(deny),
    }
}
