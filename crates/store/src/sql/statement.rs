//! Statements that both databases run.
//!
//! A statement is written once, in the dialect of PostgreSQL. For SQLite it is translated when it
//! is first used. A comment such as `/*sqlite INDEXED BY outbox_dead*/` is part of the statement in
//! SQLite only.

use std::sync::OnceLock;

use crate::postgres::BlockShape;
use crate::row::{ColumnKind, Table};

/// Plan of a statement in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanMode {
    /// One generic plan for all parameters, for statements that find rows by key. Planning them
    /// takes longer than running them.
    Generic,
    /// The server decides. Lists with filters have many plans.
    Auto,
}

/// Origin of the text of a statement.
#[derive(Debug)]
enum Source {
    Text(&'static str),
    /// Texts for PostgreSQL and for SQLite.
    PerDatabase(&'static str, &'static str),
    /// Reads all columns of a table. The text follows its name.
    Select(&'static Table, &'static str),
    /// Inserts a row. The text decides how a row with the same key is handled.
    Insert(&'static Table, &'static str),
    /// Inserts a row, or replaces the row with the same values of the key columns.
    Upsert(&'static Table, &'static str),
    Build(fn() -> String),
}

/// A statement in both dialects.
#[derive(Debug)]
pub(crate) struct Statement {
    source: Source,
    plan_mode: PlanMode,
    postgres: OnceLock<String>,
    postgres_many: OnceLock<String>,
    sqlite: OnceLock<String>,
}

impl Statement {
    pub(crate) const fn new(sql: &'static str) -> Self {
        Self::from_source(Source::Text(sql))
    }

    /// Creates a statement whose text differs by more than the dialect.
    pub(crate) const fn per_database(postgres: &'static str, sqlite: &'static str) -> Self {
        Self::from_source(Source::PerDatabase(postgres, sqlite))
    }

    /// Creates a statement that reads all columns of a table.
    pub(crate) const fn select(table: &'static Table, rest: &'static str) -> Self {
        Self::from_source(Source::Select(table, rest))
    }

    /// Creates a statement that inserts a row. `rest` decides how a row with the same key is
    /// handled.
    pub(crate) const fn insert(table: &'static Table, rest: &'static str) -> Self {
        Self::from_source(Source::Insert(table, rest))
    }

    /// Creates a statement that inserts a row, or replaces the row with the same key.
    pub(crate) const fn upsert(table: &'static Table, key: &'static str) -> Self {
        Self::from_source(Source::Upsert(table, key))
    }

    /// Creates a statement from the text that a function returns.
    pub(crate) const fn build(build: fn() -> String) -> Self {
        Self::from_source(Source::Build(build))
    }

    const fn from_source(source: Source) -> Self {
        Self {
            source,
            plan_mode: PlanMode::Generic,
            postgres: OnceLock::new(),
            postgres_many: OnceLock::new(),
            sqlite: OnceLock::new(),
        }
    }

    /// Lets PostgreSQL plan the statement for its parameters, because it filters or is rare.
    pub(crate) const fn with_auto_plan(mut self) -> Self {
        self.plan_mode = PlanMode::Auto;
        self
    }

    pub(crate) fn plan_mode(&self) -> PlanMode {
        self.plan_mode
    }

