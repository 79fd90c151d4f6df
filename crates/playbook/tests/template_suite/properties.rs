//! What holds for any input.

use noetl_playbook::template::{Dynamic, MapScope, ParseOptions, Place, StartScope, Template};
use noetl_types::{Json, JsonMap};
use proptest::prelude::*;

use crate::support::{config, render, scope};

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_filter_map("finite", |value| Json::from_f64(value).ok()),
        ".{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
            prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|entries| {
                let entries = entries
                    .into_iter()
                    .map(|(key, value)| (key.replace('\0', "").into(), value));
                Json::from(entries.collect::<JsonMap>())
            }),
        ]
    })
}

/// Pieces of the language in any order, so that some of it makes sense.
fn any_source() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{{-",
        "-}}",
        " ",
        "x",
        "m",
        "l",
        "s",
        ".",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "|",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "==",
        "<",
        ">=",
        "=",
        "1",
        "0",
        "2.5",
        "'a'",
        "\"b\"",
        "true",
        "none",
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "for",
        "endfor",
        "endif",
        "set",
        "endset",
        "elif",
        "raw",
        "endraw",
        "defined",
        "odd",
        "length",
        "join",
        "map",
        "sort",
        "range",
        "dict",
        "namespace",
        "loop",
        "items",
        "get",
        "attribute",
        "default",
        "tojson",
        "include",
        "\\",
        "'",
        "\"",
        "ä",
        "\n",
        "99999999999",
        "split",
        "groupby",
        "abs",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

fn names() -> MapScope {
    scope(r#"{"x": 5, "m": {"a": [1, {"b": null}]}, "l": [3, 1, 2], "s": "text"}"#)
}

/// Reads and renders whatever it is, twice.
fn exercise(text: &str) {
    for parsed in [
        Template::parse(text, Place::Run),
        Template::parse(text, Place::Start),
        Template::condition(text),
    ] {
        match parsed {
            Ok(template) => {
                let first = template.render(&names());
                assert_eq!(first, template.render(&names()), "{text}");
                for read in template.reads() {
                    assert!(
                        text.get(read.range.clone())
                            .is_some_and(|part| part.contains(read.root())),
                        "{text}"
                    );
                }
                if let Err(error) = first {
                    assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
                }
            }
            Err(faults) => {
                assert!(!faults.is_empty(), "{text}");
                for fault in faults {
                    assert!(text.get(fault.range.clone()).is_some(), "{text}: {fault:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_value_goes_through_unchanged(value in any_json()) {
        let names = MapScope::new().with("x", value.clone());
        prop_assert_eq!(render("{{ x }}", &names).unwrap(), value.clone());
        prop_assert_eq!(render(" {{- x | default(x) -}} ", &names).unwrap(), value.clone());
        prop_assert_eq!(render("{{ [x][0] }}", &names).unwrap(), value.clone());
        prop_assert_eq!(render("{{ {'k': x}.k }}", &names).unwrap(), value.clone());
        prop_assert_eq!(render("{{ x | tojson | fromjson }}", &names).unwrap(), value.clone());
        prop_assert_eq!(render("{{ x == x and x <= x and not x < x }}", &names).unwrap(), Json::Bool(true));
        let text = value.to_string();
        prop_assert_eq!(render("{{ x | tojson }}", &names).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render("{{ x | tojson(2) | fromjson }}", &names).unwrap(), value);
    }

    #[test]
    fn any_text_stays_what_it_is(text in ".{0,40}") {
        let text = text.replace('\0', "");
        let names = MapScope::new().with("x", Json::from(text.as_str()));
        prop_assert_eq!(render("{{ x }}", &names).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render("<{{ x }}>", &names).unwrap(), Json::from(format!("<{text}>")));
        prop_assert_eq!(render("{{ x | b64encode | b64decode }}", &names).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render("{{ x | list | join }}", &names).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render("{{ x | reverse | reverse }}", &names).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render("{{ x[:3] ~ x[3:] }}", &names).unwrap(), Json::from(text));
    }

    #[test]
    fn a_value_without_tags_is_a_constant(value in any_json()) {
        let text = value.to_string();
        prop_assume!(!Template::has_markers(&text));
        let dynamic = Dynamic::from_json(&value, &ParseOptions::default()).unwrap();
        prop_assert_eq!(dynamic.as_const(), Some(&value));
        prop_assert_eq!(dynamic.render(&names()).unwrap().value, value);
    }

    #[test]
    fn the_order_of_values_is_total(a in any_json(), b in any_json(), c in any_json()) {
        let names = MapScope::new().with("a", a).with("b", b).with("c", c);
        let holds = |text: &str| Template::condition(text).unwrap().test(&names).unwrap();
        prop_assert!(holds("(a < b) == (b > a)"));
        prop_assert!(holds("(a == b) == (not a < b and not b < a)"));
        prop_assert!(holds("not (a <= b and b <= c) or a <= c"));
        prop_assert!(holds("[a, b, c] | sort(case_sensitive=true) == [c, a, b] | sort(case_sensitive=true)"));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "(\\PC|\\s){0,60}") {
        exercise(&text);
        exercise(&format!("{{{{ {text} }}}}"));
        exercise(&format!("{{% {text} %}}"));
    }

    #[test]
    fn any_pieces_are_read_without_a_panic(text in any_source()) {
        exercise(&text);
        exercise(&text.replace(' ', ""));
        exercise(&format!("{{{{ {text} }}}}"));
        exercise(&format!("{{% if {text} %}}{{% endif %}}"));
    }

    #[test]
    fn numbers_add_and_multiply_exactly(a: i64, b: i64) {
        let names = MapScope::new().with("a", Json::from(a)).with("b", Json::from(b));
        let (wide_a, wide_b) = (i128::from(a), i128::from(b));
        let floor = (b != 0).then(|| {
            let quotient = wide_a.div_euclid(wide_b);
            quotient - i128::from(b < 0 && wide_a.rem_euclid(wide_b) != 0)
        });
        for (text, exact) in [
            ("{{ a + b }}", Some(wide_a + wide_b)),
            ("{{ a - b }}", Some(wide_a - wide_b)),
            ("{{ a * b }}", Some(wide_a * wide_b)),
            ("{{ a // b }}", floor),
            ("{{ a % b }}", floor.map(|floor| wide_a - floor * wide_b)),
        ] {
            let expected = exact.and_then(|exact| Json::from_i128(exact).ok());
            prop_assert_eq!(render(text, &names).ok(), expected, "{} {} {}", text, a, b);
        }
    }

    #[test]
    fn a_seed_decides(seed: [u8; 32]) {
        let template = Template::parse("{{ uuid() }} {{ random() }} {{ uuid() }}", Place::Start).unwrap();
        let render = || template.render(&StartScope::new(MapScope::new(), seed)).unwrap().value;
        prop_assert_eq!(render(), render());
    }
}
