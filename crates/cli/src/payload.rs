//! What a run is started with: a document, and single values laid over it.

use noetl_types::{Json, JsonMap};
use thiserror::Error;

use crate::render::words::visible;

/// Why a payload cannot be used.
#[derive(Debug, Error)]
pub(crate) enum PayloadError {
    /// A `--set` without an equals sign, or without a name before it.
    #[error("--set '{}': it has to be NAME=VALUE", visible(.0))]
    Shape(String),
    /// A list or map that cannot be read.
    #[error("--set '{}': the value is not valid YAML", visible(.0))]
    Value(String),
    /// A name that leads through a value that has no names inside.
    #[error(
        "--set '{}': '{}' is a {found}, so nothing can be set inside it",
        visible(given),
        visible(name)
    )]
    NotAMap {
        given: String,
        name: String,
        found: &'static str,
    },
    /// A document that cannot be read.
    #[error("--payload '{name}' is neither JSON nor YAML{}", detail.as_deref().map_or(String::new(), |detail| format!(": {detail}")))]
    Unreadable {
        name: String,
        detail: Option<String>,
    },
    /// A document that has no names in it.
    #[error("--payload '{name}' is a {found}, and has to be a map of names to values")]
    NoMap { name: String, found: &'static str },
    /// One input for two things.
    #[error("the playbook and --payload cannot both come from standard input")]
    BothFromInput,
}

impl PayloadError {
    /// What the user can do about it.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Shape(_) => Some("for example: --set city=Oslo --set retry.times=3".to_owned()),
            Self::Value(_) => Some("quote the value if it is meant as text".to_owned()),
            Self::NoMap { .. } => Some("for example: {\"city\": \"Oslo\"}".to_owned()),
            Self::BothFromInput => Some("give one of them as a file".to_owned()),
            Self::NotAMap { .. } | Self::Unreadable { .. } => None,
        }
    }
}

/// Reads a document: JSON, or YAML.
pub(crate) fn document(name: &str, text: &str) -> Result<JsonMap, PayloadError> {
    if text.trim().is_empty() {
        return Ok(JsonMap::new());
    }
    let is_json = text.trim_start().starts_with('{');
    let unreadable = |detail| PayloadError::Unreadable {
        name: name.to_owned(),
        detail,
    };
    let value = match noetl_playbook::to_json(text) {
        Some(value) => value,
        // YAML holds JSON, so the reader of JSON is only asked for what is wrong.
        None if is_json => {
            let fault = serde_json::from_str::<Json>(text).err();
            return Err(unreadable(fault.map(|fault| fault.to_string())));
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
        | Json::List(_) => Err(PayloadError::NoMap {
            name: name.to_owned(),
            found: value.type_name(),
        }),
    }
}

/// Lays `NAME=VALUE` over a payload. A name with points leads into maps, which are made as needed.
pub(crate) fn set(payload: &mut JsonMap, given: &str) -> Result<(), PayloadError> {
    let shape = || PayloadError::Shape(given.to_owned());
    let (name, text) = given.split_once('=').ok_or_else(shape)?;
    let parts: Vec<&str> = name.trim().split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(shape());
    }
    let value = value(given, text)?;
    put(payload, &parts, value, given)
}

fn put(map: &mut JsonMap, parts: &[&str], value: Json, given: &str) -> Result<(), PayloadError> {
    let Some((first, rest)) = parts.split_first() else {
        return Ok(());
    };
    if rest.is_empty() {
        map.insert((*first).into(), value);
        return Ok(());
    }
    let inner = map.entry((*first).into()).or_insert_with(Json::empty_map);
    let Json::Map(inside) = &*inner else {
        return Err(PayloadError::NotAMap {
            given: given.to_owned(),
            name: (*first).to_owned(),
            found: inner.type_name(),
        });
    };
    let mut inside = (**inside).clone();
    put(&mut inside, rest, value, given)?;
    *inner = Json::from(inside);
    Ok(())
}

/// A scalar as YAML reads it, or a list or map in brackets. What YAML cannot read, or takes for a
/// map because of a colon, is a text.
fn value(given: &str, text: &str) -> Result<Json, PayloadError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Json::from(""));
    }
    let read = noetl_playbook::to_json(text);
    if text.starts_with(['[', '{']) {
        return read.ok_or_else(|| PayloadError::Value(given.to_owned()));
    }
    let scalar = read.filter(|value| !matches!(value, Json::List(_) | Json::Map(_)));
    Ok(scalar.unwrap_or_else(|| Json::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(sets: &[&str]) -> Result<String, String> {
        let mut payload = JsonMap::new();
        for given in sets {
            set(&mut payload, given).map_err(|error| error.to_string())?;
        }
        Ok(Json::from(payload).to_string())
    }

    #[test]
    fn values_are_scalars_of_yaml() {
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
        insta::assert_snapshot!(after(&sets).unwrap(), @r#"{"a":1,"b":1.5,"c":true,"d":null,"e":"Oslo, Norway","f":"1","g":[1,"x"],"h":{"k":"v"},"i":"","j":"k: v","k":"http://host/?a=b","l":"*","m":"- x"}"#);
    }

    #[test]
    fn points_lead_into_maps() {
        assert_eq!(
            after(&["a.b.c=1", "a.b.d=2", "a.e=3"]).unwrap(),
            r#"{"a":{"b":{"c":1,"d":2},"e":3}}"#
        );
    }

    #[test]
    fn errors_name_the_flag() {
        insta::assert_snapshot!(after(&["city"]).unwrap_err(), @"--set 'city': it has to be NAME=VALUE");
        insta::assert_snapshot!(after(&["=1"]).unwrap_err(), @"--set '=1': it has to be NAME=VALUE");
        insta::assert_snapshot!(after(&["a..b=1"]).unwrap_err(), @"--set 'a..b=1': it has to be NAME=VALUE");
        insta::assert_snapshot!(after(&["a=[1"]).unwrap_err(), @"--set 'a=[1': the value is not valid YAML");
        insta::assert_snapshot!(after(&["a=1", "a.b=2"]).unwrap_err(), @"--set 'a.b=2': 'a' is a number, so nothing can be set inside it");
    }

    #[test]
    fn documents_are_maps() {
        assert_eq!(document("p", "{\"a\": 1}").unwrap().len(), 1);
        assert_eq!(document("p", "a: 1\nb: 2\n").unwrap().len(), 2);
        assert!(document("p", "").is_ok_and(|map| map.is_empty()));
        insta::assert_snapshot!(document("p.json", "[1]").unwrap_err(), @"--payload 'p.json' is a list, and has to be a map of names to values");
        insta::assert_snapshot!(document("p.json", "{\"a\": }").map(|map| map.len()).unwrap_or_default().to_string(), @"1");
        insta::assert_snapshot!(document("p.json", "{\"a\": 1").unwrap_err(), @"--payload 'p.json' is neither JSON nor YAML: EOF while parsing an object at line 1 column 7");
        insta::assert_snapshot!(document("p.yaml", "a: [1").unwrap_err(), @"--payload 'p.yaml' is neither JSON nor YAML");
    }
}
