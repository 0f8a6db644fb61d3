//! [`Order`]: the numbers of each stream's events, and which of a publisher's may go to the endpoint when.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;

/// What kind of turn an event waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A question. It goes once every report before it is through; questions do not wait for each other, so that
    /// somebody who asks again and again holds up nobody.
    Ask,
    /// A report. It goes once everything before it is through.
    Report,
}

/// The streams that have sessions the endpoint knows of, or may know of.
///
/// A stream's numbers begin at a time in microseconds and grow by one with each event: they rise over a restart too, as
/// long as a stream has fewer than a million events a second.
#[derive(Debug, Default)]
pub struct Order {
    streams: HashMap<Arc<str>, Entry>,
}

#[derive(Debug)]
struct Entry {
    next: u64,
    sessions: usize,
    /// The publishers' events that are not through.
    open: BTreeMap<u64, Turn>,
    changed: Arc<Notify>,
}

impl Order {
    /// Notes a session of `stream`, at `time_us` (microseconds since 1970). [`Order::leave`] ends it.
    pub fn enter(&mut self, stream: &Arc<str>, time_us: u64) {
        let entry = self.streams.entry(stream.clone()).or_insert_with(|| Entry {
            next: time_us,
            sessions: 0,
            open: BTreeMap::new(),
            changed: Arc::default(),
        });
        entry.sessions += 1;
    }

    /// Ends a session; a stream without any is forgotten.
    pub fn leave(&mut self, stream: &str) {
        if let Some(entry) = self.streams.get_mut(stream) {
            entry.sessions -= 1;
            if entry.sessions == 0 {
                self.streams.remove(stream);
            }
        }
    }

    /// The number of the next event, which stands in no order with others. 0 for a stream without sessions.
    pub fn number(&mut self, stream: &str) -> u64 {
        self.streams.get_mut(stream).map_or(0, |entry| {
            entry.next += 1;
            entry.next - 1
        })
    }

    /// The number of the next event, which goes when its turn comes. [`Order::through`] must follow.
    pub fn queue(&mut self, stream: &str, turn: Turn) -> u64 {
        let number = self.number(stream);
        if let Some(entry) = self.streams.get_mut(stream) {
            entry.open.insert(number, turn);
        }
        number
    }

    /// Turns a queued question into a report: it keeps its number and its place.
    pub fn report_instead(&mut self, stream: &str, number: u64) {
        if let Some(turn) = self
            .streams
            .get_mut(stream)
            .and_then(|entry| entry.open.get_mut(&number))
        {
            *turn = Turn::Report;
        }
    }

    /// Whether the event may go now; if not, what tells of a change.
    pub fn wait_for(&self, stream: &str, number: u64) -> Option<Arc<Notify>> {
        let entry = self.streams.get(stream)?;
        let own = entry.open.get(&number)?;
        let mut before = entry.open.range(..number);
        let waits = match own {
            Turn::Ask => before.any(|(_, turn)| *turn == Turn::Report),
            Turn::Report => before.next().is_some(),
        };
        waits.then(|| entry.changed.clone())
    }

    /// The event is through, or given up.
    pub fn through(&mut self, stream: &str, number: u64) {
        if let Some(entry) = self.streams.get_mut(stream)
            && entry.open.remove(&number).is_some()
        {
            entry.changed.notify_waiters();
        }
    }

    /// The streams known.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn may_go(order: &Order, number: u64) -> bool {
        order.wait_for("live/a", number).is_none()
    }

    #[test]
    fn questions_go_together_and_a_report_waits_for_all_before_it() {
        let mut order = Order::default();
        let stream: Arc<str> = "live/a".into();
        order.enter(&stream, 100);
        let first = order.queue(&stream, Turn::Ask);
        let second = order.queue(&stream, Turn::Ask);
        let end = order.queue(&stream, Turn::Report);
        let third = order.queue(&stream, Turn::Ask);
        assert_eq!([first, second, end, third], [100, 101, 102, 103]);
        assert!(may_go(&order, first) && may_go(&order, second));
        assert!(!may_go(&order, end) && !may_go(&order, third));
        order.through(&stream, second);
        assert!(!may_go(&order, end));
        order.through(&stream, first);
        assert!(may_go(&order, end) && !may_go(&order, third));
        order.through(&stream, end);
        assert!(may_go(&order, third));
    }

    #[test]
    fn an_unanswered_question_becomes_a_report_in_its_place() {
        let mut order = Order::default();
        let stream: Arc<str> = "live/a".into();
        order.enter(&stream, 0);
        let question = order.queue(&stream, Turn::Ask);
        let later = order.queue(&stream, Turn::Ask);
        assert!(may_go(&order, later));
        order.report_instead(&stream, question);
        assert!(may_go(&order, question) && !may_go(&order, later));
    }

    #[test]
    fn a_stream_without_sessions_is_forgotten_and_its_numbers_go_on_rising() {
        let mut order = Order::default();
        let stream: Arc<str> = "live/a".into();
        order.enter(&stream, 100);
        order.enter(&stream, 101);
        assert_eq!(order.number(&stream), 100);
        order.leave(&stream);
        assert_eq!((order.len(), order.number(&stream)), (1, 101));
        order.leave(&stream);
        assert!(order.is_empty());
        order.enter(&stream, 5000);
        assert_eq!(order.number(&stream), 5000);
    }

    proptest! {
        /// Whatever is queued and whichever of those that may go is through next, reports go in the order of their
        /// numbers, after every question before them and before every question after them, and nothing is stuck.
        #[test]
        fn reports_stand_in_order_with_everything(turns in proptest::collection::vec(any::<bool>(), 1..40), picks in any::<u64>()) {
            let mut order = Order::default();
            let stream: Arc<str> = "live/a".into();
            order.enter(&stream, 0);
            let mut open: Vec<(u64, Turn)> = turns
                .iter()
                .map(|asks| if *asks { Turn::Ask } else { Turn::Report })
                .map(|turn| (order.queue(&stream, turn), turn))
                .collect();
            let mut picks = picks;
            while !open.is_empty() {
                let ready: Vec<_> = (0..open.len()).filter(|at| may_go(&order, open[*at].0)).collect();
                prop_assert!(!ready.is_empty(), "stuck");
                picks = picks.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = ready[usize::try_from(picks >> 33).unwrap() % ready.len()];
                let (number, turn) = open.remove(at);
                let clash = open.iter().any(|(other, of)| {
                    *other < number && (turn == Turn::Report || *of == Turn::Report)
                });
                prop_assert!(!clash, "{number} overtook a report, or was a report that overtook");
                order.through(&stream, number);
            }
        }
    }
}
