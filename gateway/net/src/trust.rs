//! [`TrustedProxies`]: whose word on a client's address is taken.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::client::ClientAddr;
use crate::forwarded::{self, ForwardedHeader};

/// The networks of trusted proxies, and the HTTP header they name their clients in.
#[derive(Debug, Clone, Default)]
pub struct TrustedProxies {
    networks: Vec<IpNet>,
    header: ForwardedHeader,
}

impl TrustedProxies {
    /// Trusts the addresses of these networks, which write `header`.
    pub fn new(networks: Vec<IpNet>, header: ForwardedHeader) -> Self {
        Self { networks, header }
    }

    /// Whether the address is a trusted proxy's.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.networks.iter().any(|network| network.contains(&ip))
    }

    /// The client of a connection as far as TCP tells. A trusted proxy is never taken for a client on this machine,
    /// even before it has named its own client.
    pub fn client_of(&self, peer: SocketAddr) -> ClientAddr {
        if self.contains(peer.ip()) {
            ClientAddr::proxied(peer)
        } else {
            ClientAddr::direct(peer)
        }
    }

    /// The header whose values [`TrustedProxies::client_of_request`] wants; `None` when no header may change what is
    /// known of `client`, who is no trusted proxy.
    pub fn header_from(&self, client: ClientAddr) -> Option<&'static str> {
        if self.contains(client.ip()) {
            self.header.name()
        } else {
            None
        }
    }

    /// The client of a request that came from `client`, who may be a trusted proxy: the right-most address in the
    /// header's `values` that is no trusted proxy's. Everything left of it may be made up.
    pub fn client_of_request<'a>(
        &self,
        client: ClientAddr,
        values: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> ClientAddr {
        if !self.contains(client.ip()) {
            return client;
        }
        let mut known = client.address();
        for hop in forwarded::hops_from_the_right(self.header, values) {
            let Some(address) = hop else { break };
            known = address;
            if !self.contains(address.ip()) {
                break;
            }
        }
        ClientAddr::proxied(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(header: ForwardedHeader) -> TrustedProxies {
        let networks = ["10.0.0.0/8", "127.0.0.1/32", "2001:db8:1::/48"];
        TrustedProxies::new(networks.map(|n| n.parse().unwrap()).to_vec(), header)
    }

    fn client(header: ForwardedHeader, peer: &str, values: &[&str]) -> (String, bool) {
        let proxies = proxies(header);
        let found = proxies.client_of_request(
            proxies.client_of(peer.parse().unwrap()),
            values.iter().map(|value| value.as_bytes()),
        );
        (found.to_string(), found.is_proxied())
    }

    #[test]
    fn strangers_are_not_believed() {
        let values = ["203.0.113.5"];
        assert_eq!(
            client(ForwardedHeader::XForwardedFor, "192.0.2.9:7", &values),
            ("192.0.2.9:7".into(), false)
        );
        assert_eq!(
            proxies(ForwardedHeader::XForwardedFor)
                .header_from(ClientAddr::direct("192.0.2.9:7".parse().unwrap())),
            None
        );
    }

    #[test]
    fn the_right_most_untrusted_address_is_the_client() {
        for (values, expected) in [
            (&["203.0.113.5"][..], "203.0.113.5:0"),
            (&["1.1.1.1, 203.0.113.5, 10.1.1.1"], "203.0.113.5:0"),
            (&["1.1.1.1", "203.0.113.5 ,10.1.1.1"], "203.0.113.5:0"),
            (&["203.0.113.5:4711"], "203.0.113.5:4711"),
            (&["2001:db8::5"], "[2001:db8::5]:0"),
            (&["[2001:db8::5]:99"], "[2001:db8::5]:99"),
            (&["10.2.2.2, 10.1.1.1"], "10.2.2.2:0"),
            (&["1.1.1.1, unknown, 10.1.1.1"], "10.1.1.1:0"),
            (&["203.0.113.5,"], "127.0.0.1:7"),
            (&["nonsense"], "127.0.0.1:7"),
            (&[], "127.0.0.1:7"),
        ] {
            let found = client(ForwardedHeader::XForwardedFor, "127.0.0.1:7", values);
            assert_eq!(found, (expected.to_owned(), true), "{values:?}");
        }
    }

    #[test]
    fn the_standard_header_reads_too() {
        for (values, expected) in [
            (&["for=203.0.113.5;proto=https;by=10.1.1.1"][..], "203.0.113.5:0"),
            (&["For=\"[2001:db8::5]:4711\""], "[2001:db8::5]:4711"),
            (
                &["for=1.1.1.1, for=203.0.113.5, for=\"10.1.1.1:8\""],
                "203.0.113.5:0",
            ),
            (&["for=_hidden, for=10.1.1.1"], "10.1.1.1:0"),
            (&["proto=https"], "127.0.0.1:7"),
            (&["for=1.1.1.1, for=\"x"], "127.0.0.1:7"),
        ] {
            let found = client(ForwardedHeader::Forwarded, "127.0.0.1:7", values);
            assert_eq!(found, (expected.to_owned(), true), "{values:?}");
        }
    }

    #[test]
    fn a_header_the_proxies_do_not_write_is_not_read() {
        let found = client(ForwardedHeader::Off, "10.0.0.1:7", &["203.0.113.5"]);
        assert_eq!(found, ("10.0.0.1:7".into(), true));
        let found = client(ForwardedHeader::Forwarded, "10.0.0.1:7", &["203.0.113.5"]);
        assert_eq!(found, ("10.0.0.1:7".into(), true));
    }

    #[test]
    fn mapped_addresses_count_as_what_they_are() {
        assert!(proxies(ForwardedHeader::Off).contains("::ffff:10.0.0.1".parse().unwrap()));
    }
}
