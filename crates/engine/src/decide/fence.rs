//! The fence: which word of a worker counts, and what becomes of the others.

use noetl_types::json::to_canonical;
use noetl_types::{CommandId, ErrorCode, Json, WorkerId, sha256};

use super::draft::Draft;
use super::{Claim, IgnoredResult, Refused, Report, ReportOutcome, Verdict};
use crate::event::{CommandAt, CommandClaimed, EventKind, ResultIgnored};
use crate::payload::{Data, Reference};
use crate::state::{Command, CommandPhase, FrameEnd, Run, State, Work};

/// What the fence says of a worker's word.
pub(super) enum Passage {
    /// It counts; the log does not show yet that the worker took the command.
    Unclaimed,
    /// It counts.
    Claimed,
    /// The command has gone on without it.
    Stale(ErrorCode),
}

/// Where the word of a worker stands.
pub(super) fn pass(
    id: CommandId,
    command: &Command,
    attempt: u32,
    worker: &WorkerId,
) -> Result<Passage, Refused> {
    let impossible = |current| Refused::ImpossibleAttempt {
        command: id,
        current,
        found: attempt,
    };
    match &command.phase {
        CommandPhase::Pending { attempt: next, .. } => match attempt.cmp(next) {
            _ if attempt == 0 => Err(impossible(*next)),
            std::cmp::Ordering::Equal => Ok(Passage::Unclaimed),
            std::cmp::Ordering::Less => Ok(Passage::Stale(ErrorCode::StaleAttempt)),
            std::cmp::Ordering::Greater => Err(impossible(*next)),
        },
        CommandPhase::Leased {
            attempt: current,
            worker: holder,
            ..
        } => match attempt.cmp(current) {
            _ if attempt == 0 => Err(impossible(*current)),
            std::cmp::Ordering::Equal if holder == worker => Ok(Passage::Claimed),
            std::cmp::Ordering::Equal => Ok(Passage::Stale(ErrorCode::NotLeaseHolder)),
            std::cmp::Ordering::Less => Ok(Passage::Stale(ErrorCode::StaleAttempt)),
            std::cmp::Ordering::Greater => Err(impossible(*current)),
        },
        CommandPhase::Parked(_) | CommandPhase::Spent | CommandPhase::Called(_) => {
            Ok(Passage::Stale(ErrorCode::StaleAttempt))
        }
    }
}

/// The command of an event.
pub(super) fn at(draft: &Draft<'_>, id: CommandId, command: &Command) -> CommandAt {
    let looping = draft.state.run(command.step).and_then(Run::loop_ref);
    CommandAt {
        command: id,
        step: draft.name(command.step),
        run: command.run,
        index: command.index,
        segment: command.segment,
        looping,
    }
}

/// A worker takes a command.
pub(super) fn claim(draft: &mut Draft<'_>, claim: Claim) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    let id = claim.command;
    let command = draft.state.command(id).ok_or(Refused::UnknownCommand(id))?;
    if let CommandPhase::Leased { worker: holder, .. } = &command.phase
        && *holder != claim.worker
    {
        let holder = holder.clone();
        return Err(Refused::HeldByOther {
            command: id,
            holder,
        });
    }
    if let CommandPhase::Pending {
        not_before: Some(not_before),
        ..
    } = command.phase
        && draft.now < not_before
    {
        return Err(Refused::NotBefore {
            command: id,
            not_before,
        });
    }
    match pass(id, command, claim.attempt, &claim.worker)? {
        Passage::Claimed => Ok(Verdict::Duplicate),
        Passage::Stale(code) => Ok(Verdict::Ignored(code)),
        Passage::Unclaimed => {
            let at = at(draft, id, command);
            draft.emit(EventKind::CommandClaimed(Box::new(CommandClaimed {
                at,
                attempt: claim.attempt,
                worker: claim.worker,
                lease_until: claim.lease_until,
            })))?;
            Ok(Verdict::Accepted)
        }
    }
}

