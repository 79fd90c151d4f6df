//! `noetl runs explain`

use std::io::Write as _;

use clap::Args;
use noetl_api::catalog::ResourceRequest;
use noetl_api::explain::{At, Cause, ExplainQuery, Explanation, FailureView, WaitingOn};
use noetl_types::{ExecutionId, ExecutionStatus, Seq, TaskError, Text, Timestamp};

use super::find;
use crate::commands::replay::moment;
use crate::config::{Client, Flags};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::output::{Cell, Column, Output, Table, Times};
use crate::progress::{Flow, failure_in};
use crate::reach::{Reached, Wants};
use crate::render::palette;
use crate::render::words::visible;
use crate::roles::Host;

/// Say why a run waits, or why it failed
///
/// No worker in its pool, the next attempt, the worker that has a command, a join and the steps that
/// it waits for, a signal, a person, another run, a slot, a pause; or the first error that nothing
/// caught, with the line of the playbook that it comes from.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  noetl runs explain last
  noetl runs explain last --step load --why   with the events that led there
  noetl runs explain 4821 --at-seq 12         as it was after twelve events")]
pub(crate) struct ExplainArgs {
    /// The run: its id, a part of it that fits no other, or last
    run: String,
    /// Only what has to do with this step
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// As it was after the event at this place of the log
    #[arg(long, value_name = "N", conflicts_with = "at_time", value_parser = seq)]
    at_seq: Option<Seq>,
    /// As it was by what was recorded until this time, such as 2026-11-16T09:30:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    at_time: Option<Timestamp>,
    /// Show the events that led there, too
    #[arg(long)]
    why: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    target: Flags<Client>,
}

fn seq(text: &str) -> Result<Seq, String> {
    let number = text.parse().map_err(|_| "it is not a number".to_owned())?;
    Seq::new(number).map_err(|error| error.to_string())
}

pub(super) fn run(args: &ExplainArgs, quiet: bool, io: &mut Io<'_>) -> Result<Exit, Error> {
    let reached = Reached::find(&args.target.given, Wants::Look, quiet, io)?;
    reached.ask(explain(args, &reached.host, io))
}

async fn explain(args: &ExplainArgs, host: &Host, io: &mut Io<'_>) -> Result<Exit, Error> {
    let id = find(host, &args.run).await?;
    let query = ExplainQuery {
        step: args.step.as_deref().map(Text::from),
        at: (args.at_seq.map(At::Seq)).or(args.at_time.map(At::Time)),
    };
    let explained = host.explain(id, query).await?;
    if !args.output.is_table() {
        args.output.thing(&explained, io)?;
        return Ok(Exit::Ok);
    }
    let times = args.output.times(io);
    let paint = io.out.paint();
    let status = paint.text(palette::NAME, explained.status);
    writeln!(io.out, "{status}: {}", visible(&explained.summary))?;
    if !explained.waiting_on.is_empty() {
        writeln!(io.out)?;
        args.output
            .table(&waits(&explained.waiting_on, &times), io)?;
        if explained.more > 0 {
            writeln!(io.out, "and {} things more", explained.more)?;
        }
    }
    if let Some(failure) = &explained.failure {
        writeln!(io.out)?;
        place(id, failure, host, io).await?;
    }
    if args.why && !explained.cause.is_empty() {
        writeln!(io.out)?;
        args.output.table(&causes(&explained.cause, &times), io)?;
    }
    advise(&explained, io)?;
    Ok(Exit::Ok)
}

fn waits(waits: &[WaitingOn], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("STEP").gives_way(),
        Column::new("N").right(),
        Column::new("WAITS FOR"),
        Column::new("SINCE"),
        Column::new("UNTIL"),
        Column::new("HELD BY").gives_way(),
        Column::new("DETAIL").gives_way(),
    ]);
    for waits in waits {
        table.row([
            Cell::styled(waits.step.as_deref().unwrap_or("(the run)"), palette::NAME),
            waits.count.to_string().into(),
            waits.kind.as_str().into(),
            times.tell_or_dash(waits.since).into(),
            times.tell_or_dash(waits.until).into(),
            held_by(&waits.holders).into(),
            waits.detail.as_str().into(),
        ]);
    }
    table
}

fn held_by(holders: &[Text]) -> String {
    let names: Vec<&str> = holders.iter().map(Text::as_str).collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(", ")
    }
}

fn causes(causes: &[Cause], times: &Times) -> Table {
    let mut table = Table::new([
        Column::new("SEQ").right(),
        Column::new("TIME"),
        Column::new("EVENT"),
        Column::new("STEP").gives_way(),
        Column::new("WHY").gives_way(),
    ]);
    for cause in causes {
        table.row([
            cause.seq.to_string().into(),
            times.tell(cause.at).into(),
            cause.event_type.as_str().into(),
            cause.step.as_deref().unwrap_or("-").into(),
            cause.why.as_str().into(),
        ]);
    }
    table
}

