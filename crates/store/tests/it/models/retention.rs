//! Data that a purge may drop, and late appends to it.
//!
//! The executions of one range are old enough to be dropped. Some still run, some are unpublished,
//! and one may have got its id long before its first event is written. An append checks the dropped
//! ranges and then writes. A purge checks the executions and then drops. The two may interleave at
//! every step.

use stateright::{Checker, Model, Path, Property};

/// Maximum events of an execution.
const MAX_EVENTS: u8 = 3;

/// Check of a purge before it drops a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropCheck {
    /// Only the age of the range.
    Age,
    /// All executions have ended and are published, checked before the drop.
    BeforeDrop,
    /// All executions have ended and are published, checked in the transaction of the drop, with
    /// appends to the range locked out.
    UnderLock,
}

/// Handling of an append to a dropped range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LateAppendRule {
    /// Accepts it without a check.
    Accepted,
    /// Checks the range before the write, without a lock.
    Checked,
    /// Checks the range in the transaction of the write, under a lock that conflicts with a purge.
    CheckedUnderLock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ExecutionState {
    /// Has an id, but no event yet.
    NotStarted,
    Running,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ModelExecution {
    status: ExecutionState,
    events: u8,
    published: u8,
    /// True between the check and the write of an append.
    is_in_append: bool,
}

impl ModelExecution {
    fn can_be_dropped(self) -> bool {
        match self.status {
            ExecutionState::NotStarted => true,
            ExecutionState::Running => false,
            ExecutionState::Ended => self.published == self.events,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RetentionState {
    executions: Vec<ModelExecution>,
    /// True if the purge found that all executions can be dropped.
    check_passed: bool,
    is_dropped: bool,
    /// True if a running or unpublished execution was dropped.
    lost_data: bool,
    refused: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetentionAction {
    CheckRange { execution: usize },
    Write { execution: usize, is_last: bool },
    Publish { execution: usize },
    CheckExecutions,
    Drop,
}

struct RetentionModel {
    executions: usize,
    drop_check: DropCheck,
    late_rule: LateAppendRule,
}

impl RetentionModel {
    fn can_drop(&self, state: &RetentionState) -> bool {
        let can_drop_all = state.executions.iter().copied().all(ModelExecution::can_be_dropped);
        let no_append_open = !state.executions.iter().any(|execution| execution.is_in_append);
        let is_unlocked = self.late_rule != LateAppendRule::CheckedUnderLock || no_append_open;
        match self.drop_check {
            DropCheck::Age => is_unlocked,
            DropCheck::BeforeDrop => is_unlocked && state.check_passed,
            DropCheck::UnderLock => is_unlocked && can_drop_all,
        }
    }
}

impl RetentionState {
    fn drop_range(&mut self) {
        let is_lost = |execution: &ModelExecution| !execution.can_be_dropped();
        self.lost_data |= self.executions.iter().any(is_lost);
        self.is_dropped = true;
        for execution in &mut self.executions {
            execution.events = 0;
            execution.published = 0;
        }
    }

    fn write_event(&mut self, index: usize, is_last: bool) -> Option<()> {
        let execution = &mut self.executions[index];
        if !execution.is_in_append || execution.events == MAX_EVENTS {
            return None;
        }
        execution.is_in_append = false;
        execution.events += 1;
        // Nothing reopens an ended execution. Projected events are stored after its end as well.
        execution.status = match execution.status {
            ExecutionState::Ended => ExecutionState::Ended,
            ExecutionState::NotStarted | ExecutionState::Running if is_last => {
                ExecutionState::Ended
            }
            ExecutionState::NotStarted | ExecutionState::Running => ExecutionState::Running,
        };
        Some(())
    }
}

impl Model for RetentionModel {
    type State = RetentionState;
    type Action = RetentionAction;

    fn init_states(&self) -> Vec<RetentionState> {
        let execution = ModelExecution {
            status: ExecutionState::NotStarted,
            events: 0,
            published: 0,
            is_in_append: false,
        };
        vec![RetentionState {
            executions: vec![execution; self.executions],
            check_passed: false,
            is_dropped: false,
            lost_data: false,
            refused: 0,
        }]
    }

    fn actions(&self, state: &RetentionState, actions: &mut Vec<RetentionAction>) {
        for execution in 0..self.executions {
            let current = &state.executions[execution];
            if current.is_in_append {
                actions.extend(
                    [true, false].map(|is_last| RetentionAction::Write { execution, is_last }),
                );
            } else if current.events < MAX_EVENTS {
                actions.push(RetentionAction::CheckRange { execution });
            }
            if current.published < current.events {
                actions.push(RetentionAction::Publish { execution });
            }
        }
        if !state.is_dropped {
            actions.push(RetentionAction::CheckExecutions);
            if self.can_drop(state) {
                actions.push(RetentionAction::Drop);
            }
        }
    }

    fn next_state(&self, last: &RetentionState, action: RetentionAction) -> Option<RetentionState> {
        let mut state = last.clone();
        match action {
            RetentionAction::CheckRange { execution }
                if last.is_dropped && self.late_rule != LateAppendRule::Accepted =>
            {
                // The append is refused. One refusal is enough to prove that it happens.
                state.refused = 1;
                state.executions[execution].is_in_append = false;
            }
            RetentionAction::CheckRange { execution } => {
                state.executions[execution].is_in_append = true;
            }
            RetentionAction::Write { execution, is_last } => {
                state.write_event(execution, is_last)?;
            }
            RetentionAction::Publish { execution } => state.executions[execution].published += 1,
            RetentionAction::CheckExecutions => {
                state.check_passed =
                    last.executions.iter().copied().all(ModelExecution::can_be_dropped);
            }
            RetentionAction::Drop => state.drop_range(),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "running or unpublished executions are kept",
                |_, state: &RetentionState| !state.lost_data,
            ),
            Property::always(
                "no history starts in a dropped range",
                |_, state: &RetentionState| {
                    !state.is_dropped
                        || state.executions.iter().all(|execution| execution.events == 0)
                },
            ),
            Property::sometimes("ended executions are dropped", |_, state: &RetentionState| {
                let is_ended =
                    |execution: &ModelExecution| execution.status == ExecutionState::Ended;
                state.is_dropped && state.executions.iter().all(is_ended)
            }),
            Property::sometimes("late appends are refused", |_, state: &RetentionState| {
                state.refused > 0
            }),
        ]
    }
}

fn find_violation(
    drop_check: DropCheck,
    late_rule: LateAppendRule,
    property: &'static str,
) -> Vec<RetentionAction> {
    let model = RetentionModel { executions: 2, drop_check, late_rule };
    let checker = model.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, but must be violated");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn purge_by_age_drops_running_executions() {
    find_violation(
        DropCheck::Age,
        LateAppendRule::CheckedUnderLock,
        "running or unpublished executions are kept",
    );
}

#[test]
fn purge_checked_before_drop_loses_new_events() {
    let actions = find_violation(
        DropCheck::BeforeDrop,
        LateAppendRule::CheckedUnderLock,
        "running or unpublished executions are kept",
    );
    assert!(actions.contains(&RetentionAction::CheckExecutions), "{actions:?}");
}

#[test]
fn unchecked_append_restarts_dropped_history() {
    find_violation(
        DropCheck::UnderLock,
        LateAppendRule::Accepted,
        "no history starts in a dropped range",
    );
}

#[test]
fn append_checked_before_write_restarts_dropped_history() {
    find_violation(
        DropCheck::UnderLock,
        LateAppendRule::Checked,
        "no history starts in a dropped range",
    );
}

#[test]
fn check_and_drop_under_one_lock_hold() {
    for executions in [2, 3] {
        let model = RetentionModel {
            executions,
            drop_check: DropCheck::UnderLock,
            late_rule: LateAppendRule::CheckedUnderLock,
        };
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!("{executions} executions: {} states", checker.unique_state_count());
    }
}
