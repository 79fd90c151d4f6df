//! Approvals: decisions of persons.

use noetl_playbook::shift::Answer;
use noetl_types::{CommandId, Json, Text, Timestamp};

use super::begin::find;
use super::conclude::{conclude, or_null, timed_out};
use super::{schema, signal};
use crate::decide::draft::Draft;
use crate::decide::input::{Approve, Decided};
use crate::decide::{Refused, Verdict, report};
use crate::event::{APPROVAL, Approval, EventKind, Park, SignalReceived, Taken, Unanswered};
use crate::state::{Parked, WaitKind};

/// A person decides.
pub(in crate::decide) fn approve(
    draft: &mut Draft<'_>,
    approve: &Approve,
) -> Result<Verdict, Refused> {
    draft.must_go_on()?;
    if draft.state.is_paused() {
        return Err(Refused::Paused);
    }
    let command = open_approval(draft, approve)?;
    let Some((at, parked)) = find(draft, command) else {
        return Err(draft.broken("approval"));
    };
    let Park::Approval(approval) = &parked.park else {
        return Err(draft.broken("approval"));
    };
    may_decide(approval, &parked, approve)?;
    let payload = payload(approve);
    signal::must_be_small(&payload)?;
    let slot = u32::try_from(parked.signals.len()).unwrap_or(u32::MAX);
    draft.emit(EventKind::SignalReceived(Box::new(SignalReceived {
        name: APPROVAL.into(),
        key: None,
        payload,
        actor: Some(approve.actor.clone()),
        broadcast: None,
        taken: Some(Taken {
            by: at,
            slot,
            lookback: None,
            kept: None,
        }),
    })))?;
    // All decisions before were approvals: one rejection ends it.
    let approved = approve.decision == Decided::Approve;
    let decisions = u64::from(slot) + 1;
    if approved && decisions < u64::from(approval.quorum) {
        return Ok(Verdict::Accepted);
    }
    let answer = Answer::ok(decided(approved, Some(approve), draft.now));
    if let Some(closing) = conclude(draft, command, answer)? {
        report::follow_up(draft, closing)?;
    }
    Ok(Verdict::Accepted)
}

/// The approval that a decision is about.
fn open_approval(draft: &Draft<'_>, approve: &Approve) -> Result<CommandId, Refused> {
    let step = draft.plan.find(approve.step.as_str());
    let step = step.ok_or_else(|| Refused::UnknownStep(approve.step.clone()))?;
    let mut open = draft.state.waits().filter(|wait| {
        let is_approval = matches!(wait.kind, WaitKind::Approval(..));
        is_approval && wait.step == step && wait.index == approve.index
    });
    let open = open.next().map(|wait| wait.command);
    open.ok_or_else(|| Refused::NothingToDecide(approve.step.clone()))
}

fn may_decide(approval: &Approval, parked: &Parked, approve: &Approve) -> Result<(), Refused> {
    let actor = &approve.actor;
    let is_approver = approval.approvers.is_empty()
        || approval.approvers.contains(actor)
        || approve
            .groups
            .iter()
            .any(|group| approval.approvers.contains(group));
    if !is_approver {
        return Err(Refused::NotAnApprover(actor.clone()));
    }
    let mut decisions = parked.signals.iter();
    if decisions.any(|taken| taken.signal.actor.as_ref() == Some(actor)) {
        return Err(Refused::DecidedAlready(actor.clone()));
    }
    match (&approval.form, &approve.values) {
        (Some(form), Some(values)) => schema::must_match(form, values, "form"),
        // A form that has to be filled in binds those who approve.
        (Some(form), None) if approve.decision == Decided::Approve => {
            schema::must_match(form, &Json::empty_map(), "form")
        }
        (Some(_) | None, _) => Ok(()),
    }
}

fn payload(approve: &Approve) -> Json {
    let mut payload = vec![
        ("by", Json::from(&approve.actor)),
        ("decision", Json::from(approve.decision.as_str())),
    ];
    payload.extend(
        approve
            .comment
            .as_ref()
            .map(|said| ("comment", Json::from(said))),
    );
    payload.extend(approve.values.clone().map(|values| ("values", values)));
    Json::object(payload)
}

/// The data of an approval.
fn decided(approved: bool, by: Option<&Approve>, at: Timestamp) -> Json {
    let actor: Option<&Text> = by.map(|approve| &approve.actor);
    Json::object([
        ("approved", Json::Bool(approved)),
        ("by", or_null(actor)),
        ("at", Json::from(at)),
        ("comment", or_null(by.and_then(|by| by.comment.as_ref()))),
        ("values", or_null(by.and_then(|by| by.values.clone()))),
    ])
}

/// What becomes of an approval when nobody decides in time.
pub(super) fn unanswered(approval: &Approval, now: Timestamp) -> Answer {
    match approval.on_timeout {
        Unanswered::Fail => timed_out("the decision"),
        Unanswered::Reject => Answer::ok(decided(false, None, now)),
        Unanswered::Approve => Answer::ok(decided(true, None, now)),
    }
}
