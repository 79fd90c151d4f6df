//! How the texts of settings are read. Faults say what would be right.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use noetl_server::http::{CertifiedNames, Origins};
use noetl_store::Trust;
use noetl_tools::egress::EgressPolicy;
use noetl_tools::walls::SandboxMode;
use noetl_types::{ByteSize, MachineId, PoolName, WorkerId};
use tracing_subscriber::EnvFilter;

use super::setting::Fault;
use super::{LogFormat, StoreChoice};

/// A number from `MIN` to `MAX`.
pub(super) fn number<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, Fault> {
    text.parse()
        .ok()
        .filter(|number| (MIN..=MAX).contains(number))
        .ok_or_else(|| format!("it has to be a number from {MIN} to {MAX}"))
}

/// A size from so many KiB to so many.
pub(super) fn size<const MIN: u64, const MAX: u64>(text: &str) -> Result<ByteSize, Fault> {
    let (min, max) = (ByteSize::from_kib(MIN), ByteSize::from_kib(MAX));
    ByteSize::parse(text)
        .ok()
        .filter(|size| (min..=max).contains(size))
        .ok_or_else(|| format!("it has to be a size from {min} to {max}, or a number of bytes"))
}

pub(super) fn port(text: &str) -> Result<u16, Fault> {
    text.parse()
        .map_err(|_| "it has to be a number from 0 to 65535".to_owned())
}

pub(super) fn flag(text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it has to be true or false".to_owned()),
    }
}

