//! Short ways to render and compare.

use noetl_playbook::template::{MapScope, Place, RenderError, Template};
use noetl_types::Json;
use noetl_types::json::parse;
use proptest::prelude::ProptestConfig;

/// A value from its JSON text.
pub(crate) fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A scope from the JSON text of a map.
pub(crate) fn scope(text: &str) -> MapScope {
    MapScope::of(json(text).as_map().expect("a scope is a map"))
}

/// Reads a template that has no fault.
pub(crate) fn template(text: &str) -> Template {
    Template::parse(text, Place::Run).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

/// Renders a template.
pub(crate) fn render(text: &str, names: &MapScope) -> Result<Json, RenderError> {
    template(text).render(names).map(|rendered| rendered.value)
}

/// Asserts what each template yields against the same names.
#[track_caller]
pub(crate) fn assert_rows(names: &str, rows: &[(&str, &str)]) {
    let names = scope(names);
    for (text, expected) in rows {
        match render(text, &names) {
            Ok(value) => assert_eq!(value, json(expected), "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

/// Asserts what each expression yields against the same names.
#[track_caller]
pub(crate) fn assert_expressions(names: &str, rows: &[(&str, &str)]) {
    let texts: Vec<_> = rows
        .iter()
        .map(|(text, _)| format!("{{{{ {text} }}}}"))
        .collect();
    let rows: Vec<_> = texts
        .iter()
        .zip(rows)
        .map(|(text, row)| (text.as_str(), row.1))
        .collect();
    assert_rows(names, &rows);
}

/// Asserts that each expression fails with a message.
#[track_caller]
pub(crate) fn assert_failures(names: &str, rows: &[(&str, &str)]) {
    let names = scope(names);
    for (text, message) in rows {
        let error =
            render(&format!("{{{{ {text} }}}}"), &names).expect_err(&format!("{text} should fail"));
        assert_eq!(error.message, *message, "{text}");
    }
}

/// Many cheap cases, more where the environment asks for more.
pub(crate) fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(2000),
        failure_persistence: None,
        ..default
    }
}
