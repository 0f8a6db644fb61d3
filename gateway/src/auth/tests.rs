use std::time::Duration;

use tokio::time::Instant;

use spillway_access::Params;
use spillway_hub::{Protocol, SessionInfo, StreamKey};

use super::*;

fn gate_of(rules: &spillway_config::Auth) -> Result<Gate, KeySetError> {
    Gate::new(
        rules,
        Some("own-own-own".into()),
        Arc::new(LogBudget::new()),
        None,
    )
}

fn gate(toml: &str) -> Gate {
    let input = spillway_config::LoadInput {
        sets: toml.lines().map(|line| format!("auth.{}", line.trim())).collect(),
        ..Default::default()
    };
    gate_of(&spillway_config::Config::load(&input).unwrap().auth).unwrap()
}

async fn ask(gate: &Gate, action: Action, peer: &str, query: &str) -> Result<Pass, Reason> {
    let peer: IpAddr = peer.parse().unwrap();
    let visit = Visit {
        action,
        session: SessionInfo::new(Protocol::Rtmp, (peer, 9).into()),
        local: peer.is_loopback(),
        stream: StreamKey::parse("live/a").unwrap(),
        params: Params::of_query(query),
    };
    gate.decide(&visit).await.map_err(|refusal| refusal.reason)
}

#[tokio::test]
async fn the_demo_publishes_whatever_the_rules_are_and_its_key_plays_nothing() {
    let gate = gate("publish=keys\npublish_keys=[\"kkkkkkkkkkkk\"]\nplay=keys\nplay_keys=[\"pppppppppppp\"]");
    assert!(
        ask(&gate, Action::Publish, "192.0.2.1", "key=own-own-own")
            .await
            .is_ok()
    );
    let played = ask(&gate, Action::Play, "192.0.2.1", "key=own-own-own").await;
    assert_eq!(played.unwrap_err(), Reason::WrongKey);
}

#[tokio::test]
async fn who_guesses_has_to_wait_even_with_the_right_key_and_others_do_not() {
    let gate = gate("publish=keys\npublish_keys=[\"kkkkkkkkkkkk\"]\nfree_failures=2");
    for _ in 0..2 {
        let wrong = ask(&gate, Action::Publish, "192.0.2.1", "key=x").await;
        assert_eq!(wrong.unwrap_err(), Reason::WrongKey);
    }
    let waits = ask(&gate, Action::Publish, "192.0.2.1", "key=kkkkkkkkkkkk").await;
    assert_eq!(waits.unwrap_err(), Reason::TooManyFailures);
    assert!(
        ask(&gate, Action::Publish, "192.0.2.2", "key=kkkkkkkkkkkk")
            .await
            .is_ok()
    );
    assert!(ask(&gate, Action::Play, "192.0.2.1", "").await.is_ok());
    assert_eq!(gate.counters().refused(Action::Publish, Reason::WrongKey), 2);
    assert_eq!(
        gate.counters().refused(Action::Publish, Reason::TooManyFailures),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_set_that_is_not_there_stops_the_start_and_one_that_changes_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let rules = |path: &std::path::Path| {
        let input = spillway_config::LoadInput {
            sets: vec![
                "auth.play=token".into(),
                format!("auth.jwt.jwks={}", path.display()),
            ],
            ..Default::default()
        };
        spillway_config::Config::load(&input).unwrap().auth
    };
    assert!(gate_of(&rules(&path)).is_err());
    let set = |kid: &str| {
        format!(
            r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{kid}","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}}]}}"#
        )
    };
    std::fs::write(&path, set("one")).unwrap();
    let gate = gate_of(&rules(&path)).unwrap();
    std::fs::write(&path, set("two")).unwrap();
    tokio::time::advance(Duration::from_secs(10)).await;
    // {"alg":"EdDSA","kid":"two"} . {} . a signature that is none
    let token = "eyJhbGciOiJFZERTQSIsImtpZCI6InR3byJ9.e30.AAAA";
    let refused = ask(&gate, Action::Play, "192.0.2.1", &format!("token={token}")).await;
    assert_eq!(refused.unwrap_err(), Reason::BadToken);
    assert!(gate.keys.load().has("two"));
    std::fs::write(&path, "nonsense").unwrap();
    for _ in 0..2 {
        let source = gate.key_source.as_ref().unwrap();
        let pause = source.renew(&gate, Some(Instant::now())).await;
        assert_eq!(pause, Duration::from_secs(5));
        assert!(gate.keys.load().has("two"));
    }
    assert_eq!(gate.counters().key_set_reads(), (2, 2));
}
