//! [`Event`]: what the endpoint is told, and [`Guest`], whom it is told of.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Serialize, Serializer};

/// What happened, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// A client sent its first RTMP command.
    Connect,
    /// Somebody wants to publish.
    Publish,
    /// A publisher has ended.
    Unpublish,
    /// Somebody wants to play.
    Play,
    /// A viewer has ended.
    Stop,
}

impl EventKind {
    /// All of them, in the order of [`EventKind::index`].
    pub const ALL: [EventKind; 5] = [
        Self::Connect,
        Self::Publish,
        Self::Unpublish,
        Self::Play,
        Self::Stop,
    ];

    /// The word in events and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Publish => "publish",
            Self::Unpublish => "unpublish",
            Self::Play => "play",
            Self::Stop => "stop",
        }
    }

    /// The position in [`EventKind::ALL`].
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|kind| *kind == self).unwrap_or(0)
    }

    /// The event that ends what this one starts.
    pub fn end(self) -> Option<EventKind> {
        match self {
            Self::Publish => Some(Self::Unpublish),
            Self::Play => Some(Self::Stop),
            Self::Connect | Self::Unpublish | Self::Stop => None,
        }
    }
}

/// The most bytes of parameters that are passed on: more than any token has, and a bound for what a queue of events holds.
const MAX_PARAMS_BYTES: usize = 8 << 10;

/// The most characters of an application's name that are passed on; with a stream it was checked before.
const MAX_APP_CHARS: usize = 512;

/// Who wants what. Debug output leaves out what may be a secret.
#[derive(Clone)]
pub struct Guest {
    /// [`EventKind::Connect`], [`EventKind::Publish`] or [`EventKind::Play`].
    pub kind: EventKind,
    /// How it is connected: `rtmp`, `flv`, `ws` or `hls`.
    pub protocol: &'static str,
    /// From where.
    pub peer: IpAddr,
    /// The application of the URL, decoded.
    pub app: String,
    /// The stream as it was asked for, `app/name`, decoded; none for a connect. A publisher's may be a secret.
    pub stream: Option<String>,
    /// The parameters of the URL, decoded; they may be secrets.
    pub params: Vec<(String, String)>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest")
            .field("kind", &self.kind)
            .field("protocol", &self.protocol)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl Guest {
    /// Without the parameters and the part of the application's name that go beyond the bounds.
    pub(crate) fn bounded(mut self) -> Self {
        let mut bytes = 0;
        self.params.retain(|(name, value)| {
            bytes += name.len() + value.len();
            bytes <= MAX_PARAMS_BYTES
        });
        self.app = self.app.chars().take(MAX_APP_CHARS).collect();
        self
    }

    /// The texts that its log lines must not hold: the values of its parameters and, since it may be a key, a
    /// publisher's stream name.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let name = self.stream.as_deref().filter(|_| self.kind == EventKind::Publish);
        let name = name.map(|stream| stream.rsplit_once('/').map_or(stream, |(_, name)| name));
        self.params.iter().map(|(_, value)| value.as_str()).chain(name)
    }
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// Why, in the word of logs and metrics.
    pub reason: &'static str,
    /// How long it lasted, in milliseconds.
    pub duration_ms: u64,
}

/// The numbers that an event carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers<'a> {
    /// The same for every attempt to deliver the event, and for no other event.
    pub id: &'a str,
    /// The same for a start and its end.
    pub session: &'a str,
    /// Grows with each event of the stream; none for a connect.
    pub sequence: Option<u64>,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: u64,
}

/// An event as it is sent: the body of a POST, the same for every attempt.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    id: &'a str,
    event: EventKind,
    /// Whether the answer decides; otherwise it is for information only.
    asks: bool,
    time_ms: u64,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    protocol: &'static str,
    peer: IpAddr,
    app: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    renamed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "first_values")]
    params: Option<&'a [(String, String)]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
}

impl<'a> Event<'a> {
    /// The event that starts what `guest` wants.
    pub fn start(guest: &'a Guest, numbers: Numbers<'a>, asks: bool) -> Self {
        Self {
            id: numbers.id,
            event: guest.kind,
            asks,
            time_ms: numbers.time_ms,
            session: numbers.session,
            sequence: numbers.sequence,
            protocol: guest.protocol,
            peer: guest.peer.to_canonical(),
            app: &guest.app,
            stream: guest.stream.as_deref(),
            renamed: None,
            params: Some(&guest.params),
            reason: None,
            duration_ms: None,
        }
    }

