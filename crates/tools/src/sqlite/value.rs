//! Conversion between SQLite values and JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, TaskError};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Statement};

use crate::config::decode_base64_bytes;
use crate::sql::{QueryParams, SqlError};

/// Converts a value to JSON. Infinities, which JSON lacks, become texts.
pub(super) fn value_to_json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => Json::from(number),
        ValueRef::Real(number) => Json::from_f64(number)
            .unwrap_or_else(|_| Json::from(if number > 0.0 { "Infinity" } else { "-Infinity" })),
        ValueRef::Text(text) => Json::from(&*String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Json::from(STANDARD.encode(bytes)),
    }
}

/// Converts a row, in the order of its columns.
pub(super) fn row_to_json(row: &Row<'_>, columns: usize) -> Result<Vec<Json>, SqlError> {
    (0..columns).map(|index| Ok(value_to_json(row.get_ref(index)?))).collect()
}

/// Converts a JSON value to a SQLite value. Bools become 0 and 1, as in SQLite itself. A map with
/// `base64` becomes a blob, and other maps and lists become JSON text.
pub(super) fn json_to_value(name: &str, json: &Json) -> Result<Value, TaskError> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer((*value).into()),
        Json::Int(number) => Value::Integer(*number),
        // Too large for an integer of SQLite, and a float would lose precision.
        Json::UInt(number) => Value::Text(number.to_string()),
        Json::Float(number) => Value::Real(*number),
        Json::Str(text) => Value::Text(text.to_string()),
        Json::Map(fields) => match fields.get("base64") {
            Some(encoded) => Value::Blob(decode_base64_bytes(name, encoded)?),
            None => Value::Text(json.to_string()),
        },
        Json::List(_) => Value::Text(json.to_string()),
    })
}

/// Binds the parameters of a statement. `next` counts the values of a list that earlier statements
/// took for `?`.
pub(super) fn bind_params(
    statement: &mut Statement<'_>,
    params: &QueryParams,
    next: &mut usize,
) -> Result<(), SqlError> {
    let count = statement.parameter_count();
    // In a statement with `?3`, `?` is the one after the highest number before it.
    let is_numbered = (1..=count)
        .any(|index| statement.parameter_name(index).is_some_and(|name| name.starts_with('?')));
    for index in 1..=count {
        let name = statement.parameter_name(index).map(str::to_owned);
        let position = if is_numbered || name.is_some() {
            index
        } else {
            *next += 1;
            *next
        };
        let value = json_to_value("params", params.find_value(name.as_deref(), position)?)?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}
