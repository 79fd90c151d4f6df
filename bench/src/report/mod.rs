//! Report tables: our figures, those of the peers, their comparison, and the limits of the machine.

mod comparison;
mod limits;
mod our_figures;
mod peer_figures;
mod publishing;
mod replay;
mod table;
#[cfg(test)]
mod tests;
mod value;

use crate::document::BenchDocument;

/// Renders all tables of a document in Markdown.
pub fn render_report(document: &BenchDocument) -> String {
    let mut parts = vec![
        render_header(document),
        our_figures::our_figures_table(document),
        replay::replay_table(document),
        publishing::publishing_table(document),
        peer_figures::peer_figures_table(document),
        comparison::comparison_table(document),
        limits::limits_table(document),
    ];
    parts.extend(document.all_errors().iter().map(|error| format!("FAILED: {error}")));
    parts.retain(|part| !part.is_empty());
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

fn render_header(document: &BenchDocument) -> String {
    let meta = &document.meta;
    let rounds = match document.rounds.len() {
        1 => "one round".to_owned(),
        count => format!("median of {count} rounds"),
    };
    let warning = if meta.optimised { "" } else { ", DEBUG BUILD" };
    format!(
        "{}, noetl {}, {} cores, {}, kernel {}, {rounds}{warning}. (!) marks figures disturbed by other \
         processes.",
        meta.date, meta.version, meta.cores, meta.filesystem, meta.kernel
    )
}
