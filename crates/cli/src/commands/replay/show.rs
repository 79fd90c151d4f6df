//! A replayed run for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;
use noetl_api::replay::ReplayAnswer;
use noetl_types::StatusName;
use noetl_types::replay::{Projection, Replayed};

use crate::io::Paint;
use crate::render::palette;
use crate::render::words::{columns, counted, visible};

/// Rows of a table; a run may have a hundred thousand commands.
const MAX_ROWS: usize = 30;

/// Everything about a run that fits onto a page or two.
pub(super) fn people(answer: &ReplayAnswer, paint: Paint) -> String {
    let mut page = Page {
        text: String::new(),
        paint,
    };
    let state = &answer.state;
    page.head(state);
    let wants = |part| answer.projection == Projection::All || answer.projection == part;
    if wants(Projection::Command) {
        page.commands(state);
    }
    if wants(Projection::Loop) {
        page.loops(state);
    }
    if wants(Projection::Stage) {
        page.stages(state);
    }
    if wants(Projection::Frame) {
        page.frames(state);
    }
    if wants(Projection::BusinessObject) {
        page.objects(state);
    }
    page.foot(answer);
    page.text
}

struct Page {
    text: String,
    paint: Paint,
}

/// A row of a table, the status first.
struct Row {
    status: StatusName,
    cells: Vec<String>,
}

impl Page {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
    }

    fn head(&mut self, state: &Replayed) {
        let status = self.status(&state.execution.status, 0);
        let events = counted(usize::try_from(state.event_count).unwrap_or(0), "event");
        let mut line = format!("execution {}  {status}  {events}", state.execution_id);
        if let Some(last) = &state.last_event_type {
            line += &format!(", last {}", visible(last.as_str()));
        }
        self.line(&line);
        if let Some(step) = &state.execution.last_node_name {
            self.line(&format!("last step {}", visible(step)));
        }
        let refs = state.execution.payload_refs.len();
        if refs > 0 {
            self.line(&counted(refs, "payload reference"));
        }
    }

    fn commands(&mut self, state: &Replayed) {
        let rows = state.commands.values().map(|entry| Row {
            status: entry.status.clone(),
            cells: vec![
                entry.command_id.to_string(),
                entry.worker_id.as_deref().unwrap_or("-").to_owned(),
                format!("event {}", entry.last_event_id.0),
            ],
        });
        let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in state.commands.values() {
            *tally.entry(entry.status.as_str()).or_default() += 1;
        }
        let tally: Vec<String> = tally
            .iter()
            .map(|(status, count)| format!("{count} {}", visible(status)))
            .collect();
        let title = format!("commands: {}", tally.join(", "));
        self.table(&title, rows, state.commands.len());
    }

    fn loops(&mut self, state: &Replayed) {
        let rows = state.loops.values().map(|entry| {
            let word = if entry.completed {
                "COMPLETED"
            } else {
                "RUNNING"
            };
            let total = entry
                .total
                .map_or_else(|| "?".to_owned(), |it| it.to_string());
            Row {
                status: StatusName::read(word).unwrap_or_default(),
                cells: vec![
                    entry.step_name.as_deref().unwrap_or("-").to_owned(),
                    format!("{} of {total} done", entry.done),
                    format!("{} failed", entry.failed),
                ],
            }
        });
        self.table("loops", rows, state.loops.len());
    }

    fn stages(&mut self, state: &Replayed) {
        let rows = state.stages.values().map(|entry| Row {
            status: entry.status.clone(),
            cells: vec![
                entry.stage_id.to_string(),
                entry.step_name.as_deref().unwrap_or("-").to_owned(),
                format!("{} frames", entry.frame_count),
                format!("{} rows", entry.row_count),
            ],
        });
        self.table("stages", rows, state.stages.len());
    }

    fn frames(&mut self, state: &Replayed) {
        let rows = state.frames.values().map(|entry| Row {
            status: entry.status.clone(),
            cells: vec![
                entry.frame_id.to_string(),
                entry.stage_id.as_deref().unwrap_or("-").to_owned(),
                format!("{} rows", entry.row_count),
                format!("attempt {}", entry.attempts),
            ],
        });
        self.table("frames", rows, state.frames.len());
    }

    fn objects(&mut self, state: &Replayed) {
        let rows = state.business_objects.values().map(|entry| Row {
            status: entry.status.clone(),
            cells: vec![
                entry.object_key.to_string(),
                format!("version {}", entry.version),
                entry.last_event_type.as_str().to_owned(),
            ],
        });
        self.table("business objects", rows, state.business_objects.len());
    }

    fn foot(&mut self, answer: &ReplayAnswer) {
        self.line("");
        if let Some(seed) = &answer.replay_snapshot {
            self.line(&format!("folded on from a snapshot at {}", seed.version));
        }
        match &answer.checksum {
            Some(sum) => self.line(&format!(
                "{} {} (fold {})",
                sum.kind, sum.value, sum.fold_version
            )),
            None => self.line("cut short by a limit, so there is no checksum"),
        }
        for warning in &answer.warnings {
            let word = self.paint.text(palette::DOUBT, "warning").to_string();
            self.line(&format!("{word}: {}", visible(warning)));
        }
    }

    /// A table with columns as wide as they have to be. A table without rows is left out.
    fn table(&mut self, title: &str, rows: impl Iterator<Item = Row>, count: usize) {
        if count == 0 {
            return;
        }
        let rows: Vec<Row> = rows.take(MAX_ROWS).collect();
        let mut widths: Vec<usize> = Vec::new();
        let mut status = 0;
        for row in &rows {
            status = status.max(columns(&visible(row.status.as_str())));
            for (at, cell) in row.cells.iter().enumerate() {
                let width = columns(&visible(cell));
                match widths.get_mut(at) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        let title = self.paint.text(palette::NAME, title).to_string();
        self.line(&format!("\n{title}"));
        for row in &rows {
            let mut line = format!("  {}", self.status(&row.status, status));
            for (cell, width) in row.cells.iter().zip(&widths) {
                let cell = visible(cell);
                let room = width.saturating_sub(columns(&cell));
                line += &format!("  {cell}{:room$}", "");
            }
            self.line(line.trim_end());
        }
        if count > rows.len() {
            let more = count - rows.len();
            self.line(&format!("  … and {more} more; -o json shows all"));
        }
    }

    fn status(&self, status: &StatusName, width: usize) -> String {
        let shown = visible(status.as_str());
        let room = width.saturating_sub(columns(&shown));
        let style = match &*shown {
            "COMPLETED" | "ACTIVE" | "CLOSED" => palette::GOOD,
            "FAILED" | "ABANDONED" => palette::BAD,
            "CANCELLED" | "DELETED" | "UNKNOWN" => palette::QUIET,
            _ => Style::new(),
        };
        format!("{}{:room$}", self.paint.text(style, shown), "")
    }
}
