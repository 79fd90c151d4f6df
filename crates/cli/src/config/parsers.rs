//! Parsers of setting values. Errors describe the accepted values.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use noetl_store::TlsVerification;
use noetl_tools::egress::EgressPolicy;
use noetl_tools::sandbox::SandboxMode;
use noetl_types::{ByteSize, MachineId, TenantId};
use tracing_subscriber::EnvFilter;

use super::setting::ParseFault;
use super::{LogFormat, StoreChoice};

/// Parses a number from `MIN` to `MAX`.
pub(super) fn parse_number<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, ParseFault> {
    text.parse()
        .ok()
        .filter(|number| (MIN..=MAX).contains(number))
        .ok_or_else(|| format!("must be a number from {MIN} to {MAX}"))
}

/// Parses a size from `MIN` KiB to `MAX` KiB.
pub(super) fn parse_size<const MIN: u64, const MAX: u64>(
    text: &str,
) -> Result<ByteSize, ParseFault> {
    let (min, max) = (ByteSize::from_kib(MIN), ByteSize::from_kib(MAX));
    ByteSize::parse(text)
        .ok()
        .filter(|size| (min..=max).contains(size))
        .ok_or_else(|| format!("must be a size from {min} to {max}, or a number of bytes"))
}

/// Parses a type whose errors describe the accepted values.
pub(super) fn parse_from_str<T: FromStr<Err: Display>>(text: &str) -> Result<T, ParseFault> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(super) fn parse_port(text: &str) -> Result<u16, ParseFault> {
    text.parse().map_err(|_| "must be a number from 0 to 65535".to_owned())
}

pub(super) fn parse_bool(text: &str) -> Result<bool, ParseFault> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

