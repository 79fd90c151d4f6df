//! PostgreSQL connection strings, as URLs and as `key=value` pairs.
//!
//! The driver parses them, except the keys about certificates: it does not support all their
//! values, so these are extracted first.

use tokio_postgres::Config;

use crate::TlsError;

#[derive(Debug)]
pub struct PostgresDsn {
    /// Host, database, user and password.
    pub login: Config,
    pub ssl_mode: Option<String>,
    pub root_cert: Option<String>,
}

impl PostgresDsn {
    /// Parses a connection string. An empty string has no settings.
    pub fn parse(text: &str) -> Result<Self, TlsError> {
        let mut keys = CertificateKeys::default();
        let driver_dsn = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            keys.extract_from_url(text)
        } else {
            keys.extract_from_pairs(text)
        };
        // The driver's error names an option at most, never its value.
        let login = driver_dsn.parse::<Config>();
        let login = login.map_err(|error| TlsError::Address(error.to_string()))?;
        Ok(Self { login, ssl_mode: keys.mode, root_cert: keys.root })
    }
}

#[derive(Default)]
struct CertificateKeys {
    mode: Option<String>,
    root: Option<String>,
}

impl CertificateKeys {
    /// Stores a key about certificates; false for any other key.
    fn set_key(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            "sslrootcert" => self.root = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    fn extract_from_url(&mut self, url: &str) -> String {
        let Some((head, query)) = url.split_once('?') else {
            return url.to_owned();
        };
        let remaining: Vec<&str> = query
            .split('&')
            .filter(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                !self.set_key(key, &value.replace("%2F", "/").replace("%2f", "/"))
            })
            .collect();
        if remaining.is_empty() {
            head.to_owned()
        } else {
            format!("{head}?{}", remaining.join("&"))
        }
    }

    fn extract_from_pairs(&mut self, text: &str) -> String {
        let mut remaining = String::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let length = pair_length(rest);
            let (pair, after) = rest.split_at(length);
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.trim().trim_matches('\'');
            if !self.set_key(key.trim(), value) {
                remaining.push_str(pair);
                remaining.push(' ');
            }
            rest = after.trim_start();
        }
        remaining
    }
}

/// Returns the length of the first `key = 'value'` pair. A backslash escapes the next character.
fn pair_length(text: &str) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    // The value starts after the equals sign and surrounding blanks.
    let mut has_started = false;
    let equals = text.find('=').map_or(text.len(), |position| position + 1);
    for (position, c) in text.char_indices().skip_while(|(position, _)| *position < equals) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted && has_started => return position,
            _ => {}
        }
        has_started |= !c.is_whitespace();
    }
    text.len()
}

#[cfg(test)]
mod tests;
