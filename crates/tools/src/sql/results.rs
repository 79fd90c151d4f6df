//! What statements give, as the data of a task.

use std::sync::Arc;

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};

/// How rows look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Maps with the names of columns. Of two columns with one name the later one counts.
    Objects,
    /// Lists in the order of the columns.
    Lists,
}

impl Shape {
    /// A row.
    pub(crate) fn row(self, columns: &[Arc<str>], values: Vec<Json>) -> Json {
        match self {
            Self::Objects => Json::object(columns.iter().cloned().zip(values)),
            Self::Lists => Json::from(values),
        }
    }
}

/// What one statement gave.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Rows, perhaps none.
    Rows {
        /// The names of the columns.
        columns: Vec<Arc<str>>,
        /// The rows.
        rows: Vec<Json>,
    },
    /// No rows; so many were touched.
    Count(u64),
}

impl Answer {
    fn fields(&self) -> JsonMap {
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

    fn message(&self) -> String {
        let (count, verb) = match self {
            Self::Rows { rows, .. } => (rows.len() as u64, "returned"),
            Self::Count(count) => (*count, "affected"),
        };
        let noun = if count == 1 { "row" } else { "rows" };
        format!("{count} {noun} {verb}")
    }
}

/// The data of a task: what its last statement gave, and each statement under a name of its own.
pub(crate) fn data(answers: &[Answer], error: Option<&TaskError>) -> Json {
    let mut data = JsonMap::new();
    let mut last = JsonMap::from([
        ("status".into(), Json::from("success")),
        ("affected_rows".into(), Json::from(0)),
        ("row_count".into(), Json::from(0)),
    ]);
    for (index, answer) in answers.iter().enumerate() {
        last = answer.fields();
        let mut entry = last.clone();
        entry.insert("message".into(), Json::from(answer.message()));
        // Whoever asks a statement for its rows gets a list, whatever the statement was.
        for list in ["columns", "rows"] {
            entry.entry(list.into()).or_insert_with(|| Json::list([]));
        }
        data.insert(command(index), entry.into());
    }
    if let Some(error) = error {
        let failed = [
            ("status", Json::from("error")),
            ("message", Json::from(&error.message)),
        ];
        last = failed.map(|(key, value)| (key.into(), value)).into();
        data.insert(command(answers.len()), Json::object(failed_entry(error)));
    }
    data.extend(last);
    data.into()
}

fn failed_entry(error: &TaskError) -> [(&'static str, Json); 5] {
    [
        ("status", Json::from("error")),
        ("columns", Json::list([])),
        ("rows", Json::list([])),
        ("row_count", Json::from(0)),
        ("message", Json::from(&error.message)),
    ]
}

fn command(index: usize) -> Arc<str> {
    format!("command_{index}").into()
}

/// What is left of the room for a result.
#[derive(Debug)]
pub(crate) struct Room {
    cap: ByteSize,
    used: usize,
}

impl Room {
    pub(crate) fn new(cap: ByteSize) -> Self {
        Self { cap, used: 0 }
    }

    /// Makes room for a row, if there is any.
    pub(crate) fn take(&mut self, row: &Json) -> Result<(), TaskError> {
        self.used = self.used.saturating_add(weight(row));
        if self.cap.is_exceeded_by(self.used) {
            let message = format!(
                "the rows are larger than {}; select fewer columns, or fewer rows at a time",
                self.cap
            );
            return Err(TaskError::new(TaskErrorKind::Limit, message));
        }
        Ok(())
    }
}

/// What rows may weigh that are moved at once, however few they are.
const HEAVIEST_PIECE: usize = 8 * 1024 * 1024;

/// Rows that are moved at once: so many, or fewer where they are heavy.
#[derive(Debug)]
pub(crate) struct Piece {
    rows: Vec<Vec<Json>>,
    weight: usize,
    size: usize,
}

impl Piece {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            rows: Vec::new(),
            weight: 0,
            size,
        }
    }

    /// Adds a row; tells whether the piece is full.
    pub(crate) fn push(&mut self, row: Vec<Json>) -> bool {
        self.weight += row.iter().map(weight).sum::<usize>();
        self.rows.push(row);
        self.rows.len() >= self.size || self.weight >= HEAVIEST_PIECE
    }

    /// The rows so far; the next piece begins empty.
    pub(crate) fn take(&mut self) -> Vec<Vec<Json>> {
        self.weight = 0;
        std::mem::take(&mut self.rows)
    }
}

/// About how many bytes of JSON a value makes.
fn weight(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 5,
        Json::Int(_) | Json::UInt(_) | Json::Float(_) => 8,
        Json::Str(text) => text.len() + 3,
        Json::List(items) => items.iter().map(weight).sum::<usize>() + 2,
        Json::Map(entries) => {
            let entry = |(key, value): (&Arc<str>, &Json)| key.len() + 4 + weight(value);
            entries.iter().map(entry).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_statement_is_on_top_and_each_has_its_name() {
        let rows = Answer::Rows {
            columns: vec!["a".into()],
            rows: vec![Shape::Objects.row(&["a".into()], vec![Json::from(1)])],
        };
        assert_eq!(
            data(&[Answer::Count(2), rows], None).to_string(),
            r#"{"columns":["a"],"command_0":{"affected_rows":2,"columns":[],"message":"2 rows affected","row_count":2,"rows":[],"status":"success"},"command_1":{"columns":["a"],"message":"1 row returned","row_count":1,"rows":[{"a":1}],"status":"success"},"row_count":1,"rows":[{"a":1}],"status":"success"}"#
        );
    }

    #[test]
    fn a_failure_keeps_what_came_before() {
        let error = TaskError::new(TaskErrorKind::DbError, "no such table");
        let data = data(&[Answer::Count(1)], Some(&error));
        assert_eq!(data.get("status"), Some(&Json::from("error")));
        let status = |name: &str| {
            data.get(name)
                .and_then(|entry| entry.get("status"))
                .cloned()
        };
        assert_eq!(status("command_0"), Some(Json::from("success")));
        assert_eq!(status("command_1"), Some(Json::from("error")));
    }

    #[test]
    fn room_ends() {
        let mut room = Room::new(ByteSize::from_bytes(20));
        let row = Json::list([Json::from("0123456")]);
        assert!(room.take(&row).is_ok());
        assert_eq!(room.take(&row).unwrap_err().kind, TaskErrorKind::Limit);
    }
}
