//! Policy for outbound connections of tools.
//!
//! Owns the operator's rules and the check of every address that a name resolves to. A connection
//! goes to an address that was checked, never to a name that could by then resolve to another one.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use noetl_types::{TaskError, TaskErrorKind};
use tokio::net::lookup_host;

/// Outbound connections that the operator allows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum EgressPolicy {
    /// Every address. For machines that run their owner's playbooks.
    #[default]
    Anywhere,
    /// Public addresses, plus those that the rules name.
    Public { allow: Vec<EgressRule> },
}

/// Exception for addresses that are not public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressRule {
    /// Host by name or address, on one port or on all.
    Host {
        /// Host as in the URL, in lower case.
        host: String,
        /// Port; `None` matches any.
        port: Option<u16>,
    },
    /// Range of addresses, or one address.
    Range(IpNet),
}

/// Error for a rule that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a host, host:port, address or address range")]
pub struct EgressRuleError(String);

/// Error for a connection that the policy denies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct EgressDenied {
    host: String,
    address: IpAddr,
}

impl fmt::Display for EgressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address } = self;
        let subject = if *host == address.to_string() {
            format!("'{host}' is")
        } else {
            format!("'{host}' resolves to {address}, which is")
        };
        write!(
            f,
            "{subject} not a public address; the operator can allow it with NOETL_EGRESS_ALLOW"
        )
    }
}

/// Error for a name that yields no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    #[error("'{host}' cannot be resolved: {source}")]
    Unresolved { host: String, source: io::Error },
}

impl EgressError {
    /// Converts the error. Its kind is `unresolved_kind` if the name cannot be resolved.
    pub(crate) fn to_task_error(&self, unresolved_kind: TaskErrorKind) -> TaskError {
        let kind = match self {
            Self::Denied(_) => TaskErrorKind::Auth,
            Self::Unresolved { .. } => unresolved_kind,
        };
        TaskError::new(kind, self.to_string())
    }
}

impl EgressPolicy {
    /// Parses a list of rules, separated by commas or whitespace: `host`, `host:port`, an address,
    /// or a range such as `10.0.0.0/8`. `*` allows everything.
    pub fn parse(text: &str) -> Result<Self, EgressRuleError> {
        let entries = || text.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        if entries().any(|entry| entry == "*") {
            return Ok(Self::Anywhere);
        }
        let allow = entries().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self::Public { allow })
    }

    /// Resolves a host and checks its addresses. If any address of a name is denied, the whole name
    /// is denied, since the connection may use any of them.
    pub async fn resolve_host(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, EgressError> {
        let host_name = bare_host(host);
        let addresses: Vec<SocketAddr> = match host_name.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => lookup_host((host_name, port))
                .await
                .map_err(|source| EgressError::Unresolved { host: host_name.to_owned(), source })?
                .collect(),
        };
        if self.names_host(host_name, port) {
            return Ok(addresses);
        }
        Ok(self.check_addresses(host_name, addresses)?)
    }

    /// Returns the addresses of a name, unless one of them is denied.
    fn check_addresses(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, EgressDenied> {
        for address in &addresses {
            self.check_address(host, address.ip())?;
        }
        Ok(addresses)
    }

    /// True if a rule names this host and port, so that its addresses need no check.
    pub fn names_host(&self, host: &str, port: u16) -> bool {
        let host = bare_host(host);
        match self {
            Self::Anywhere => true,
            Self::Public { allow } => allow.iter().any(|rule| match rule {
                EgressRule::Host { host: name, port: rule_port } => {
                    name.eq_ignore_ascii_case(host)
                        && rule_port.is_none_or(|rule_port| rule_port == port)
                }
                EgressRule::Range(_) => false,
            }),
        }
    }

    /// Checks one address of a host.
    pub fn check_address(&self, host: &str, address: IpAddr) -> Result<(), EgressDenied> {
        let Self::Public { allow } = self else {
            return Ok(());
        };
        let address = address.to_canonical();
        let in_range = allow.iter().any(|rule| match rule {
            EgressRule::Range(range) => range.contains(&address),
            EgressRule::Host { .. } => false,
        });
        if in_range || (is_public(address) && !is_local_address(address)) {
            return Ok(());
        }
        Err(EgressDenied { host: host.to_owned(), address })
    }
}

impl FromStr for EgressRule {
    type Err = EgressRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || EgressRuleError(text.to_owned());
        if let Ok(range) = text
            .parse()
            .or_else(|_| text.parse().map(|address: IpAddr| address.to_canonical().into()))
        {
            return Ok(Self::Range(range));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| invalid())?)),
            None => (text, None),
        };
        let host = bare_host(host);
        if host.is_empty() || host.contains(['@', '/']) {
            return Err(invalid());
        }
        Ok(Self::Host { host: host.to_ascii_lowercase(), port })
    }
}

/// Returns a host without the brackets that an IPv6 address has in a URL.
pub(crate) fn bare_host(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// True if an address is on the public internet.
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
    // Translation prefixes reach the IPv4 address that they embed. A local-use prefix embeds it at
    // a position that depends on its network.
    match (first, second) {
        (0x64, 0xff9b) => {
            let is_well_known = address.segments()[2..6] == [0; 4];
            return is_well_known && is_public_v4(embedded_ipv4(seventh, eighth));
        }
        (0x2002, _) => return is_public_v4(embedded_ipv4(second, third)),
        _ => {}
    }
    // All allocated addresses are in 2000::/3, which also contains Teredo, ORCHID and
    // documentation.
    let special = first == 0x2001 && (second < 0x200 || second == 0xdb8);
    first & 0xe000 == 0x2000 && !special && first != 0x3fff
}

/// IPv4 address in two groups of an IPv6 address.
fn embedded_ipv4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// True if the address belongs to this machine: only those can be bound. If the machine allows
/// binding to any address, the check is inconclusive and returns false.
fn is_local_address(address: IpAddr) -> bool {
    const UNASSIGNED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let bindable = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    bindable(address) && !bindable(UNASSIGNED)
}

/// Resolver of the HTTP client that returns only checked addresses.
#[derive(Debug)]
pub(crate) struct CheckedResolver(pub(crate) Arc<EgressPolicy>);

impl reqwest::dns::Resolve for CheckedResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let addresses = lookup_host((name.as_str(), 0)).await?.collect::<Vec<_>>();
            let addresses = policy.check_addresses(name.as_str(), addresses)?;
            Ok(Box::new(addresses.into_iter()) as reqwest::dns::Addrs)
        })
    }
}

#[cfg(test)]
mod tests;
