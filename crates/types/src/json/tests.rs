use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::limits::MAX_JSON_DEPTH;

fn parse_json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap()
}

fn canonical_text(text: &str) -> String {
    parse_json(text).to_string()
}

fn parse_error(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn sorts_keys_and_removes_whitespace() {
    assert_eq!(
        canonical_text(
            r#" { "b" : [ { "z" : 1 , "a" : null } , true ] , "a" : { } , "B" : "x y" } "#
        ),
        r#"{"B":"x y","a":{},"b":[{"a":null,"z":1},true]}"#
    );
}

#[test]
fn sorts_keys_by_code_point() {
    // UTF-16 order would put the astral character first. UTF-8 order equals code point order.
    assert_eq!(
        canonical_text("{\"\u{1F600}\":1,\"\u{FB33}\":2,\"é\":3,\"e\":4}"),
        "{\"e\":4,\"é\":3,\"\u{FB33}\":2,\"\u{1F600}\":1}"
    );
}

#[test]
fn integers_are_exact() {
    for digits in [
        "0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808",
        "9223372036854775808", "18446744073709551615",
    ] {
        assert_eq!(canonical_text(digits), digits);
    }
    // Larger integers do not fit 64 bits and are printed as floats.
    assert_eq!(canonical_text("18446744073709551616"), "18446744073709552000");
    assert_eq!(canonical_text("-9223372036854775809"), "-9223372036854775808");
}

#[test]
fn equal_numbers_have_one_form() {
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
        assert_eq!(canonical_text(form), one, "{form}");
        assert_eq!(parse_json(form), parse_json(one), "{form}");
    }
}

/// Samples of RFC 8785, appendix B, and of the ECMAScript rules that it refers to.
#[test]
fn floats_are_printed_as_in_rfc_8785() {
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
        assert_eq!(parse_json(text), Json::from_f64(value).unwrap(), "{text} reads back");
    }
    for (form, text) in [
        ("1e21", "1e+21"),
        ("1E-7", "1e-7"),
        ("333333333.33333329", "333333333.3333333"),
        ("4.50", "4.5"),
        ("2e-3", "0.002"),
        ("0.000000000000000000000000001", "1e-27"),
    ] {
        assert_eq!(canonical_text(form), text);
    }
}

