//! Prints a replayed run as tables.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use anstyle::Style;
use noetl_api::replay::ReplayResponse;
use noetl_types::StatusName;
use noetl_types::replay::{ProjectionKind, ReplayedState};

use crate::io::OutputStream;
use crate::output::{TableCell, TextTable};
use crate::render::palette;
use crate::render::text_layout::{escape_control, pluralize};

/// Maximum rows per table. A run can have a hundred thousand commands.
const MAX_TABLE_ROWS: usize = 30;

/// Renders the state of a run, limited to a page or two.
pub(super) fn render_replay(response: &ReplayResponse, stream: &OutputStream<'_>) -> String {
    let mut page = ReplayPage { text: String::new(), stream };
    let state = &response.state;
    page.push_summary(state);
    let includes = |part| response.projection == ProjectionKind::All || response.projection == part;
    if includes(ProjectionKind::Command) {
        page.push_commands(state);
    }
    if includes(ProjectionKind::Loop) {
        let entries = state.loops.values();
        page.push_table("loops", entries, |entry| {
            let total = entry.total.map_or_else(|| "?".to_owned(), |total| total.to_string());
            let status = if entry.completed { "COMPLETED" } else { "RUNNING" };
            let cells = [
                text_or_dash(entry.step_name.as_ref()),
                format!("{} of {total} done", entry.done),
                format!("{} failed", entry.failed),
            ];
            (StatusName::parse(status).unwrap_or_default(), cells.to_vec())
        });
    }
    if includes(ProjectionKind::Stage) {
        page.push_table("stages", state.stages.values(), |entry| {
            let cells = [
                entry.stage_id.to_string(),
                text_or_dash(entry.step_name.as_ref()),
                format!("{} frames", entry.frame_count),
                format!("{} rows", entry.row_count),
            ];
            (entry.status.clone(), cells.to_vec())
        });
    }
    if includes(ProjectionKind::Frame) {
        page.push_table("frames", state.frames.values(), |entry| {
            let cells = [
                entry.frame_id.to_string(),
                text_or_dash(entry.stage_id.as_ref()),
                format!("{} rows", entry.row_count),
                format!("attempt {}", entry.attempts),
            ];
            (entry.status.clone(), cells.to_vec())
        });
    }
    if includes(ProjectionKind::BusinessObject) {
        page.push_table("business objects", state.business_objects.values(), |entry| {
            let cells = [
                entry.object_key.to_string(),
                format!("version {}", entry.version),
                entry.last_event_type.to_string(),
            ];
            (entry.status.clone(), cells.to_vec())
        });
    }
    page.push_footer(response);
    page.text
}

fn text_or_dash(text: Option<impl Display>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

struct ReplayPage<'s, 'w> {
    text: String,
    stream: &'s OutputStream<'w>,
}

impl ReplayPage<'_, '_> {
    fn push_line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{text}");
    }

    fn push_summary(&mut self, state: &ReplayedState) {
        let status = &state.execution.status;
        let name = escape_control(status.as_str());
        let status = self.stream.paint().text(status_style(status), name).to_string();
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
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in state.commands.values() {
            *counts.entry(entry.status.as_str()).or_default() += 1;
        }
        let count =
            |(status, count): (&&str, &usize)| format!("{count} {}", escape_control(status));
        let counts: Vec<String> = counts.iter().map(count).collect();
        let title = format!("commands: {}", counts.join(", "));
        self.push_table(&title, state.commands.values(), |entry| {
            let cells = [
                entry.command_id.to_string(),
                text_or_dash(entry.worker_id.as_ref()),
                format!("event {}", entry.last_event_id.0),
            ];
            (entry.status.clone(), cells.to_vec())
        });
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
            let label = self.stream.paint().text(palette::CAUTION, "warning").to_string();
            self.push_line(&format!("{label}: {}", escape_control(warning)));
        }
    }

    /// Appends a table with the status and other cells of each entry. A table without entries is
    /// omitted.
    fn push_table<E>(
        &mut self,
        title: &str,
        entries: impl ExactSizeIterator<Item = E>,
        to_row: impl Fn(E) -> (StatusName, Vec<String>),
    ) {
        let count = entries.len();
        if count == 0 {
            return;
        }
        let rows: Vec<_> = entries.take(MAX_TABLE_ROWS).map(to_row).collect();
        let mut table = TextTable::new(&rows)
            .column("", |(status, _)| TableCell::styled(status, status_style(status)));
        for column in 0..rows[0].1.len() {
            table = table.column("", |(_, cells)| &cells[column]);
        }
        let title = self.stream.paint().text(palette::NAME, title).to_string();
        self.push_line(&format!("\n{title}"));
        for line in table.render_table(false, false, self.stream).lines() {
            self.push_line(&format!("  {line}"));
        }
        if count > rows.len() {
            let more = count - rows.len();
            self.push_line(&format!("  … and {more} more; -o json shows all"));
        }
    }
}

fn status_style(status: &StatusName) -> Style {
    match status.as_str() {
        "COMPLETED" | "ACTIVE" | "CLOSED" => palette::SUCCESS,
        "FAILED" | "ABANDONED" => palette::FAILURE,
        "CANCELLED" | "DELETED" | "UNKNOWN" => palette::MUTED,
        _ => Style::new(),
    }
}
