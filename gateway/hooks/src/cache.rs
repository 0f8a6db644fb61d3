//! [`DecisionCache`]: answers that are good for a while, so that the endpoint is not asked the same again and again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::answer::Verdict;
use crate::event::Guest;
use crate::signature::hmac;

/// What a question is known by: a code under a key of the process's own, since the question may hold secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey([u8; 32]);

impl CacheKey {
    /// The key of a question. The same question from another address is another one.
    pub fn of(secret: &[u8], guest: &Guest) -> Self {
        let mut texts = vec![
            guest.kind.label(),
            guest.protocol,
            &guest.app,
            guest.stream.as_deref().unwrap_or(""),
        ];
        for (name, value) in &guest.params {
            texts.extend([name.as_str(), value]);
        }
        let peer = guest.peer.to_canonical().to_string();
        texts.push(&peer);
        // Each text goes with its length, so that no two lists of texts make the same bytes.
        let lengths: Vec<_> = texts.iter().map(|text| text.len().to_be_bytes()).collect();
        let parts = lengths
            .iter()
            .zip(&texts)
            .flat_map(|(length, text)| [&length[..], text.as_bytes()]);
        Self(hmac(secret, parts))
    }
}

/// Answers, each good for the same time, the oldest forgotten first.
#[derive(Debug)]
pub struct DecisionCache {
    lifetime: Duration,
    most: usize,
    answers: HashMap<CacheKey, (Verdict, Duration)>,
    /// In the order of their ends.
    ends: VecDeque<(CacheKey, Duration)>,
}

impl DecisionCache {
    /// At most `most` answers, each good for `lifetime`; none if either is 0.
    pub fn new(lifetime: Duration, most: usize) -> Self {
        Self {
            lifetime,
            most: if lifetime.is_zero() { 0 } else { most },
            answers: HashMap::new(),
            ends: VecDeque::new(),
        }
    }

    /// Whether it keeps anything at all.
    pub fn is_used(&self) -> bool {
        self.most > 0
    }

    /// The answer that is good at `now`, a time since some fixed moment.
    pub fn get(&mut self, key: &CacheKey, now: Duration) -> Option<Verdict> {
        self.forget_old(now);
        self.answers.get(key).map(|(verdict, _)| verdict.clone())
    }

    /// Keeps an answer given at `now`, which is not before any `now` given earlier.
    pub fn put(&mut self, key: CacheKey, verdict: Verdict, now: Duration) {
        if !self.is_used() {
            return;
        }
        self.forget_old(now);
        let end = now + self.lifetime;
        let older = self.answers.insert(key, (verdict, end));
        if older.is_none_or(|(_, older)| older != end) {
            self.ends.push_back((key, end));
        }
        while self.ends.len() > self.most {
            self.forget_first();
        }
    }

    fn forget_old(&mut self, now: Duration) {
        while self.ends.front().is_some_and(|(_, end)| *end <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((key, end)) = self.ends.pop_front()
            // A newer answer to the same question has an end of its own.
            && self.answers.get(&key).is_some_and(|(_, own)| *own == end)
        {
            self.answers.remove(&key);
        }
    }

    /// The answers kept.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use proptest::prelude::*;

    fn guest(stream: &str, params: &[(&str, &str)], peer: [u8; 4]) -> Guest {
        Guest {
            kind: EventKind::Play,
            protocol: "flv",
            peer: peer.into(),
            app: "live".into(),
            stream: Some(stream.into()),
            params: params
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
        }
    }

    fn key(number: u8) -> CacheKey {
        CacheKey([number; 32])
    }

    const S: fn(u64) -> Duration = Duration::from_secs;
    const REFUSED: Verdict = Verdict::Refuse(None);

    #[test]
    fn whatever_differs_makes_another_question_and_no_secret_is_in_its_key() {
        let asked = guest("live/a", &[("key", "hunter2")], [192, 0, 2, 1]);
        let keys = [
            CacheKey::of(b"own", &asked),
            CacheKey::of(b"other", &asked),
            CacheKey::of(b"own", &guest("live/b", &[("key", "hunter2")], [192, 0, 2, 1])),
            CacheKey::of(b"own", &guest("live/a", &[("key", "hunter3")], [192, 0, 2, 1])),
            CacheKey::of(b"own", &guest("live/a", &[("keyh", "unter2")], [192, 0, 2, 1])),
            CacheKey::of(b"own", &guest("live/a", &[("key", "hunter2")], [192, 0, 2, 2])),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
        assert_eq!(CacheKey::of(b"own", &asked), keys[0]);
    }

    #[test]
    fn an_answer_is_good_for_its_time() {
        let mut cache = DecisionCache::new(S(10), 4);
        cache.put(key(1), REFUSED, S(0));
        assert_eq!(cache.get(&key(1), S(9)), Some(REFUSED));
        assert_eq!(cache.get(&key(1), S(10)), None);
        assert!(cache.is_empty());
    }

    #[test]
    fn a_newer_answer_outlives_the_older() {
        let mut cache = DecisionCache::new(S(10), 4);
        cache.put(key(1), REFUSED, S(0));
        let allowed = Verdict::Allow(crate::Terms::default());
        cache.put(key(1), allowed.clone(), S(5));
        assert_eq!(cache.get(&key(1), S(12)), Some(allowed));
        assert_eq!(cache.get(&key(1), S(15)), None);
    }

    #[test]
    fn without_a_time_nothing_is_kept() {
        let mut cache = DecisionCache::new(S(0), 4);
        cache.put(key(1), REFUSED, S(0));
        assert!(cache.get(&key(1), S(0)).is_none() && !cache.is_used());
    }

    proptest! {
        #[test]
        fn it_never_holds_more_than_its_bound_nor_anything_old(steps in proptest::collection::vec((0_u8..12, 0_u64..4), 0..200)) {
            let mut cache = DecisionCache::new(S(10), 5);
            let mut now = 0;
            let mut newest = std::collections::HashMap::new();
            for (number, pause) in steps {
                now += pause;
                if let Some(at) = newest.get(&number) {
                    let found = cache.get(&key(number), S(now)).is_some();
                    prop_assert!(!found || now < at + 10);
                }
                cache.put(key(number), REFUSED, S(now));
                newest.insert(number, now);
                prop_assert!(cache.len() <= 5 && cache.ends.len() <= 5);
                prop_assert!(cache.get(&key(number), S(now)).is_some());
            }
        }
    }
}
