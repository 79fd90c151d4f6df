//! Values of the parameters of statements.

use noetl_playbook::sql::{GivenParams, SqlDialect, find_param_mismatch, find_placeholders};
use noetl_types::{Json, JsonMap, TaskError};

use crate::config::{schema_error, wrong_type};

#[derive(Debug, Clone, Default)]
pub(crate) enum QueryParams {
    #[default]
    None,
    /// For `?`, `?1` and `$1`.
    List(Vec<Json>),
    /// For `:name`, `@name` and `$name`.
    Map(JsonMap),
}

/// A statement with the values of `$1`, `$2` and so on.
pub(crate) struct NumberedStatement<'p> {
    pub(crate) text: String,
    /// Each value with its name in messages.
    pub(crate) values: Vec<(String, &'p Json)>,
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

    /// Checks that the placeholders of the statements and the values match, before any of the
    /// statements runs.
    pub(crate) fn check_statements<'t>(
        &self,
        texts: impl IntoIterator<Item = &'t str>,
        dialect: SqlDialect,
    ) -> Result<(), TaskError> {
        let given = match self {
            Self::None => return Ok(()),
            Self::List(list) => GivenParams::List(list.len()),
            Self::Map(map) => GivenParams::Names(map.keys().map(|name| &**name).collect()),
        };
        find_param_mismatch(texts, dialect, &given).map_or(Ok(()), |error| Err(schema_error(error)))
    }

    /// Numbers the placeholders of a statement from 1, without gaps, as the databases require.
    /// `?` takes the next value of a list, from one statement to the next.
    pub(crate) fn number_placeholders(
        &self,
        text: &str,
        dialect: SqlDialect,
        next_param: &mut usize,
    ) -> NumberedStatement<'_> {
        let mut statement = NumberedStatement { text: String::new(), values: Vec::new() };
        let mut end = 0;
        for placeholder in find_placeholders(text, dialect) {
            let position = placeholder.name.is_empty().then(|| {
                *next_param += 1;
                next_param.to_string()
            });
            let name = position.as_deref().unwrap_or(placeholder.name);
            let Some((name, value)) = self.find_numbered(name) else {
                continue;
            };
            let mut known = statement.values.iter();
            let index = known.position(|(known, _)| *known == name).unwrap_or_else(|| {
                statement.values.push((name, value));
                statement.values.len() - 1
            });
            statement.text.push_str(&text[end..placeholder.range.start]);
            statement.text.push_str(&format!("${}", index + 1));
            end = placeholder.range.end;
        }
        statement.text.push_str(&text[end..]);
        statement
    }

    fn find_numbered(&self, name: &str) -> Option<(String, &Json)> {
        match self {
            Self::None => None,
            Self::List(list) => {
                let index = name.parse::<usize>().ok()?.checked_sub(1)?;
                Some((format!("params[{index}]"), list.get(index)?))
            }
            Self::Map(map) => Some((format!("params.{name}"), map.get(name)?)),
        }
    }

    /// Returns the value of a placeholder by its name in the statement, or else by its position.
    pub(crate) fn find_value(&self, name: Option<&str>, index: usize) -> Result<&Json, TaskError> {
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

#[cfg(test)]
mod tests;
