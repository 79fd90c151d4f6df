//! Checks for secrets in plain text.

use crate::diag::{Code, DiagnosticSink};
use crate::template::Template;
use crate::yaml::{NodeValue, YamlNode};

/// Keys whose values are secrets.
const SECRET_KEYS: [&str; 14] = [
    "password", "passwd", "passphrase", "secret", "token", "bearer_token", "access_token",
    "refresh_token", "api_key", "apikey", "client_secret", "private_key", "secret_key",
    "db_password",
];

/// Prefixes of well-known secrets, checked under any key.
const SECRET_PREFIXES: [&str; 8] = [
    "AKIA", "ghp_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "sk_live_", "-----BEGIN PRIVATE KEY",
];

/// Keys that contain documentation instead of configuration.
const DOCUMENTATION_KEYS: [&str; 3] = ["desc", "description", "metadata"];

pub(super) fn check_secrets(sink: &mut DiagnosticSink<'_>, node: &YamlNode) {
    match &node.value {
        NodeValue::Plain(_) => {}
        NodeValue::Text(text) => {
            if SECRET_PREFIXES.iter().any(|prefix| text.starts_with(prefix) && text.len() >= 16) {
                report_secret(sink, node);
            }
        }
        NodeValue::List(items) => items.iter().for_each(|item| check_secrets(sink, item)),
        NodeValue::Map(entries) => {
            for entry in entries {
                if DOCUMENTATION_KEYS.contains(&&*entry.key) {
                    continue;
                }
                // `verify` contains names of credentials, not secrets.
                if &*entry.key == "verify" {
                    continue;
                }
                let secret_key = SECRET_KEYS.contains(&entry.key.to_lowercase().as_str());
                match entry.value.as_text() {
                    Some(text) if secret_key && looks_secret(text) => {
                        report_secret(sink, &entry.value);
                    }
                    Some(_) | None => check_secrets(sink, &entry.value),
                }
            }
        }
    }
}

/// True if the value is a literal that is neither a placeholder nor a name.
fn looks_secret(text: &str) -> bool {
    let placeholder =
        text.starts_with(['<', '$', '*']) || text.contains("://") || text.contains("...");
    let is_name =
        text.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '/' | '.'));
    text.len() >= 6 && !placeholder && !is_name && !Template::has_markers(text)
}

fn report_secret(sink: &mut DiagnosticSink<'_>, node: &YamlNode) {
    let hint = "register it with the credentials API and read it through 'keychain' or 'auth'";
    sink.add_with_hint(Code::NP601, node.span, "looks like a secret in plain text", hint);
}
