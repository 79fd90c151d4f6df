//! Conversion between SQLite values and JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, JsonMap, TaskError};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Statement};

use crate::config::{decode_base64_bytes, schema_error, wrong_type};
use crate::sql::{SqlError, check_param_count};

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

#[derive(Debug, Clone, Default)]
pub(crate) enum QueryParams {
    #[default]
    None,
    /// For `?`, `?1` and `$1`.
    List(Vec<Json>),
    /// For `:name`, `@name` and `$name`.
    Map(JsonMap),
}

impl QueryParams {
    pub(crate) fn from_json(params: Option<&Json>) -> Result<Self, TaskError> {
        match params {
            None => Ok(Self::None),
            Some(Json::List(list)) => Ok(Self::List(list.to_vec())),
            Some(Json::Map(map)) => Ok(Self::Map(map.as_ref().clone())),
            Some(other) => Err(wrong_type("params", "a list or a map", other)),
        }
    }

    pub(super) fn bind_statement(&self, statement: &mut Statement<'_>) -> Result<(), SqlError> {
        let count = statement.parameter_count();
        if let Self::List(list) = self {
            check_param_count(count, list)?;
        }
        for index in 1..=count {
            let name = statement.parameter_name(index).map(str::to_owned);
            let value = json_to_value("params", self.find_param(name.as_deref(), index)?)?;
            statement.raw_bind_parameter(index, value)?;
        }
        Ok(())
    }

    /// Returns the value of a parameter by its name in the statement, or else by its number.
    fn find_param(&self, name: Option<&str>, index: usize) -> Result<&Json, TaskError> {
        let bare_name = name.map(|name| name.trim_start_matches([':', '@', '$', '?']));
        // `$2` has a numeric name and means the second value, regardless of its position.
        let number = bare_name.map_or(Some(index), |bare_name| bare_name.parse().ok());
        let value = match self {
            Self::None => None,
            Self::List(list) => number.and_then(|number| list.get(number.checked_sub(1)?)),
            Self::Map(map) => bare_name.and_then(|bare_name| map.get(bare_name)),
        };
        value.ok_or_else(|| {
            let description =
                name.map_or_else(|| format!("number {index}"), |name| format!("'{name}'"));
            schema_error(format!("the parameter {description} has no value in 'params'"))
        })
    }
}
