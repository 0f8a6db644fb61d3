//! [`Ledger`]: slows down addresses that guess.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

/// The most addresses remembered: about 100 bytes each. The one noted longest ago is forgotten first.
const MAX_ADDRESSES: usize = 8_192;
/// How long an address is remembered after its last guess, in seconds.
const MEMORY_S: u64 = 600;
/// The longest wait, in seconds.
const LONGEST_WAIT_S: u64 = 60;

/// How patient a [`Ledger`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerOptions {
    /// Wrong guesses of one address that cost nothing yet. Each one beyond doubles the wait, from 1 s to 60 s.
    pub free_failures: u32,
}

/// What each address got wrong lately. IPv6 addresses count by their /64, which is one site's.
#[derive(Debug)]
pub struct Ledger {
    options: LedgerOptions,
    entries: HashMap<IpAddr, Entry>,
    order: VecDeque<IpAddr>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    failures: u32,
    last: u64,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(options: LedgerOptions) -> Self {
        Self {
            options,
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// How many seconds `ip` has to wait before it is listened to again.
    pub fn wait(&self, ip: IpAddr, now: u64) -> Option<u32> {
        let entry = self.entries.get(&site(ip))?;
        let beyond = entry.failures.checked_sub(self.options.free_failures)?;
        let wait = 1_u64.checked_shl(beyond).unwrap_or(u64::MAX).min(LONGEST_WAIT_S);
        let left = (entry.last + wait).saturating_sub(now);
        u32::try_from(left).ok().filter(|left| *left > 0)
    }

    /// Notes a wrong guess.
    pub fn note_failure(&mut self, ip: IpAddr, now: u64) {
        let ip = site(ip);
        if !self.entries.contains_key(&ip) {
            self.make_room(now);
            self.order.push_back(ip);
        }
        let entry = self.entries.entry(ip).or_insert(Entry {
            failures: 0,
            last: now,
        });
        if now.saturating_sub(entry.last) > MEMORY_S {
            entry.failures = 0;
        }
        entry.failures = entry.failures.saturating_add(1);
        entry.last = now;
    }

    /// Addresses remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody guessed lately.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn make_room(&mut self, now: u64) {
        while let Some(oldest) = self.order.front() {
            let over = self
                .entries
                .get(oldest)
                .is_none_or(|entry| now.saturating_sub(entry.last) > MEMORY_S);
            if !over && self.entries.len() < MAX_ADDRESSES {
                return;
            }
            self.entries.remove(oldest);
            self.order.pop_front();
        }
    }
}

/// The address that is counted for `ip`.
fn site(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn ledger() -> Ledger {
        Ledger::new(LedgerOptions { free_failures: 3 })
    }

    #[test]
    fn the_first_slips_cost_nothing_and_each_further_one_doubles_the_wait() {
        let mut ledger = ledger();
        let ip = "192.0.2.1".parse().unwrap();
        let mut waits = Vec::new();
        for _ in 0..12 {
            ledger.note_failure(ip, 100);
            waits.push(ledger.wait(ip, 100).unwrap_or(0));
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(ledger.wait(ip, 159), Some(1));
        assert_eq!(ledger.wait(ip, 160), None);
        assert_eq!(ledger.wait("192.0.2.2".parse().unwrap(), 100), None);
    }

    #[test]
    fn after_ten_quiet_minutes_all_is_forgotten() {
        let mut ledger = ledger();
        let ip = "192.0.2.1".parse().unwrap();
        for _ in 0..9 {
            ledger.note_failure(ip, 0);
        }
        ledger.note_failure(ip, 601);
        assert_eq!(ledger.wait(ip, 601), None);
    }

    #[test]
    fn one_site_of_ipv6_is_one_address() {
        let mut ledger = ledger();
        for host in 0..4 {
            ledger.note_failure(format!("2001:db8::{host}").parse().unwrap(), 0);
        }
        assert!(ledger.wait("2001:db8::ffff".parse().unwrap(), 0).is_some());
        assert!(ledger.wait("2001:db8:0:1::1".parse().unwrap(), 0).is_none());
        assert_eq!(ledger.len(), 1);
    }

    #[test]
    fn the_table_never_grows_beyond_its_bound() {
        let mut ledger = ledger();
        for number in 0..3 * MAX_ADDRESSES as u32 {
            ledger.note_failure(Ipv4Addr::from(number).into(), 0);
            assert!(ledger.len() <= MAX_ADDRESSES && ledger.order.len() <= MAX_ADDRESSES);
        }
        let newest = Ipv4Addr::from(3 * MAX_ADDRESSES as u32 - 1).into();
        for _ in 0..3 {
            ledger.note_failure(newest, 0);
        }
        assert!(ledger.wait(newest, 0).is_some());
        ledger.note_failure("192.0.2.1".parse().unwrap(), 10_000);
        assert_eq!(ledger.len(), 1);
    }
}