#[test]
fn escapes_only_required_characters() {
    assert_eq!(
        canonical_text(r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#),
        r#""€$\u000f\nA'B\"\\\\\"/""#
    );
    assert_eq!(canonical_text(r#""\b\t\n\f\r\u001f\u007f""#), "\"\\b\\t\\n\\f\\r\\u001f\u{7f}\"");
    assert_eq!(canonical_text(r#""\ud83d\ude00""#), "\"\u{1F600}\"");
}

#[test]
fn rejects_values_the_log_cannot_store() {
    assert_eq!(parse_error(r#"["a\u0000b"]"#), "text contains a NUL character at line 1 column 11");
    assert!(parse_error(r#"{"a\u0000":1}"#).contains("NUL"));
    assert!(parse_error(r#"{"a":1,"b":{"c":1,"c":2}}"#).contains("duplicate key \"c\""));
    assert!(parse_error("1e999").contains("out of range"));
    for text in ["NaN", "Infinity", "01", "1.", "", "[1,]", "{} {}", "'a'", "\"\\ud800\""] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(parse(b"\"\xff\"").is_err());
    assert_eq!(Json::from_f64(f64::NAN), Err(JsonValueError::NotFinite));
    assert_eq!(Json::from_f64(f64::NEG_INFINITY), Err(JsonValueError::NotFinite));
    assert_eq!(Json::from_i128(1 << 64), Err(JsonValueError::TooBig));
    assert_eq!(Json::text("a\0b"), Err(JsonValueError::Nul));
}

#[test]
fn nesting_depth_is_limited() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(parse(nested(MAX_JSON_DEPTH).as_bytes()).is_ok());
    assert!(parse_error(&nested(MAX_JSON_DEPTH + 1)).contains("nested too deeply"));
    assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    let maps = format!("{}1{}", r#"{"a":"#.repeat(65), "}".repeat(65));
    assert!(parse_error(&maps).contains("nested too deeply"));
}

#[test]
fn parse_error_has_line_and_column() {
    let error = parse(b"{\n  \"a\": ,\n}").unwrap_err();
    assert_eq!((error.line, error.column), (2, 8));
    assert_eq!(error.message, "expected value");
}

#[test]
fn parsed_and_built_values_are_equal() {
    let parsed = parse_json(r#"{"b":2,"a":[1,"x"]}"#);
    let built = Json::object([
        ("a", Json::list([Json::from_f64(1.0).unwrap(), Json::from("x")])),
        ("b", Json::from(2_u64)),
    ]);
    assert_eq!(parsed, built);
    assert_eq!(to_canonical(&parsed), to_canonical(&built));
}

#[test]
fn writer_produces_canonical_text() {
    let mut writer = CanonicalWriter::default();
    let mut object = writer.begin_object();
    object
        .write_field("a", &1_i64)
        .write_field("b", &None::<String>)
        .write_field("c", &Some(true))
        .write_field("d", "x\"y");
    object.write_key("e").write_list([1_u64, u64::MAX], CanonicalWriter::write_uint);
    drop(object.write_key("f").begin_object());
    object.write_key("g").write_null();
    drop(object);
    let text = String::from_utf8(writer.into_bytes()).unwrap();
    assert_eq!(text, r#"{"a":1,"c":true,"d":"x\"y","e":[1,18446744073709551615],"f":{},"g":null}"#);
    assert_eq!(canonical_text(&text), text);
}

#[test]
#[should_panic(expected = "canonical keys must be in ascending order")]
fn writer_panics_on_unsorted_keys() {
    let mut writer = CanonicalWriter::default();
    writer.begin_object().write_field("b", &1_i64).write_field("a", &2_i64);
}

#[test]
fn accessors_return_typed_values() {
    let value = parse_json(
        r#"{"a":{"n":-1,"u":18446744073709551615,"f":0.5,"t":"x","b":true,"l":[null]}}"#,
    );
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
    assert_eq!(Json::object([("a\0b", Json::Null)]).to_string(), "{\"a\u{FFFD}b\":null}");
    assert_eq!(Json::from(None::<bool>), Json::Null);
}

/// Any JSON value, up to a few levels deep.
pub(crate) fn arb_json() -> impl Strategy<Value = Json> {
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

type JsonEntries = Vec<(String, Json)>;

fn arb_sorted_and_shuffled() -> impl Strategy<Value = (JsonEntries, JsonEntries)> {
    prop::collection::btree_map("[a-z]{1,4}", arb_json(), 0..8).prop_flat_map(|entries| {
        let sorted: JsonEntries = entries.into_iter().collect();
        (Just(sorted.clone()), Just(sorted).prop_shuffle())
    })
}

fn collect_fields(value: JsonRef<'_>) -> Vec<(String, Json)> {
    let mut fields = Vec::new();
    value
        .for_each_field(|key, value| fields.push((key.to_owned(), value.to_json().unwrap())))
        .unwrap();
    fields
}

#[test]
fn raw_text_has_same_fields_as_tree() {
    let text = r#" { "a\u0062" : "x\"y}" , "n" : -0 ,"l":[{"]":"}"}, 1 ],
        "f":1.0,"o":{"\\":null},"big":18446744073709551615 , "t" : true } "#;
    let value = parse_json(text);
    let raw = JsonRef::Text(text);
    let mut fields = collect_fields(raw);
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(fields, collect_fields(JsonRef::Tree(&value)));
    let name_or_id = |key: &str| raw.get(key).unwrap().unwrap().as_name_or_id();
    assert_eq!(name_or_id("ab").as_deref(), Some("x\"y}"));
    assert_eq!(name_or_id("n").as_deref(), Some("0"));
    assert_eq!(name_or_id("f").as_deref(), Some("1"));
    assert_eq!(name_or_id("big").as_deref(), Some("18446744073709551615"));
    assert_eq!(name_or_id("t"), None);
    assert!(raw.get("absent").unwrap().is_none());
    for nothing in ["{}", " { } ", "[]", "null", "1", "\"{\""] {
        assert_eq!(collect_fields(JsonRef::Text(nothing)), []);
    }
}

#[test]
fn rejects_invalid_raw_text() {
    for text in [
        "", "{", "nul", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1,}", "{\"a\":1}}",
        "{\"a\":\"x}", "{\"a\":[1,2}", "{\"a\\\":1}", "{a:1}", "{\"\\x\":1}",
    ] {
        assert_eq!(JsonRef::Text(text).for_each_field(|_, _| {}), Err(InvalidJson), "{text}");
    }
}

proptest! {
    #[test]
    fn raw_text_equals_tree(value in arb_json()) {
        let text = value.to_string();
        let (tree, raw) = (JsonRef::Tree(&value), JsonRef::Text(&text));
        prop_assert_eq!(collect_fields(raw), collect_fields(tree));
        prop_assert_eq!(raw.as_name_or_id(), tree.as_name_or_id());
        prop_assert_eq!(raw.as_count(), tree.as_count());
        prop_assert_eq!(raw.is_null(), tree.is_null());
        prop_assert_eq!(raw.is_map(), tree.is_map());
        prop_assert_eq!(raw.to_json().unwrap(), value.clone());
        for (key, field) in collect_fields(tree) {
            prop_assert_eq!(raw.get(&key).unwrap().unwrap().to_json().unwrap(), field);
        }
    }

    #[test]
    fn raw_access_never_panics(text in ".{0,40}|[{}\\[\\]\",:\\\\ 1a]{0,24}") {
        let _ = JsonRef::Text(&text).for_each_field(|_, value| {
            let _ = (value.as_name_or_id(), value.as_count(), value.to_json());
        });
    }

    #[test]
    fn canonical_text_round_trips(value in arb_json()) {
        let text = to_canonical(&value);
        let again = parse(&text).unwrap();
        prop_assert_eq!(&again, &value);
        prop_assert_eq!(to_canonical(&again), text);
    }

    #[test]
    fn serde_output_parses_to_same_value(value in arb_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(parse(&text).unwrap(), value);
    }

    #[test]
    fn canonical_text_ignores_insertion_order((sorted, shuffled) in arb_sorted_and_shuffled()) {
        prop_assert_eq!(
            to_canonical(&Json::object(sorted)),
            to_canonical(&Json::object(shuffled))
        );
    }

    #[test]
    fn integral_floats_become_integers(value in -9_007_199_254_740_992_i64..=9_007_199_254_740_992) {
        #[expect(clippy::cast_precision_loss, reason = "within 2^53, where floats are exact")]
        let float = Json::from_f64(value as f64).unwrap();
        prop_assert_eq!(float, Json::Int(value));
    }

    #[test]
    fn parsing_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(value) = parse(&bytes) {
            prop_assert_eq!(parse(&to_canonical(&value)).unwrap(), value);
        }
    }

    #[test]
    fn clones_share_maps(value in arb_json()) {
        if let (Json::Map(one), Json::Map(two)) = (&value, &value.clone()) {
            prop_assert!(Arc::ptr_eq(one, two));
        }
    }
}
