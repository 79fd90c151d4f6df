use noetl_types::json::parse;
use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn to_serde(value: &Json) -> serde_json::Value {
    serde_json::from_slice(&to_canonical(value)).unwrap()
}

fn schema_error(schema: &str) -> String {
    check_schema(&json(schema)).unwrap_err().to_string()
}

fn value_error(schema: &str, value: &str) -> String {
    check_value(&json(schema), &json(value)).unwrap_err().to_string()
}

#[test]
fn reports_the_place_of_a_violation() {
    let schema = r#"{"type":"object","required":["n"],"properties":{"n":{"items":{"minimum":1}}}}"#;
    assert!(check_value(&json(schema), &json(r#"{"n":[1,2.5]}"#)).is_ok());
    let low = value_error(schema, r#"{"n":[1,0]}"#);
    assert_eq!(low, "0 is less than the minimum of 1 (at `/n/1`)");
    assert_eq!(value_error(schema, "{}"), "\"n\" is a required property (at ``)");
    assert_eq!(value_error(schema, "3"), "3 is not of type \"object\" (at ``)");
}

#[test]
fn rejects_unsupported_and_malformed_keywords() {
    let unsupported = schema_error(r#"{"properties":{"a/b":{"if":true}}}"#);
    assert_eq!(unsupported, "keyword is not supported (at `/properties/a~1b/if`)");
    for schema in [
        "7",
        r#"{"type":7}"#,
        r#"{"type":"text"}"#,
        r#"{"enum":1}"#,
        r#"{"minimum":"1"}"#,
        r#"{"minLength":-1}"#,
        r#"{"pattern":"(?=a)"}"#,
        r#"{"pattern":"a{1000}{1000}{1000}"}"#,
        r#"{"required":"a"}"#,
        r#"{"anyOf":[]}"#,
        r#"{"items":[true]}"#,
        r#"{"properties":[]}"#,
        r##"{"$ref":"#/$defs/absent"}"##,
        r##"{"$ref":"#"}"##,
        r#"{"$ref":"http://localhost/x.json"}"#,
    ] {
        assert!(check_schema(&json(schema)).is_err(), "{schema}");
        assert!(check_value(&json(schema), &Json::Null).is_err(), "{schema}");
    }
}

#[test]
fn resolves_recursive_definitions() {
    let schema = r##"{"$defs":{"tree":{"type":"array","items":{"$ref":"#/$defs/tree"}}},
        "$ref":"#/$defs/tree"}"##;
    assert!(check_value(&json(schema), &json("[[],[[[]]]]")).is_ok());
    assert_eq!(value_error(schema, "[[],[1]]"), "1 is not of type \"array\" (at `/1/0`)");
    let deepest = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert!(check_value(&json(schema), &json(&deepest)).is_ok());
}

#[test]
fn stops_at_the_limit_of_steps() {
    let definitions: String = (0..30)
        .map(|n| {
            format!(
                r##","d{n}":{{"anyOf":[{{"$ref":"#/$defs/d{m}"}},{{"$ref":"#/$defs/d{m}"}}]}}"##,
                m = n + 1
            )
        })
        .collect();
    let exponential =
        format!(r##"{{"$defs":{{"d30":false{definitions}}},"not":{{"$ref":"#/$defs/d0"}}}}"##);
    let endless = r##"{"$defs":{"a":{"$ref":"#/$defs/a"}},"not":{"$ref":"#/$defs/a"}}"##;
    for schema in [exponential.as_str(), endless] {
        assert!(value_error(schema, "1").contains("too many steps"));
    }
}

/// A schema whose definitions each try the next one twice.
fn branching_schema(levels: usize) -> Json {
    let definitions: String = (0..levels)
        .map(|n| {
            let next = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, n + 1);
            format!(r#","d{n}":{{"oneOf":[{next},{next}]}}"#)
        })
        .collect();
    json(&format!(r##"{{"$defs":{{"d{levels}":false{definitions}}},"$ref":"#/$defs/d0"}}"##))
}

/// Without the limit, each level doubles the work. With it, the work and the memory do not depend on
/// the number of levels.
#[test]
fn branching_costs_at_most_the_limit() {
    let count_steps = |levels| {
        let schema = branching_schema(levels);
        let mut validator = SchemaValidator::new(&schema).unwrap();
        let mut is_limited = false;
        let allocations = allocation_counter::measure(|| {
            let violation = validator.check_value(&Json::Null).unwrap_err().to_string();
            is_limited = violation.contains("too many steps");
        });
        assert!(allocations.bytes_max < 1 << 20, "{} bytes", allocations.bytes_max);
        assert_eq!(is_limited, validator.steps > MAX_STEPS);
        validator.steps
    };
    let steps: Vec<usize> = (6..10).map(count_steps).collect();
    assert!(steps.windows(2).all(|pair| pair[1] > 2 * pair[0] - 10), "{steps:?}");
    for levels in [30, 90] {
        assert!((MAX_STEPS..MAX_STEPS + 1_000).contains(&count_steps(levels)), "{levels}");
    }
}

#[test]
fn values_of_a_validator_share_its_steps() {
    let schema = branching_schema(12);
    let (first, rest) = (Json::Null, Json::from(1));
    let mut validator = SchemaValidator::new(&schema).unwrap();
    let is_limited = |violation: SchemaViolation<'_>| violation.to_string().contains("too many");
    assert!(!is_limited(validator.check_value(&first).unwrap_err()));
    let limited_at = (0..100).find(|_| is_limited(validator.check_value(&rest).unwrap_err()));
    assert!(limited_at.is_some());
}

#[test]
fn patterns_are_limited() {
    // Each of them is small, but not all of them together.
    let pattern = |n: usize| format!(r#"{{"pattern":"^[a-z]{{400}}x{n}$"}}"#);
    let patterns = |count| (0..count).map(pattern).collect::<Vec<_>>().join(",");
    assert!(check_schema(&json(&format!(r#"{{"anyOf":[{}]}}"#, patterns(2)))).is_ok());
    let many = schema_error(&format!(r#"{{"anyOf":[{}]}}"#, patterns(500)));
    assert!(many.contains("expected a small regular expression"), "{many}");
    let large = format!(r#"{{"title":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES));
    assert!(schema_error(&large).contains("larger than"));

    // A large pattern searches only short texts, a small one also long texts.
    let text = Json::from("a".repeat(40_000));
    assert!(check_value(&json(r#"{"pattern":"^a*$"}"#), &text).is_ok());
    let schema = json(r#"{"pattern":"(a|b)*a(a|b){500}c"}"#);
    let violation = check_value(&schema, &text).unwrap_err().to_string();
    assert!(violation.contains("too many steps"), "{violation}");
    assert!(check_value(&schema, &json("\"a\"")).is_err());
}

#[test]
fn matches_ascii_digits_and_words() {
    let schema = r#"{"pattern":"^\\w+-[\\d]{2}\\\\d$"}"#;
    assert!(check_value(&json(schema), &json(r#""ab_1-42\\d""#)).is_ok());
    assert!(check_value(&json(schema), &json(r#""ab_1-٤٢\\d""#)).is_err());
}

fn values() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-3_i64..4).prop_map(Json::from),
        prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(Json::from),
        Just(Json::from(u64::MAX)),
        (-6_i32..7).prop_map(|n| Json::from_f64(f64::from(n) / 2.0).unwrap()),
        "[ab1é]{0,4}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::list),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(Json::object),
        ]
    })
}

fn keyword(name: &'static str, argument: impl Into<Json>) -> Json {
    Json::object([(name, argument.into())])
}

fn schemas() -> impl Strategy<Value = Json> {
    let types = prop::sample::select(&TYPES[..]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Json::from),
        types.prop_map(|name| keyword("type", name)),
        prop::sample::subsequence(&TYPES[..], 1..4)
            .prop_map(|names| keyword("type", Json::list(names.into_iter().map(Json::from)))),
        values().prop_map(|value| keyword("const", value)),
        prop::collection::vec(values(), 1..4)
            .prop_map(|options| keyword("enum", Json::list(options))),
        (0..4_usize, (-6_i32..7)).prop_map(|(index, n)| {
            keyword(BOUNDS[index].0, Json::from_f64(f64::from(n) / 2.0).unwrap())
        }),
        (4..10_usize, 0..4_u32).prop_map(|(index, n)| keyword(BOUNDS[index].0, n)),
        prop::sample::select(&["^a", "b$", "\\d", "[^\\w]", "a|1", "."][..])
            .prop_map(|pattern| keyword("pattern", pattern)),
        any::<bool>().prop_map(|is_unique| keyword("uniqueItems", is_unique)),
        prop::sample::subsequence(&["a", "b", "c"][..], 0..3)
            .prop_map(|names| keyword("required", Json::list(names.into_iter().map(Json::from)))),
        prop::sample::select(&["#/$defs/x", "#/$defs/y~1z"][..])
            .prop_map(|reference| keyword("$ref", reference)),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Json::list);
        let map = prop::collection::btree_map("[abc]", inner.clone(), 0..3).prop_map(Json::object);
        let nested = prop_oneof![
            (prop::sample::select(&["allOf", "anyOf", "oneOf"][..]), list)
                .prop_map(|(name, schemas)| keyword(name, schemas)),
            (prop::sample::select(&["items", "not", "additionalProperties"][..]), inner)
                .prop_map(|(name, schema)| keyword(name, schema)),
            map.prop_map(|schemas| keyword("properties", schemas)),
        ];
        // A schema with several keywords.
        prop::collection::vec(nested, 1..4).prop_map(|schemas| {
            let keywords = schemas.iter().filter_map(Json::as_map).flatten();
            Json::object(keywords.map(|(name, argument)| (name.clone(), argument.clone())))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn agrees_with_an_implementation_of_the_whole_standard(
        schema in schemas(),
        definitions in (values(), values()),
        value in values(),
    ) {
        let definitions = [("x", keyword("const", definitions.0)), ("y/z", keyword("enum", Json::list([definitions.1])))];
        let schema = Json::object([("$defs", Json::object(definitions)), ("allOf", Json::list([schema]))]);
        let oracle = jsonschema::validator_for(&to_serde(&schema)).expect("the schema is valid");
        let expected = oracle.is_valid(&to_serde(&value));
        let actual = check_value(&schema, &value);
        prop_assert_eq!(actual.is_ok(), expected, "{} {}: {:?}", schema, value, actual);
    }
}
