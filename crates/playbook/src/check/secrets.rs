//! Secrets in plain text.

use crate::diag::{Code, Sink};
use crate::template::Template;
use crate::yaml::{Node, NodeValue};

/// Keys whose values are secrets.
const KEYS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "bearer_token",
    "access_token",
    "refresh_token",
    "api_key",
    "apikey",
    "client_secret",
    "private_key",
    "secret_key",
    "db_password",
];

/// Beginnings of well-known secrets, whatever their key.
const SHAPES: [&str; 8] = [
    "AKIA",
    "ghp_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "sk_live_",
    "-----BEGIN PRIVATE KEY",
];

/// Places that are documentation, not configuration.
const PROSE: [&str; 3] = ["desc", "description", "metadata"];

pub(super) fn check(sink: &mut Sink<'_>, node: &Node) {
    match &node.value {
        NodeValue::Plain(_) => {}
        NodeValue::Text(text) => {
            if SHAPES
                .iter()
                .any(|shape| text.starts_with(shape) && text.len() >= 16)
            {
                report(sink, node);
            }
        }
        NodeValue::List(items) => items.iter().for_each(|item| check(sink, item)),
        NodeValue::Map(entries) => {
            for entry in entries {
                if PROSE.contains(&&*entry.key) {
                    continue;
                }
                // What a webhook is verified with is named here, not written out.
                if &*entry.key == "verify" {
                    continue;
                }
                let secret_key = KEYS.contains(&entry.key.to_lowercase().as_str());
                match entry.value.as_text() {
                    Some(text) if secret_key && looks_secret(text) => report(sink, &entry.value),
                    Some(_) | None => check(sink, &entry.value),
                }
            }
        }
    }
}

/// A value that is written out, and is neither a placeholder nor the name of something.
fn looks_secret(text: &str) -> bool {
    let placeholder =
        text.starts_with(['<', '$', '*']) || text.contains("://") || text.contains("...");
    let is_name = text
        .chars()
        .all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '/' | '.'));
    text.len() >= 6 && !placeholder && !is_name && !Template::has_markers(text)
}

fn report(sink: &mut Sink<'_>, node: &Node) {
    let hint = "register it with the credentials API and read it through 'keychain' or 'auth'";
    sink.hinted(
        Code::NP601,
        node.span,
        "looks like a secret in plain text",
        hint,
    );
}
