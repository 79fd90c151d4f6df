//! Helpers to render templates and compare results.

use noetl_playbook::template::{MapEnvironment, RenderError, Template, TemplatePlace};
use noetl_types::Json;
use noetl_types::json::parse;
use proptest::prelude::ProptestConfig;

pub(crate) fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Environment from the JSON text of a map.
pub(crate) fn environment_from_json(text: &str) -> MapEnvironment {
    MapEnvironment::from_values(parse_json(text).as_map().expect("an environment is a map"))
}

/// Parses a valid template.
pub(crate) fn parse_template(text: &str) -> Template {
    Template::parse(text, TemplatePlace::Run).unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
}

pub(crate) fn render_template(
    text: &str,
    environment: &MapEnvironment,
) -> Result<Json, RenderError> {
    parse_template(text).render(environment).map(|rendered| rendered.value)
}

/// Asserts the rendered value of each template in the same environment.
#[track_caller]
pub(crate) fn assert_templates(names: &str, rows: &[(&str, &str)]) {
    let environment = environment_from_json(names);
    for (text, expected) in rows {
        match render_template(text, &environment) {
            Ok(value) => assert_eq!(value, parse_json(expected), "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

/// Asserts the value of each expression in the same environment.
#[track_caller]
pub(crate) fn assert_expressions(names: &str, rows: &[(&str, &str)]) {
    let texts: Vec<_> = rows.iter().map(|(text, _)| format!("{{{{ {text} }}}}")).collect();
    let rows: Vec<_> = texts.iter().zip(rows).map(|(text, row)| (text.as_str(), row.1)).collect();
    assert_templates(names, &rows);
}

/// Asserts that each expression fails with a message.
#[track_caller]
pub(crate) fn assert_failures(names: &str, rows: &[(&str, &str)]) {
    let environment = environment_from_json(names);
    for (text, message) in rows {
        let error = render_template(&format!("{{{{ {text} }}}}"), &environment)
            .expect_err(&format!("{text} should fail"));
        assert_eq!(error.message, *message, "{text}");
    }
}

/// At least 2000 cases, or more if `PROPTEST_CASES` requests it.
pub(crate) fn proptest_config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2000), failure_persistence: None, ..default }
}
