use proptest::prelude::*;
use spillway_config::Secret;

use super::*;
use crate::link::Link;
use crate::params::Params;

const NOW: u64 = 1_000_000;
const LINK_SECRET: &str = "link-secret-link-secret";

fn key(pattern: &str, secret: &str) -> AccessKey {
    AccessKey::new(pattern.parse().unwrap(), Secret::new(secret).unwrap())
}

fn policy(mode: Mode) -> Policy {
    let keys = vec![key("live/*", "s3cret-s3cret"), key("tv/one", "other-other")];
    let side = Side {
        mode,
        keys,
        addresses: AddressRules::default(),
    };
    Policy {
        publish: side.clone(),
        play: side,
        links: vec![key("*", LINK_SECRET), key("tv/*", "only-for-tv-streams")],
        jwt: JwtRules::default(),
    }
}

fn decide(policy: &Policy, action: Action, peer: &str, stream: &str, query: &str) -> Decision {
    let params = Params::of_query(query);
    let request = Request {
        action,
        stream,
        peer: peer.parse().unwrap(),
        local: peer.contains("127.0.0.1") || peer == "::1",
        params: &params,
        now: NOW,
    };
    policy.decide(&request, &KeySet::default())
}

fn reason(policy: &Policy, action: Action, peer: &str, stream: &str, query: &str) -> Option<Reason> {
    match decide(policy, action, peer, stream, query) {
        Decision::Refused(refusal) => {
            for secret in ["s3cret", "other", LINK_SECRET] {
                assert!(!refusal.text.contains(secret), "{}", refusal.text);
            }
            Some(refusal.reason)
        }
        Decision::Granted(_) => None,
        Decision::AskHook => panic!("no hook in this test"),
    }
}

const PEER: &str = "192.0.2.1";

#[test]
fn a_key_opens_the_streams_it_names_and_no_others() {
    let policy = policy(Mode::Keys);
    for action in [Action::Publish, Action::Play] {
        let reason = |stream, query| reason(&policy, action, PEER, stream, query);
        assert_eq!(reason("live/a", "key=s3cret-s3cret"), None);
        assert_eq!(reason("tv/one", "key=other-other"), None);
        for (stream, query) in [
            ("tv/one", "key=s3cret-s3cret"),
            ("live/a", "key=other-other"),
            ("live/a", "key=s3cret-s3cre"),
            ("live/a", "key="),
        ] {
            assert_eq!(reason(stream, query), Some(Reason::WrongKey), "{stream} {query}");
        }
        assert_eq!(reason("live/a", ""), Some(Reason::NoCredential));
    }
}

#[test]
fn local_lets_this_machine_in_without_a_key_but_not_with_a_wrong_one() {
    let policy = policy(Mode::Local);
    for loopback in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(reason(&policy, Action::Publish, loopback, "live/a", ""), None);
        let wrong = reason(&policy, Action::Publish, loopback, "live/a", "key=x");
        assert_eq!(wrong, Some(Reason::WrongKey));
    }
    let elsewhere = reason(&policy, Action::Publish, PEER, "live/a", "");
    assert_eq!(elsewhere, Some(Reason::NoCredential));
}

#[test]
fn without_any_key_the_refusal_says_what_to_set() {
    let mut policy = policy(Mode::Local);
    policy.publish.keys.clear();
    let Decision::Refused(refusal) = decide(&policy, Action::Publish, PEER, "live/a", "") else {
        panic!("let in");
    };
    assert!(refusal.text.contains("auth.publish_keys") && refusal.text.contains("auth.publish = \"open\""));
}

#[test]
fn an_address_that_is_not_let_in_is_asked_for_nothing() {
    let mut policy = policy(Mode::Open);
    policy.play.addresses.deny = vec!["192.0.2.0/24".parse().unwrap()];
    assert_eq!(
        reason(&policy, Action::Play, PEER, "live/a", ""),
        Some(Reason::Address)
    );
    assert_eq!(reason(&policy, Action::Publish, PEER, "live/a", ""), None);
    assert_eq!(reason(&policy, Action::Play, "198.51.100.1", "live/a", ""), None);
}

