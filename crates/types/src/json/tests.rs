use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::limits::MAX_JSON_DEPTH;

fn read(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn canonical(text: &str) -> String {
    read(text).to_string()
}

fn refusal(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn keys_are_sorted_at_every_depth_and_blanks_go() {
    assert_eq!(
        canonical(r#" { "b" : [ { "z" : 1 , "a" : null } , true ] , "a" : { } , "B" : "x y" } "#),
        r#"{"B":"x y","a":{},"b":[{"a":null,"z":1},true]}"#
    );
}

#[test]
fn keys_are_sorted_by_code_point() {
    // UTF-16 would put the astral character first; UTF-8 and code points agree.
    assert_eq!(
        canonical("{\"\u{1F600}\":1,\"\u{FB33}\":2,\"é\":3,\"e\":4}"),
        "{\"e\":4,\"é\":3,\"\u{FB33}\":2,\"\u{1F600}\":1}"
    );
}

#[test]
fn integers_are_exact() {
    for digits in [
        "0",
        "-1",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551615",
    ] {
        assert_eq!(canonical(digits), digits);
    }
    // One above is no 64-bit integer any more, and gets the form of a float.
    assert_eq!(canonical("18446744073709551616"), "18446744073709552000");
    assert_eq!(canonical("-9223372036854775809"), "-9223372036854775808");
}

#[test]
fn one_number_has_one_form() {
    for (form, one) in [
        ("1.0", "1"),
        ("1e2", "100"),
        ("100E-2", "1"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0.0e9", "0"),
        ("1e19", "10000000000000000000"),
        ("1.5e1", "15"),
    ] {
        assert_eq!(canonical(form), one, "{form}");
        assert_eq!(read(form), read(one), "{form}");
    }
}

/// Samples of RFC 8785, appendix B, and of the rules that it takes from ECMAScript.
#[test]
fn other_numbers_are_in_the_form_of_rfc_8785() {
    for (bits, text) in [
        (0x0000_0000_0000_0001_u64, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
    ] {
        let value = f64::from_bits(bits);
        assert_eq!(Json::from_f64(value).unwrap().to_string(), text);
        assert_eq!(
            read(text),
            Json::from_f64(value).unwrap(),
            "{text} reads back"
        );
    }
    for (form, text) in [
        ("1e21", "1e+21"),
        ("1E-7", "1e-7"),
        ("333333333.33333329", "333333333.3333333"),
        ("4.50", "4.5"),
        ("2e-3", "0.002"),
        ("0.000000000000000000000000001", "1e-27"),
    ] {
        assert_eq!(canonical(form), text);
    }
}

#[test]
fn texts_are_escaped_where_they_must_be() {
    assert_eq!(
        canonical(r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#),
        r#""€$\u000f\nA'B\"\\\\\"/""#
    );
    assert_eq!(
        canonical(r#""\b\t\n\f\r\u001f\u007f""#),
        "\"\\b\\t\\n\\f\\r\\u001f\u{7f}\""
    );
    assert_eq!(canonical(r#""\ud83d\ude00""#), "\"\u{1F600}\"");
}

#[test]
fn what_the_log_cannot_hold_is_refused() {
    assert_eq!(
        refusal(r#"["a\u0000b"]"#),
        "text contains a NUL character at line 1 column 11"
    );
    assert!(refusal(r#"{"a\u0000":1}"#).contains("NUL"));
    assert!(refusal(r#"{"a":1,"b":{"c":1,"c":2}}"#).contains("duplicate key \"c\""));
    assert!(refusal("1e999").contains("out of range"));
    for text in [
        "NaN",
        "Infinity",
        "01",
        "1.",
        "",
        "[1,]",
        "{} {}",
        "'a'",
        "\"\\ud800\"",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(parse(b"\"\xff\"").is_err());
    assert_eq!(Json::from_f64(f64::NAN), Err(JsonRefused::NotFinite));
    assert_eq!(
        Json::from_f64(f64::NEG_INFINITY),
        Err(JsonRefused::NotFinite)
    );
    assert_eq!(Json::from_i128(1 << 64), Err(JsonRefused::TooBig));
    assert_eq!(Json::text("a\0b"), Err(JsonRefused::Nul));
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(parse(nested(MAX_JSON_DEPTH).as_bytes()).is_ok());
    assert!(refusal(&nested(MAX_JSON_DEPTH + 1)).contains("nested too deeply"));
    assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    let maps = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
    assert!(refusal(&maps).contains("nested too deeply"));
}

#[test]
fn errors_name_their_place() {
    let error = parse(b"{\n  \"a\": ,\n}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 8));
    assert_eq!(error.message, "expected value");
}

#[test]
fn equal_however_built() {
    let parsed = read(r#"{"b":2,"a":[1,"x"]}"#);
    let built = Json::object([
        (
            "a",
            Json::list([Json::from_f64(1.0).unwrap(), Json::from("x")]),
        ),
        ("b", Json::from(2_u64)),
    ]);
    assert_eq!(parsed, built);
    assert_eq!(to_canonical(&parsed), to_canonical(&built));
}

#[test]
fn typed_fields_write_the_same_text() {
    let mut writer = CanonicalWriter::default();
    let mut object = writer.object();
    object
        .field("a", &1_i64)
        .optional("b", None::<&String>)
        .optional("c", Some(&true))
        .field("d", "x\"y");
    object
        .key("e")
        .list([1_u64, u64::MAX], CanonicalWriter::uint);
    drop(object.key("f").object());
    object.key("g").null();
    drop(object);
    let text = String::from_utf8(writer.into_bytes()).unwrap();
    assert_eq!(
        text,
        r#"{"a":1,"c":true,"d":"x\"y","e":[1,18446744073709551615],"f":{},"g":null}"#
    );
    assert_eq!(canonical(&text), text);
}

#[test]
#[should_panic(expected = "canonical keys must rise")]
fn keys_out_of_order_are_a_mistake_of_the_caller() {
    let mut writer = CanonicalWriter::default();
    writer.object().field("b", &1_i64).field("a", &2_i64);
}

#[test]
fn access() {
    let value =
        read(r#"{"a":{"n":-1,"u":18446744073709551615,"f":0.5,"t":"x","b":true,"l":[null]}}"#);
    let a = value.get("a").unwrap();
    assert_eq!(a.get("n").and_then(Json::as_i64), Some(-1));
    assert_eq!(a.get("n").and_then(Json::as_u64), None);
    assert_eq!(a.get("u").and_then(Json::as_u64), Some(u64::MAX));
    assert_eq!(a.get("u").and_then(Json::as_i64), None);
    assert_eq!(a.get("f").and_then(Json::as_f64), Some(0.5));
    assert_eq!(a.get("t").and_then(Json::as_str), Some("x"));
    assert_eq!(a.get("b").and_then(Json::as_bool), Some(true));
    assert!(a.get("l").and_then(Json::as_list).unwrap()[0].is_null());
    assert_eq!(a.get("absent"), None);
    assert_eq!(a.as_map().unwrap().len(), 6);
    assert_eq!(Json::from("a\0b").as_str(), Some("a\u{FFFD}b"));
    assert_eq!(
        Json::object([("a\0b", Json::Null)]).to_string(),
        "{\"a\u{FFFD}b\":null}"
    );
    assert_eq!(Json::from(None::<bool>), Json::Null);
}

/// Any value that can be, up to a few levels deep.
pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let text = "[^\\x00]{0,8}";
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_filter_map("finite", |value| Json::from_f64(value).ok()),
        text.prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::list),
            prop::collection::vec((text, inner), 0..5).prop_map(Json::object),
        ]
    })
}

type Entries = Vec<(String, Json)>;

fn sorted_and_shuffled() -> impl Strategy<Value = (Entries, Entries)> {
    prop::collection::btree_map("[a-z]{1,4}", any_json(), 0..8).prop_flat_map(|entries| {
        let sorted: Entries = entries.into_iter().collect();
        (Just(sorted.clone()), Just(sorted).prop_shuffle())
    })
}

fn fields_of(value: JsonRef<'_>) -> Vec<(String, Json)> {
    let mut fields = Vec::new();
    value
        .fields(|key, value| fields.push((key.to_owned(), value.to_json().unwrap())))
        .unwrap();
    fields
}

#[test]
fn a_text_is_looked_into_where_it_lies() {
    let text = r#" { "a\u0062" : "x\"y}" , "n" : -0 ,"l":[{"]":"}"}, 1 ],
        "f":1.0,"o":{"\\":null},"big":18446744073709551615 , "t" : true } "#;
    let value = read(text);
    let lying = JsonRef::Text(text);
    let mut fields = fields_of(lying);
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(fields, fields_of(JsonRef::Tree(&value)));
    let word = |key: &str| lying.get(key).unwrap().unwrap().word();
    assert_eq!(word("ab").as_deref(), Some("x\"y}"));
    assert_eq!(word("n").as_deref(), Some("0"));
    assert_eq!(word("f").as_deref(), Some("1"));
    assert_eq!(word("big").as_deref(), Some("18446744073709551615"));
    assert_eq!(word("t"), None);
    assert!(lying.get("absent").unwrap().is_none());
    for nothing in ["{}", " { } ", "[]", "null", "1", "\"{\""] {
        assert_eq!(fields_of(JsonRef::Text(nothing)), []);
    }
}

#[test]
fn what_is_no_object_and_no_other_value_is_refused() {
    for text in [
        "",
        "{",
        "nul",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\":1}}",
        "{\"a\":\"x}",
        "{\"a\":[1,2}",
        "{\"a\\\":1}",
        "{a:1}",
        "{\"\\x\":1}",
    ] {
        assert_eq!(JsonRef::Text(text).fields(|_, _| {}), Err(NoJson), "{text}");
    }
}

proptest! {
    #[test]
    fn a_value_is_the_same_where_it_lies(value in any_json()) {
        let text = value.to_string();
        let (tree, lying) = (JsonRef::Tree(&value), JsonRef::Text(&text));
        prop_assert_eq!(fields_of(lying), fields_of(tree));
        prop_assert_eq!(lying.word(), tree.word());
        prop_assert_eq!(lying.number(), tree.number());
        prop_assert_eq!(lying.is_null(), tree.is_null());
        prop_assert_eq!(lying.is_map(), tree.is_map());
        prop_assert_eq!(lying.to_json().unwrap(), value.clone());
        for (key, under) in fields_of(tree) {
            prop_assert_eq!(lying.get(&key).unwrap().unwrap().to_json().unwrap(), under);
        }
    }

    #[test]
    fn any_text_is_walked_over_or_refused(text in ".{0,40}|[{}\\[\\]\",:\\\\ 1a]{0,24}") {
        let _ = JsonRef::Text(&text).fields(|_, value| {
            let _ = (value.word(), value.number(), value.to_json());
        });
    }

    #[test]
    fn reading_the_canonical_text_gives_the_value(value in any_json()) {
        let text = to_canonical(&value);
        let again = parse(&text).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(to_canonical(&again), text);
    }

    #[test]
    fn serde_writes_the_same_value(value in any_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(parse(&text).unwrap(), value);
    }

    #[test]
    fn the_order_of_insertion_does_not_matter((sorted, shuffled) in sorted_and_shuffled()) {
        prop_assert_eq!(
            to_canonical(&Json::object(sorted)),
            to_canonical(&Json::object(shuffled))
        );
    }

    #[test]
    fn integral_floats_are_integers(value in -9_007_199_254_740_992_i64..=9_007_199_254_740_992) {
        #[expect(clippy::cast_precision_loss, reason = "within 2^53, where floats are exact")]
        let float = Json::from_f64(value as f64).unwrap();
        prop_assert_eq!(float, Json::Int(value));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(value) = parse(&bytes) {
            prop_assert_eq!(parse(&to_canonical(&value)).unwrap(), value);
        }
    }

    #[test]
    fn clones_share(value in any_json()) {
        if let (Json::Map(one), Json::Map(two)) = (&value, &value.clone()) {
            prop_assert!(Arc::ptr_eq(one, two));
        }
    }
}
