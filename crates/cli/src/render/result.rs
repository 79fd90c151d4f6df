//! Renders the result of a run as data.

use std::fmt::Write as _;
use std::io::Write as _;

use clap::ValueEnum;
use noetl_types::{Json, JsonMap};

use crate::error::Result;
use crate::exit::CommandExit;
use crate::io::Io;

/// Format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultFormat {
    /// Indented JSON
    Json,
    /// YAML
    Yaml,
    /// Plain text; other values as JSON on one line
    Text,
}

/// Renders a result. Without a format, a text is rendered unchanged and null is omitted.
fn render_result(result: &Json, format: Option<ResultFormat>) -> Option<String> {
    Some(match format {
        Some(ResultFormat::Json) => to_indented_json(result),
        Some(ResultFormat::Yaml) => to_yaml(result),
        Some(ResultFormat::Text) => to_plain_text(result),
        None => match result {
            Json::Null => return None,
            Json::Str(_) => to_plain_text(result),
            Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::List(_)
            | Json::Map(_) => to_indented_json(result),
        },
    })
}

/// Prints a result.
pub(crate) fn print_result(
    result: &Json,
    format: Option<ResultFormat>,
    io: &mut Io<'_>,
) -> Result<CommandExit> {
    if let Some(text) = render_result(result, format) {
        write!(io.out, "{text}")?;
    }
    Ok(CommandExit::Ok)
}

fn to_indented_json(value: &Json) -> String {
    // Serialization does not fail. The compact form is only a fallback.
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    text + "\n"
}

fn to_plain_text(value: &Json) -> String {
    let mut text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn to_yaml(value: &Json) -> String {
    let mut text = String::new();
    write_block(&mut text, value, 0);
    text
}

/// Writes a value that starts on its own line.
fn write_block(text: &mut String, value: &Json, indent: usize) {
    if !is_block(value) {
        let _ = writeln!(text, "{:indent$}{}", "", to_yaml_scalar(value));
    } else if let Json::Map(map) = value {
        write_entries(text, map, indent, true);
    } else if let Json::List(items) = value {
        for item in items.iter() {
            let _ = write!(text, "{:indent$}-", "");
            match item {
                // The first entry follows the dash, the others are below it.
                Json::Map(map) if !map.is_empty() => {
                    text.push(' ');
                    write_entries(text, map, indent + 2, false);
                }
                other => write_after_key(text, other, indent + 2),
            }
        }
    }
}

/// True if the value takes several lines.
fn is_block(value: &Json) -> bool {
    match value {
        Json::Map(map) => !map.is_empty(),
        Json::List(items) => !items.is_empty(),
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => false,
    }
}

fn write_entries(text: &mut String, map: &JsonMap, indent: usize, mut is_padded: bool) {
    for (key, value) in map {
        let padding = if is_padded { indent } else { 0 };
        let _ = write!(text, "{:padding$}{}:", "", quote_yaml(key));
        write_after_key(text, value, indent + 2);
        is_padded = true;
    }
}

fn write_after_key(text: &mut String, value: &Json, indent: usize) {
    if is_block(value) {
        text.push('\n');
        write_block(text, value, indent);
    } else {
        let _ = writeln!(text, " {}", to_yaml_scalar(value));
    }
}

fn to_yaml_scalar(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), quote_yaml)
}

/// Quotes a string unless it is unambiguous without quotes.
fn quote_yaml(text: &str) -> String {
    let is_plain =
        text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | ' '))
            && text.starts_with(char::is_alphabetic)
            && !text.ends_with(' ')
            && noetl_playbook::to_json(text).as_ref().and_then(Json::as_str) == Some(text)
            && !is_yaml_keyword(text);
    if is_plain { text.to_owned() } else { Json::from(text).to_string() }
}

/// Words with another meaning in older YAML versions.
fn is_yaml_keyword(text: &str) -> bool {
    matches!(
        text.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
    )
}

#[cfg(test)]
mod tests;
