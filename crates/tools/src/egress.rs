//! Where tools may connect to.
//!
//! Owns the operator's rules and the check of every address that a name stands for. A connection goes
//! to an address that was checked, never to a name that could by then mean another one.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;

use tokio::net::lookup_host;

/// What the operator allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EgressPolicy {
    /// Every address: a machine that runs its owner's playbooks.
    #[default]
    Anywhere,
    /// Public addresses, and what the rules name besides.
    Public {
        /// The exceptions.
        allow: Vec<EgressRule>,
    },
}

/// An exception for addresses that are not public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressRule {
    /// A host by name or address, on one port or on all.
    Host {
        /// As in the URL, in lower case.
        host: String,
        /// The port; `None` is any.
        port: Option<u16>,
    },
    /// A range of addresses.
    Range {
        /// Its first address.
        base: IpAddr,
        /// How many leading bits an address shares with it.
        bits: u8,
    },
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither a host, a host and port, nor a range of addresses")]
pub struct EgressRuleError(String);

/// A connection that the policy forbids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct EgressDenied {
    host: String,
    address: IpAddr,
}

impl fmt::Display for EgressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        let is = if *host == address.to_string() {
            format!("'{host}' is")
        } else {
            format!("'{host}' stands for {address},")
        };
        write!(
            f,
            "{is} not a public address, and the operator's rule for outbound connections \
             (NOETL_EGRESS_ALLOW) does not name it"
        )
    }
}

/// Why a name gives no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The policy forbids it.
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    /// The name cannot be resolved.
    #[error("'{host}' cannot be resolved: {source}")]
    Unresolved {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
}

impl EgressPolicy {
    /// Reads a list of rules, separated by commas or blanks: `host`, `host:port`, an address, or
    /// a range such as `10.0.0.0/8`. A star allows everything.
    pub fn parse(text: &str) -> Result<Self, EgressRuleError> {
        let words = || {
            text.split([',', ' ', '\t', '\n'])
                .filter(|word| !word.is_empty())
        };
        if words().any(|word| word == "*") {
            return Ok(Self::Anywhere);
        }
        let allow = words().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self::Public { allow })
    }

    /// Checks a host and gives the addresses to connect to. If any address of a name is forbidden
    /// then the whole name is: which one a connection takes is a matter of luck.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, EgressError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = match bare.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => lookup_host((bare, port))
                .await
                .map_err(|source| EgressError::Unresolved {
                    host: bare.to_owned(),
                    source,
                })?
                .collect(),
        };
        if self.names(bare, port) {
            return Ok(addresses);
        }
        Ok(self.checked(bare, addresses)?)
    }

    /// The addresses that a name stands for, unless one of them is forbidden.
    fn checked(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, EgressDenied> {
        for address in &addresses {
            self.check(host, address.ip())?;
        }
        Ok(addresses)
    }

    /// Whether a rule names this very host and port, so that its addresses need no check.
    pub fn names(&self, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match self {
            Self::Anywhere => true,
            Self::Public { allow } => allow.iter().any(|rule| match rule {
                EgressRule::Host {
                    host: name,
                    port: on,
                } => name.eq_ignore_ascii_case(host) && on.is_none_or(|on| on == port),
                EgressRule::Range { .. } => false,
            }),
        }
    }

    /// Checks one address of a host.
    pub fn check(&self, host: &str, address: IpAddr) -> Result<(), EgressDenied> {
        let Self::Public { allow } = self else {
            return Ok(());
        };
        let address = address.to_canonical();
        let in_range = allow.iter().any(|rule| match rule {
            EgressRule::Range { base, bits } => covers(*base, *bits, address),
            EgressRule::Host { .. } => false,
        });
        if in_range || (is_public(address) && !is_own(address)) {
            return Ok(());
        }
        Err(EgressDenied {
            host: host.to_owned(),
            address,
        })
    }
}

impl FromStr for EgressRule {
    type Err = EgressRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || EgressRuleError(text.to_owned());
        if let Some((base, bits)) = text.split_once('/') {
            let base: IpAddr = base.parse().map_err(|_| wrong())?;
            let bits = bits.parse().map_err(|_| wrong())?;
            let most = if base.is_ipv4() { 32 } else { 128 };
            return if bits <= most {
                Ok(Self::Range { base, bits })
            } else {
                Err(wrong())
            };
        }
        if let Ok(base) = text.parse::<IpAddr>() {
            let bits = if base.is_ipv4() { 32 } else { 128 };
            return Ok(Self::Range { base, bits });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('@') {
            return Err(wrong());
        }
        Ok(Self::Host {
            host: host.to_ascii_lowercase(),
            port,
        })
    }
}

fn covers(base: IpAddr, bits: u8, address: IpAddr) -> bool {
    fn same_head(left: u128, right: u128, width: u32, bits: u8) -> bool {
        let tail = width - u32::from(bits).min(width);
        left.checked_shr(tail) == right.checked_shr(tail)
    }
    match (base.to_canonical(), address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            same_head(base.to_bits().into(), address.to_bits().into(), 32, bits)
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            same_head(base.to_bits(), address.to_bits(), 128, bits)
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// Whether an address belongs to the internet at large.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !(reserved
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, .., seventh, eighth] = address.segments();
    // Translation prefixes reach the address that they embed; where that of a local one lies is
    // known to its network only.
    match (first, second) {
        (0x64, 0xff9b) => {
            let is_well_known = address.segments()[2..6] == [0; 4];
            return is_well_known && is_public_v4(embedded(seventh, eighth));
        }
        (0x2002, _) => return is_public_v4(embedded(second, third)),
        _ => {}
    }
    // All that is handed out lies in 2000::/3; Teredo, ORCHID and documentation are within it.
    let special = first == 0x2001 && (second < 0x200 || second == 0xdb8);
    first & 0xe000 == 0x2000 && !special && first != 0x3fff
}

/// The address that two groups of another one spell out.
fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// Whether the address is one of this machine: only those can be bound. A machine that lets every
/// address be bound tells nothing that way.
fn is_own(address: IpAddr) -> bool {
    const OF_NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let bindable = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    bindable(address) && !bindable(OF_NOBODY)
}

/// Resolves names for the HTTP client and lets only checked addresses through.
#[derive(Debug)]
pub(crate) struct CheckedNames(pub(crate) Arc<EgressPolicy>);

impl reqwest::dns::Resolve for CheckedNames {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = lookup_host((name.as_str(), 0)).await?.collect::<Vec<_>>();
            let addresses = policy.checked(name.as_str(), addresses)?;
            Ok(Box::new(addresses.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
