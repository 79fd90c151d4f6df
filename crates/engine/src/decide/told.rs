//! What classic workers tell: events under ids of their own, and outcomes that the server judges.

use noetl_types::{ErrorCode, Json, Millis, TaskError};

use super::draft::Draft;
use super::report::{self, retried};
use super::{Beside, IgnoredResult, Late, Refused, Remark, Report, Told, Verdict, fence};
use crate::event::{CommandExpired, EventKind, ExpiryReason};
use noetl_playbook::shift::RetriedCall;

/// Takes what a worker tells of a command.
pub(super) fn told(draft: &mut Draft<'_>, told: Told) -> Result<Verdict, Refused> {
    let Told {
        report,
        again,
        late,
        event_id,
        event_type,
        mut meta,
    } = told;
    draft.name_next(event_type, event_id);
    let command = report.command;
    let verdict = counted(draft, report, late)?;
    if let (Verdict::Accepted, Some((error, retry_in))) = (verdict, again) {
        make_again(draft, command, error, retry_in)?;
    }
    let is_issue = |event: &&crate::event::Event| matches!(event.kind, EventKind::CommandIssued(_));
    let issued = draft.events().iter().filter(is_issue).count();
    meta.insert("commands_generated".into(), Json::from(issued));
    if draft
        .events()
        .iter()
        .any(|event| event.event_id == event_id)
    {
        draft.put_beside(event_id, Beside::Meta(meta));
    }
    Ok(verdict)
}

/// What a report comes to, which may be too late.
fn counted(draft: &mut Draft<'_>, report: Report, late: Option<Late>) -> Result<Verdict, Refused> {
    match late {
        None => report::report(draft, report),
        Some(Late::Superseded(code)) => fence::ignored(draft, IgnoredResult::of(&report, code)),
        Some(Late::Closed) => {
            let forgotten = IgnoredResult::of(&report, ErrorCode::StaleAttempt);
            match report::report(draft, report) {
                Err(Refused::UnknownCommand(_)) => fence::ignored(draft, forgotten),
                counted => counted,
            }
        }
    }
}

/// Notes an attempt that failed, and gives the command back to be made again after a while.
///
/// It stays the same command, so the keys under which its effects happen once stay the same too.
fn make_again(
    draft: &mut Draft<'_>,
    command: noetl_types::CommandId,
    error: TaskError,
    retry_in: Millis,
) -> Result<(), Refused> {
    let open = draft.state.command(command);
    let open = open.ok_or(Refused::UnknownCommand(command))?;
    let (at, attempt) = (fence::at(draft, command, open), open.attempt());
    let call = RetriedCall {
        error,
        attempt: open.retried.saturating_add(1),
        retry_in,
        at: None,
    };
    retried(draft, &at, call)?;
    draft.emit(EventKind::CommandExpired(Box::new(CommandExpired {
        at,
        attempt,
        reason: ExpiryReason::Retry,
        not_before: Some(draft.now.saturating_add(retry_in)),
    })))?;
    Ok(())
}

/// Takes what shapes nothing.
pub(super) fn remark(draft: &mut Draft<'_>, remark: Remark) -> Result<Verdict, Refused> {
    let Remark(record) = remark;
    if record.event_type.is_audit() {
        draft.must_have_begun()?;
    } else {
        draft.must_go_on()?;
    }
    let (event_id, time) = (record.event_id, record.event_time);
    draft.emit_as(EventKind::Other(record.event_type.clone()), event_id, time)?;
    draft.put_beside(event_id, Beside::Record(Box::new(record)));
    Ok(Verdict::Accepted)
}
