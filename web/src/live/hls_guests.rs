//! [`HlsGuests`]: the HLS sessions whose beginning and end somebody wants to know.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::Mutex;
use spillway_access::Ticket;
use spillway_hub::EndReason;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::access::{Lease, Visit};

/// The most sessions remembered, about 200 bytes each; those beyond it are asked about again with each playlist.
const MOST: usize = 100_000;

/// How often it is looked for those that are gone.
const SWEEP: Duration = Duration::from_millis(500);

/// HLS has no connection that ends: a session is over when it asked for nothing for a while, or its time is over.
#[derive(Debug)]
pub struct HlsGuests {
    idle: Duration,
    hasher: RandomState,
    guests: Mutex<Guests>,
}

#[derive(Default)]
struct Guests {
    by_number: HashMap<u64, Guest>,
    /// Who came without a ticket, by what it came with.
    by_question: HashMap<u64, u64>,
}

struct Guest {
    ticket: Ticket,
    question: u64,
    lease: Option<Box<dyn Lease>>,
    seen: Instant,
    ends: Instant,
}

impl std::fmt::Debug for Guests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guests")
            .field("count", &self.by_number.len())
            .finish()
    }
}

impl HlsGuests {
    /// Sessions that ask for nothing for `idle` are over.
    pub fn new(idle: Duration) -> Self {
        Self {
            idle,
            hasher: RandomState::new(),
            guests: Mutex::default(),
        }
    }

    /// Remembers a new session, which lasts `lifetime` at most.
    pub(super) fn came(
        &self,
        visit: &Visit,
        ticket: Ticket,
        lifetime: Duration,
        lease: Option<Box<dyn Lease>>,
    ) {
        let question = self.question(visit);
        let now = Instant::now();
        let mut guests = self.guests.lock();
        if guests.by_number.len() >= MOST {
            return;
        }
        guests.by_question.insert(question, ticket.number);
        let guest = Guest {
            ticket,
            question,
            lease,
            seen: now,
            ends: now + lifetime,
        };
        guests.by_number.insert(ticket.number, guest);
    }

    /// Notes a request of a session. `false` if it is not known, or no longer.
    pub(super) fn asks(&self, ticket: Ticket) -> bool {
        let mut guests = self.guests.lock();
        let guest = guests.by_number.get_mut(&ticket.number);
        guest.map(|guest| guest.seen = Instant::now()).is_some()
    }

    /// The ticket of whoever came last with the same words from the same address for the same stream, and is still there.
    pub(super) fn returns(&self, visit: &Visit) -> Option<Ticket> {
        let question = self.question(visit);
        let mut guests = self.guests.lock();
        let number = *guests.by_question.get(&question)?;
        let guest = guests.by_number.get_mut(&number)?;
        guest.seen = Instant::now();
        Some(guest.ticket)
    }

    /// Under a key of the process's own, since the words may be secrets.
    fn question(&self, visit: &Visit) -> u64 {
        self.hasher.hash_one((&visit.stream, visit.ip(), &visit.params))
    }

    /// Lets go of those that are gone until `shutdown`, and then of all.
    pub async fn watch(&self, shutdown: CancellationToken) {
        let mut round = interval(SWEEP);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                _ = round.tick() => self.sweep(Instant::now()),
            }
        }
        let all = std::mem::take(&mut *self.guests.lock());
        for guest in all.by_number.into_values() {
            guest.leaves(EndReason::Shutdown);
        }
    }

    fn sweep(&self, now: Instant) {
        let gone: Vec<Guest> = {
            let mut guests = self.guests.lock();
            let Guests {
                by_number,
                by_question,
            } = &mut *guests;
            let gone = by_number.extract_if(|_, guest| guest.is_over(now, self.idle));
            let gone: Vec<Guest> = gone.map(|(_, guest)| guest).collect();
            for guest in &gone {
                if by_question.get(&guest.question) == Some(&guest.ticket.number) {
                    by_question.remove(&guest.question);
                }
            }
            gone
        };
        for guest in gone {
            let reason = if guest.ends <= now {
                EndReason::Expired
            } else {
                EndReason::Client
            };
            guest.leaves(reason);
        }
    }
}

impl Guest {
    fn is_over(&self, now: Instant, idle: Duration) -> bool {
        self.ends <= now || self.seen + idle <= now
    }

    fn leaves(self, reason: EndReason) {
        if let Some(lease) = self.lease {
            lease.ends(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use spillway_access::{Action, Params};
    use spillway_hub::{Protocol, SessionInfo, StreamKey};

    use super::*;

    const IDLE: Duration = Duration::from_secs(10);
    const LONG: Duration = Duration::from_secs(3600);

    #[derive(Default)]
    struct Told(Mutex<Vec<EndReason>>);

    impl Lease for Arc<Told> {
        fn ends(&self, reason: EndReason) {
            self.0.lock().push(reason);
        }
    }

    fn visit(query: &str) -> Visit {
        Visit {
            action: Action::Play,
            session: SessionInfo::new(Protocol::Hls, SocketAddr::from(([192, 0, 2, 1], 9))),
            local: false,
            stream: StreamKey::parse("live/a").unwrap(),
            params: Params::of_query(query),
        }
    }

    fn ticket(number: u64) -> Ticket {
        Ticket {
            until: 0,
            number,
            address_bound: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_lasts_as_long_as_it_asks_for_something() {
        let (guests, told) = (HlsGuests::new(IDLE), Arc::new(Told::default()));
        guests.came(&visit("key=1"), ticket(1), LONG, Some(Box::new(told.clone())));
        for _ in 0..4 {
            tokio::time::advance(IDLE / 2).await;
            assert!(guests.asks(ticket(1)));
            guests.sweep(Instant::now());
        }
        assert!(told.0.lock().is_empty());
        tokio::time::advance(IDLE).await;
        guests.sweep(Instant::now());
        assert_eq!(*told.0.lock(), [EndReason::Client]);
        assert!(!guests.asks(ticket(1)) && guests.returns(&visit("key=1")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_with_its_time_and_with_the_process() {
        let (guests, told) = (HlsGuests::new(LONG), Arc::new(Told::default()));
        guests.came(&visit(""), ticket(1), IDLE, Some(Box::new(told.clone())));
        guests.came(&visit(""), ticket(2), LONG, Some(Box::new(told.clone())));
        tokio::time::advance(IDLE).await;
        guests.sweep(Instant::now());
        assert_eq!(*told.0.lock(), [EndReason::Expired]);
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        guests.watch(shutdown).await;
        assert_eq!(*told.0.lock(), [EndReason::Expired, EndReason::Shutdown]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_again_without_a_ticket_is_known_by_what_it_came_with() {
        let guests = HlsGuests::new(IDLE);
        guests.came(&visit("key=1"), ticket(1), LONG, None);
        assert_eq!(guests.returns(&visit("key=1")), Some(ticket(1)));
        assert_eq!(guests.returns(&visit("key=2")), None);
        guests.came(&visit("key=1"), ticket(2), LONG, None);
        assert_eq!(guests.returns(&visit("key=1")), Some(ticket(2)));
        assert!(guests.asks(ticket(1)));
    }
}