pub(super) fn parse_text(text: &str) -> Result<String, ParseFault> {
    if text.trim().is_empty() || text.contains(char::is_control) {
        return Err("must be a single line of text".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn parse_ip_address(text: &str) -> Result<IpAddr, ParseFault> {
    if text == "localhost" {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    IpAddr::from_str(bare).map_err(|_| "must be an address such as 127.0.0.1 or 0.0.0.0".to_owned())
}

pub(super) fn parse_socket_address(text: &str) -> Result<SocketAddr, ParseFault> {
    let local = text.strip_prefix("localhost:");
    let text = local.map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    text.parse().map_err(|_| "must be an address and a port such as 127.0.0.1:9090".to_owned())
}

pub(super) fn parse_http_url(text: &str) -> Result<String, ParseFault> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))
        .ok_or_else(|| "must start with http:// or https://".to_owned())?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not contain a user name or a token".to_owned());
    }
    if authority.is_empty() || text.contains(char::is_whitespace) {
        return Err("must contain a host, as in http://localhost:8082".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Parses one or more addresses of NATS servers, separated by commas.
pub(super) fn parse_nats_url(text: &str) -> Result<String, ParseFault> {
    for url in text.split(',').map(str::trim) {
        let rest = url
            .strip_prefix("nats://")
            .or_else(|| url.strip_prefix("tls://"))
            .ok_or_else(|| "must start with nats:// or tls://".to_owned())?;
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        if host.is_empty() || host.starts_with(':') || url.contains(char::is_whitespace) {
            return Err("must contain a host, as in nats://localhost:4222".to_owned());
        }
    }
    Ok(text.to_owned())
}

pub(super) fn parse_path(text: &str) -> Result<PathBuf, ParseFault> {
    parse_text(text).map(PathBuf::from)
}

pub(super) fn parse_store(text: &str) -> Result<StoreChoice, ParseFault> {
    if let Some(file) = text.strip_prefix("sqlite:") {
        if file.is_empty() {
            return Err("'sqlite:' must be followed by a path".to_owned());
        }
        return Ok(StoreChoice::Sqlite(PathBuf::from(file)));
    }
    match text {
        "memory" => Ok(StoreChoice::Memory),
        "postgres" => Ok(StoreChoice::Postgres),
        _ if text.starts_with("postgres://") || text.starts_with("postgresql://") => {
            Err("must be just 'postgres'; set the address in NOETL_DSN, which is never printed"
                .to_owned())
        }
        _ => Err("must be sqlite:PATH, postgres or memory".to_owned()),
    }
}

/// Parses a SQL identifier that needs no quotes.
pub(super) fn parse_identifier(text: &str) -> Result<String, ParseFault> {
    let mut chars = text.chars();
    let has_valid_start =
        chars.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_');
    let is_valid = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_');
    if has_valid_start && chars.all(is_valid) && text.len() <= 63 {
        return Ok(text.to_owned());
    }
    Err("must contain only lower case letters, digits and _, at most 63".to_owned())
}

pub(super) fn parse_machine_id(text: &str) -> Result<MachineId, ParseFault> {
    text.parse()
        .ok()
        .and_then(|number: u16| MachineId::new(number).ok())
        .ok_or_else(|| "must be a number from 0 to 1023".to_owned())
}

pub(super) fn parse_egress_policy(text: &str) -> Result<EgressPolicy, ParseFault> {
    EgressPolicy::parse(text).map_err(|error| error.to_string())
}

pub(super) fn parse_ssl_mode(text: &str) -> Result<TlsVerification, ParseFault> {
    TlsVerification::parse_sslmode(text)
        .map_err(|_| "must be disable, prefer, require, verify-ca or verify-full".to_owned())
}

/// Parses absolute paths of directories, separated by commas.
pub(super) fn parse_directories(text: &str) -> Result<Vec<PathBuf>, ParseFault> {
    let directory = |text: &str| {
        let path = PathBuf::from(text.trim());
        if path.is_absolute() { Ok(path) } else { Err(format!("'{text}' is not an absolute path")) }
    };
    text.split(',').map(directory).collect()
}

/// Parses named URLs. URLs can contain keys, so no error message contains one.
pub(super) fn parse_named_urls(text: &str) -> Result<BTreeMap<String, String>, ParseFault> {
    let mut urls = BTreeMap::new();
    for item in text.split(',') {
        let (name, url) = item
            .split_once('=')
            .map(|(name, url)| (name.trim(), url.trim()))
            .filter(|(name, _)| is_server_name(name))
            .ok_or_else(|| "each item must have the form NAME=URL".to_owned())?;
        parse_http_url(url).map_err(|fault| format!("'{name}': {fault}"))?;
        if urls.insert(name.to_owned(), url.to_owned()).is_some() {
            return Err(format!("'{name}' is given twice"));
        }
    }
    Ok(urls)
}

/// Parses the weights of tenants.
pub(super) fn parse_tenant_weights(text: &str) -> Result<BTreeMap<TenantId, u32>, ParseFault> {
    let mut weights = BTreeMap::new();
    for item in text.split(',') {
        let (name, weight) =
            item.split_once('=').ok_or("each item must have the form TENANT=WEIGHT")?;
        let tenant_id = TenantId::new(name.trim()).map_err(|error| error.to_string())?;
        let weight = parse_number::<1, 1_000>(weight.trim())?;
        if weights.insert(tenant_id, weight).is_some() {
            return Err(format!("'{}' is given twice", name.trim()));
        }
    }
    Ok(weights)
}

/// True for letters, digits, `-`, `_` and `.`, so that no URL is taken for a name.
fn is_server_name(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_valid)
}

/// Parses names of container images. A final `*` matches any suffix.
pub(super) fn parse_images(text: &str) -> Result<Vec<String>, ParseFault> {
    let image = |text: &str| {
        let text = text.trim();
        let start = text.strip_suffix('*').unwrap_or(text);
        if text.is_empty() || start.contains('*') || text.contains(char::is_whitespace) {
            return Err(format!("'{text}' is not an image name; * is allowed only at the end"));
        }
        Ok(text.to_owned())
    };
    text.split(',').map(image).collect()
}

pub(super) fn parse_sandbox_mode(text: &str) -> Result<SandboxMode, ParseFault> {
    SandboxMode::parse(text).ok_or_else(|| "must be off, best_effort or strict".to_owned())
}

/// Parses the user of tasks: an id, or `None` for the user of the worker.
pub(super) fn parse_task_user(text: &str) -> Result<Option<u32>, ParseFault> {
    match text.parse() {
        _ if text == "worker" => Ok(None),
        Ok(user) if user != 0 => Ok(Some(user)),
        Ok(_) | Err(_) => Err("must be the id of a user other than root, or worker".to_owned()),
    }
}

/// Parses a log filter. Returned as text, since the filter is built where it is used.
pub(super) fn parse_log_filter(text: &str) -> Result<String, ParseFault> {
    let filter = EnvFilter::builder().parse(text);
    filter.map(|_| text.to_owned()).map_err(|error| {
        format!("must be a level or a filter such as 'info,noetl_server=debug' ({error})")
    })
}

pub(super) fn parse_log_format(text: &str) -> Result<LogFormat, ParseFault> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("must be auto, text or json".to_owned()),
    }
}

#[cfg(test)]
mod tests;
