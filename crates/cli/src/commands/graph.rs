//! `noetl graph`: draws a playbook.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use noetl_playbook::{CheckOptions, Document, Severity, check};

use crate::error::Error;
use crate::exit::CommandExit;
use crate::graph::{DrawOptions, FlowGraph, draw_dot, draw_mermaid, draw_text};
use crate::io::Io;
use crate::render::diagnostic;
use crate::source::DocumentOrigin;

/// Draw the steps of a playbook and their arcs
///
/// Steps are drawn in execution order, with the condition of each arc next to it. A loop is marked
/// ⟳, an arc to a step drawn elsewhere →, an arc back ↩, and the final step ■.
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
    /// Playbook file, or - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = GraphFormat::Text)]
    format: GraphFormat,
    /// Draw text with ASCII characters only
    #[arg(long)]
    ascii: bool,
}

/// Output format of `noetl graph`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// Tree for the terminal
    Text,
    /// Mermaid flowchart
    Mermaid,
    /// Graphviz graph
    Dot,
}

pub(crate) fn run(args: &GraphArgs, io: &mut Io<'_>) -> Result<CommandExit, Error> {
    let origin = DocumentOrigin::new(&args.file);
    let source = origin.read_text(io)?;
    let checked = check(&source, &CheckOptions::default());
    let errors =
        checked.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let mut has_errors = false;
    for error in errors {
        let snippet =
            diagnostic::render_diagnostic(&origin.display_name(), &source, error, &io.err);
        io.print_message(format_args!("{snippet}\n"))?;
        has_errors = true;
    }
    if has_errors {
        return Ok(CommandExit::Failed);
    }
    let flow = match checked.document {
        Some(Document::Playbook(playbook)) => FlowGraph::new(&playbook),
        Some(Document::Subscription(_)) => return Err(no_graph_error(&origin, "subscription")),
        Some(Document::Schedule(_)) => return Err(no_graph_error(&origin, "schedule")),
        Some(Document::Other(other)) => return Err(no_graph_error(&origin, &other.kind)),
        None => None,
    };
    let Some(flow) = flow else {
        return Err(no_graph_error(&origin, "document without steps"));
    };
    let options = DrawOptions { paint: io.out.paint(), width: io.out.width(), ascii: args.ascii };
    let drawing = match args.format {
        GraphFormat::Text => draw_text(&flow, options),
        GraphFormat::Mermaid => draw_mermaid(&flow),
        GraphFormat::Dot => draw_dot(&flow),
    };
    io.out.write_all(drawing.as_bytes())?;
    Ok(CommandExit::Ok)
}

fn no_graph_error(origin: &DocumentOrigin, kind: &str) -> Error {
    Error::NoGraph { path: origin.display_name(), kind: kind.to_owned() }
}
