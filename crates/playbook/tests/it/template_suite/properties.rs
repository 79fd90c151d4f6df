//! Properties of templates for any input.

use noetl_playbook::template::{
    DynamicValue, MapEnvironment, ParseOptions, StartEnvironment, Template, TemplatePlace,
};
use noetl_types::{Json, JsonMap};
use proptest::prelude::*;

use crate::template_suite::support::{environment_from_json, proptest_config, render_template};

fn arb_json() -> impl Strategy<Value = Json> {
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
                let entries =
                    entries.into_iter().map(|(key, value)| (key.replace('\0', "").into(), value));
                Json::from(entries.collect::<JsonMap>())
            }),
        ]
    })
}

/// Random sequence of language tokens, so that some inputs are valid.
fn arb_source() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{{", "}}", "{%", "%}", "{#", "#}", "{{-", "-}}", " ", "x", "m", "l", "s", ".", "[", "]",
        "(", ")", "{", "}", ",", ":", "|", "+", "-", "*", "/", "//", "%", "**", "~", "==", "<",
        ">=", "=", "1", "0", "2.5", "'a'", "\"b\"", "true", "none", "and", "or", "not", "in", "is",
        "if", "else", "for", "endfor", "endif", "set", "endset", "elif", "raw", "endraw",
        "defined", "odd", "length", "join", "map", "sort", "range", "dict", "namespace", "loop",
        "items", "get", "attribute", "default", "tojson", "include", "\\", "'", "\"", "ä", "\n",
        "99999999999", "split", "groupby", "abs",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

fn test_environment() -> MapEnvironment {
    environment_from_json(r#"{"x": 5, "m": {"a": [1, {"b": null}]}, "l": [3, 1, 2], "s": "text"}"#)
}

/// Parses and renders a text twice and checks the results for consistency.
fn check_text(text: &str) {
    for parsed in [
        Template::parse(text, TemplatePlace::Run),
        Template::parse(text, TemplatePlace::Start),
        Template::parse_condition(text),
    ] {
        match parsed {
            Ok(template) => {
                let first = template.render(&test_environment());
                assert_eq!(first, template.render(&test_environment()), "{text}");
                for read in template.reads() {
                    assert!(
                        text.get(read.range.clone()).is_some_and(|part| part.contains(read.root())),
                        "{text}"
                    );
                }
                if let Err(error) = first {
                    assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
                }
            }
            Err(errors) => {
                assert!(!errors.is_empty(), "{text}");
                for error in errors {
                    assert!(text.get(error.range.clone()).is_some(), "{text}: {error:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(proptest_config())]

    #[test]
    fn any_value_passes_through_unchanged(value in arb_json()) {
        let environment = MapEnvironment::new().with_name("x", value.clone());
        prop_assert_eq!(render_template("{{ x }}", &environment).unwrap(), value.clone());
        prop_assert_eq!(render_template(" {{- x | default(x) -}} ", &environment).unwrap(), value.clone());
        prop_assert_eq!(render_template("{{ [x][0] }}", &environment).unwrap(), value.clone());
        prop_assert_eq!(render_template("{{ {'k': x}.k }}", &environment).unwrap(), value.clone());
        prop_assert_eq!(render_template("{{ x | tojson | fromjson }}", &environment).unwrap(), value.clone());
        prop_assert_eq!(render_template("{{ x == x and x <= x and not x < x }}", &environment).unwrap(), Json::Bool(true));
        let text = value.to_string();
        prop_assert_eq!(render_template("{{ x | tojson }}", &environment).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render_template("{{ x | tojson(2) | fromjson }}", &environment).unwrap(), value);
    }

    #[test]
    fn any_text_round_trips(text in ".{0,40}") {
        let text = text.replace('\0', "");
        let environment = MapEnvironment::new().with_name("x", Json::from(text.as_str()));
        prop_assert_eq!(render_template("{{ x }}", &environment).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render_template("<{{ x }}>", &environment).unwrap(), Json::from(format!("<{text}>")));
        prop_assert_eq!(render_template("{{ x | b64encode | b64decode }}", &environment).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render_template("{{ x | list | join }}", &environment).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render_template("{{ x | reverse | reverse }}", &environment).unwrap(), Json::from(text.as_str()));
        prop_assert_eq!(render_template("{{ x[:3] ~ x[3:] }}", &environment).unwrap(), Json::from(text));
    }

    #[test]
    fn value_without_tags_is_constant(value in arb_json()) {
        let text = value.to_string();
        prop_assume!(!Template::has_markers(&text));
        let dynamic = DynamicValue::from_json(&value, &ParseOptions::default()).unwrap();
        prop_assert_eq!(dynamic.as_const(), Some(&value));
        prop_assert_eq!(dynamic.render(&test_environment()).unwrap().value, value);
    }

    #[test]
    fn value_order_is_total(a in arb_json(), b in arb_json(), c in arb_json()) {
        let environment = MapEnvironment::new().with_name("a", a).with_name("b", b).with_name("c", c);
        let holds = |text: &str| Template::parse_condition(text).unwrap().render_condition(&environment).unwrap();
        prop_assert!(holds("(a < b) == (b > a)"));
        prop_assert!(holds("(a == b) == (not a < b and not b < a)"));
        prop_assert!(holds("not (a <= b and b <= c) or a <= c"));
        prop_assert!(holds("[a, b, c] | sort(case_sensitive=true) == [c, a, b] | sort(case_sensitive=true)"));
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in "(\\PC|\\s){0,60}") {
        check_text(&text);
        check_text(&format!("{{{{ {text} }}}}"));
        check_text(&format!("{{% {text} %}}"));
    }

    #[test]
    fn parsing_any_tokens_does_not_panic(text in arb_source()) {
        check_text(&text);
        check_text(&text.replace(' ', ""));
        check_text(&format!("{{{{ {text} }}}}"));
        check_text(&format!("{{% if {text} %}}{{% endif %}}"));
    }

    #[test]
    fn integer_arithmetic_is_exact(a: i64, b: i64) {
        let environment = MapEnvironment::new().with_name("a", Json::from(a)).with_name("b", Json::from(b));
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
            prop_assert_eq!(render_template(text, &environment).ok(), expected, "{} {} {}", text, a, b);
        }
    }

    #[test]
    fn random_values_depend_only_on_seed(seed: [u8; 32]) {
        let template = Template::parse("{{ uuid() }} {{ random() }} {{ uuid() }}", TemplatePlace::Start).unwrap();
        let render_once = || template.render(&StartEnvironment::new(MapEnvironment::new(), seed)).unwrap().value;
        prop_assert_eq!(render_once(), render_once());
    }
}
