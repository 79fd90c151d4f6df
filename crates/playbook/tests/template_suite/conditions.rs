//! When a condition holds.

use noetl_playbook::template::{MapScope, Template, truthy};
use noetl_types::Json;

use crate::support::{json, scope};

fn holds(text: &str, names: &MapScope) -> bool {
    Template::condition(text)
        .unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
        .test(names)
        .unwrap()
}

#[test]
fn values_that_are_false() {
    for value in ["null", "false", "0", "[]", "{}", "\"\"", "\"  \""] {
        assert!(!truthy(&json(value)), "{value}");
    }
    for word in [
        "false", "0", "no", "none", "null", "off", "{}", "[]", " False ", "NO", "oFF\n",
    ] {
        assert!(!truthy(&Json::from(word)), "{word}");
    }
    for value in [
        "true",
        "1",
        "-1",
        "0.5",
        "[0]",
        "{\"a\":0}",
        "\"x\"",
        "\"yes\"",
        "\"0.0\"",
        "\"nope\"",
        "\"00\"",
        "18446744073709551615",
    ] {
        assert!(truthy(&json(value)), "{value}");
    }
}

#[test]
fn all_forms_of_a_condition() {
    let names = scope(r#"{"n": 5, "s": "no", "l": [], "z": null, "flag": true}"#);
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
        assert_eq!(holds(text, &names), expected, "{text}");
    }
}

#[test]
fn conditions_that_are_not_one_expression() {
    for text in [
        "yes",
        "No",
        "on",
        "'abc'",
        "{{ a }} == 3",
        "x{{ a }}",
        "{% if a %}1{% endif %}",
    ] {
        assert!(
            !Template::condition(text).unwrap().is_one_expression(),
            "{text}"
        );
    }
    for text in ["a", "a == 3", "{{ a }}", " {{ a == 3 }} ", "true", "1"] {
        assert!(
            Template::condition(text).unwrap().is_one_expression(),
            "{text}"
        );
    }
}

#[test]
fn a_condition_that_cannot_be_read() {
    for text in ["n >", "two words", "", "   ", "a = 1", "{{ a", "a && b"] {
        assert!(Template::condition(text).is_err(), "{text}");
    }
}
