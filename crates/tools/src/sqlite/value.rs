//! Values of SQLite as JSON, and back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Row, Statement};

use super::fault;
use crate::config::wrong;

/// A value as JSON. What is not a number in JSON is a text.
pub(super) fn json(value: ValueRef<'_>) -> Json {
    match value {
        ValueRef::Null => Json::Null,
        ValueRef::Integer(number) => Json::from(number),
        ValueRef::Real(number) => Json::from_f64(number).unwrap_or_else(|_| {
            Json::from(if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            })
        }),
        ValueRef::Text(text) => Json::from(&*String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Json::from(STANDARD.encode(bytes)),
    }
}

/// A row in the order of its columns.
pub(super) fn row(row: &Row<'_>, columns: usize) -> Result<Vec<Json>, TaskError> {
    (0..columns)
        .map(|index| Ok(json(row.get_ref(index).map_err(fault::of)?)))
        .collect()
}

/// A JSON value as a value. Bools are 0 and 1, as the database itself has them; a map with `base64`
/// is bytes, and other maps and lists are JSON text.
pub(super) fn value(name: &str, json: &Json) -> Result<Value, TaskError> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Integer((*value).into()),
        Json::Int(number) => Value::Integer(*number),
        // Wider than an integer of the database, and too exact for its floats.
        Json::UInt(number) => Value::Text(number.to_string()),
        Json::Float(number) => Value::Real(*number),
        Json::Str(text) => Value::Text(text.to_string()),
        Json::Map(fields) => match fields.get("base64") {
            Some(encoded) => Value::Blob(bytes(name, encoded)?),
            None => Value::Text(json.to_string()),
        },
        Json::List(_) => Value::Text(json.to_string()),
    })
}

/// The bytes of a base64 text.
pub(super) fn bytes(name: &str, encoded: &Json) -> Result<Vec<u8>, TaskError> {
    let wrong = || wrong(name, "bytes in base64", encoded);
    let packed: String = encoded
        .as_str()
        .ok_or_else(wrong)?
        .split_whitespace()
        .collect();
    STANDARD.decode(packed).map_err(|_| wrong())
}

/// The values of a statement's parameters.
#[derive(Debug, Clone, Default)]
pub(crate) enum Params {
    #[default]
    None,
    /// For `?`, `?1` and `$1`.
    List(Vec<Json>),
    /// For `:name`, `@name` and `$name`.
    Map(JsonMap),
}

impl Params {
    pub(crate) fn read(params: Option<&Json>) -> Result<Self, TaskError> {
        match params {
            None => Ok(Self::None),
            Some(Json::List(list)) => Ok(Self::List(list.to_vec())),
            Some(Json::Map(map)) => Ok(Self::Map(map.as_ref().clone())),
            Some(other) => Err(wrong("params", "a list or a map", other)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
        }
    }

    /// Binds all parameters of a statement.
    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> Result<(), TaskError> {
        let count = statement.parameter_count();
        if let Self::List(list) = self
            && list.len() != count
        {
            let message = format!(
                "the statement has {count} parameters, but 'params' has {} values",
                list.len()
            );
            return Err(TaskError::new(TaskErrorKind::Schema, message));
        }
        for index in 1..=count {
            let name = statement.parameter_name(index).map(str::to_owned);
            let bound = value("params", self.find(name.as_deref(), index)?)?;
            statement
                .raw_bind_parameter(index, bound)
                .map_err(fault::of)?;
        }
        Ok(())
    }

    /// The value of a parameter by its name in the statement, or else by its number.
    fn find(&self, name: Option<&str>, index: usize) -> Result<&Json, TaskError> {
        let bare = name.map(|name| name.trim_start_matches([':', '@', '$', '?']));
        // `$2` has a name that is a number, and means the second value wherever it stands.
        let number = bare.map_or(Some(index), |bare| bare.parse().ok());
        let found = match self {
            Self::None => None,
            Self::List(list) => number.and_then(|number| list.get(number.checked_sub(1)?)),
            Self::Map(map) => bare.and_then(|bare| map.get(bare)),
        };
        found.ok_or_else(|| {
            let what = name.map_or_else(|| format!("number {index}"), |name| format!("'{name}'"));
            let message = format!("the parameter {what} has no value in 'params'");
            TaskError::new(TaskErrorKind::Schema, message)
        })
    }
}
