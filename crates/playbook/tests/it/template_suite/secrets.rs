//! Values derived from secrets are secret, and no error message contains them.

use noetl_playbook::template::{
    Binding, DynamicValue, FetchNeed, MapEnvironment, ParseOptions, REDACTED, RenderErrorKind,
    Template, TemplateEnvironment,
};
use noetl_types::Json;

use crate::template_suite::support::{parse_json, parse_template};

const SECRET_VALUE: &str = "hunter22";

fn secret_environment() -> MapEnvironment {
    MapEnvironment::new()
        .with_name(
            "keychain",
            Binding::from_map([(
                "pg",
                Binding::Secret(parse_json(r#"{"user": "u", "password": "hunter22"}"#)),
            )]),
        )
        .with_name("plain", Json::from("open"))
        .with_name(
            "mixed",
            Binding::from_map([
                ("a", Binding::Value(Json::from(1))),
                ("b", Binding::Secret(Json::from(SECRET_VALUE))),
            ]),
        )
}

#[test]
fn reading_secret_taints_result() {
    for (text, secret) in [
        ("{{ plain }}", false),
        ("{{ keychain.pg.password }}", true),
        ("{{ keychain['pg'].user }}", true),
        ("x {{ keychain.pg.password }}", true),
        ("{{ keychain.pg.password | sha256 }}", true),
        ("{{ keychain.pg.password | length }}", true),
        ("{{ 'a' if keychain.pg.password == 'x' else 'b' }}", true),
        ("{{ 'a' if plain == 'open' else keychain.pg.password }}", false),
        ("{% set p = keychain.pg.password %}{{ plain }}", true),
        ("{% for c in keychain.pg.password %}.{% endfor %}", true),
        ("{{ keychain }}", true),
        ("{{ keychain.nope }}", false),
        ("{{ mixed.a }}", false),
        ("{{ mixed.b }}", true),
        ("{{ mixed }}", true),
        ("{{ mixed | length }}", true),
        ("literal", false),
    ] {
        let rendered = parse_template(text).render(&secret_environment()).unwrap();
        assert_eq!(rendered.is_secret(), secret, "{text}");
        if secret {
            assert_eq!(rendered.to_redacted(), Json::from(REDACTED), "{text}");
        } else {
            assert_eq!(rendered.to_redacted(), rendered.value, "{text}");
        }
    }
}

#[test]
fn leaves_are_redacted_separately() {
    let value = parse_json(
        r#"{
            "url": "http://{{ plain }}",
            "headers": {"x-token": "Bearer {{ keychain.pg.password }}", "accept": "*/*"},
            "list": [1, "{{ keychain.pg.user }}", "{{ plain }}"]
        }"#,
    );
    let dynamic = DynamicValue::from_json(&value, &ParseOptions::default()).unwrap();
    let rendered = dynamic.render(&secret_environment()).unwrap();
    let paths: Vec<_> = rendered.secrets.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["headers.x-token", "list[1]"]);
    let values: Vec<_> = rendered.secret_values().cloned().collect();
    let expected = ["hunter22", "u"];
    assert_eq!(values, expected.map(Json::from));
    assert_eq!(
        rendered.to_redacted(),
        parse_json(
            r#"{"url": "http://open", "headers": {"x-token": "[REDACTED]", "accept": "*/*"},
                "list": [1, "[REDACTED]", "open"]}"#
        )
    );
}

#[test]
fn derived_secrets_inside_text_are_listed() {
    for (text, expected) in [
        ("a {{ keychain.pg.password | upper }} b {{ plain }}", "HUNTER22"),
        (
            "{% set p %}<{{ keychain.pg.password }}>{% endset %}{{ plain }}{{ p | upper }}",
            "<HUNTER22>",
        ),
        ("{% set p = keychain.pg.password | reverse %} {{ p }}", "22retnuh"),
    ] {
        let rendered = parse_template(text).render(&secret_environment()).unwrap();
        let values: Vec<_> = rendered.secret_values().cloned().collect();
        assert!(values.contains(&Json::from(expected)), "{text}: {values:?}");
    }
    let adjacent = parse_template("{{ keychain.pg.password }} {{ plain }}");
    let rendered = adjacent.render(&secret_environment()).unwrap();
    assert!(!rendered.secret_values().any(|value| *value == Json::from("open")));
}

