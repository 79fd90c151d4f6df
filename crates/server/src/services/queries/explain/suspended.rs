//! Descriptions of suspended tasks, which wait without a worker.

use noetl_api::explain::{WaitCondition, WaitConditionKind};
use noetl_engine::event::{
    ApprovalSpec, ChildCall, ChildTarget, SignalWait, SuspensionKind, WaitMode,
};
use noetl_engine::{DeliveredSignal, OpenCommandTimer, SuspendedTask};
use noetl_types::Text;

/// Returns the wait of a suspended task.
pub(crate) fn suspended_task_wait(task: &SuspendedTask) -> WaitCondition {
    let (kind, detail, holders) = if task.is_awaiting_retry() {
        let attempt = task.attempt;
        let detail = format!("failed and waits for attempt {}", attempt.saturating_add(1));
        (WaitConditionKind::Retry, detail, Vec::new())
    } else {
        describe_suspension(task)
    };
    WaitCondition {
        kind,
        step: None,
        count: 1,
        detail: Text::from_lossy(&detail),
        since: Some(task.since),
        until: task.timer.map(|OpenCommandTimer { fire_at, .. }| fire_at),
        holders,
    }
}

fn describe_suspension(task: &SuspendedTask) -> (WaitConditionKind, String, Vec<Text>) {
    match &task.kind {
        SuspensionKind::Sleep(sleep) => {
            let detail = format!("sleeps until {}", sleep.until);
            (WaitConditionKind::Timer, detail, Vec::new())
        }
        SuspensionKind::Wait(wait) => {
            let detail = describe_signals(wait, &task.signals);
            (WaitConditionKind::Signal, detail, Vec::new())
        }
        SuspensionKind::Approval(approval) => {
            let detail = describe_approval(approval, task.signals.len());
            (WaitConditionKind::Approval, detail, approval.approvers.clone())
        }
        SuspensionKind::Child(call) => {
            let holder = Text::from(call.child.to_string());
            (WaitConditionKind::Child, describe_child(call), vec![holder])
        }
        SuspensionKind::Callback(_) => {
            let detail = "waits for a callback from the operation it started".to_owned();
            (WaitConditionKind::Command, detail, Vec::new())
        }
        SuspensionKind::Broken(broken) => {
            let detail = format!("cannot wait: {}", broken.error.message);
            (WaitConditionKind::Command, detail, Vec::new())
        }
    }
}

fn describe_signals(wait: &SignalWait, delivered: &[DeliveredSignal]) -> String {
    let is_open = |index: u32| !delivered.iter().any(|signal| signal.awaited_index == index);
    let open = (0..).zip(&wait.signals).filter(|(index, _)| is_open(*index));
    let names: Vec<String> = open
        .map(|(_, awaited)| match &awaited.key {
            Some(key) => format!("`{}` with key `{key}`", awaited.name),
            None => format!("`{}`", awaited.name),
        })
        .collect();
    let separator = match wait.mode {
        WaitMode::Any => " or ",
        WaitMode::All => " and ",
    };
    let noun = if names.len() == 1 { "signal" } else { "signals" };
    format!("waits for {noun} {}", names.join(separator))
}

fn describe_approval(approval: &ApprovalSpec, approvals: usize) -> String {
    let title = match &approval.title {
        Some(title) => format!(": {title}"),
        None => String::new(),
    };
    if approval.quorum > 1 {
        let quorum = approval.quorum;
        return format!("waits for approval, {approvals} of {quorum} given{title}");
    }
    format!("waits for approval{title}")
}

fn describe_child(call: &ChildCall) -> String {
    let target = match &call.of {
        ChildTarget::Path(path) => format!("`{path}`"),
        ChildTarget::CatalogId(id) => format!("definition {id}"),
    };
    if call.waits {
        format!("waits for run {} of {target}", call.child)
    } else {
        format!("starts run {} of {target}", call.child)
    }
}