/// Whether a report tells what was accepted before. Only what the state still knows is recognised:
/// the commands of runs that go on, and the one of a plain step whose last run has ended.
pub(super) fn is_known(state: &State, report: &Report) -> bool {
    let closed_in_run = state.runs().find_map(|(_, run)| {
        let index = run.closed.get(&report.command);
        match &run.work {
            Work::Single { outcome, .. } => index.map(|_| {
                outcome.as_ref().is_some_and(|known| {
                    is_same(report, Some(&known.output.data), known.error.is_some())
                })
            }),
            Work::Loop(looping) => index.map(|index| {
                let failed = looping.errors.contains(index);
                is_same(report, looping.results.get(index), failed)
            }),
            Work::Cursor(cursor) => {
                let end = cursor.recent.get(&report.command)?;
                Some(is_same_frame(report, *end))
            }
        }
    });
    closed_in_run.unwrap_or_else(|| {
        state.steps.values().any(|step| {
            let Some(latest) = &step.latest else {
                return false;
            };
            let is_last = latest.closed == Some(report.command);
            let left = step.left_behind().map(|output| &output.data);
            is_last && is_same(report, left, latest.error.is_some())
        })
    })
}

fn is_same(report: &Report, data: Option<&Data>, failed: bool) -> bool {
    match &report.outcome {
        ReportOutcome::Running { .. } | ReportOutcome::Parked { .. } => true,
        ReportOutcome::Completed(result) => {
            !failed && data.is_some_and(|known| is_same_data(known, &result.data))
        }
        ReportOutcome::Failed { .. } => failed,
    }
}

/// Of a frame it is known what became of its rows.
fn is_same_frame(report: &Report, end: FrameEnd) -> bool {
    match &report.outcome {
        ReportOutcome::Running { .. } | ReportOutcome::Parked { .. } => true,
        ReportOutcome::Failed { .. } => end.is_failed,
        ReportOutcome::Completed(result) => {
            let told = super::report::frame_of(result);
            !end.is_failed && (told.rows, told.done) == (end.rows, end.done)
        }
    }
}

/// Whether reported data is what was kept. It may have been moved out of the log since.
fn is_same_data(known: &Data, reported: &Data) -> bool {
    let digest = |reference: &Reference| reference.as_json().get("sha256").cloned();
    match (known, reported) {
        (Data::Inline(known), Data::Inline(reported)) => known == reported,
        (Data::External(known), Data::Inline(reported)) => {
            let reported = sha256(to_canonical(reported)).to_string();
            digest(known) == Some(Json::from(reported))
        }
        (Data::External(known), Data::External(reported)) => {
            known.uri() == reported.uri() || digest(known) == digest(reported)
        }
        (Data::Inline(_), Data::External(_)) => false,
    }
}

/// Notes a result that counts no more.
pub(super) fn ignore(
    draft: &mut Draft<'_>,
    report: &Report,
    code: ErrorCode,
) -> Result<Verdict, Refused> {
    note(draft, IgnoredResult::of(report, code))
}

impl IgnoredResult {
    /// A report that counts no more.
    pub fn of(report: &Report, code: ErrorCode) -> Self {
        let content = to_canonical(&outcome_json(&report.outcome));
        Self {
            command: report.command,
            attempt: report.attempt,
            worker: report.worker.clone(),
            sha256: sha256(&content),
            bytes: content.len() as u64,
            code,
        }
    }
}

fn outcome_json(outcome: &ReportOutcome) -> Json {
    let data = |data: &Data| match data {
        Data::Inline(value) => value.clone(),
        Data::External(reference) => reference.as_json().clone(),
    };
    match outcome {
        ReportOutcome::Running { progress } => progress.clone().unwrap_or_default(),
        ReportOutcome::Parked { started } => started.clone(),
        ReportOutcome::Completed(result) => data(&result.data),
        ReportOutcome::Failed { error, result } => {
            Json::object([("error", error.to_json()), ("data", data(&result.data))])
        }
    }
}

/// Notes a result of which the caller knows that it counts no more.
pub(super) fn ignored(draft: &mut Draft<'_>, ignored: IgnoredResult) -> Result<Verdict, Refused> {
    draft.must_have_begun()?;
    note(draft, ignored)
}

fn note(draft: &mut Draft<'_>, ignored: IgnoredResult) -> Result<Verdict, Refused> {
    let command = draft.state.command(ignored.command);
    let step = command.map(|command| draft.name(command.step));
    let code = ignored.code;
    draft.emit(EventKind::ResultIgnored(Box::new(ResultIgnored {
        command: ignored.command,
        step,
        attempt: ignored.attempt,
        worker: ignored.worker,
        sha256: ignored.sha256,
        bytes: ignored.bytes,
        code,
    })))?;
    Ok(Verdict::Ignored(code))
}
