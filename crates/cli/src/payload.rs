//! Workload values from documents and single `NAME=VALUE` arguments.

use std::path::Path;

use noetl_types::{Json, JsonMap};

use crate::error::{Error, Result};
use crate::io::Io;
use crate::render::text_layout::escape_control;
use crate::source::DocumentOrigin;

/// Workload values from a file and from `NAME=VALUE` arguments.
pub(crate) fn read_payload(
    file: Option<&Path>,
    assignments: &[String],
    io: &mut Io<'_>,
) -> Result<JsonMap> {
    let mut payload = match file.map(DocumentOrigin::new) {
        None => JsonMap::new(),
        Some(origin) => parse_document(&origin.display_name(), &origin.read_text(io)?)?,
    };
    for assignment in assignments {
        set_value(&mut payload, assignment)?;
    }
    Ok(payload)
}

/// Parses a JSON or YAML document.
fn parse_document(name: &str, text: &str) -> Result<JsonMap> {
    if text.trim().is_empty() {
        return Ok(JsonMap::new());
    }
    let is_json = text.trim_start().starts_with('{');
    let Some(value) = noetl_playbook::to_json(text) else {
        // YAML includes JSON. The JSON parser is used only for its better error message.
        let error = serde_json::from_str::<Json>(text).err().filter(|_| is_json);
        let detail = error.map_or_else(String::new, |error| format!(": {error}"));
        return Err(Error::usage(format!("--payload '{name}' is neither JSON nor YAML{detail}")));
    };
    match value {
        Json::Map(map) => Ok((*map).clone()),
        Json::Null => Ok(JsonMap::new()),
        Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_)
        | Json::List(_) => Err(Error::usage(format!(
            "--payload '{name}' is a {}; it must be a map of names to values",
            value.type_name()
        ))
        .with_help("for example: {\"city\": \"Oslo\"}")),
    }
}

/// Sets `NAME=VALUE` in a payload. Dots in the name address nested maps, which are created as
/// needed.
fn set_value(payload: &mut JsonMap, assignment: &str) -> Result<()> {
    let not_assignment = || {
        set_error(assignment, "must be NAME=VALUE")
            .with_help("for example: --set city=Oslo --set retry.times=3")
    };
    let (name, text) = assignment.split_once('=').ok_or_else(not_assignment)?;
    let parts: Vec<&str> = name.trim().split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(not_assignment());
    }
    let value = parse_value(assignment, text)?;
    insert_at_path(payload, &parts, value, assignment)
}

fn insert_at_path(map: &mut JsonMap, parts: &[&str], value: Json, assignment: &str) -> Result<()> {
    let Some((first, rest)) = parts.split_first() else {
        return Ok(());
    };
    if rest.is_empty() {
        map.insert((*first).into(), value);
        return Ok(());
    }
    let inner = map.entry((*first).into()).or_insert_with(Json::empty_map);
    let Json::Map(nested) = &*inner else {
        let (name, found) = (escape_control(first), inner.type_name());
        return Err(set_error(assignment, &format!("'{name}' is a {found}, not a map")));
    };
    let mut nested = (**nested).clone();
    insert_at_path(&mut nested, rest, value, assignment)?;
    *inner = Json::from(nested);
    Ok(())
}

/// Parses a YAML scalar, or a list or map in brackets. Text that YAML cannot parse, or parses as a
/// map because of a colon, is a string.
fn parse_value(assignment: &str, text: &str) -> Result<Json> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Json::from(""));
    }
    let parsed = noetl_playbook::to_json(text);
    if text.starts_with(['[', '{']) {
        return parsed.ok_or_else(|| {
            set_error(assignment, "the value is not valid YAML")
                .with_help("quote the value if it is meant as text")
        });
    }
    let scalar = parsed.filter(|value| !matches!(value, Json::List(_) | Json::Map(_)));
    Ok(scalar.unwrap_or_else(|| Json::from(text)))
}

fn set_error(assignment: &str, fault: &str) -> Error {
    Error::usage(format!("--set '{}': {fault}", escape_control(assignment)))
}

#[cfg(test)]
mod tests;
