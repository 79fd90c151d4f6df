//! Values with templates inside, and what loops go over.

use noetl_playbook::source::Span;
use noetl_playbook::template::{
    Dynamic, LoopItemsError, ParseOptions, RenderErrorKind, Template, loop_items,
};
use noetl_types::Json;

use crate::support::{json, scope, template};

fn dynamic(text: &str) -> Dynamic {
    Dynamic::from_json(&json(text), &ParseOptions::default()).unwrap()
}

#[test]
fn constant_parts_are_folded() {
    assert_eq!(
        dynamic(r#"{"a": [1, {"b": "c"}]}"#),
        Dynamic::constant(json(r#"{"a": [1, {"b": "c"}]}"#))
    );
    let Dynamic::Map(entries) = dynamic(r#"{"a": [1, 2], "b": "{{ x }}", "c": {"d": "e"}}"#) else {
        panic!("a map with a template in it");
    };
    let constant: Vec<_> = entries.iter().map(|(_, value)| value.is_const()).collect();
    assert_eq!(constant, [true, false, true]);
    assert!(Dynamic::list(vec![]).is_const());
    assert!(Dynamic::map(vec![]).is_const());
    assert_eq!(Dynamic::default(), Dynamic::constant(Json::Null));
}

#[test]
fn every_leaf_keeps_its_type() {
    let value = dynamic(
        r#"{"n": "{{ n }}", "t": "n={{ n }}", "l": ["{{ l }}", "{{ l[0] }}"], "k{{ n }}": true}"#,
    );
    let rendered = value.render(&scope(r#"{"n": 3, "l": [1, 2]}"#)).unwrap();
    assert_eq!(
        rendered.value,
        json(r#"{"n": 3, "t": "n=3", "l": [[1, 2], 1], "k3": true}"#)
    );
    assert!(!rendered.is_secret());
}

#[test]
fn keys_are_templates_too() {
    let names = scope(r#"{"n": 3, "s": "key", "l": [], "z": null}"#);
    assert_eq!(
        dynamic(r#"{"{{ s }}": 1, "{{ n }}": 2}"#)
            .render(&names)
            .unwrap()
            .value,
        json(r#"{"key": 1, "3": 2}"#)
    );
    assert_eq!(
        dynamic(r#"{"{{ z }}": 1}"#).render(&names).unwrap().value,
        json(r#"{"": 1}"#)
    );
    let error = dynamic(r#"{"{{ l }}": 1}"#).render(&names).unwrap_err();
    assert_eq!(error.message, "a list or map cannot be a key");
    let error = dynamic(r#"{"{{ s }}": 1, "key": 2}"#)
        .render(&names)
        .unwrap_err();
    assert_eq!(
        error.message,
        "two keys of a map are the same once rendered"
    );
}

#[test]
fn source_is_kept() {
    let text = r#"{"a": "{{ x }}", "b": [1, "{{ y }}!"], "{{ k }}": null, "c": {"d": 1}}"#;
    assert_eq!(dynamic(text).source_json(), json(text));
}

#[test]
fn reads_of_all_leaves() {
    let value = dynamic(r#"{"{{ k.a }}": "{{ x.y }}", "l": ["{{ z }}", 1, "{{ x }}"]}"#);
    let reads: Vec<_> = value.reads().map(|read| read.path.join(".")).collect();
    assert_eq!(reads, ["z", "x", "k.a", "x.y"]);
    assert!(value.mentions("k") && !value.mentions("l"));
}

#[test]
fn errors_name_their_place() {
    let leaf = Dynamic::text(template("a\n {{ 1 + 'x' }}"), Span::new(40, 60));
    let value = Dynamic::map(vec![(
        Dynamic::constant(Json::from("headers")),
        Dynamic::list(vec![
            Dynamic::constant(Json::Null),
            Dynamic::map(vec![(Dynamic::constant(Json::from("x")), leaf)]),
        ]),
    )]);
    let error = value.render(&scope("{}")).unwrap_err();
    assert_eq!(error.path, "headers[1].x");
    assert_eq!(error.document, Some(Span::new(40, 60)));
    assert_eq!((error.line, error.column), (2, 9));
    assert_eq!(
        error.to_string(),
        "cannot add text to number at line 2 column 9 of headers[1].x"
    );
}

#[test]
fn a_place_in_the_document_does_not_count() {
    let one = Dynamic::text(template("{{ x }}"), Span::new(1, 2));
    let two = Dynamic::text(template("{{ x }}"), Span::new(8, 9));
    assert_eq!(one, two);
    assert_ne!(one, Dynamic::text(template("{{ y }}"), Span::new(1, 2)));
    assert_eq!(template("{{ x }}"), Template::condition("{{ x }}").unwrap());
}

#[test]
fn every_fault_inside_is_reported() {
    let value = json(r#"{"a": "{{ x | uper }}", "b": ["{{ y. }}"], "{{ z": 1}"#);
    assert_eq!(
        Dynamic::from_json(&value, &ParseOptions::default())
            .unwrap_err()
            .len(),
        3
    );
}

#[test]
fn a_leaf_cannot_make_a_value_too_deep() {
    let deep = (0..60).fold(Json::from(1), |inner, _| Json::list([inner]));
    let names = noetl_playbook::template::MapScope::new().with("deep", deep);
    let wrapped = |levels: usize| {
        let leaf = Dynamic::text(template("{{ deep }}"), Span::default());
        (0..levels).fold(leaf, |inner, _| Dynamic::list(vec![inner]))
    };
    assert!(wrapped(4).render(&names).is_ok());
    let error = wrapped(5).render(&names).unwrap_err();
    assert!(matches!(error.kind, RenderErrorKind::Limit(_)), "{error:?}");
}

#[test]
fn items_of_a_loop() {
    for (value, expected) in [
        ("[1, [2]]", "[1, [2]]"),
        ("[]", "[]"),
        (
            r#"{"b": 1, "a": 2}"#,
            r#"[{"key": "a", "value": 2}, {"key": "b", "value": 1}]"#,
        ),
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
            loop_items(&json(value)).map(Json::from),
            Ok(json(expected)),
            "{value}"
        );
    }
    for (value, found) in [
        ("null", "null"),
        ("true", "bool"),
        ("false", "bool"),
        ("2.5", "number"),
    ] {
        assert_eq!(
            loop_items(&json(value)),
            Err(LoopItemsError::NotIterable { found }),
            "{value}"
        );
    }
    assert_eq!(
        loop_items(&json("18446744073709551615")),
        Err(LoopItemsError::TooMany { count: u64::MAX })
    );
    assert!(loop_items(&json("1000001")).is_err());
}
