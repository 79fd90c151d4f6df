//! `noetl graph`: draws a playbook.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::commands::check::{into_playbook, print_diagnostics};
use crate::error::{Error, Result};
use crate::exit::CommandExit;
use crate::graph::{DrawOptions, FlowGraph, draw_dot, draw_mermaid, draw_text};
use crate::io::Io;
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

pub(crate) fn run(args: &GraphArgs, io: &mut Io<'_>) -> Result<CommandExit> {
    let origin = DocumentOrigin::new(&args.file);
    let source = origin.read_text(io)?;
    let checked = print_diagnostics(&origin.display_name(), &source, false, io)?;
    if checked.error_count > 0 {
        return Ok(CommandExit::Failed);
    }
    let no_graph_error = |kind: Option<String>| {
        let path = origin.display_name();
        let kind = kind.unwrap_or_else(|| "document without steps".to_owned());
        Error::failed(format!("'{path}' is a {kind}; only playbooks have a graph"))
            .with_help("check it with: noetl check FILE")
    };
    let playbook = into_playbook(checked.document).map_err(no_graph_error)?;
    let flow = FlowGraph::new(&playbook).ok_or_else(|| no_graph_error(None))?;
    let options = DrawOptions { paint: io.out.paint(), width: io.out.width(), ascii: args.ascii };
    let drawing = match args.format {
        GraphFormat::Text => draw_text(&flow, options),
        GraphFormat::Mermaid => draw_mermaid(&flow),
        GraphFormat::Dot => draw_dot(&flow),
    };
    io.out.write_all(drawing.as_bytes())?;
    Ok(CommandExit::Ok)
}
