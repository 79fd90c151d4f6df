//! The tables: ours, the peers', how they compare, and how near we are to the limits of the machine.

mod compare;
mod limits;
mod ours;
mod outlets;
mod replay;
mod table;
#[cfg(test)]
mod tests;
mod theirs;
mod value;

use crate::document::Document;

/// All tables of a document, in Markdown.
pub fn render(document: &Document) -> String {
    let mut parts = vec![
        head(document),
        ours::table(document),
        replay::table(document),
        outlets::table(document),
        theirs::table(document),
        compare::table(document),
        limits::table(document),
    ];
    parts.extend(
        document
            .errors()
            .iter()
            .map(|error| format!("FAILED: {error}")),
    );
    parts.retain(|part| !part.is_empty());
    let mut text = parts.join("\n\n");
    text.push('\n');
    text
}

fn head(document: &Document) -> String {
    let meta = &document.meta;
    let rounds = match document.rounds.len() {
        1 => "one round".to_owned(),
        many => format!("median of {many} rounds"),
    };
    let warning = if meta.optimised { "" } else { ", DEBUG BUILD" };
    format!(
        "{}, noetl {}, {} cores, {}, kernel {}, {rounds}{warning}. (!) marks what others on the \
         machine disturbed.",
        meta.date, meta.version, meta.cores, meta.filesystem, meta.kernel
    )
}
