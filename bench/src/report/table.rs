//! Markdown tables.

/// Renders a table, or an empty text if it has no rows.
pub(super) fn markdown_table(header: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let render_row = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let rule = vec!["---".to_owned(); header.len()];
    let mut lines = vec![render_row(&header), render_row(&rule)];
    lines.extend(rows.iter().map(|row| render_row(row)));
    lines.join("\n")
}

/// Formats a number with a suitable number of digits.
pub(super) fn format_number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
