//! JSON values as parameters of a statement.
//!
//! The server says which type each parameter has, and reads its value from text by the rules of
//! that type. So a number for a `numeric`, a text for a `timestamptz` and a list for an array all
//! come out as if they had been written into the statement, without being written into it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use noetl_types::{Json, TaskError};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::config::{printed, wrong};
use crate::lenient::lenient_json;

/// A parameter as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Null,
    /// In the text form of its type.
    Text(String),
    /// In the binary form of its type.
    Bytes(Vec<u8>),
}

impl ToSql for Bound {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => return Ok(IsNull::Yes),
            Self::Text(text) => out.extend_from_slice(text.as_bytes()),
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        match self {
            Self::Null | Self::Text(_) => Format::Text,
            Self::Bytes(_) => Format::Binary,
        }
    }

    to_sql_checked!();
}

/// A value for a parameter of a type. `name` is what an error calls it.
pub(super) fn bound(name: &str, value: &Json, ty: &Type) -> Result<Bound, TaskError> {
    if value.is_null() {
        return Ok(Bound::Null);
    }
    match ty.kind() {
        Kind::Domain(base) => return bound(name, value, base),
        Kind::Array(element) => return array(name, value, element).map(Bound::Text),
        _ => {}
    }
    if *ty == Type::BYTEA {
        return binary(name, value).map(Bound::Bytes);
    }
    Ok(Bound::Text(text(value, ty)))
}

fn text(value: &Json, ty: &Type) -> String {
    if matches!(*ty, Type::JSON | Type::JSONB) {
        return match value {
            // A text that is JSON already, as the filter `tojson` gives, is not wrapped again.
            Json::Str(text) if lenient_json(text.as_bytes()).is_ok() => text.to_string(),
            other => other.to_string(),
        };
    }
    printed(value).unwrap_or_else(|| value.to_string())
}

/// Bytes come as base64, alone or as the map that an http task gives.
fn binary(name: &str, value: &Json) -> Result<Vec<u8>, TaskError> {
    let wrong = || wrong(name, "bytes in base64", value);
    let text = value
        .as_str()
        .or_else(|| value.get("base64").and_then(Json::as_str))
        .ok_or_else(wrong)?;
    let packed: String = text.split_whitespace().collect();
    STANDARD.decode(packed).map_err(|_| wrong())
}

/// An array in the notation of the server. A text is taken to be one already, unless it is a list
/// of JSON.
fn array(name: &str, value: &Json, element: &Type) -> Result<String, TaskError> {
    match value {
        Json::List(items) => literal(name, items, element),
        Json::Str(text) => match lenient_json(text.as_bytes()) {
            Ok(Json::List(items)) => literal(name, &items, element),
            Ok(_) | Err(_) => Ok(text.to_string()),
        },
        other => Err(wrong(name, "a list", other)),
    }
}

fn literal(name: &str, items: &[Json], element: &Type) -> Result<String, TaskError> {
    let item = |item: &Json| match item {
        Json::Null => Ok("NULL".to_owned()),
        Json::List(inner) if !is_json(element) => literal(name, inner, element),
        other => Ok(match bound(name, other, element)? {
            Bound::Null => "NULL".to_owned(),
            Bound::Text(text) => in_quotes(&text),
            Bound::Bytes(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                in_quotes(&format!("\\x{hex}"))
            }
        }),
    };
    let items = items.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{{{}}}", items.join(",")))
}

fn is_json(ty: &Type) -> bool {
    matches!(*ty, Type::JSON | Type::JSONB)
}

fn in_quotes(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use noetl_types::json::parse;

    fn shown(value: &str, ty: &Type) -> String {
        let value = parse(value.as_bytes()).unwrap();
        match bound("params[0]", &value, ty) {
            Ok(Bound::Null) => "NULL".to_owned(),
            Ok(Bound::Text(text)) => text,
            Ok(Bound::Bytes(bytes)) => format!("{bytes:?}"),
            Err(error) => error.message.to_string(),
        }
    }

    #[test]
    fn values_take_the_form_of_their_type() {
        assert_eq!(shown("null", &Type::INT4), "NULL");
        assert_eq!(shown("1.5", &Type::NUMERIC), "1.5");
        assert_eq!(shown("true", &Type::BOOL), "true");
        assert_eq!(shown("7", &Type::TEXT), "7");
        assert_eq!(shown(r#"{"a":[1]}"#, &Type::TEXT), r#"{"a":[1]}"#);
        assert_eq!(shown(r#""AQI=""#, &Type::BYTEA), "[1, 2]");
        assert_eq!(shown(r#"{"base64":"AQI="}"#, &Type::BYTEA), "[1, 2]");
        assert_eq!(
            shown("7", &Type::BYTEA),
            "'params[0]' must be bytes in base64, not number"
        );
    }

    #[test]
    fn texts_that_are_json_stay_what_they_are() {
        assert_eq!(shown(r#""[1,2]""#, &Type::JSONB), "[1,2]");
        assert_eq!(shown(r#""plain""#, &Type::JSONB), "\"plain\"");
        assert_eq!(shown("[1,2]", &Type::JSON), "[1,2]");
    }

    #[test]
    fn lists_are_arrays() {
        assert_eq!(shown("[1,null,3]", &Type::INT4_ARRAY), r#"{"1",NULL,"3"}"#);
        assert_eq!(shown("[[1],[2]]", &Type::INT4_ARRAY), r#"{{"1"},{"2"}}"#);
        assert_eq!(shown(r#"["a\"b\\"]"#, &Type::TEXT_ARRAY), r#"{"a\"b\\"}"#);
        assert_eq!(shown(r#""{1,2}""#, &Type::INT4_ARRAY), "{1,2}");
        assert_eq!(shown(r#""[1,2]""#, &Type::INT4_ARRAY), r#"{"1","2"}"#);
        assert_eq!(shown(r#"["AQI="]"#, &Type::BYTEA_ARRAY), r#"{"\\x0102"}"#);
        assert_eq!(shown("[]", &Type::TEXT_ARRAY), "{}");
        assert_eq!(
            shown("7", &Type::TEXT_ARRAY),
            "'params[0]' must be a list, not number"
        );
    }
}