pub(super) fn text(text: &str) -> Result<String, Fault> {
    if text.trim().is_empty() || text.contains(char::is_control) {
        return Err("it has to be a text of one line".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn address(text: &str) -> Result<IpAddr, Fault> {
    if text == "localhost" {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    IpAddr::from_str(bare)
        .map_err(|_| "it has to be an address such as 127.0.0.1 or 0.0.0.0".to_owned())
}

pub(super) fn socket(text: &str) -> Result<SocketAddr, Fault> {
    let local = text.strip_prefix("localhost:");
    let text = local.map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse()
        .map_err(|_| "it has to be an address and a port such as 127.0.0.1:9090".to_owned())
}

pub(super) fn url(text: &str) -> Result<String, Fault> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))
        .ok_or_else(|| "it has to begin with http:// or https://".to_owned())?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a user name or a token does not belong into an address".to_owned());
    }
    if authority.is_empty() || text.contains(char::is_whitespace) {
        return Err("it has to name a host, as in http://localhost:8082".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

pub(super) fn certified(text: &str) -> Result<CertifiedNames, Fault> {
    CertifiedNames::read(text)
}

pub(super) fn origins(text: &str) -> Result<Origins, Fault> {
    Origins::read(text)
}

/// The address of a NATS server, or several.
pub(super) fn nats_url(text: &str) -> Result<String, Fault> {
    for one in text.split(',').map(str::trim) {
        let rest = one
            .strip_prefix("nats://")
            .or_else(|| one.strip_prefix("tls://"))
            .ok_or_else(|| "it has to begin with nats:// or tls://".to_owned())?;
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        if host.is_empty() || host.starts_with(':') || one.contains(char::is_whitespace) {
            return Err("it has to name a host, as in nats://localhost:4222".to_owned());
        }
    }
    Ok(text.to_owned())
}

pub(super) fn path(text: &str) -> Result<PathBuf, Fault> {
    self::text(text).map(PathBuf::from)
}

pub(super) fn store(text: &str) -> Result<StoreChoice, Fault> {
    if let Some(file) = text.strip_prefix("sqlite:") {
        if file.is_empty() {
            return Err("a path has to follow 'sqlite:'".to_owned());
        }
        return Ok(StoreChoice::Sqlite(PathBuf::from(file)));
    }
    match text {
        "memory" => Ok(StoreChoice::Memory),
        "postgres" => Ok(StoreChoice::Postgres),
        _ if text.starts_with("postgres://") || text.starts_with("postgresql://") => Err(
            "it has to be just 'postgres'; the address goes into NOETL_DSN, which nobody prints"
                .to_owned(),
        ),
        _ => Err("it has to be sqlite:PATH, postgres or memory".to_owned()),
    }
}

/// A name that SQL takes without quotes.
pub(super) fn identifier(text: &str) -> Result<String, Fault> {
    let mut letters = text.chars();
    let begins = letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase() || first == '_');
    let goes_on = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    if begins && letters.all(goes_on) && text.len() <= 63 {
        return Ok(text.to_owned());
    }
    Err("it has to be lower case letters, digits and _, at most 63".to_owned())
}

pub(super) fn machine_id(text: &str) -> Result<MachineId, Fault> {
    text.parse()
        .ok()
        .and_then(|number: u16| MachineId::new(number).ok())
        .ok_or_else(|| "it has to be a number from 0 to 1023".to_owned())
}

pub(super) fn pool(text: &str) -> Result<PoolName, Fault> {
    PoolName::new(text).map_err(|error| error.to_string())
}

pub(super) fn worker_id(text: &str) -> Result<WorkerId, Fault> {
    WorkerId::new(text).map_err(|error| error.to_string())
}

pub(super) fn egress(text: &str) -> Result<EgressPolicy, Fault> {
    EgressPolicy::parse(text).map_err(|error| error.to_string())
}

pub(super) fn ssl_mode(text: &str) -> Result<Trust, Fault> {
    Trust::read(text)
        .map_err(|_| "it has to be disable, prefer, require, verify-ca or verify-full".to_owned())
}

/// Folders, each by its whole path.
pub(super) fn folders(text: &str) -> Result<Vec<PathBuf>, Fault> {
    let folder = |text: &str| {
        let path = PathBuf::from(text.trim());
        if path.is_absolute() {
            Ok(path)
        } else {
            Err(format!("'{text}' is not a whole path"))
        }
    };
    text.split(',').map(folder).collect()
}

/// Addresses of servers by their names. There may be keys in them, so no fault tells one.
pub(super) fn named_urls(text: &str) -> Result<BTreeMap<String, String>, Fault> {
    let mut named = BTreeMap::new();
    for item in text.split(',') {
        let (name, address) = item
            .split_once('=')
            .map(|(name, address)| (name.trim(), address.trim()))
            .filter(|(name, _)| is_name(name))
            .ok_or_else(|| "each of them has to be a name, = and an address".to_owned())?;
        url(address).map_err(|fault| format!("of '{name}': {fault}"))?;
        if named.insert(name.to_owned(), address.to_owned()).is_some() {
            return Err(format!("'{name}' is there twice"));
        }
    }
    Ok(named)
}

/// Letters, digits and a few signs: nothing that could be taken for an address.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_letter)
}

/// Images of containers; a star at the end stands for any rest.
pub(super) fn images(text: &str) -> Result<Vec<String>, Fault> {
    let image = |text: &str| {
        let text = text.trim();
        let start = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() || start.contains('*') || text.contains(char::is_whitespace) {
            return Err(format!("'{text}' is no image; a star may stand at the end"));
        }
        Ok(text.to_owned())
    };
    text.split(',').map(image).collect()
}

pub(super) fn sandbox(text: &str) -> Result<SandboxMode, Fault> {
    SandboxMode::parse(text).ok_or_else(|| "it has to be off, best_effort or strict".to_owned())
}

/// A filter of log lines, kept as text: it is made where it is used.
pub(super) fn log_filter(text: &str) -> Result<String, Fault> {
    let read = EnvFilter::builder().parse(text);
    read.map(|_| text.to_owned()).map_err(|error| {
        format!("it has to be a level or a filter such as 'info,noetl_server=debug' ({error})")
    })
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Fault> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("it has to be auto, text or json".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_names_and_addresses() {
        let read = named_urls("a=http://h/mcp, b-2=https://h:8443/x?y=1").unwrap();
        assert_eq!(read["a"], "http://h/mcp");
        assert_eq!(read["b-2"], "https://h:8443/x?y=1");
        for wrong in [
            "",
            "a",
            "=http://h",
            "a=h",
            "a b=http://h",
            "a=http://h,a=http://i",
            "a=http://h,",
        ] {
            assert!(named_urls(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn images_may_end_in_a_star() {
        assert_eq!(
            images("alpine:3, r.example.com/*").unwrap(),
            ["alpine:3", "r.example.com/*"]
        );
        assert_eq!(images("*").unwrap(), ["*"]);
        for wrong in ["", "a,", "a*b", "*a", "a b"] {
            assert!(images(wrong).is_err(), "{wrong}");
        }
    }
}
