//! What is made from a secret is secret, and no message tells it.

use noetl_playbook::template::{
    Binding, Dynamic, MapScope, Need, ParseOptions, REDACTED, RenderErrorKind, Scope, Template,
};
use noetl_types::Json;

use crate::support::{json, template};

const SECRET: &str = "hunter22";

fn names() -> MapScope {
    MapScope::new()
        .with(
            "keychain",
            Binding::map([(
                "pg",
                Binding::Secret(json(r#"{"user": "u", "password": "hunter22"}"#)),
            )]),
        )
        .with("plain", Json::from("open"))
        .with(
            "mixed",
            Binding::map([
                ("a", Binding::Value(Json::from(1))),
                ("b", Binding::Secret(Json::from(SECRET))),
            ]),
        )
}

#[test]
fn touching_a_secret_taints() {
    for (text, secret) in [
        ("{{ plain }}", false),
        ("{{ keychain.pg.password }}", true),
        ("{{ keychain['pg'].user }}", true),
        ("x {{ keychain.pg.password }}", true),
        ("{{ keychain.pg.password | sha256 }}", true),
        ("{{ keychain.pg.password | length }}", true),
        ("{{ 'a' if keychain.pg.password == 'x' else 'b' }}", true),
        (
            "{{ 'a' if plain == 'open' else keychain.pg.password }}",
            false,
        ),
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
        let rendered = template(text).render(&names()).unwrap();
        assert_eq!(rendered.is_secret(), secret, "{text}");
        if secret {
            assert_eq!(rendered.redacted(), Json::from(REDACTED), "{text}");
        } else {
            assert_eq!(rendered.redacted(), rendered.value, "{text}");
        }
    }
}

#[test]
fn leaves_are_secret_one_by_one() {
    let value = json(
        r#"{
            "url": "http://{{ plain }}",
            "headers": {"x-token": "Bearer {{ keychain.pg.password }}", "accept": "*/*"},
            "list": [1, "{{ keychain.pg.user }}", "{{ plain }}"]
        }"#,
    );
    let dynamic = Dynamic::from_json(&value, &ParseOptions::default()).unwrap();
    let rendered = dynamic.render(&names()).unwrap();
    let paths: Vec<_> = rendered.secrets.iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["headers.x-token", "list[1]"]);
    let values: Vec<_> = rendered.secret_values().cloned().collect();
    let expected = ["hunter22", "u"];
    assert_eq!(values, expected.map(Json::from));
    assert_eq!(
        rendered.redacted(),
        json(
            r#"{"url": "http://open", "headers": {"x-token": "[REDACTED]", "accept": "*/*"},
                "list": [1, "[REDACTED]", "open"]}"#
        )
    );
}

#[test]
fn what_is_made_from_a_secret_inside_of_a_text_is_told_by_itself() {
    for (text, expected) in [
        (
            "a {{ keychain.pg.password | upper }} b {{ plain }}",
            "HUNTER22",
        ),
        (
            "{% set p %}<{{ keychain.pg.password }}>{% endset %}{{ plain }}{{ p | upper }}",
            "<HUNTER22>",
        ),
        (
            "{% set p = keychain.pg.password | reverse %} {{ p }}",
            "22retnuh",
        ),
    ] {
        let rendered = template(text).render(&names()).unwrap();
        let values: Vec<_> = rendered.secret_values().cloned().collect();
        assert!(values.contains(&Json::from(expected)), "{text}: {values:?}");
    }
    let beside = template("{{ keychain.pg.password }} {{ plain }}");
    let rendered = beside.render(&names()).unwrap();
    assert!(
        !rendered
            .secret_values()
            .any(|value| *value == Json::from("open"))
    );
}

#[test]
fn what_stands_beside_a_secret_is_none_unless_the_secret_had_a_say_in_it() {
    let told = |text: &str| -> Vec<Json> {
        let rendered = template(text).render(&names()).unwrap();
        assert!(rendered.is_secret(), "{text}");
        rendered.secret_values().cloned().collect()
    };
    let statement = "SELECT *\nFROM users\nWHERE key = '{{ keychain.pg.password }}'\n";
    assert_eq!(told(statement), [Json::from(SECRET)]);
    for text in [
        "{% if keychain.pg.password == 'x' %}a{% endif %}FROM users",
        "{% for c in keychain.pg.password %}{{ c }}{% endfor %}",
        "{% set p = keychain.pg.password %}FROM users",
    ] {
        let whole = template(text).render(&names()).unwrap().value;
        assert!(told(text).contains(&whole), "{text}");
    }
    // The user is too short to be looked for by itself.
    let line = Json::from("u@localhost");
    assert!(told("{{ keychain.pg.user }}@localhost").contains(&line));
    assert_eq!(told("as\n{{ keychain.pg.user }}"), [Json::from("u")]);
}

#[test]
fn a_secret_key_makes_its_map_secret() {
    let value = json(r#"{"outer": {"{{ keychain.pg.password }}": 1, "b": 2}}"#);
    let rendered = Dynamic::from_json(&value, &ParseOptions::default())
        .unwrap()
        .render(&names())
        .unwrap();
    assert_eq!(
        rendered.value,
        json(r#"{"outer": {"hunter22": 1, "b": 2}}"#)
    );
    assert_eq!(rendered.redacted(), json(r#"{"outer": "[REDACTED]"}"#));
    assert!(
        rendered
            .secret_values()
            .any(|value| *value == Json::from(SECRET))
    );
}

#[test]
fn no_message_holds_a_value() {
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
        let template = Template::condition(text).unwrap();
        let error = template.render(&names()).expect_err(text);
        assert!(
            !format!("{error:?} {error}").contains("hunter"),
            "{text}: {error:?}"
        );
    }
}

/// A worker that has not resolved its keychain yet.
struct Unresolved;

impl Scope for Unresolved {
    fn lookup(&self, name: &str) -> Option<Binding> {
        (name == "keychain").then(|| Binding::Members("keychain".into()))
    }

    fn member(&self, _: &str, key: &str) -> Option<Binding> {
        (key == "pg").then(|| Binding::Needs(Need::Secret { name: "pg".into() }))
    }
}

#[test]
fn an_entry_is_resolved_when_it_is_first_read() {
    let error = template("{{ keychain.pg.user }}")
        .render(&Unresolved)
        .unwrap_err();
    assert_eq!(
        error.kind,
        RenderErrorKind::Needs(Need::Secret { name: "pg".into() })
    );
    let unread = template("{{ 1 if true else keychain.pg.user }}")
        .render(&Unresolved)
        .unwrap();
    assert_eq!(unread.value, Json::from(1));
    assert_eq!(
        template("{{ keychain.other.user }}")
            .render(&Unresolved)
            .unwrap()
            .value,
        Json::Null
    );
}

#[test]
fn a_secret_does_not_print() {
    let rendered = template("{{ keychain.pg.password }}")
        .render(&names())
        .unwrap();
    assert_eq!(rendered.value, Json::from(SECRET));
    assert!(!format!("{rendered:?} {:?}", names()).contains(SECRET));
}
