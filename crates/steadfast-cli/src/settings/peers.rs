//! Peers that are believed: addresses and networks.
//!
//! Decides whether an address is in one of them. An IPv4 address that came as an IPv6 one is the
//! IPv4 address. Source: docs/reference.md, `trusted_peers`; RFC 4632.

use std::fmt;
use std::net::IpAddr;

use super::fault::Wrong;

/// Addresses whose first bits are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// One address, or a network such as `10.0.0.0/8`.
    pub fn parse(text: &str) -> Result<Network, Wrong> {
        let help = "write an address or a network, such as \"10.0.0.7\" or \"10.0.0.0/8\"";
        let not = || {
            Wrong::invalid(
                format!("`{text}` is neither an address nor a network"),
                help,
            )
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| not())?;
        if address.to_canonical() != address {
            let reason = format!("`{text}` is an IPv4 network in IPv6's spelling");
            return Err(Wrong::invalid(
                reason,
                "write the IPv4 network, such as \"10.0.0.0/8\"",
            ));
        }
        let bits = bits_of(address);
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse().ok().filter(|p| *p <= bits).ok_or_else(not)?
            }
            Some(_) => return Err(not()),
        };
        let base = mask(address, prefix);
        if base != address {
            return Err(Wrong::invalid(
                format!("`{text}` has bits set behind its first {prefix}"),
                format!("write \"{base}/{prefix}\" for the network, or \"{address}\" alone"),
            ));
        }
        Ok(Network { address, prefix })
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        bits_of(address) == bits_of(self.address) && mask(address, self.prefix) == self.address
    }

    /// Whether it holds every address of its kind.
    pub fn is_everybody(&self) -> bool {
        self.prefix == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == bits_of(self.address) {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.prefix)
        }
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let keep = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & keep).into())
        }
        IpAddr::V6(v6) => {
            let keep = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & keep).into())
        }
    }
}

/// The peers whose word about a caller counts. Nobody by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedPeers(Vec<Network>);

impl TrustedPeers {
    /// The peers in any of `networks`.
    pub fn new(networks: Vec<Network>) -> TrustedPeers {
        TrustedPeers(networks)
    }

    /// Whether the peer at `address` is believed.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The networks, as configured.
    pub fn networks(&self) -> &[Network] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_that_begin_like_it() {
        let table = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.8", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "192.0.2.1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ];
        for (network, address, inside) in table {
            let network = Network::parse(network).expect("a network");
            let address = address.parse().expect("an address");
            assert_eq!(network.contains(address), inside, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.1/8",
            "::1/129",
            "host",
            "*",
            "10.0.0.0/8/8",
            "10.0.0",
        ] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
        let wrong = Network::parse("10.0.0.1/8").expect_err("bits behind the prefix");
        assert_eq!(
            wrong.next,
            "write \"10.0.0.0/8\" for the network, or \"10.0.0.1\" alone"
        );
    }
}