    /// The event that ends it, if it has an end; `renamed` is the name it was given.
    pub fn end(
        guest: &'a Guest,
        numbers: Numbers<'a>,
        renamed: Option<&'a str>,
        ending: Ending,
    ) -> Option<Self> {
        Some(Self {
            event: guest.kind.end()?,
            renamed,
            params: None,
            reason: Some(ending.reason),
            duration_ms: Some(ending.duration_ms),
            ..Self::start(guest, numbers, false)
        })
    }

    /// The JSON text.
    pub fn to_json(&self) -> Vec<u8> {
        // Nothing in it can fail to be written: it has no maps with keys that are not texts.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// As an object: of parameters with the same name the first, which is the one that counts elsewhere too.
fn first_values<S: Serializer>(
    params: &Option<&[(String, String)]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let reversed = params.unwrap_or_default().iter().rev();
    let object: BTreeMap<&str, &str> = reversed
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    serializer.collect_map(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn guest(kind: EventKind) -> Guest {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Guest {
            kind,
            protocol: "rtmp",
            peer: "::ffff:192.0.2.1".parse().unwrap(),
            app: "live".into(),
            stream: Some("live/s3cret".into()),
            params: vec![pair("key", "hunter2"), pair("key", "second")],
        }
    }

    const NUMBERS: Numbers<'_> = Numbers {
        id: "e1",
        session: "x-1",
        sequence: Some(7),
        time_ms: 1000,
    };

    #[test]
    fn a_start_tells_all_that_is_known_and_an_end_no_parameters() {
        let guest = guest(EventKind::Publish);
        let start: serde_json::Value =
            serde_json::from_slice(&Event::start(&guest, NUMBERS, true).to_json()).unwrap();
        let common = json!({
            "id": "e1", "time_ms": 1000, "session": "x-1", "sequence": 7, "protocol": "rtmp", "peer": "192.0.2.1",
            "app": "live", "stream": "live/s3cret",
        });
        let mut wanted = common.clone();
        wanted["event"] = "publish".into();
        wanted["asks"] = true.into();
        wanted["params"] = json!({"key": "hunter2"});
        assert_eq!(start, wanted);
        let ending = Ending {
            reason: "client",
            duration_ms: 5,
        };
        let end = Event::end(&guest, NUMBERS, Some("live/public"), ending).unwrap();
        let end: serde_json::Value = serde_json::from_slice(&end.to_json()).unwrap();
        let mut wanted = common;
        wanted["event"] = "unpublish".into();
        wanted["asks"] = false.into();
        wanted["renamed"] = "live/public".into();
        wanted["reason"] = "client".into();
        wanted["duration_ms"] = 5.into();
        assert_eq!(end, wanted);
    }

    #[test]
    fn a_connect_has_no_end() {
        let ending = Ending {
            reason: "client",
            duration_ms: 5,
        };
        assert!(Event::end(&guest(EventKind::Connect), NUMBERS, None, ending).is_none());
    }

    #[test]
    fn what_is_passed_on_of_a_client_is_bounded() {
        let long = |bytes: usize| "é".repeat(bytes / 2);
        let guest = Guest {
            app: long(100_000),
            params: vec![
                ("a".into(), long(8_000)),
                ("b".into(), long(8_000)),
                ("c".into(), String::new()),
            ],
            ..guest(EventKind::Connect)
        };
        let guest = guest.bounded();
        assert_eq!((guest.app.len(), guest.params.len()), (1024, 1));
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let guest = guest(EventKind::Publish);
        let shown = format!("{guest:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("hunter2"), "{shown}");
        assert_eq!(
            guest.secrets().collect::<Vec<_>>(),
            ["hunter2", "second", "s3cret"]
        );
        let viewer = super::Guest {
            kind: EventKind::Play,
            ..guest
        };
        assert!(!viewer.secrets().any(|secret| secret == "s3cret"));
    }
}
