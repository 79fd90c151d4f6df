//! Conversion of JSON values to statement parameters.
//!
//! The server reports the type of each parameter and parses its value from text by the rules of
//! that type. So a number for a `numeric`, a text for a `timestamptz` and a list for an array have
//! the same effect as literals in the statement, without being part of it.

use bytes::BytesMut;
use noetl_types::{Json, TaskError};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

use crate::config::{decode_base64, scalar_text, wrong_type};
use crate::lenient::lenient_json;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BoundParam {
    Null,
    /// In the text format of its type.
    Text(String),
    /// In the binary format of its type.
    Bytes(Vec<u8>),
}

impl ToSql for BoundParam {
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

/// Encodes a value for a parameter of a type. Errors refer to it as `name`.
pub(super) fn bind_value(name: &str, value: &Json, ty: &Type) -> Result<BoundParam, TaskError> {
    if value.is_null() {
        return Ok(BoundParam::Null);
    }
    match ty.kind() {
        Kind::Domain(base) => return bind_value(name, value, base),
        Kind::Array(element) => {
            return to_array_literal(name, value, element).map(BoundParam::Text);
        }
        _ => {}
    }
    if *ty == Type::BYTEA {
        return decode_bytea(name, value).map(BoundParam::Bytes);
    }
    Ok(BoundParam::Text(param_text(value, ty)))
}

fn param_text(value: &Json, ty: &Type) -> String {
    if matches!(*ty, Type::JSON | Type::JSONB) {
        return match value {
            // A text that is already JSON, such as the result of the filter `tojson`, is not
            // encoded again.
            Json::Str(text) if lenient_json(text.as_bytes()).is_ok() => text.to_string(),
            other => other.to_string(),
        };
    }
    scalar_text(value).unwrap_or_else(|| value.to_string())
}

/// Decodes base64, given as a text or as the map that an http task returns.
fn decode_bytea(name: &str, value: &Json) -> Result<Vec<u8>, TaskError> {
    let text = value.as_str().or_else(|| value.get("base64").and_then(Json::as_str));
    let bytes = text.and_then(|text| decode_base64(text).ok());
    bytes.ok_or_else(|| wrong_type(name, "base64-encoded bytes", value))
}

/// Converts a value to an array literal. A text is passed through unless it is a JSON list.
fn to_array_literal(name: &str, value: &Json, element: &Type) -> Result<String, TaskError> {
    match value {
        Json::List(items) => format_array(name, items, element),
        Json::Str(text) => match lenient_json(text.as_bytes()) {
            Ok(Json::List(items)) => format_array(name, &items, element),
            Ok(_) | Err(_) => Ok(text.to_string()),
        },
        other => Err(wrong_type(name, "a list", other)),
    }
}

fn format_array(name: &str, items: &[Json], element: &Type) -> Result<String, TaskError> {
    let format_item = |format_item: &Json| match format_item {
        Json::Null => Ok("NULL".to_owned()),
        Json::List(inner) if !is_json(element) => format_array(name, inner, element),
        other => Ok(match bind_value(name, other, element)? {
            BoundParam::Null => "NULL".to_owned(),
            BoundParam::Text(text) => quote_element(&text),
            BoundParam::Bytes(bytes) => {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                quote_element(&format!("\\x{hex}"))
            }
        }),
    };
    let items = items.iter().map(format_item).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("{{{}}}", items.join(",")))
}

fn is_json(ty: &Type) -> bool {
    matches!(*ty, Type::JSON | Type::JSONB)
}

fn quote_element(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests;
