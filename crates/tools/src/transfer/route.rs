//! Which column of the source becomes which of the target, and the statement that takes them.

use std::sync::Arc;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use super::plan::{Mode, Plan};
use crate::sql::{quoted, quoted_list};

/// The way of a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Where in a row of the source the values are.
    picks: Vec<usize>,
    /// What they are called in the target.
    pub(super) names: Vec<Arc<str>>,
}

impl Route {
    /// Finds the way from the columns of a source to those of a target, where they are known.
    pub(super) fn find(
        plan: &Plan<'_>,
        source: &[Arc<str>],
        target: Option<&[Arc<str>]>,
    ) -> Result<Self, TaskError> {
        let pairs = match plan.mapping {
            Some(mapping) => mapped(mapping, source)?,
            None => source
                .iter()
                .map(|name| (Arc::clone(name), Arc::clone(name)))
                .collect(),
        };
        let mut route = Self {
            picks: Vec::new(),
            names: Vec::new(),
        };
        for (from, to) in ordered(pairs, plan.columns.as_deref())? {
            let pick = source.iter().position(|name| *name == from);
            route
                .picks
                .push(pick.ok_or_else(|| unknown("source", &from, source))?);
            route.names.push(match target {
                Some(columns) => known(columns, &to)?,
                None => to,
            });
        }
        Ok(route)
    }

    /// A row of the source as one of the target.
    pub(super) fn row(&self, row: &[Json]) -> Vec<Json> {
        let cell = |pick: &usize| row.get(*pick).cloned().unwrap_or_default();
        self.picks.iter().map(cell).collect()
    }
}

/// A column of the source and one of the target.
type Pair = (Arc<str>, Arc<str>);

/// Pairs of a source's and a target's column, in the order of the source.
///
/// A mapping leads from the names of the source to those of the target. The other direction is in
/// use as well; it is taken where only the values are names of the source.
fn mapped(mapping: &JsonMap, source: &[Arc<str>]) -> Result<Vec<Pair>, TaskError> {
    let mut pairs = Vec::new();
    for (key, value) in mapping {
        match value {
            Json::Str(name) => pairs.push((Arc::clone(key), Arc::clone(name))),
            other => {
                return Err(crate::config::wrong(
                    &format!("mapping.{key}"),
                    "a name",
                    other,
                ));
            }
        }
    }
    let place = |name: &Arc<str>| source.iter().position(|other| other == name);
    if let Some((missing, _)) = pairs.iter().find(|(from, _)| place(from).is_none()) {
        if pairs.iter().any(|(_, from)| place(from).is_none()) {
            return Err(unknown("source", missing, source));
        }
        for (from, to) in &mut pairs {
            std::mem::swap(from, to);
        }
    }
    pairs.sort_by_key(|(from, _)| place(from));
    Ok(pairs)
}

/// The pairs in the order that the author gives.
fn ordered(pairs: Vec<Pair>, columns: Option<&[Arc<str>]>) -> Result<Vec<Pair>, TaskError> {
    let Some(columns) = columns else {
        return Ok(pairs);
    };
    let pair = |name: &Arc<str>| {
        let found = pairs.iter().find(|(_, to)| to == name).cloned();
        let names: Vec<_> = pairs.iter().map(|(_, to)| Arc::clone(to)).collect();
        found.ok_or_else(|| unknown("mapping", name, &names))
    };
    columns.iter().map(pair).collect()
}

/// The column of a table that a name means: exactly, or else but for upper and lower case.
fn known(columns: &[Arc<str>], name: &Arc<str>) -> Result<Arc<str>, TaskError> {
    let mut alike = columns
        .iter()
        .filter(|column| column.eq_ignore_ascii_case(name));
    let found = columns
        .iter()
        .find(|column| *column == name)
        .or_else(|| alike.next());
    found
        .cloned()
        .ok_or_else(|| unknown("target", name, columns))
}

fn unknown(side: &str, name: &str, columns: &[Arc<str>]) -> TaskError {
    let columns = columns.join(", ");
    let message = format!("the {side} has no column '{name}'; it has {columns}");
    TaskError::new(TaskErrorKind::Schema, message)
}

