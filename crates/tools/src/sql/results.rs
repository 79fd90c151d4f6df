//! Conversion of statement results to the data of a task.

use std::sync::Arc;

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowShape {
    /// Maps with the column names as keys. If two columns have the same name, the later one is
    /// used.
    Objects,
    /// Lists in the order of the columns.
    Lists,
}

impl RowShape {
    pub(crate) fn build_row(self, columns: &[Arc<str>], values: Vec<Json>) -> Json {
        match self {
            Self::Objects => Json::object(columns.iter().cloned().zip(values)),
            Self::Lists => Json::from(values),
        }
    }
}

#[derive(Debug)]
pub(crate) enum StatementResult {
    /// Rows, possibly none.
    Rows { columns: Vec<Arc<str>>, rows: Vec<Json> },
    /// No rows, but a number of affected rows.
    Count(u64),
}

impl StatementResult {
    fn to_fields(&self) -> JsonMap {
        let status = ("status".into(), Json::from("success"));
        match self {
            Self::Rows { columns, rows } => {
                let names = columns.iter().map(|name| Json::from(&**name));
                JsonMap::from([
                    status,
                    ("columns".into(), Json::list(names)),
                    ("row_count".into(), Json::from(rows.len())),
                    ("rows".into(), Json::from(rows.clone())),
                ])
            }
            Self::Count(count) => JsonMap::from([
                status,
                ("affected_rows".into(), Json::from(*count)),
                ("row_count".into(), Json::from(*count)),
            ]),
        }
    }

    fn to_message(&self) -> String {
        let (count, verb) = match self {
            Self::Rows { rows, .. } => (rows.len() as u64, "returned"),
            Self::Count(count) => (*count, "affected"),
        };
        let noun = if count == 1 { "row" } else { "rows" };
        format!("{count} {noun} {verb}")
    }
}

/// Builds the data of a task: the result of its last statement, and each statement under a separate
/// key.
pub(crate) fn results_to_data(results: &[StatementResult], error: Option<&TaskError>) -> Json {
    let mut data = JsonMap::new();
    let mut last = StatementResult::Count(0).to_fields();
    let mut insert_entry = |index: usize, mut entry: JsonMap| {
        // Every statement has a list of rows, even if it returns none.
        for list in ["columns", "rows"] {
            entry.entry(list.into()).or_insert_with(|| Json::list([]));
        }
        data.insert(format!("command_{index}").into(), entry.into());
    };
    for (index, result) in results.iter().enumerate() {
        last = result.to_fields();
        let mut entry = last.clone();
        entry.insert("message".into(), Json::from(result.to_message()));
        insert_entry(index, entry);
    }
    if let Some(error) = error {
        last = JsonMap::from([
            ("status".into(), Json::from("error")),
            ("message".into(), Json::from(&error.message)),
        ]);
        let mut entry = last.clone();
        entry.insert("row_count".into(), Json::from(0));
        insert_entry(results.len(), entry);
    }
    data.extend(last);
    data.into()
}

/// Size budget of a result.
#[derive(Debug)]
pub(crate) struct ResultBudget {
    max_size: ByteSize,
    used: usize,
}

impl ResultBudget {
    pub(crate) fn new(max_size: ByteSize) -> Self {
        Self { max_size, used: 0 }
    }

    /// Message of the error for rows that exceed a budget.
    pub(crate) fn too_large_message(max_size: ByteSize) -> String {
        format!("the rows are larger than {max_size}; select fewer columns or rows")
    }

    /// Reserves space for a row. Fails if the budget is exceeded.
    pub(crate) fn reserve_row(&mut self, row: &Json) -> Result<(), TaskError> {
        self.used = self.used.saturating_add(estimate_size(row));
        if self.max_size.is_exceeded_by(self.used) {
            let message = Self::too_large_message(self.max_size);
            return Err(TaskError::new(TaskErrorKind::Limit, message));
        }
        Ok(())
    }
}

/// Maximum estimated size of a chunk, regardless of its number of rows.
const MAX_CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Chunk of rows that is moved at once, bounded by number and size.
#[derive(Debug)]
pub(crate) struct RowChunk {
    rows: Vec<Vec<Json>>,
    bytes: usize,
    max_rows: usize,
}

impl RowChunk {
    pub(crate) fn new(max_rows: usize) -> Self {
        Self { rows: Vec::new(), bytes: 0, max_rows }
    }

    /// Adds a row. Returns true if the chunk is full.
    pub(crate) fn push(&mut self, row: Vec<Json>) -> bool {
        self.bytes += row.iter().map(estimate_size).sum::<usize>();
        self.rows.push(row);
        self.rows.len() >= self.max_rows || self.bytes >= MAX_CHUNK_BYTES
    }

    /// Returns the rows so far and starts an empty chunk.
    pub(crate) fn take_rows(&mut self) -> Vec<Vec<Json>> {
        self.bytes = 0;
        std::mem::take(&mut self.rows)
    }
}

/// Estimates the size of a value as JSON, in bytes.
fn estimate_size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => 8,
        Json::Str(text) => text.len() + 3,
        Json::List(items) => items.iter().map(estimate_size).sum::<usize>() + 2,
        Json::Map(entries) => {
            let entry = |(key, value): (&Arc<str>, &Json)| key.len() + 4 + estimate_size(value);
            entries.iter().map(entry).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests;