/// Shows an error where it comes from. Without the playbook, its line has to do.
async fn place(
    id: ExecutionId,
    failure: &FailureView,
    host: &Host,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    let error = TaskError::from_json(&failure.error);
    let flow = flow_of(id, host).await?;
    let step = failure.step.as_deref().unwrap_or_default();
    let text = failure_in(flow.as_ref(), step, &error, &io.out);
    writeln!(io.out, "{text}")?;
    Ok(())
}

/// The playbook of a run, as it was when the run began.
pub(crate) async fn flow_of(id: ExecutionId, host: &Host) -> Result<Option<Flow>, Error> {
    let run = host.detail(id).await?;
    let Some(catalog_id) = run.line.catalog_id else {
        return Ok(None);
    };
    let request = ResourceRequest {
        catalog_id: Some(catalog_id),
        ..ResourceRequest::default()
    };
    let item = host.definition(request).await?;
    Ok(Flow::of(
        format!("{}@{}", item.path, item.version),
        item.content.to_string(),
    ))
}

/// What the user can do.
fn advise(explained: &Explanation, io: &mut Io<'_>) -> Result<(), Error> {
    use noetl_api::explain::WaitingKind;
    let id = explained.execution_id;
    let first = explained.waiting_on.first();
    let step = first
        .and_then(|first| first.step.as_deref())
        .unwrap_or("STEP");
    let advice = match first.map(|first| first.kind) {
        Some(WaitingKind::Paused) => format!("noetl runs resume {id}"),
        Some(WaitingKind::Pool) => "noetl worker list, and noetl worker to start one".to_owned(),
        Some(WaitingKind::Approval) => format!("noetl runs approve {id} {step}"),
        Some(WaitingKind::Signal) => format!("noetl runs signal {id} NAME"),
        Some(WaitingKind::Child) => {
            let child = first.and_then(|first| first.holders.first());
            format!("noetl runs explain {}", child.map_or("RUN", Text::as_str))
        }
        None if explained.status == ExecutionStatus::Failed => format!("noetl runs rerun {id}"),
        Some(_) | None => return Ok(()),
    };
    let paint = io.err.paint();
    let word = paint.text(palette::HELP, "try");
    io.talk(format_args!("{word}: {}", visible(&advice)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::empty;

    use noetl_api::explain::WaitingKind;

    use super::*;
    use crate::io::{Env, Stream};
    use crate::output::{Form, TimeStyle};
    use crate::render::words::columns;

    fn waiting(step: &str, kind: WaitingKind, holder: &str, detail: &str) -> WaitingOn {
        WaitingOn {
            kind,
            step: Some(step.into()),
            detail: detail.into(),
            since: None,
            until: None,
            holders: vec![holder.into()],
            count: 1,
        }
    }

    /// Each wait has a reason of its own, which is shown without asking for more columns.
    #[test]
    fn the_reason_of_every_wait_is_shown() {
        let found = [
            waiting(
                "train",
                WaitingKind::Pool,
                "gpu",
                "no worker of pool gpu is alive",
            ),
            waiting(
                "ship",
                WaitingKind::Approval,
                "ops",
                "somebody has to approve the release",
            ),
            waiting(
                "pay",
                WaitingKind::Signal,
                "paid",
                "the signal 'paid' of order-7 has not come",
            ),
        ];
        let output = Output {
            form: Form::Table,
            no_headers: false,
            time: Some(TimeStyle::Iso),
        };
        let (mut input, mut out, mut err) = (empty(), Vec::new(), Vec::new());
        let io = Io {
            input: &mut input,
            out: Stream::plain(&mut out),
            err: Stream::terminal(&mut err, 60),
            env: Env::default(),
        };
        let table = waits(&found, &output.times(&io));
        insta::assert_snapshot!(table.render(false, true, &io.out), @r"
        STEP   N  WAITS FOR  SINCE  UNTIL  HELD BY  DETAIL
        train  1  pool       -      -      gpu      no worker of pool gpu is alive
        ship   1  approval   -      -      ops      somebody has to approve the release
        pay    1  signal     -      -      paid     the signal 'paid' of order-7 has not come
        ");
        let narrow = table.render(false, true, &io.err);
        let narrow = anstream::adapter::strip_str(&narrow).to_string();
        assert!(narrow.lines().all(|line| columns(line) <= 60), "{narrow}");
        for reason in ["no worker of", "somebody has", "the signal"] {
            assert!(narrow.contains(reason), "{narrow}");
        }
    }
}
