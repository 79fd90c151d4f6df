//! Tasks that wait without a worker, in words.

use noetl_api::explain::{WaitingKind, WaitingOn};
use noetl_engine::event::{Approval, ChildCall, ChildOf, Park, Wait, WaitMode};
use noetl_engine::{OpenTimer, Parked, TakenSignal};
use noetl_types::Text;

/// What a task waits for.
pub(super) fn told(parked: &Parked) -> WaitingOn {
    let (kind, detail, holders) = if parked.is_between_attempts() {
        let attempt = parked.attempt;
        let detail = format!("failed and waits for attempt {}", attempt.saturating_add(1));
        (WaitingKind::Retry, detail, Vec::new())
    } else {
        of_park(parked)
    };
    WaitingOn {
        kind,
        step: None,
        count: 1,
        detail: Text::lossy(&detail),
        since: Some(parked.since),
        until: parked.timer.map(|OpenTimer { fire_at, .. }| fire_at),
        holders,
    }
}

fn of_park(parked: &Parked) -> (WaitingKind, String, Vec<Text>) {
    match &parked.park {
        Park::Sleep(sleep) => {
            let detail = format!("sleeps until {}", sleep.until);
            (WaitingKind::Timer, detail, Vec::new())
        }
        Park::Wait(wait) => {
            let detail = signals(wait, &parked.signals);
            (WaitingKind::Signal, detail, Vec::new())
        }
        Park::Approval(approval) => {
            let detail = approvals(approval, parked.signals.len());
            (WaitingKind::Approval, detail, approval.approvers.clone())
        }
        Park::Child(call) => {
            let holder = Text::from(call.child.to_string());
            (WaitingKind::Child, child(call), vec![holder])
        }
        Park::Callback(_) => {
            let detail = "waits for what it started, which tells its end by itself".to_owned();
            (WaitingKind::Command, detail, Vec::new())
        }
        Park::Broken(broken) => {
            let detail = format!("cannot wait: {}", broken.error.message);
            (WaitingKind::Command, detail, Vec::new())
        }
    }
}

fn signals(wait: &Wait, taken: &[TakenSignal]) -> String {
    let is_open = |slot: u32| !taken.iter().any(|taken| taken.slot == slot);
    let open = (0..).zip(&wait.signals).filter(|(slot, _)| is_open(*slot));
    let names: Vec<String> = open
        .map(|(_, awaited)| match &awaited.key {
            Some(key) => format!("`{}` with key `{key}`", awaited.name),
            None => format!("`{}`", awaited.name),
        })
        .collect();
    let between = match wait.mode {
        WaitMode::Any => " or ",
        WaitMode::All => " and ",
    };
    let noun = if names.len() == 1 {
        "signal"
    } else {
        "signals"
    };
    format!("waits for {noun} {}", names.join(between))
}

fn approvals(approval: &Approval, decided: usize) -> String {
    let about = match &approval.title {
        Some(title) => format!(": {title}"),
        None => String::new(),
    };
    if approval.quorum > 1 {
        let quorum = approval.quorum;
        return format!("waits for approval, {decided} of {quorum} given{about}");
    }
    format!("waits for approval{about}")
}

fn child(call: &ChildCall) -> String {
    let of = match &call.of {
        ChildOf::Path(path) => format!("`{path}`"),
        ChildOf::CatalogId(id) => format!("definition {id}"),
    };
    if call.waits {
        format!("waits for run {} of {of}", call.child)
    } else {
        format!("starts run {} of {of}", call.child)
    }
}
