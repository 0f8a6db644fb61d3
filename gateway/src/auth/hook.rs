//! The hook's part in a decision: who asks becomes a guest, the answer a pass or a refusal.

use spillway_access::{Action, Grant, Reason, Refusal, TICKET_PARAMETER};
use spillway_hooks::{Denied, EventKind, Granted, Guest, Hooks, Terms};
use spillway_hub::{EndReason, PublishTerms, StreamKey};
use spillway_web::{Lease, Pass, Visit};

/// After how many seconds to try again when the endpoint said nothing.
const RETRY_AFTER_S: u32 = 5;

/// A lease whose end the endpoint is told.
pub(super) struct HookLease(spillway_hooks::Lease);

impl Lease for HookLease {
    fn ends(&self, reason: EndReason) {
        self.0.note(reason.label());
    }
}

/// The event that starts what somebody wants to do.
pub(super) fn kind(action: Action) -> EventKind {
    match action {
        Action::Publish => EventKind::Publish,
        Action::Play => EventKind::Play,
    }
}

/// Asks the endpoint.
///
/// # Errors
/// What to tell the peer.
pub(super) async fn ask(hooks: &Hooks, visit: &Visit) -> Result<Pass, Refusal> {
    match hooks.ask(guest(visit)).await {
        Ok(Granted { terms, lease }) => pass(visit, &terms, lease),
        Err(denied) => Err(refusal(denied)),
    }
}

/// Tells the endpoint of somebody who was let in without its word.
pub(super) fn tell(hooks: &Hooks, visit: &Visit) -> Box<dyn Lease> {
    Box::new(HookLease(hooks.tell(guest(visit))))
}

/// What to tell somebody whom the endpoint keeps out.
pub(super) fn refusal(denied: Denied) -> Refusal {
    match denied {
        Denied::Refused(Some(words)) => Refusal::new(Reason::Hook, format!("refused: {words}")),
        Denied::Refused(None) => Refusal::new(Reason::Hook, "refused by this server's owner"),
        Denied::Failed(_) => Refusal {
            retry_after_s: Some(RETRY_AFTER_S),
            ..Refusal::new(
                Reason::HookFailed,
                "the server cannot find out now whether this is allowed; try again in a moment",
            )
        },
    }
}

fn guest(visit: &Visit) -> Guest {
    let params = visit.params.iter().filter(|(name, _)| *name != TICKET_PARAMETER);
    Guest {
        kind: kind(visit.action),
        protocol: visit.session.protocol.label(),
        peer: visit.ip(),
        app: visit.stream.app().to_owned(),
        stream: Some(visit.stream.as_str().to_owned()),
        params: params
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

fn pass(visit: &Visit, terms: &Terms, lease: spillway_hooks::Lease) -> Result<Pass, Refusal> {
    let stream = match terms
        .rename
        .as_deref()
        .map(|name| renamed(&visit.stream, name))
        .transpose()
    {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(session = %visit.session.id, %error, "the hook's answer renames a stream to what is no name");
            lease.end("hook_failed");
            return Err(refusal(Denied::Failed(spillway_hooks::Failure::BadAnswer)));
        }
    };
    Ok(Pass {
        grant: Grant {
            lifetime: terms.lifetime,
            ..Grant::default()
        },
        stream,
        terms: PublishTerms {
            bits_per_second: terms.max_bits_per_second.unwrap_or(0),
            max_viewers: terms.max_viewers.map_or(0, |viewers| viewers as usize),
        },
        lease: Some(Box::new(HookLease(lease))),
    })
}

/// A name alone stays in the application.
fn renamed(asked: &StreamKey, name: &str) -> Result<StreamKey, spillway_hub::KeyError> {
    if name.contains('/') {
        StreamKey::parse(name)
    } else {
        StreamKey::parse(&format!("{}/{name}", asked.app()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_stays_in_its_application_and_a_path_is_a_whole_name() {
        let asked = StreamKey::parse("live/room/s3cret").unwrap();
        let name = |name| renamed(&asked, name).map(|key| key.to_string());
        assert_eq!(name("public").unwrap(), "live/room/public");
        assert_eq!(name("tv/one").unwrap(), "tv/one");
        for bad in ["..", "a/../b", "a\nb", "/x"] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }
}