fn link(action: Action, stream: &str, expires: u64, address: Option<&str>) -> String {
    let address = address.map(|ip| ip.parse().unwrap());
    let link = Link {
        action,
        stream,
        expires,
        address,
    };
    link.sign(LINK_SECRET.as_bytes())
}

#[test]
fn a_link_is_good_for_its_stream_and_action_until_it_expires() {
    let policy = policy(Mode::Token);
    let query = link(Action::Play, "live/a", NOW + 1, None);
    assert_eq!(reason(&policy, Action::Play, PEER, "live/a", &query), None);
    for (action, stream) in [
        (Action::Publish, "live/a"),
        (Action::Play, "live/b"),
        (Action::Play, "live/a\n1000001"),
    ] {
        let other = reason(&policy, action, PEER, stream, &query);
        assert_eq!(other, Some(Reason::BadSignature), "{action:?} {stream}");
    }
    let expired = link(Action::Play, "live/a", NOW, None);
    assert_eq!(
        reason(&policy, Action::Play, PEER, "live/a", &expired),
        Some(Reason::Expired)
    );
    let longer = expired.replacen("exp=1000000", "exp=2000000", 1);
    assert_eq!(
        reason(&policy, Action::Play, PEER, "live/a", &longer),
        Some(Reason::BadSignature)
    );
    assert_eq!(
        reason(&policy, Action::Play, PEER, "live/a", "exp=2000000"),
        Some(Reason::NoCredential)
    );
}

#[test]
fn a_link_bound_to_an_address_is_good_there_only_and_cannot_be_unbound() {
    let policy = policy(Mode::Token);
    let query = link(Action::Play, "live/a", NOW + 1, Some(PEER));
    let Decision::Granted(grant) = decide(&policy, Action::Play, "::ffff:192.0.2.1", "live/a", &query) else {
        panic!("refused");
    };
    assert!(grant.address_bound);
    let elsewhere = reason(&policy, Action::Play, "192.0.2.2", "live/a", &query);
    assert_eq!(elsewhere, Some(Reason::BadSignature));
    let unbound = query.replacen("&ip=1", "", 1);
    assert_eq!(
        reason(&policy, Action::Play, PEER, "live/a", &unbound),
        Some(Reason::BadSignature)
    );
}

#[test]
fn a_secret_for_some_streams_signs_links_for_no_others() {
    let policy = policy(Mode::Token);
    let signed = |stream| {
        let link = Link {
            action: Action::Play,
            stream,
            expires: NOW + 1,
            address: None,
        };
        let query = link.sign(b"only-for-tv-streams");
        reason(&policy, Action::Play, PEER, stream, &query)
    };
    assert_eq!(signed("tv/a"), None);
    assert_eq!(signed("live/a"), Some(Reason::BadSignature));
}

proptest! {
    #[test]
    fn any_query_is_judged_without_harm(query in "(exp|sig|key|token|ip|&|=|[0-9a-f]|\\PC){0,60}") {
        for mode in [Mode::Keys, Mode::Token] {
            let decision = decide(&policy(mode), Action::Play, PEER, "live/a", &query);
            prop_assert!(matches!(decision, Decision::Refused(_)));
        }
    }

    #[test]
    fn a_link_changed_anywhere_is_no_link(at in 0_usize..100, byte in b' '..=b'~') {
        let query = link(Action::Play, "live/a", NOW + 1, None);
        let mut changed = query.clone().into_bytes();
        let at = at % changed.len();
        changed[at] = byte;
        let changed = String::from_utf8(changed).unwrap();
        // Hexadecimal digits may be of either case.
        prop_assume!(!changed.eq_ignore_ascii_case(&query));
        prop_assert!(reason(&policy(Mode::Token), Action::Play, PEER, "live/a", &changed).is_some());
    }
}
