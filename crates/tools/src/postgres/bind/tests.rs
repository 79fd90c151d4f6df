use super::*;
use noetl_types::json::parse;

fn bound_text(value: &str, ty: &Type) -> String {
    let value = parse(value.as_bytes()).unwrap();
    match bind_value("params[0]", &value, ty) {
        Ok(BoundParam::Null) => "NULL".to_owned(),
        Ok(BoundParam::Text(text)) => text,
        Ok(BoundParam::Bytes(bytes)) => format!("{bytes:?}"),
        Err(error) => error.message.to_string(),
    }
}

#[test]
fn values_convert_to_their_type() {
    assert_eq!(bound_text("null", &Type::INT4), "NULL");
    assert_eq!(bound_text("1.5", &Type::NUMERIC), "1.5");
    assert_eq!(bound_text("true", &Type::BOOL), "true");
    assert_eq!(bound_text("7", &Type::TEXT), "7");
    assert_eq!(bound_text(r#"{"a":[1]}"#, &Type::TEXT), r#"{"a":[1]}"#);
    assert_eq!(bound_text(r#""AQI=""#, &Type::BYTEA), "[1, 2]");
    assert_eq!(bound_text(r#"{"base64":"AQI="}"#, &Type::BYTEA), "[1, 2]");
    assert_eq!(
        bound_text("7", &Type::BYTEA),
        "'params[0]' must be base64-encoded bytes, not number"
    );
}

#[test]
fn json_text_is_not_reencoded() {
    assert_eq!(bound_text(r#""[1,2]""#, &Type::JSONB), "[1,2]");
    assert_eq!(bound_text(r#""plain""#, &Type::JSONB), "\"plain\"");
    assert_eq!(bound_text("[1,2]", &Type::JSON), "[1,2]");
}

#[test]
fn lists_become_arrays() {
    assert_eq!(bound_text("[1,null,3]", &Type::INT4_ARRAY), r#"{"1",NULL,"3"}"#);
    assert_eq!(bound_text("[[1],[2]]", &Type::INT4_ARRAY), r#"{{"1"},{"2"}}"#);
    assert_eq!(bound_text(r#"["a\"b\\"]"#, &Type::TEXT_ARRAY), r#"{"a\"b\\"}"#);
    assert_eq!(bound_text(r#""{1,2}""#, &Type::INT4_ARRAY), "{1,2}");
    assert_eq!(bound_text(r#""[1,2]""#, &Type::INT4_ARRAY), r#"{"1","2"}"#);
    assert_eq!(bound_text(r#"["AQI="]"#, &Type::BYTEA_ARRAY), r#"{"\\x0102"}"#);
    assert_eq!(bound_text("[]", &Type::TEXT_ARRAY), "{}");
    assert_eq!(bound_text("7", &Type::TEXT_ARRAY), "'params[0]' must be a list, not number");
}