#[test]
fn adjacent_text_is_secret_only_if_derived() {
    let secret_parts = |text: &str| -> Vec<Json> {
        let rendered = parse_template(text).render(&secret_environment()).unwrap();
        assert!(rendered.is_secret(), "{text}");
        rendered.secret_values().cloned().collect()
    };
    let statement = "SELECT *\nFROM users\nWHERE key = '{{ keychain.pg.password }}'\n";
    assert_eq!(secret_parts(statement), [Json::from(SECRET_VALUE)]);
    for text in [
        "{% if keychain.pg.password == 'x' %}a{% endif %}FROM users",
        "{% for c in keychain.pg.password %}{{ c }}{% endfor %}",
        "{% set p = keychain.pg.password %}FROM users",
    ] {
        let whole = parse_template(text).render(&secret_environment()).unwrap().value;
        assert!(secret_parts(text).contains(&whole), "{text}");
    }
    // The user name is too short to be redacted on its own.
    let line = Json::from("u@localhost");
    assert!(secret_parts("{{ keychain.pg.user }}@localhost").contains(&line));
    assert_eq!(secret_parts("as\n{{ keychain.pg.user }}"), [Json::from("u")]);
}

#[test]
fn secret_key_taints_its_map() {
    let value = parse_json(r#"{"outer": {"{{ keychain.pg.password }}": 1, "b": 2}}"#);
    let rendered = DynamicValue::from_json(&value, &ParseOptions::default())
        .unwrap()
        .render(&secret_environment())
        .unwrap();
    assert_eq!(rendered.value, parse_json(r#"{"outer": {"hunter22": 1, "b": 2}}"#));
    assert_eq!(rendered.to_redacted(), parse_json(r#"{"outer": "[REDACTED]"}"#));
    assert!(rendered.secret_values().any(|value| *value == Json::from(SECRET_VALUE)));
}

#[test]
fn error_messages_contain_no_secrets() {
    for text in [
        "keychain.pg.password + 1",
        "1 + keychain.pg.password",
        "keychain.pg.password | fromjson",
        "keychain.pg.password | b64decode",
        "keychain.pg.password | round",
        "keychain.pg.password | abs",
        "keychain.pg.password.keys()",
        "keychain.pg.password | keys",
        "keychain.pg.password[::0]",
        "1 in keychain.pg.password",
        "[1] | sort(attribute=keychain.pg)",
        "1.5 | round(0, keychain.pg.password)",
        "range(keychain.pg.password)",
        "dict(keychain.pg.password)",
        "-keychain.pg.password",
        "{keychain.pg: 1}",
        "keychain.pg.password * 99999999999",
        "[keychain.pg.password] | urlencode",
        "keychain.pg.password.split(5)",
    ] {
        let template = Template::parse_condition(text).unwrap();
        let error = template.render(&secret_environment()).expect_err(text);
        assert!(!format!("{error:?} {error}").contains("hunter"), "{text}: {error:?}");
    }
}

/// Environment of a worker that has not resolved its keychain yet.
struct UnresolvedKeychain;

impl TemplateEnvironment for UnresolvedKeychain {
    fn lookup_name(&self, name: &str) -> Option<Binding> {
        (name == "keychain").then(|| Binding::Members("keychain".into()))
    }

    fn lookup_member(&self, _: &str, key: &str) -> Option<Binding> {
        (key == "pg").then(|| Binding::Needs(FetchNeed::Secret { name: "pg".into() }))
    }
}

#[test]
fn entry_is_requested_on_first_read() {
    let error = parse_template("{{ keychain.pg.user }}").render(&UnresolvedKeychain).unwrap_err();
    assert_eq!(error.kind, RenderErrorKind::Needs(FetchNeed::Secret { name: "pg".into() }));
    let unread = parse_template("{{ 1 if true else keychain.pg.user }}")
        .render(&UnresolvedKeychain)
        .unwrap();
    assert_eq!(unread.value, Json::from(1));
    assert_eq!(
        parse_template("{{ keychain.other.user }}").render(&UnresolvedKeychain).unwrap().value,
        Json::Null
    );
}

#[test]
fn debug_output_hides_secrets() {
    let rendered =
        parse_template("{{ keychain.pg.password }}").render(&secret_environment()).unwrap();
    assert_eq!(rendered.value, Json::from(SECRET_VALUE));
    assert!(!format!("{rendered:?} {:?}", secret_environment()).contains(SECRET_VALUE));
}
