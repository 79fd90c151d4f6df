//! Prints a replayed run as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::Style;
use noetl_api::replay::ReplayResponse;
use noetl_types::StatusName;
use noetl_types::replay::{ProjectionKind, ReplayedState};

use crate::io::ColorPaint;
use crate::render::palette;
use crate::render::text_layout::{display_width, escape_control, pluralize};

/// Maximum rows per table. A run can have a hundred thousand commands.
const MAX_TABLE_ROWS: usize = 30;

/// Renders the state of a run, limited to a page or two.
pub(super) fn render_replay(response: &ReplayResponse, paint: ColorPaint) -> String {
    let mut page = ReplayPage { text: String::new(), paint };
    let state = &response.state;
    page.push_summary(state);
    let includes = |part| response.projection == ProjectionKind::All || response.projection == part;
    if includes(ProjectionKind::Command) {
        page.push_commands(state);
    }
    if includes(ProjectionKind::Loop) {
        page.push_loops(state);
    }
    if includes(ProjectionKind::Stage) {
        page.push_stages(state);
    }
    if includes(ProjectionKind::Frame) {
        page.push_frames(state);
    }
    if includes(ProjectionKind::BusinessObject) {
        page.push_objects(state);
    }
    page.push_footer(response);
    page.text
}

struct ReplayPage {
    text: String,
    paint: ColorPaint,
}

/// Row of a table, with the status in the first column.
struct ReplayRow {
    status: StatusName,
    cells: Vec<String>,
}

impl ReplayPage {
    fn push_line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
    }

    fn push_summary(&mut self, state: &ReplayedState) {
        let status = self.format_status(&state.execution.status, 0);
        let events = pluralize(usize::try_from(state.event_count).unwrap_or(0), "event");
        let mut line = format!("execution {}  {status}  {events}", state.execution_id);
        if let Some(last) = &state.last_event_type {
            line += &format!(", last {}", escape_control(last.as_str()));
        }
        self.push_line(&line);
        if let Some(step) = &state.execution.last_node_name {
            self.push_line(&format!("last step {}", escape_control(step)));
        }
        let refs = state.execution.payload_refs.len();
        if refs > 0 {
            self.push_line(&pluralize(refs, "payload reference"));
        }
    }

    fn push_commands(&mut self, state: &ReplayedState) {
        let rows = state.commands.values().map(|entry| ReplayRow {
            status: entry.status.clone(),
            cells: vec![
                entry.command_id.to_string(),
                entry.worker_id.as_deref().unwrap_or("-").to_owned(),
                format!("event {}", entry.last_event_id.0),
            ],
        });
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in state.commands.values() {
            *counts.entry(entry.status.as_str()).or_default() += 1;
        }
        let counts: Vec<String> = counts
            .iter()
            .map(|(status, count)| format!("{count} {}", escape_control(status)))
            .collect();
        let title = format!("commands: {}", counts.join(", "));
        self.push_table(&title, rows, state.commands.len());
    }

    fn push_loops(&mut self, state: &ReplayedState) {
        let rows = state.loops.values().map(|entry| {
            let status = if entry.completed { "COMPLETED" } else { "RUNNING" };
            let total = entry.total.map_or_else(|| "?".to_owned(), |total| total.to_string());
            ReplayRow {
                status: StatusName::parse(status).unwrap_or_default(),
                cells: vec![
                    entry.step_name.as_deref().unwrap_or("-").to_owned(),
                    format!("{} of {total} done", entry.done),
                    format!("{} failed", entry.failed),
                ],
            }
        });
        self.push_table("loops", rows, state.loops.len());
    }

    fn push_stages(&mut self, state: &ReplayedState) {
        let rows = state.stages.values().map(|entry| ReplayRow {
            status: entry.status.clone(),
            cells: vec![
                entry.stage_id.to_string(),
                entry.step_name.as_deref().unwrap_or("-").to_owned(),
                format!("{} frames", entry.frame_count),
                format!("{} rows", entry.row_count),
            ],
        });
        self.push_table("stages", rows, state.stages.len());
    }

    fn push_frames(&mut self, state: &ReplayedState) {
        let rows = state.frames.values().map(|entry| ReplayRow {
            status: entry.status.clone(),
            cells: vec![
                entry.frame_id.to_string(),
                entry.stage_id.as_deref().unwrap_or("-").to_owned(),
                format!("{} rows", entry.row_count),
                format!("attempt {}", entry.attempts),
            ],
        });
        self.push_table("frames", rows, state.frames.len());
    }

    fn push_objects(&mut self, state: &ReplayedState) {
        let rows = state.business_objects.values().map(|entry| ReplayRow {
            status: entry.status.clone(),
            cells: vec![
                entry.object_key.to_string(),
                format!("version {}", entry.version),
                entry.last_event_type.as_str().to_owned(),
            ],
        });
        self.push_table("business objects", rows, state.business_objects.len());
    }

    fn push_footer(&mut self, response: &ReplayResponse) {
        self.push_line("");
        if let Some(snapshot) = &response.replay_snapshot {
            self.push_line(&format!("replayed from a snapshot at {}", snapshot.version));
        }
        match &response.checksum {
            Some(checksum) => self.push_line(&format!(
                "{} {} (fold {})",
                checksum.kind, checksum.value, checksum.fold_version
            )),
            None => self.push_line("truncated by a limit; no checksum available"),
        }
        for warning in &response.warnings {
            let label = self.paint.text(palette::CAUTION, "warning").to_string();
            self.push_line(&format!("{label}: {}", escape_control(warning)));
        }
    }

    /// Appends a table with columns sized to their content. A table without rows is omitted.
    fn push_table(&mut self, title: &str, rows: impl Iterator<Item = ReplayRow>, count: usize) {
        if count == 0 {
            return;
        }
        let rows: Vec<ReplayRow> = rows.take(MAX_TABLE_ROWS).collect();
        let mut widths: Vec<usize> = Vec::new();
        let mut status_width = 0;
        for row in &rows {
            status_width = status_width.max(display_width(&escape_control(row.status.as_str())));
            for (column, cell) in row.cells.iter().enumerate() {
                let width = display_width(&escape_control(cell));
                match widths.get_mut(column) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        let title = self.paint.text(palette::NAME, title).to_string();
        self.push_line(&format!("\n{title}"));
        for row in &rows {
            let mut line = format!("  {}", self.format_status(&row.status, status_width));
            for (cell, width) in row.cells.iter().zip(&widths) {
                let cell = escape_control(cell);
                let padding = width.saturating_sub(display_width(&cell));
                line += &format!("  {cell}{:padding$}", "");
            }
            self.push_line(line.trim_end());
        }
        if count > rows.len() {
            let more = count - rows.len();
            self.push_line(&format!("  … and {more} more; -o json shows all"));
        }
    }

    fn format_status(&self, status: &StatusName, width: usize) -> String {
        let name = escape_control(status.as_str());
        let padding = width.saturating_sub(display_width(&name));
        let style = match &*name {
            "COMPLETED" | "ACTIVE" | "CLOSED" => palette::SUCCESS,
            "FAILED" | "ABANDONED" => palette::FAILURE,
            "CANCELLED" | "DELETED" | "UNKNOWN" => palette::MUTED,
            _ => Style::new(),
        };
        format!("{}{:padding$}", self.paint.text(style, name), "")
    }
}
