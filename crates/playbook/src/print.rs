//! Prints a document as canonical YAML.

use std::fmt::Write as _;

use serde_json::Value;

use crate::model::Document;

/// Prints the document as YAML that parses to the same model.
///
/// Returns `None` for a document that is stored unchecked: its canonical form is its own text.
pub fn to_yaml(document: &Document) -> Option<String> {
    let value = match document {
        Document::Playbook(playbook) => serde_json::to_value(playbook),
        Document::Other(_) => return None,
    };
    let mut text = String::new();
    write_block(&mut text, &value.ok()?, 0);
    Some(text)
}

/// Writes a value that starts on a new line.
fn write_block(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                write_indent(text, indent);
                text.push_str(&scalar_text(key));
                text.push(':');
                write_after_key(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write_indent(text, indent);
                text.push('-');
                write_list_item(text, item, indent);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)
        | Value::Array(_) => {
            write_indent(text, indent);
            text.push_str(&inline_text(value));
            text.push('\n');
        }
    }
}

fn write_after_key(text: &mut String, value: &Value, indent: usize) {
    if is_block(value) {
        text.push('\n');
        write_block(text, value, indent + 1);
    } else {
        text.push(' ');
        text.push_str(&inline_text(value));
        text.push('\n');
    }
}

/// Writes a list item. The first key of a map goes on the same line as the dash.
fn write_list_item(text: &mut String, value: &Value, indent: usize) {
    if is_block(value) {
        let mut inner = String::new();
        write_block(&mut inner, value, indent + 1);
        text.push(' ');
        text.push_str(inner.trim_start());
    } else {
        text.push(' ');
        text.push_str(&inline_text(value));
        text.push('\n');
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn inline_text(value: &Value) -> String {
    match value {
        Value::String(text) => scalar_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) | Value::Array(_) => {
            value.to_string()
        }
    }
}

/// Writes a string without quotes if that is unambiguous, else quoted as JSON, which YAML parses
/// identically.
fn scalar_text(text: &str) -> String {
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if safe {
        return text.to_owned();
    }
    let quoted = Value::from(text).to_string();
    // JSON does not escape these characters, but YAML does not allow them unescaped in quoted
    // strings.
    let mut escaped = String::with_capacity(quoted.len());
    for c in quoted.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                // Writing to a `String` cannot fail.
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

fn write_indent(text: &mut String, indent: usize) {
    for _ in 0..indent {
        text.push_str("  ");
    }
}
