//! [`PerIp`]: a bound on how many of something one address may have.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

/// The part of an IPv6 address that names a network: one subscriber has at least a /64, with more addresses than
/// could ever be counted.
const IPV6_NETWORK: u128 = !0 << 64;

/// What counts as one address: an IPv4 address, or an IPv6 network of 64 bits.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & IPV6_NETWORK).into(),
        v4 => v4,
    }
}

/// A bound on how many places one address may hold. Cloning shares the count. It remembers only addresses that hold
/// something.
#[derive(Debug, Clone, Default)]
pub struct PerIp(Option<Arc<Counts>>);

#[derive(Debug)]
struct Counts {
    most: usize,
    held: DashMap<IpAddr, usize>,
}

/// A place held by an address; free again when dropped.
#[derive(Debug)]
pub struct Place(Option<(Arc<Counts>, IpAddr)>);

impl PerIp {
    /// At most `most` for each address; 0 sets no limit and counts nothing.
    pub fn new(most: usize) -> Self {
        Self((most > 0).then(|| {
            Arc::new(Counts {
                most,
                held: DashMap::new(),
            })
        }))
    }

    /// Takes a place for `ip`; `None` when it holds as many as it may.
    pub fn take(&self, ip: IpAddr) -> Option<Place> {
        self.take_beyond(ip, 0)
    }

    /// The same with `spare` places that `ip` is about to give back.
    pub(crate) fn take_beyond(&self, ip: IpAddr, spare: usize) -> Option<Place> {
        let Some(counts) = &self.0 else {
            return Some(Place(None));
        };
        let network = network(ip);
        let mut held = counts.held.entry(network).or_insert(0);
        if *held >= counts.most.saturating_add(spare) {
            return None;
        }
        *held += 1;
        drop(held);
        Some(Place(Some((counts.clone(), network))))
    }
}

/// Whether both count as one address.
pub(crate) fn is_same(a: IpAddr, b: IpAddr) -> bool {
    network(a) == network(b)
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((counts, network)) = self.0.take() else {
            return;
        };
        if let Entry::Occupied(mut entry) = counts.held.entry(network) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_gets_so_many_places_and_each_back() {
        let bound = PerIp::new(2);
        let first = bound.take(ip("192.0.2.1")).unwrap();
        let _second = bound.take(ip("::ffff:192.0.2.1")).unwrap();
        assert!(bound.take(ip("192.0.2.1")).is_none());
        assert!(bound.take(ip("192.0.2.2")).is_some());
        assert!(bound.take_beyond(ip("192.0.2.1"), 1).is_some());
        drop(first);
        assert!(bound.take(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        let bound = PerIp::new(1);
        let _place = bound.take(ip("2001:db8:1:2::1")).unwrap();
        assert!(bound.take(ip("2001:db8:1:2:ffff::9")).is_none());
        assert!(bound.take(ip("2001:db8:1:3::1")).is_some());
    }

    #[test]
    fn addresses_that_hold_nothing_are_forgotten_and_zero_counts_nothing() {
        let bound = PerIp::new(3);
        drop((bound.take(ip("192.0.2.1")), bound.take(ip("2001:db8::1"))));
        assert!(bound.0.unwrap().held.is_empty());
        let unbounded = PerIp::new(0);
        let places: Vec<_> = (0..100)
            .map(|_| unbounded.take(ip("192.0.2.1")).unwrap())
            .collect();
        assert_eq!(places.len(), 100);
    }
}
