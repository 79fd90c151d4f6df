use proptest::prelude::*;

use super::*;

fn sample_json() -> Json {
    let inner = Json::object([
        ("b", Json::list([Json::from(1_i64), Json::Null])),
        ("a", Json::from("x y")),
    ]);
    Json::object([
        ("list", Json::list([inner.clone(), Json::list([inner]), Json::list([])])),
        ("word", Json::from("no")),
        ("text", Json::from("two\nlines")),
        ("empty", Json::empty_map()),
    ])
}

#[test]
fn renders_all_formats() {
    insta::assert_snapshot!(render_result(&sample_json(), Some(ResultFormat::Yaml)).unwrap(), @r#"
    empty: {}
    list:
      - a: x y
        b:
          - 1
          - null
      -
        - a: x y
          b:
            - 1
            - null
      - []
    text: "two\nlines"
    word: "no"
    "#);
    let text = Json::from("hello");
    assert_eq!(render_result(&text, None).unwrap(), "hello\n");
    assert_eq!(render_result(&text, Some(ResultFormat::Json)).unwrap(), "\"hello\"\n");
    assert_eq!(render_result(&Json::Null, None), None);
    assert_eq!(render_result(&Json::Null, Some(ResultFormat::Json)).unwrap(), "null\n");
    assert_eq!(
        render_result(&Json::list([Json::from(1_i64)]), Some(ResultFormat::Text)).unwrap(),
        "[1]\n"
    );
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        "\\PC{0,8}|yes|1e3|~|- a|a: b|[0-9._-]{0,5}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("[a-z1-9 :]{1,4}", inner, 0..4).prop_map(Json::object),
        ]
    })
}

proptest! {
    #[test]
    fn yaml_round_trips(value in any_json()) {
        let text = render_result(&value, Some(ResultFormat::Yaml)).unwrap();
        prop_assert_eq!(noetl_playbook::to_json(&text), Some(value), "{}", text);
    }
}
