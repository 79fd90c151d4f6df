//! Approvals: decisions of people.

use noetl_playbook::command_machine::ToolResult;
use noetl_types::{CommandId, Json, Text, Timestamp};

use super::begin::find_suspended;
use super::conclude::{conclude_wait, or_null, timeout_failure};
use super::{schema, signal};
use crate::decide::draft::Draft;
use crate::decide::input::{ApprovalChoice, ApprovalDecision};
use crate::decide::{DecisionError, InputVerdict, Result, report};
use crate::event::{
    APPROVAL_SIGNAL, ApprovalSpec, ApprovalTimeoutAction, EventKind, SignalDelivery,
    SignalReceived, SuspensionKind,
};
use crate::state::{SuspendedTask, WaitKind};

/// Accepts the decision of a person.
pub(in crate::decide) fn accept_approval(
    draft: &mut Draft<'_>,
    decision: &ApprovalDecision,
) -> Result<InputVerdict> {
    draft.ensure_not_ended()?;
    if draft.state.is_paused() {
        return Err(DecisionError::Paused);
    }
    let command = find_open_approval(draft, decision)?;
    let Some((at, suspended)) = find_suspended(draft, command) else {
        return Err(draft.invariant_error("approval"));
    };
    let SuspensionKind::Approval(approval) = &suspended.kind else {
        return Err(draft.invariant_error("approval"));
    };
    check_may_decide(approval, &suspended, decision)?;
    let payload = decision_payload(decision);
    signal::check_signal_payload(&payload)?;
    let awaited_index = u32::try_from(suspended.signals.len()).unwrap_or(u32::MAX);
    draft.emit_event(EventKind::SignalReceived(Box::new(SignalReceived {
        name: APPROVAL_SIGNAL.into(),
        key: None,
        payload,
        actor: Some(decision.actor.clone()),
        broadcast: None,
        delivery: Some(SignalDelivery {
            consumer: at,
            awaited_index,
            received_at: None,
            buffered_seq: None,
        }),
    })))?;
    // All earlier decisions were approvals, because one rejection ends the wait.
    let approved = decision.decision == ApprovalChoice::Approve;
    let decisions = u64::from(awaited_index) + 1;
    if approved && decisions < u64::from(approval.quorum) {
        return Ok(InputVerdict::Accepted);
    }
    let result = ToolResult::ok(approval_data(approved, Some(decision), draft.now));
    if let Some(closed) = conclude_wait(draft, command, result)? {
        report::advance_unless_paused(draft, closed)?;
    }
    Ok(InputVerdict::Accepted)
}

/// Finds the open approval that a decision refers to.
fn find_open_approval(draft: &Draft<'_>, decision: &ApprovalDecision) -> Result<CommandId> {
    let step = draft.plan.find_step(decision.step.as_str());
    let step = step.ok_or_else(|| DecisionError::UnknownStep(decision.step.clone()))?;
    let mut open = draft.state.open_waits().filter(|wait| {
        let is_approval = matches!(wait.kind, WaitKind::Approval(..));
        is_approval && wait.step == step && wait.index == decision.index
    });
    let open = open.next().map(|wait| wait.command);
    open.ok_or_else(|| DecisionError::NoOpenApproval(decision.step.clone()))
}

fn check_may_decide(
    approval: &ApprovalSpec,
    suspended: &SuspendedTask,
    decision: &ApprovalDecision,
) -> Result<()> {
    let actor = &decision.actor;
    let is_approver = approval.approvers.is_empty()
        || approval.approvers.contains(actor)
        || decision.groups.iter().any(|group| approval.approvers.contains(group));
    if !is_approver {
        return Err(DecisionError::NotAnApprover(actor.clone()));
    }
    let mut decisions = suspended.signals.iter();
    if decisions.any(|delivered| delivered.signal.actor.as_ref() == Some(actor)) {
        return Err(DecisionError::AlreadyDecided(actor.clone()));
    }
    match (&approval.form, &decision.values) {
        (Some(form), Some(values)) => schema::check_matches(form, values, "form"),
        // A required form only applies to approvals.
        (Some(form), None) if decision.decision == ApprovalChoice::Approve => {
            schema::check_matches(form, &Json::empty_map(), "form")
        }
        (Some(_) | None, _) => Ok(()),
    }
}

fn decision_payload(decision: &ApprovalDecision) -> Json {
    let mut payload = vec![
        ("by", Json::from(&decision.actor)),
        ("decision", Json::from(decision.decision.as_str())),
    ];
    payload.extend(decision.comment.as_ref().map(|comment| ("comment", Json::from(comment))));
    payload.extend(decision.values.clone().map(|values| ("values", values)));
    Json::object(payload)
}

/// Builds the data of an approval.
fn approval_data(approved: bool, decision: Option<&ApprovalDecision>, at: Timestamp) -> Json {
    let actor: Option<&Text> = decision.map(|decision| &decision.actor);
    Json::object([
        ("approved", Json::Bool(approved)),
        ("by", or_null(actor)),
        ("at", Json::from(at)),
        ("comment", or_null(decision.and_then(|decision| decision.comment.as_ref()))),
        ("values", or_null(decision.and_then(|decision| decision.values.clone()))),
    ])
}

/// Returns the outcome of an approval that timed out.
pub(super) fn approval_timeout_result(approval: &ApprovalSpec, now: Timestamp) -> ToolResult {
    match approval.on_timeout {
        ApprovalTimeoutAction::Fail => timeout_failure("the decision"),
        ApprovalTimeoutAction::Reject => ToolResult::ok(approval_data(false, None, now)),
        ApprovalTimeoutAction::Approve => ToolResult::ok(approval_data(true, None, now)),
    }
}
