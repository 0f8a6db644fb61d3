//! [`Verdict`]: what the endpoint said, read from its answer.

use std::time::Duration;

use serde::Deserialize;

use crate::failure::Failure;
use crate::text::presentable;

/// What the endpoint decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on, on these terms.
    Allow(Terms),
    /// It may not; why, in words that can be shown to the peer.
    Refuse(Option<String>),
}

/// On what terms somebody is let in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// The stream it gets in place of the one it named: `app/name`, or a name within the same application.
    pub rename: Option<String>,
    /// After what time the session ends.
    pub lifetime: Option<Duration>,
    /// How much a publisher may send, in bits per second.
    pub max_bits_per_second: Option<u64>,
    /// How many viewers the published stream may have.
    pub max_viewers: Option<u32>,
}

/// The body of an answer. A field that is not known is refused: what is misspelt would not be obeyed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    allow: Option<bool>,
    reason: Option<String>,
    rename: Option<String>,
    lifetime_seconds: Option<u32>,
    max_bits_per_second: Option<u64>,
    max_viewers: Option<u32>,
}

/// Reads the answer to an event that asks: 2xx with `{"allow": true, …}` or no body allows, 2xx with `{"allow": false}`,
/// 401 and 403 refuse.
///
/// # Errors
/// [`Failure`] for every other answer.
pub fn verdict(status: u16, body: &[u8]) -> Result<Verdict, Failure> {
    let refuses = matches!(status, 401 | 403);
    if !refuses {
        delivered(status)?;
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(if refuses {
            Verdict::Refuse(None)
        } else {
            Verdict::Allow(Terms::default())
        });
    }
    let answer = match serde_json::from_slice::<Answer>(body) {
        Ok(answer) => answer,
        // Whatever page comes with it, the status says it.
        Err(_) if refuses => return Ok(Verdict::Refuse(None)),
        Err(_) => return Err(Failure::BadAnswer),
    };
    match answer.allow {
        Some(true) if !refuses => answer.terms().map(Verdict::Allow),
        None if !refuses => Err(Failure::BadAnswer),
        _ => Ok(Verdict::Refuse(answer.reason.map(|reason| presentable(&reason)))),
    }
}

/// Whether an event that asks nothing has arrived.
///
/// # Errors
/// [`Failure`] unless the status is 2xx.
pub fn delivered(status: u16) -> Result<(), Failure> {
    match status {
        200..=299 => Ok(()),
        300..=399 => Err(Failure::Redirect),
        // "Ask again later", whoever says it.
        408 | 425 | 429 | 500..=599 => Err(Failure::ServerError),
        _ => Err(Failure::Status),
    }
}

impl Answer {
    fn terms(self) -> Result<Terms, Failure> {
        let zero = self.lifetime_seconds == Some(0) || self.max_bits_per_second == Some(0);
        if zero || self.max_viewers == Some(0) || self.rename.as_deref() == Some("") {
            return Err(Failure::BadAnswer);
        }
        Ok(Terms {
            rename: self.rename,
            lifetime: self
                .lifetime_seconds
                .map(|seconds| Duration::from_secs(seconds.into())),
            max_bits_per_second: self.max_bits_per_second,
            max_viewers: self.max_viewers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn allowing_needs_a_clear_word_or_an_empty_body() {
        let allowed = Ok(Verdict::Allow(Terms::default()));
        for (status, body) in [(200, ""), (204, ""), (201, " \n"), (200, r#"{"allow":true}"#)] {
            assert_eq!(verdict(status, body.as_bytes()), allowed, "{status} {body}");
        }
        for body in [
            "{}",
            "ok",
            "true",
            "[]",
            r#"{"allow":1}"#,
            r#"{"allow":true,"renam":"x"}"#,
            "{\"allow\":true",
        ] {
            assert_eq!(verdict(200, body.as_bytes()), Err(Failure::BadAnswer), "{body}");
        }
    }

    #[test]
    fn terms_are_read_and_a_zero_is_none() {
        let body = br#"{"allow":true,"rename":"public","lifetime_seconds":60,"max_bits_per_second":5000000,"max_viewers":9}"#;
        let terms = Terms {
            rename: Some("public".into()),
            lifetime: Some(Duration::from_secs(60)),
            max_bits_per_second: Some(5_000_000),
            max_viewers: Some(9),
        };
        assert_eq!(verdict(200, body), Ok(Verdict::Allow(terms)));
        for zero in ["lifetime_seconds", "max_bits_per_second", "max_viewers"] {
            let body = format!(r#"{{"allow":true,"{zero}":0}}"#);
            assert_eq!(verdict(200, body.as_bytes()), Err(Failure::BadAnswer));
        }
    }

    #[test]
    fn refusing_goes_by_body_or_status_and_the_reason_can_be_shown() {
        let refused = |reason: &str| Ok(Verdict::Refuse(Some(reason.to_owned())));
        let body = br#"{"allow":false,"reason":"no\r\nmore\u0000 streams"}"#;
        assert_eq!(verdict(200, body), refused("no more streams"));
        assert_eq!(
            verdict(403, br#"{"reason":"paid users only"}"#),
            refused("paid users only")
        );
        for (status, body) in [
            (403, ""),
            (401, "<html>"),
            (403, r#"{"allow":true}"#),
            (200, r#"{"allow":false}"#),
        ] {
            assert_eq!(
                verdict(status, body.as_bytes()),
                Ok(Verdict::Refuse(None)),
                "{status} {body}"
            );
        }
    }

    #[test]
    fn what_is_no_answer_is_a_failure_of_its_kind() {
        for (status, failure) in [
            (302, Failure::Redirect),
            (404, Failure::Status),
            (429, Failure::ServerError),
            (500, Failure::ServerError),
            (199, Failure::Status),
        ] {
            assert_eq!(verdict(status, br#"{"allow":true}"#), Err(failure), "{status}");
            assert_eq!(delivered(status), Err(failure));
        }
        assert_eq!(delivered(204), Ok(()));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_without_harm(status in 0_u16..1000, body in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = verdict(status, &body);
        }
    }
}
