use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use proptest::prelude::*;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents};
use serde_json::{Value as Json, json};
use spillway_config::Secret;

use super::*;
use crate::params::Params;

const SECRET: &str = "a-secret-of-32-characters-length";
const NOW: u64 = 1_000_000;

fn rules() -> JwtRules {
    JwtRules {
        secrets: vec![AccessKey::new(StreamPattern::any(), Secret::new(SECRET).unwrap())],
        issuer: None,
        audience: None,
        has_key_set: true,
    }
}

fn claims() -> Json {
    json!({ "exp": NOW + 60, "play": ["live/*"], "publish": "live/own" })
}

fn token(header: &Json, claims: &Json, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let text = format!(
        "{}.{}",
        BASE64.encode(header.to_string()),
        BASE64.encode(claims.to_string())
    );
    let signature = BASE64.encode(sign(text.as_bytes()));
    format!("{text}.{signature}")
}

fn hs256(claims: &Json) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    token(&json!({"alg": "HS256"}), claims, |text| {
        hmac::sign(&key, text).as_ref().to_vec()
    })
}

fn check_from(
    rules: &JwtRules,
    peer: &str,
    action: Action,
    stream: &str,
    token: &str,
    keys: &KeySet,
) -> Result<Grant, JwtError> {
    let request = Request {
        action,
        stream,
        peer: peer.parse().unwrap(),
        local: peer.contains("127.0.0.1") || peer == "::1",
        params: &Params::default(),
        now: NOW,
    };
    rules.check(&request, token, keys)
}

fn play(rules: &JwtRules, claims: &Json) -> Result<Grant, JwtError> {
    check_from(
        rules,
        "192.0.2.1",
        Action::Play,
        "live/a",
        &hs256(claims),
        &KeySet::default(),
    )
}