/// A statement that puts a row into a table. `mark` is how a parameter begins.
pub(super) fn insert(
    table: &str,
    columns: &[Arc<str>],
    mode: Mode,
    keys: &[Arc<str>],
    mark: char,
) -> Result<String, TaskError> {
    let marks: Vec<String> = (1..=columns.len())
        .map(|number| format!("{mark}{number}"))
        .collect();
    let mut text = format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        quoted_list(columns),
        marks.join(", ")
    );
    match mode {
        Mode::Append | Mode::Replace => return Ok(text),
        Mode::Upsert => {}
    }
    if keys.is_empty() {
        let message = "mode 'upsert' needs 'keys': the target has no primary key";
        return Err(TaskError::new(TaskErrorKind::Schema, message));
    }
    let keys = keys
        .iter()
        .map(|key| known(columns, key))
        .collect::<Result<Vec<_>, _>>()?;
    let rest = columns.iter().filter(|column| !keys.contains(column));
    let writes: Vec<String> = rest
        .map(|column| format!("{0} = excluded.{0}", quoted(column)))
        .collect();
    text.push_str(&format!(" ON CONFLICT ({}) DO ", quoted_list(&keys)));
    if writes.is_empty() {
        text.push_str("NOTHING");
    } else {
        text.push_str(&format!("UPDATE SET {}", writes.join(", ")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use noetl_types::json::parse;

    fn names(names: &str) -> Vec<Arc<str>> {
        names.split(' ').map(Arc::from).collect()
    }

    fn route(more: &str, source: &str, target: Option<&str>) -> Result<Route, String> {
        let text = format!(
            r#"{{"source": {{"type": "http"}}, "target": {{"type": "sqlite", "table": "t"}}{more}}}"#
        );
        let config = parse(text.as_bytes()).unwrap();
        let plan = Plan::read(Config(config.as_map().unwrap())).unwrap();
        let target = target.map(names);
        Route::find(&plan, &names(source), target.as_deref())
            .map_err(|error| error.message.to_string())
    }

    #[test]
    fn mappings_of_both_directions() {
        let expected = Route {
            picks: vec![0, 2],
            names: names("code rate"),
        };
        let forth = r#", "mapping": {"value": "rate", "currency": "code"}"#;
        assert_eq!(route(forth, "currency x value", None).unwrap(), expected);
        let back = r#", "mapping": {"rate": "value", "code": "currency"}"#;
        assert_eq!(route(back, "currency x value", None).unwrap(), expected);
        let wrong = r#", "mapping": {"price": "rate"}"#;
        assert_eq!(
            route(wrong, "currency value", None).unwrap_err(),
            "the source has no column 'price'; it has currency, value"
        );
    }

    #[test]
    fn columns_are_found_in_the_table() {
        let found = route("", "id name", Some("ID name extra")).unwrap();
        assert_eq!(found.names, names("ID name"));
        assert_eq!(
            route("", "id oops", Some("id name")).unwrap_err(),
            "the target has no column 'oops'; it has id, name"
        );
        let order = route(r#", "columns": ["b", "a"]"#, "a b", None).unwrap();
        assert_eq!(order.picks, [1, 0]);
    }

    #[test]
    fn statements_of_each_mode() {
        let columns = names("id a\"b");
        let keys = names("ID");
        assert_eq!(
            insert("\"t\"", &columns, Mode::Append, &keys, '$').unwrap(),
            r#"INSERT INTO "t" ("id", "a""b") VALUES ($1, $2)"#
        );
        assert_eq!(
            insert("\"t\"", &columns, Mode::Upsert, &keys, '?').unwrap(),
            r#"INSERT INTO "t" ("id", "a""b") VALUES (?1, ?2) ON CONFLICT ("id") DO UPDATE SET "a""b" = excluded."a""b""#
        );
        let only = insert("\"t\"", &names("id"), Mode::Upsert, &keys, '?').unwrap();
        assert!(only.ends_with("DO NOTHING"), "{only}");
        assert!(insert("\"t\"", &columns, Mode::Upsert, &[], '?').is_err());
    }
}
