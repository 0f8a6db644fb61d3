//! [`AddressRules`]: which addresses are let in at all.

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks that are let in and networks that are not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Only these are let in; none named lets in all.
    pub allow: Vec<IpNet>,
    /// These are not let in, whatever `allow` says.
    pub deny: Vec<IpNet>,
}

impl AddressRules {
    /// Whether there is any rule.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Whether `ip` is let in.
    pub fn lets_in(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let is_in = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&ip));
        !is_in(&self.deny) && (self.allow.is_empty() || is_in(&self.allow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denied_network_is_out_even_inside_an_allowed_one() {
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let rules = AddressRules {
            allow: nets(&["10.0.0.0/8", "2001:db8::/32"]),
            deny: nets(&["10.9.0.0/16"]),
        };
        for (ip, let_in) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.9.2.3", false),
            ("::ffff:10.9.2.3", false),
            ("192.0.2.1", false),
            ("2001:db8::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(rules.lets_in(ip.parse().unwrap()), let_in, "{ip}");
        }
        assert!(AddressRules::default().lets_in("192.0.2.1".parse().unwrap()));
    }
}
