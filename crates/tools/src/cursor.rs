//! The claims of cursor loops.
//!
//! A claim is a statement that takes rows for a frame. It runs as an ordinary call of the cursor's
//! kind: this module says which, and what rows such a call gave.

use noetl_playbook::model::ToolKind;
use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::call::Outcome;
use crate::config::{Config, missing};

/// The kind and the config of the call that a rendered `cursor` stands for.
///
/// All keys of the cursor but `kind` and `claim` go along, such as `auth`, `options` and, for
/// values that the claim binds, `params`.
pub fn claim(cursor: &JsonMap) -> Result<(ToolKind, JsonMap), TaskError> {
    let fields = Config(cursor);
    let kind = match fields.text("kind")? {
        Some("postgres") | None => ToolKind::Postgres,
        Some("sqlite") => ToolKind::Sqlite,
        Some(other) => {
            let message = format!("rows cannot be claimed with '{other}'; use postgres or sqlite");
            return Err(TaskError::new(TaskErrorKind::Unsupported, message));
        }
    };
    let claim = fields
        .text("claim")?
        .ok_or_else(|| missing("'cursor.claim'"))?;
    let mut config = cursor.clone();
    config.remove("kind");
    config.remove("claim");
    config.insert("query".into(), Json::from(claim));
    config.insert("as_objects".into(), Json::from(true));
    Ok((kind, config))
}

/// The rows that a claim took; an empty list ends a chain of frames.
pub fn claimed(outcome: Outcome) -> Result<Vec<Json>, TaskError> {
    if let Some(error) = outcome.error {
        return Err(error);
    }
    let rows = outcome.data.get("rows").and_then(Json::as_list);
    rows.map(<[Json]>::to_vec).ok_or_else(|| {
        let message = "the claim gives no rows; let it end with RETURNING";
        TaskError::new(TaskErrorKind::Schema, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use noetl_types::json::parse;

    #[test]
    fn a_cursor_is_a_call() {
        let cursor = parse(br#"{"auth": {"db_host": "h"}, "claim": "select 1", "options": {}}"#);
        let cursor = cursor.unwrap();
        let (kind, config) = claim(cursor.as_map().unwrap()).unwrap();
        assert_eq!(kind, ToolKind::Postgres);
        assert_eq!(
            Json::from(config).to_string(),
            r#"{"as_objects":true,"auth":{"db_host":"h"},"options":{},"query":"select 1"}"#
        );
        let none = parse(br#"{"kind": "duckdb", "claim": "select 1"}"#).unwrap();
        let error = claim(none.as_map().unwrap()).unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Unsupported);
    }

    #[test]
    fn a_claim_without_rows_to_give_is_a_mistake() {
        let counted = Outcome::ok(Json::object([("affected_rows", Json::from(3))]));
        assert!(claimed(counted).is_err());
        let empty = Outcome::ok(Json::object([("rows", Json::list([]))]));
        assert_eq!(claimed(empty), Ok(Vec::new()));
    }
}
