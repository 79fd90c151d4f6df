//! What the SQL tools share: where statements come from, and what their results look like.
//!
//! Owns no connection and no type of any database.

mod results;
mod statements;

pub(crate) use results::{Answer, Piece, Room, Shape, data};
pub(crate) use statements::{Texts, texts};

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::Config;

/// The map of a task's credential. Aliases are resolved before a tool is called, so a text is one
/// that nobody could resolve.
pub(crate) fn credential<'c>(
    config: Config<'c>,
    fits: &str,
) -> Result<Option<&'c JsonMap>, TaskError> {
    let refused = |message: String| TaskError::new(TaskErrorKind::Auth, message);
    let Some(auth) = config.get("auth") else {
        return Ok(None);
    };
    let Some(fields) = auth.as_map() else {
        let alias = auth.as_str().unwrap_or("?");
        return Err(refused(format!(
            "the credential '{alias}' cannot be resolved: this worker has no keychain that knows \
             it; give the credential as a map, such as {{type: {fits}, ...}}"
        )));
    };
    match fields.get("type").and_then(Json::as_str) {
        Some(kind) if kind != fits => Err(refused(format!(
            "a credential of type '{kind}' does not fit here; it must be of type {fits}"
        ))),
        Some(_) => Ok(Some(fields)),
        None => match fields.get("key").and_then(Json::as_str) {
            Some(alias) if fields.contains_key("source") => Err(refused(format!(
                "the credential '{alias}' cannot be resolved: this worker has no keychain that \
                 knows it"
            ))),
            Some(_) | None => Ok(Some(fields)),
        },
    }
}

/// A name in the quotes of standard SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names in quotes, separated by commas.
pub(crate) fn quoted_list(names: &[Arc<str>]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    names.join(", ")
}

/// The parts of a name such as `schema.table` or `"My.Schema".table`, without their quotes. A part
/// that stands without quotes is folded as the database folds it.
pub(crate) fn parts(name: &str, fold: fn(&str) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = name.trim();
    loop {
        let (part, after) = if let Some(inside) = rest.strip_prefix('"') {
            unquoted(inside)
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (fold(rest[..end].trim()), &rest[end..])
        };
        parts.push(part);
        match after.trim_start().strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None => return parts,
        }
    }
}

/// A name up to its closing quote, and what is behind that.
fn unquoted(inside: &str) -> (String, &str) {
    let mut name = String::new();
    let mut rest = inside;
    while let Some(end) = rest.find('"') {
        name.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return (name, rest),
        }
    }
    (name + rest, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_dots_outside_of_quotes() {
        let lower = |name: &str| parts(name, str::to_lowercase);
        assert_eq!(lower("Rate"), ["rate"]);
        assert_eq!(lower("staging . Rate"), ["staging", "rate"]);
        assert_eq!(lower(r#""My.Schema"."a""b""#), ["My.Schema", "a\"b"]);
        assert_eq!(lower(r#""never closed"#), ["never closed"]);
        assert_eq!(lower(""), [""]);
    }

    #[test]
    fn a_quote_in_a_name_ends_nothing() {
        assert_eq!(
            quoted(r#"a"; drop table b; --"#),
            r#""a""; drop table b; --""#
        );
    }
}
