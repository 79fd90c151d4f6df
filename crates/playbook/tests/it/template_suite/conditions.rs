//! Truthiness and parsing of conditions.

use noetl_playbook::template::{MapEnvironment, Template, is_truthy};
use noetl_types::Json;

use crate::template_suite::support::{environment_from_json, parse_json};

fn eval_condition(text: &str, environment: &MapEnvironment) -> bool {
    Template::parse_condition(text)
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"))
        .render_condition(environment)
        .unwrap()
}

#[test]
fn truthiness_of_values() {
    for value in ["null", "false", "0", "[]", "{}", "\"\"", "\"  \""] {
        assert!(!is_truthy(&parse_json(value)), "{value}");
    }
    for text in ["false", "0", "no", "none", "null", "off", "{}", "[]", " False ", "NO", "oFF\n"] {
        assert!(!is_truthy(&Json::from(text)), "{text}");
    }
    for value in [
        "true", "1", "-1", "0.5", "[0]", "{\"a\":0}", "\"x\"", "\"yes\"", "\"0.0\"", "\"nope\"",
        "\"00\"", "18446744073709551615",
    ] {
        assert!(is_truthy(&parse_json(value)), "{value}");
    }
}

#[test]
fn conditions_accept_all_forms() {
    let environment =
        environment_from_json(r#"{"n": 5, "s": "no", "l": [], "z": null, "flag": true}"#);
    for (text, expected) in [
        ("{{ n > 3 }}", true),
        ("n > 3", true),
        ("n > 3 and flag", true),
        ("  n > 9 ", false),
        ("n in [5, 6]", true),
        ("n", true),
        ("s", false),
        ("{{ s }}", false),
        ("l", false),
        ("z", false),
        ("missing", false),
        ("missing.deep", false),
        ("not missing", true),
        ("true", true),
        ("False", false),
        ("{% if n > 3 %}yes{% endif %}", true),
        ("{% if n > 9 %}yes{% endif %}", false),
        ("{% if n > 3 %} no {% endif %}", false),
        ("{{ n }} == 9", true),
        ("yes", true),
        ("no", false),
        ("Off", false),
        ("on", true),
        ("null", false),
        ("n | string == '5'", true),
        ("{'a': 1}", true),
    ] {
        assert_eq!(eval_condition(text, &environment), expected, "{text}");
    }
}

#[test]
fn detects_single_expression_conditions() {
    for text in ["yes", "No", "on", "'abc'", "{{ a }} == 3", "x{{ a }}", "{% if a %}1{% endif %}"] {
        assert!(!Template::parse_condition(text).unwrap().is_one_expression(), "{text}");
    }
    for text in ["a", "a == 3", "{{ a }}", " {{ a == 3 }} ", "true", "1"] {
        assert!(Template::parse_condition(text).unwrap().is_one_expression(), "{text}");
    }
}

#[test]
fn rejects_invalid_conditions() {
    for text in ["n >", "two words", "", "   ", "a = 1", "{{ a", "a && b"] {
        assert!(Template::parse_condition(text).is_err(), "{text}");
    }
}