fn with(name: &str, value: impl Into<Json>) -> Json {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

#[test]
fn a_token_opens_what_its_claims_name_and_nothing_else() {
    let token = hs256(&claims());
    let check =
        |action, stream| check_from(&rules(), "192.0.2.1", action, stream, &token, &KeySet::default());
    assert_eq!(check(Action::Play, "live/a"), Ok(Grant::default()));
    assert_eq!(check(Action::Publish, "live/own"), Ok(Grant::default()));
    assert_eq!(check(Action::Publish, "live/a"), Err(JwtError::NotCovered));
    assert_eq!(check(Action::Play, "tv/a"), Err(JwtError::NotCovered));
    assert_eq!(
        play(&rules(), &json!({ "exp": NOW + 60 })),
        Err(JwtError::NotCovered)
    );
}

#[test]
fn time_counts_with_a_little_leeway() {
    for (name, value, result) in [
        ("exp", NOW - 9, Ok(Grant::default())),
        ("exp", NOW - 10, Err(JwtError::Expired)),
        ("nbf", NOW + 10, Ok(Grant::default())),
        ("nbf", NOW + 11, Err(JwtError::Expired)),
    ] {
        assert_eq!(play(&rules(), &with(name, value)), result, "{name} {value}");
    }
    assert_eq!(
        play(&rules(), &json!({ "play": "*" })),
        Err(JwtError::Bad),
        "no exp"
    );
    assert_eq!(
        play(&rules(), &with("lifetime", 90)).unwrap().lifetime,
        Some(std::time::Duration::from_secs(90))
    );
}

#[test]
fn issuer_and_audience_count_when_configured() {
    let rules = JwtRules {
        issuer: Some("us".into()),
        audience: Some("spillway".into()),
        ..rules()
    };
    let claims = |iss: &str, aud: Json| json!({ "exp": NOW + 60, "play": "*", "iss": iss, "aud": aud });
    assert!(play(&rules, &claims("us", json!("spillway"))).is_ok());
    assert!(play(&rules, &claims("us", json!(["other", "spillway"]))).is_ok());
    assert_eq!(
        play(&rules, &claims("them", json!("spillway"))),
        Err(JwtError::Bad)
    );
    assert_eq!(play(&rules, &claims("us", json!("other"))), Err(JwtError::Bad));
    assert_eq!(
        play(&rules, &json!({ "exp": NOW + 60, "play": "*" })),
        Err(JwtError::Bad)
    );
}

#[test]
fn a_token_for_an_address_or_network_is_good_there_only() {
    for (ip, good) in [
        ("192.0.2.1", true),
        ("192.0.2.0/24", true),
        ("192.0.3.0/24", false),
        ("nonsense", false),
    ] {
        let result = play(&rules(), &with("ip", ip));
        assert_eq!(result.is_ok(), good, "{ip}");
        if let Ok(grant) = result {
            assert!(grant.address_bound);
        }
    }
    let token = hs256(&with("ip", "192.0.2.1"));
    let mapped = check_from(
        &rules(),
        "::ffff:192.0.2.1",
        Action::Play,
        "live/a",
        &token,
        &KeySet::default(),
    );
    assert!(mapped.is_ok());
}

fn rsa() -> (RsaKeyPair, Json) {
    let pair = RsaKeyPair::from_pkcs8(include_bytes!("rsa_test_key.der")).unwrap();
    let public: RsaPublicKeyComponents<Vec<u8>> = pair.public_key().into();
    let jwk = json!({ "kty": "RSA", "kid": "r", "n": BASE64.encode(public.n), "e": BASE64.encode(public.e) });
    (pair, jwk)
}

#[test]
fn rs256_and_eddsa_are_verified_by_the_key_set() {
    let (rsa, rsa_jwk) = rsa();
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let ed = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let ed_jwk =
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": "e", "x": BASE64.encode(ed.public_key().as_ref()) });
    let keys = KeySet::parse(&json!({ "keys": [rsa_jwk, ed_jwk] }).to_string()).unwrap();
    let by_rsa = |text: &[u8]| {
        let mut signature = vec![0; rsa.public().modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature)
            .unwrap();
        signature
    };
    let by_ed = |text: &[u8]| ed.sign(text).as_ref().to_vec();
    let check = |token: &str| check_from(&rules(), "192.0.2.1", Action::Play, "live/a", token, &keys);
    let claims = claims();
    for header in [json!({"alg": "RS256", "kid": "r"}), json!({"alg": "RS256"})] {
        assert!(check(&token(&header, &claims, by_rsa)).is_ok(), "{header}");
    }
    for header in [json!({"alg": "EdDSA", "kid": "e"}), json!({"alg": "EdDSA"})] {
        assert!(check(&token(&header, &claims, by_ed)).is_ok(), "{header}");
    }
    for (header, signed_by_rsa) in [
        (json!({"alg": "RS256", "kid": "e"}), true),
        (json!({"alg": "EdDSA", "kid": "gone"}), false),
        (json!({"alg": "RS256", "kid": "r"}), false),
        (json!({"alg": "ES256", "kid": "e"}), false),
    ] {
        let token = if signed_by_rsa {
            token(&header, &claims, by_rsa)
        } else {
            token(&header, &claims, by_ed)
        };
        assert_eq!(check(&token), Err(JwtError::Bad), "{header}");
    }
    let gone = token(&json!({"alg": "EdDSA", "kid": "gone"}), &claims, by_ed);
    assert!(rules().names_unknown_key(&gone, &keys));
    assert!(!rules().names_unknown_key(&hs256(&claims), &keys));
}

/// The classic mistakes: no algorithm at all, and the public key taken for a secret.
#[test]
fn no_token_chooses_its_own_verification() {
    let (_, jwk) = rsa();
    let public = BASE64.decode(jwk["n"].as_str().unwrap()).unwrap();
    let keys = KeySet::parse(&json!({ "keys": [jwk] }).to_string()).unwrap();
    let rules = JwtRules {
        secrets: vec![],
        ..rules()
    };
    let check = |token: &str| check_from(&rules, "192.0.2.1", Action::Play, "live/a", token, &keys);
    let claims = json!({ "exp": NOW + 60, "play": "*" });
    let unsigned = token(&json!({"alg": "none"}), &claims, |_| vec![]);
    assert_eq!(check(&unsigned), Err(JwtError::Bad));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &public);
    let confused = token(&json!({"alg": "HS256"}), &claims, |text| {
        hmac::sign(&key, text).as_ref().to_vec()
    });
    assert_eq!(check(&confused), Err(JwtError::Bad));
}

#[test]
fn a_secret_for_some_streams_signs_for_no_others() {
    let rules = JwtRules {
        secrets: vec![AccessKey::new(
            "tv/*".parse().unwrap(),
            Secret::new(SECRET).unwrap(),
        )],
        ..rules()
    };
    assert_eq!(
        play(&rules, &json!({ "exp": NOW + 60, "play": "*" })),
        Err(JwtError::Bad)
    );
}

proptest! {
    #[test]
    fn a_token_changed_anywhere_is_no_token(at in 0_usize..200, byte in 0_u8..=255) {
        let mut bytes = hs256(&claims()).into_bytes();
        let at = at % bytes.len();
        let changed = bytes[at] != byte;
        bytes[at] = byte;
        let token = String::from_utf8_lossy(&bytes).into_owned();
        let result = check_from(&rules(), "192.0.2.1", Action::Play, "live/a", &token, &KeySet::default());
        // The last character of a base64 text has spare bits, but decoding is strict about them.
        prop_assert_eq!(result.is_ok(), !changed);
    }

    #[test]
    fn any_text_is_judged_without_harm(text in "\\PC{0,200}") {
        let result = check_from(&rules(), "192.0.2.1", Action::Play, "live/a", &text, &KeySet::default());
        prop_assert_eq!(result, Err(JwtError::Bad));
    }
}
