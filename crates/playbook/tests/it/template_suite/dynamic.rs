//! Values that contain templates, and loop items.

use noetl_playbook::source::Span;
use noetl_playbook::template::{
    DynamicValue, LoopItemsError, ParseOptions, RenderErrorKind, Template, loop_items,
};
use noetl_types::Json;

use crate::template_suite::support::{environment_from_json, parse_json, parse_template};

fn parse_dynamic(text: &str) -> DynamicValue {
    DynamicValue::from_json(&parse_json(text), &ParseOptions::default()).unwrap()
}

#[test]
fn constant_parts_are_folded() {
    assert_eq!(
        parse_dynamic(r#"{"a": [1, {"b": "c"}]}"#),
        DynamicValue::from_constant(parse_json(r#"{"a": [1, {"b": "c"}]}"#))
    );
    let DynamicValue::Map(entries) =
        parse_dynamic(r#"{"a": [1, 2], "b": "{{ x }}", "c": {"d": "e"}}"#)
    else {
        panic!("a map with a template in it");
    };
    let constant: Vec<_> = entries.iter().map(|(_, value)| value.is_const()).collect();
    assert_eq!(constant, [true, false, true]);
    assert!(DynamicValue::from_list(vec![]).is_const());
    assert!(DynamicValue::from_entries(vec![]).is_const());
    assert_eq!(DynamicValue::default(), DynamicValue::from_constant(Json::Null));
}

#[test]
fn leaves_keep_their_types() {
    let value = parse_dynamic(
        r#"{"n": "{{ n }}", "t": "n={{ n }}", "l": ["{{ l }}", "{{ l[0] }}"], "k{{ n }}": true}"#,
    );
    let rendered = value.render(&environment_from_json(r#"{"n": 3, "l": [1, 2]}"#)).unwrap();
    assert_eq!(rendered.value, parse_json(r#"{"n": 3, "t": "n=3", "l": [[1, 2], 1], "k3": true}"#));
    assert!(!rendered.is_secret());
}

#[test]
fn map_keys_can_be_templates() {
    let environment = environment_from_json(r#"{"n": 3, "s": "key", "l": [], "z": null}"#);
    assert_eq!(
        parse_dynamic(r#"{"{{ s }}": 1, "{{ n }}": 2}"#).render(&environment).unwrap().value,
        parse_json(r#"{"key": 1, "3": 2}"#)
    );
    assert_eq!(
        parse_dynamic(r#"{"{{ z }}": 1}"#).render(&environment).unwrap().value,
        parse_json(r#"{"": 1}"#)
    );
    let error = parse_dynamic(r#"{"{{ l }}": 1}"#).render(&environment).unwrap_err();
    assert_eq!(error.message, "a list or map cannot be a key");
    let error = parse_dynamic(r#"{"{{ s }}": 1, "key": 2}"#).render(&environment).unwrap_err();
    assert_eq!(error.message, "two keys of a map render to the same text");
}

#[test]
fn source_json_round_trips() {
    let text = r#"{"a": "{{ x }}", "b": [1, "{{ y }}!"], "{{ k }}": null, "c": {"d": 1}}"#;
    assert_eq!(parse_dynamic(text).to_source_json(), parse_json(text));
}

#[test]
fn reads_cover_all_leaves() {
    let value = parse_dynamic(r#"{"{{ k.a }}": "{{ x.y }}", "l": ["{{ z }}", 1, "{{ x }}"]}"#);
    let reads: Vec<_> = value.reads().map(|read| read.path.join(".")).collect();
    assert_eq!(reads, ["z", "x", "k.a", "x.y"]);
    assert!(value.reads_name("k") && !value.reads_name("l"));
}

#[test]
fn errors_have_path_and_position() {
    let leaf = DynamicValue::from_template(parse_template("a\n {{ 1 + 'x' }}"), Span::new(40, 60));
    let value = DynamicValue::from_entries(vec![(
        DynamicValue::from_constant(Json::from("headers")),
        DynamicValue::from_list(vec![
            DynamicValue::from_constant(Json::Null),
            DynamicValue::from_entries(vec![(DynamicValue::from_constant(Json::from("x")), leaf)]),
        ]),
    )]);
    let error = value.render(&environment_from_json("{}")).unwrap_err();
    assert_eq!(error.path, "headers[1].x");
    assert_eq!(error.document, Some(Span::new(40, 60)));
    assert_eq!((error.line, error.column), (2, 9));
    assert_eq!(error.to_string(), "cannot add text to number at line 2 column 9 of headers[1].x");
}

#[test]
fn equality_ignores_document_position() {
    let one = DynamicValue::from_template(parse_template("{{ x }}"), Span::new(1, 2));
    let two = DynamicValue::from_template(parse_template("{{ x }}"), Span::new(8, 9));
    assert_eq!(one, two);
    assert_ne!(one, DynamicValue::from_template(parse_template("{{ y }}"), Span::new(1, 2)));
    assert_eq!(parse_template("{{ x }}"), Template::parse_condition("{{ x }}").unwrap());
}

#[test]
fn reports_all_template_errors() {
    let value = parse_json(r#"{"a": "{{ x | uper }}", "b": ["{{ y. }}"], "{{ z": 1}"#);
    assert_eq!(DynamicValue::from_json(&value, &ParseOptions::default()).unwrap_err().len(), 3);
}

#[test]
fn leaf_cannot_exceed_nesting_limit() {
    let deep = (0..60).fold(Json::from(1), |inner, _| Json::list([inner]));
    let environment = noetl_playbook::template::MapEnvironment::new().with_name("deep", deep);
    let wrapped = |levels: usize| {
        let leaf = DynamicValue::from_template(parse_template("{{ deep }}"), Span::default());
        (0..levels).fold(leaf, |inner, _| DynamicValue::from_list(vec![inner]))
    };
    assert!(wrapped(4).render(&environment).is_ok());
    let error = wrapped(5).render(&environment).unwrap_err();
    assert!(matches!(error.kind, RenderErrorKind::Limit(_)), "{error:?}");
}

#[test]
fn loop_items_by_type() {
    for (value, expected) in [
        ("[1, [2]]", "[1, [2]]"),
        ("[]", "[]"),
        (r#"{"b": 1, "a": 2}"#, r#"[{"key": "a", "value": 2}, {"key": "b", "value": 1}]"#),
        ("{}", "[]"),
        (r#""a, b,,c ,""#, r#"["a", "b", "c"]"#),
        (r#""a\n b \n""#, r#"["a", "b"]"#),
        (r#""one""#, r#"["one"]"#),
        (r#""[1, \"a\"]""#, r#"[1, "a"]"#),
        (r#"" [1] ""#, "[1]"),
        (r#""[1, x""#, r#"["[1", "x"]"#),
        (r#""""#, "[]"),
        (r#"" , \n""#, "[]"),
        ("3", "[0, 1, 2]"),
        ("0", "[]"),
        ("-2", "[]"),
    ] {
        assert_eq!(
            loop_items(&parse_json(value)).map(Json::from),
            Ok(parse_json(expected)),
            "{value}"
        );
    }
    for (value, found) in [("null", "null"), ("true", "bool"), ("false", "bool"), ("2.5", "number")]
    {
        assert_eq!(
            loop_items(&parse_json(value)),
            Err(LoopItemsError::NotIterable { found }),
            "{value}"
        );
    }
    assert_eq!(
        loop_items(&parse_json("18446744073709551615")),
        Err(LoopItemsError::TooMany { count: u64::MAX })
    );
    assert!(loop_items(&parse_json("1000001")).is_err());
}
