//! `noetl graph`: a playbook as a drawing.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use noetl_playbook::{CheckOptions, Document, Severity, check};

use crate::error::Error;
use crate::exit::Exit;
use crate::graph::{Flow, Look, dot, mermaid, text};
use crate::io::Io;
use crate::render::diagnostic;
use crate::source::Origin;

/// Draw the steps of a playbook and what leads where
///
/// Steps are drawn in the order in which they run, with the condition of each arc beside it. A loop
/// is marked ⟳, an arc to a step that is drawn elsewhere →, an arc back ↩, and the final step ■.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl graph examples/fan_out_and_join.yaml
  noetl graph flow.yaml --format mermaid > flow.mmd       for Markdown and wikis
  noetl graph flow.yaml --format dot | dot -Tsvg > flow.svg

Exit codes:
    0  the playbook was drawn
    1  the document has errors, or is not a playbook
    3  the file was not found")]
pub(crate) struct GraphArgs {
    /// The playbook, or - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// The form of the drawing
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Format::Text)]
    format: Format,
    /// Draw text with ASCII letters only
    #[arg(long)]
    ascii: bool,
}

/// The form of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A tree for the terminal.
    Text,
    /// A Mermaid flowchart.
    Mermaid,
    /// A graph for Graphviz.
    Dot,
}

/// Draws a playbook.
pub(crate) fn run(args: &GraphArgs, io: &mut Io<'_>) -> Result<Exit, Error> {
    let origin = Origin::new(&args.file);
    let source = origin.read(io)?;
    let checked = check(&source, &CheckOptions::default());
    let errors = checked
        .diagnostics
        .iter()
        .filter(|found| found.severity == Severity::Error);
    let mut failed = false;
    for error in errors {
        let snippet = diagnostic::render(&origin.name(), &source, error, &io.err);
        io.talk(format_args!("{snippet}\n"))?;
        failed = true;
    }
    if failed {
        return Ok(Exit::Failed);
    }
    let flow = match checked.document {
        Some(Document::Playbook(playbook)) => Flow::new(&playbook),
        Some(Document::Subscription(_)) => return Err(no_graph(&origin, "subscription")),
        Some(Document::Schedule(_)) => return Err(no_graph(&origin, "schedule")),
        Some(Document::Other(other)) => return Err(no_graph(&origin, &other.kind)),
        None => None,
    };
    let Some(flow) = flow else {
        return Err(no_graph(&origin, "document without steps"));
    };
    let look = Look {
        paint: io.out.paint(),
        width: io.out.width(),
        ascii: args.ascii,
    };
    let drawing = match args.format {
        Format::Text => text(&flow, look),
        Format::Mermaid => mermaid(&flow),
        Format::Dot => dot(&flow),
    };
    io.out.write_all(drawing.as_bytes())?;
    Ok(Exit::Ok)
}

fn no_graph(origin: &Origin, kind: &str) -> Error {
    Error::NoGraph {
        path: origin.name(),
        kind: kind.to_owned(),
    }
}
