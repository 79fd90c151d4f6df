//! Workload values from documents and single `NAME=VALUE` arguments.

use noetl_types::{Json, JsonMap};
use thiserror::Error;

use crate::render::text_layout::escape_control;

/// Error of workload values.
#[derive(Debug, Error)]
pub(crate) enum PayloadError {
    /// A `--set` without an equals sign or without a name.
    #[error("--set '{}': must be NAME=VALUE", escape_control(.0))]
    NotAssignment(String),
    /// A list or map that cannot be parsed.
    #[error("--set '{}': the value is not valid YAML", escape_control(.0))]
    InvalidValue(String),
    /// A name that leads through a value that is not a map.
    #[error(
        "--set '{}': '{}' is a {found}, not a map",
        escape_control(assignment),
        escape_control(name)
    )]
    NotAMap { assignment: String, name: String, found: &'static str },
    /// A document that cannot be parsed.
    #[error("--payload '{name}' is neither JSON nor YAML{}", detail.as_deref().map_or(String::new(), |detail| format!(": {detail}")))]
    Unreadable { name: String, detail: Option<String> },
    /// A document that is not a map.
    #[error("--payload '{name}' is a {found}; it must be a map of names to values")]
    DocumentNotMap { name: String, found: &'static str },
    /// The playbook and the payload both use standard input.
    #[error("the playbook and --payload cannot both come from standard input")]
    StandardInputTwice,
}

impl PayloadError {
    /// Suggested fix.
    pub(crate) fn help_text(&self) -> Option<String> {
        match self {
            Self::NotAssignment(_) => {
                Some("for example: --set city=Oslo --set retry.times=3".to_owned())
            }
            Self::InvalidValue(_) => Some("quote the value if it is meant as text".to_owned()),
            Self::DocumentNotMap { .. } => Some("for example: {\"city\": \"Oslo\"}".to_owned()),
            Self::StandardInputTwice => Some("read one of them from a file".to_owned()),
            Self::NotAMap { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// Parses a JSON or YAML document.
pub(crate) fn parse_document(name: &str, text: &str) -> Result<JsonMap, PayloadError> {
    if text.trim().is_empty() {
        return Ok(JsonMap::new());
    }
    let is_json = text.trim_start().starts_with('{');
    let unreadable = |detail| PayloadError::Unreadable { name: name.to_owned(), detail };
    let value = match noetl_playbook::to_json(text) {
        Some(value) => value,
        // YAML includes JSON. The JSON parser is used only for its better error message.
        None if is_json => {
            let error = serde_json::from_str::<Json>(text).err();
            return Err(unreadable(error.map(|error| error.to_string())));
        }
        None => return Err(unreadable(None)),
    };
    match value {
        Json::Map(map) => Ok((*map).clone()),
        Json::Null => Ok(JsonMap::new()),
        Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_)
        | Json::List(_) => {
            Err(PayloadError::DocumentNotMap { name: name.to_owned(), found: value.type_name() })
        }
    }
}

/// Sets `NAME=VALUE` in a payload. Dots in the name address nested maps, which are created as
/// needed.
pub(crate) fn set_value(payload: &mut JsonMap, assignment: &str) -> Result<(), PayloadError> {
    let not_assignment = || PayloadError::NotAssignment(assignment.to_owned());
    let (name, text) = assignment.split_once('=').ok_or_else(not_assignment)?;
    let parts: Vec<&str> = name.trim().split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(not_assignment());
    }
    let value = parse_value(assignment, text)?;
    insert_at_path(payload, &parts, value, assignment)
}

fn insert_at_path(
    map: &mut JsonMap,
    parts: &[&str],
    value: Json,
    assignment: &str,
) -> Result<(), PayloadError> {
    let Some((first, rest)) = parts.split_first() else {
        return Ok(());
    };
    if rest.is_empty() {
        map.insert((*first).into(), value);
        return Ok(());
    }
    let inner = map.entry((*first).into()).or_insert_with(Json::empty_map);
    let Json::Map(nested) = &*inner else {
        return Err(PayloadError::NotAMap {
            assignment: assignment.to_owned(),
            name: (*first).to_owned(),
            found: inner.type_name(),
        });
    };
    let mut nested = (**nested).clone();
    insert_at_path(&mut nested, rest, value, assignment)?;
    *inner = Json::from(nested);
    Ok(())
}

/// Parses a YAML scalar, or a list or map in brackets. Text that YAML cannot parse, or parses as a
/// map because of a colon, is a string.
fn parse_value(assignment: &str, text: &str) -> Result<Json, PayloadError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Json::from(""));
    }
    let parsed = noetl_playbook::to_json(text);
    if text.starts_with(['[', '{']) {
        return parsed.ok_or_else(|| PayloadError::InvalidValue(assignment.to_owned()));
    }
    let scalar = parsed.filter(|value| !matches!(value, Json::List(_) | Json::Map(_)));
    Ok(scalar.unwrap_or_else(|| Json::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_sets(sets: &[&str]) -> Result<String, String> {
        let mut payload = JsonMap::new();
        for assignment in sets {
            set_value(&mut payload, assignment).map_err(|error| error.to_string())?;
        }
        Ok(Json::from(payload).to_string())
    }

    #[test]
    fn values_are_parsed_as_yaml() {
        let sets = [
            "a=1",
            "b=1.5",
            "c=true",
            "d=null",
            "e=Oslo, Norway",
            "f='1'",
            "g=[1, x]",
            "h={k: v}",
            "i=",
            "j=k: v",
            "k=http://host/?a=b",
            "l=*",
            "m=- x",
        ];
        insta::assert_snapshot!(apply_sets(&sets).unwrap(), @r#"{"a":1,"b":1.5,"c":true,"d":null,"e":"Oslo, Norway","f":"1","g":[1,"x"],"h":{"k":"v"},"i":"","j":"k: v","k":"http://host/?a=b","l":"*","m":"- x"}"#);
    }

    #[test]
    fn dots_select_nested_maps() {
        assert_eq!(
            apply_sets(&["a.b.c=1", "a.b.d=2", "a.e=3"]).unwrap(),
            r#"{"a":{"b":{"c":1,"d":2},"e":3}}"#
        );
    }

    #[test]
    fn errors_name_the_flag() {
        insta::assert_snapshot!(apply_sets(&["city"]).unwrap_err(), @"--set 'city': must be NAME=VALUE");
        insta::assert_snapshot!(apply_sets(&["=1"]).unwrap_err(), @"--set '=1': must be NAME=VALUE");
        insta::assert_snapshot!(apply_sets(&["a..b=1"]).unwrap_err(), @"--set 'a..b=1': must be NAME=VALUE");
        insta::assert_snapshot!(apply_sets(&["a=[1"]).unwrap_err(), @"--set 'a=[1': the value is not valid YAML");
        insta::assert_snapshot!(apply_sets(&["a=1", "a.b=2"]).unwrap_err(), @"--set 'a.b=2': 'a' is a number, not a map");
    }

    #[test]
    fn payload_documents_are_maps() {
        assert_eq!(parse_document("p", "{\"a\": 1}").unwrap().len(), 1);
        assert_eq!(parse_document("p", "a: 1\nb: 2\n").unwrap().len(), 2);
        assert!(parse_document("p", "").is_ok_and(|map| map.is_empty()));
        insta::assert_snapshot!(parse_document("p.json", "[1]").unwrap_err(), @"--payload 'p.json' is a list; it must be a map of names to values");
        insta::assert_snapshot!(parse_document("p.json", "{\"a\": }").map(|map| map.len()).unwrap_or_default().to_string(), @"1");
        insta::assert_snapshot!(parse_document("p.json", "{\"a\": 1").unwrap_err(), @"--payload 'p.json' is neither JSON nor YAML: EOF while parsing an object at line 1 column 7");
        insta::assert_snapshot!(parse_document("p.yaml", "a: [1").unwrap_err(), @"--payload 'p.yaml' is neither JSON nor YAML");
    }
}