    /// Returns the statement for PostgreSQL.
    pub(crate) fn postgres(&'static self) -> &'static str {
        self.postgres.get_or_init(|| match self.source {
            Source::Text(text) | Source::PerDatabase(text, _) => text.to_owned(),
            Source::Select(table, rest) => select_sql(table, rest),
            Source::Insert(table, rest) => insert_sql(table, rest),
            Source::Upsert(table, key) => insert_sql(table, &upsert_clause(table, key)),
            Source::Build(build) => build(),
        })
    }

    /// Returns the statement for PostgreSQL that inserts many rows, and their table. Its parameters
    /// are arrays, one for each column. `None` if the statement inserts nothing.
    pub(crate) fn postgres_many(&'static self) -> Option<(&'static str, &'static Table)> {
        let (table, rest) = match self.source {
            Source::Insert(table, rest) => (table, rest.to_owned()),
            Source::Upsert(table, key) => (table, upsert_clause(table, key)),
            Source::Text(_) | Source::PerDatabase(..) | Source::Select(..) | Source::Build(_) => {
                return None;
            }
        };
        let sql = self.postgres_many.get_or_init(|| {
            let (name, columns) = (table.name, table.column_list());
            let rows = BlockShape::new(&[table.columns]).unnest_sql(&mut 0);
            format!("INSERT INTO {name} ({columns}) {rows} {rest}")
        });
        Some((sql, table))
    }

    /// Returns the statement for SQLite.
    pub(crate) fn sqlite(&'static self) -> &'static str {
        self.sqlite.get_or_init(|| match self.source {
            Source::PerDatabase(_, text) => text.to_owned(),
            _ => to_sqlite(self.postgres()),
        })
    }
}

/// Parts of statements and their equivalents in SQLite, in the order of their replacement. Rows
/// need no locks there, because one connection writes.
const REPLACEMENTS: [(&str, &str); 11] = [
    ("FOR NO KEY UPDATE SKIP LOCKED", ""),
    ("FOR UPDATE SKIP LOCKED", ""),
    ("FOR UPDATE", ""),
    (" COLLATE \"C\"", ""),
    ("/*sqlite", ""),
    ("*/", ""),
    ("strpos(", "instr("),
    ("greatest(", "max("),
    ("ctid", "rowid"),
    // The conditions of partial indexes have to be repeated literally.
    ("= false", "= 0"),
    ("$", "?"),
];

fn to_sqlite(sql: &str) -> String {
    let replace = |sql: String, (from, to): &(&str, &str)| sql.replace(from, to);
    let sql = REPLACEMENTS.iter().fold(sql.to_owned(), replace);
    replace_arrays(&remove_casts(&sql))
}

/// Removes casts such as `::text::json`.
fn remove_casts(sql: &str) -> String {
    let mut parts = sql.split("::");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(part.trim_start_matches(|it: char| it.is_ascii_lowercase()));
    }
    result
}

/// Replaces `= ANY (ARRAY(SELECT …))` by `IN (SELECT …)`.
fn replace_arrays(sql: &str) -> String {
    let Some((before, rest)) = sql.split_once("= ANY (ARRAY(") else {
        return sql.to_owned();
    };
    let mut depth = 1;
    let end = rest.find(|it: char| {
        depth += i32::from(it == '(') - i32::from(it == ')');
        depth == 0
    });
    // The array and the list of `ANY` each have a parenthesis, of which one is left.
    let (list, after) = rest.split_at(end.unwrap_or(rest.len()));
    format!("{before}IN ({list}{}", replace_arrays(after.strip_prefix(')').unwrap_or_default()))
}

/// Returns a statement that reads all columns of a table.
pub(crate) fn select_sql(table: &Table, rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", table.column_list(), table.name)
}

fn insert_sql(table: &Table, rest: &str) -> String {
    let placeholders = (1..).zip(table.columns).map(|(index, (_, kind))| match kind {
        ColumnKind::Json => format!("${index}::text::json"),
        _ => format!("${index}"),
    });
    let placeholders = placeholders.collect::<Vec<_>>().join(", ");
    let (name, columns) = (table.name, table.column_list());
    format!("INSERT INTO {name} ({columns}) VALUES ({placeholders}) {rest}")
}

/// Returns the clause that replaces the row with the same key.
fn upsert_clause(table: &Table, key: &str) -> String {
    let columns = table.columns.iter().map(|(name, _)| format!("{name} = excluded.{name}"));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("ON CONFLICT ({key}) DO UPDATE SET {columns}")
}

#[cfg(test)]
mod tests;
