//! The lease of a command and the fence of its result.
//!
//! Several workers, a reaper and a server share one command. Grants, extensions and releases alone
//! are not durable: a crash loses those after the last append. A lease may expire at any time. A
//! worker that once had the command may report at any later time.

use stateright::{Checker, Model, Path, Property};

/// Maximum attempts of the command.
const MAX_ATTEMPTS: u8 = 3;
/// Maximum grants in the model. More than attempts, since crashes lose some grants.
const MAX_GRANTS: u8 = 5;

/// Condition for accepting a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportFence {
    /// The command is open.
    CommandOnly,
    /// The attempt is the current one.
    AttemptOnly,
    /// Attempt and token match the lease.
    AttemptAndToken,
}

/// Time of the reaper's expiry check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReapCheck {
    /// The lease had expired when the reaper scanned.
    AtScan,
    /// The lease is still expired when the append is written.
    AtWrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CommandState {
    Pending,
    Leased { token: u8, is_expired: bool },
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CommandRow {
    status: CommandState,
    attempt: u8,
}

/// A lease as a worker received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct LeaseGrant {
    worker: u8,
    attempt: u8,
    token: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LogEntry {
    Expired { attempt: u8 },
    Completed { attempt: u8, by_holder: bool },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LeaseState {
    row: CommandRow,
    /// The row after a crash.
    durable: CommandRow,
    grants: Vec<LeaseGrant>,
    /// The attempt that the reaper found expired.
    expired_attempt: Option<u8>,
    /// True if a renewed lease was taken from its worker.
    lost_renewed_lease: bool,
    /// True if a crash lost a grant.
    lost_grant: bool,
    log: Vec<LogEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseAction {
    Lease {
        worker: u8,
    },
    Expire,
    Extend(LeaseGrant),
    Release(LeaseGrant),
    Report(LeaseGrant),
    ScanExpired,
    Reap {
        attempt: u8,
    },
    /// Non-durable changes become durable eventually.
    Flush,
    Crash,
}

struct LeaseModel {
    workers: u8,
    fence: ReportFence,
    reap_check: ReapCheck,
}

impl LeaseState {
    /// Writes an event with a change of the row, which makes the row durable.
    fn append_entry(&mut self, entry: LogEntry, status: CommandState) {
        self.row.status = status;
        self.durable = self.row;
        self.log.push(entry);
    }

    fn holds_lease(&self, grant: LeaseGrant) -> bool {
        match self.row.status {
            CommandState::Leased { token, .. } => {
                token == grant.token && self.row.attempt == grant.attempt
            }
            CommandState::Pending | CommandState::Done => false,
        }
    }
}

impl LeaseModel {
    fn accepts_report(&self, state: &LeaseState, grant: LeaseGrant) -> bool {
        let is_leased = matches!(state.row.status, CommandState::Leased { .. });
        match self.fence {
            ReportFence::CommandOnly => state.row.status != CommandState::Done,
            ReportFence::AttemptOnly => is_leased && state.row.attempt == grant.attempt,
            ReportFence::AttemptAndToken => state.holds_lease(grant),
        }
    }

    fn can_reap(&self, state: &LeaseState, scanned_attempt: u8) -> bool {
        let CommandState::Leased { is_expired, .. } = state.row.status else {
            return false;
        };
        let is_still_expired = match self.reap_check {
            ReapCheck::AtScan => true,
            ReapCheck::AtWrite => is_expired,
        };
        is_still_expired && state.row.attempt == scanned_attempt
    }
}

impl Model for LeaseModel {
    type State = LeaseState;
    type Action = LeaseAction;

    fn init_states(&self) -> Vec<LeaseState> {
        let row = CommandRow { status: CommandState::Pending, attempt: 0 };
        vec![LeaseState {
            row,
            durable: row,
            grants: Vec::new(),
            expired_attempt: None,
            lost_renewed_lease: false,
            lost_grant: false,
            log: Vec::new(),
        }]
    }

    fn actions(&self, state: &LeaseState, actions: &mut Vec<LeaseAction>) {
        if state.row.status == CommandState::Pending && state.row.attempt < MAX_ATTEMPTS {
            actions.extend((0..self.workers).map(|worker| LeaseAction::Lease { worker }));
        }
        actions.extend([
            LeaseAction::Expire,
            LeaseAction::ScanExpired,
            LeaseAction::Flush,
            LeaseAction::Crash,
        ]);
        actions.extend(state.expired_attempt.map(|attempt| LeaseAction::Reap { attempt }));
        for grant in &state.grants {
            actions.extend([
                LeaseAction::Extend(*grant),
                LeaseAction::Release(*grant),
                LeaseAction::Report(*grant),
            ]);
        }
    }

    fn next_state(&self, last: &LeaseState, action: LeaseAction) -> Option<LeaseState> {
        let mut state = last.clone();
        match action {
            LeaseAction::Lease { worker } => grant_lease(&mut state, worker)?,
            LeaseAction::Expire => set_expired(&mut state, true)?,
            LeaseAction::Extend(grant) if last.holds_lease(grant) => {
                set_expired(&mut state, false)?;
            }
            LeaseAction::Release(grant) if last.holds_lease(grant) => {
                state.row.status = CommandState::Pending;
                state.row.attempt -= 1;
            }
            LeaseAction::Report(grant) if self.accepts_report(last, grant) => {
                let entry = LogEntry::Completed {
                    attempt: grant.attempt,
                    by_holder: last.holds_lease(grant),
                };
                state.append_entry(entry, CommandState::Done);
            }
            LeaseAction::ScanExpired => {
                let CommandState::Leased { is_expired: true, .. } = last.row.status else {
                    return None;
                };
                state.expired_attempt = Some(last.row.attempt);
            }
            LeaseAction::Reap { attempt } => {
                state.expired_attempt = None;
                if self.can_reap(last, attempt) {
                    let CommandState::Leased { is_expired, .. } = last.row.status else {
                        return None;
                    };
                    state.lost_renewed_lease |= !is_expired;
                    state.append_entry(LogEntry::Expired { attempt }, CommandState::Pending);
                }
            }
            LeaseAction::Flush => state.durable = state.row,
            LeaseAction::Crash => {
                state.lost_grant |= state.durable != state.row;
                state.row = state.durable;
                state.expired_attempt = None;
            }
            LeaseAction::Extend(_) | LeaseAction::Release(_) | LeaseAction::Report(_) => {
                return None;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one result", |_, state: &LeaseState| {
                let is_result = |entry: &&LogEntry| matches!(entry, LogEntry::Completed { .. });
                state.log.iter().filter(is_result).count() <= 1
            }),
            Property::always("a result is the holder's", |_, state: &LeaseState| {
                state.log.iter().all(|entry| match entry {
                    LogEntry::Completed { by_holder, .. } => *by_holder,
                    LogEntry::Expired { .. } => true,
                })
            }),
            Property::always("attempts in the log only grow", |_, state: &LeaseState| {
                let attempts = state.log.iter().map(|entry| match entry {
                    LogEntry::Expired { attempt } | LogEntry::Completed { attempt, .. } => *attempt,
                });
                attempts.is_sorted_by(|earlier, later| earlier < later)
            }),
            Property::always("nothing follows the result", |_, state: &LeaseState| {
                let before_last = state.log.iter().rev().skip(1);
                before_last.into_iter().all(|entry| matches!(entry, LogEntry::Expired { .. }))
            }),
            Property::always("a renewed lease is kept", |_, state: &LeaseState| {
                !state.lost_renewed_lease
            }),
            Property::sometimes("it is done at the last attempt", |_, state: &LeaseState| {
                state.log.len() == usize::from(MAX_ATTEMPTS)
                    && state.row.status == CommandState::Done
            }),
            Property::sometimes("it is done in spite of a crash", |_, state: &LeaseState| {
                state.lost_grant && state.row.status == CommandState::Done
            }),
        ]
    }

    fn within_boundary(&self, state: &LeaseState) -> bool {
        state.grants.len() <= usize::from(MAX_GRANTS)
    }
}

fn grant_lease(state: &mut LeaseState, worker: u8) -> Option<()> {
    let token = u8::try_from(state.grants.len()).ok()?;
    state.row.attempt += 1;
    state.row.status = CommandState::Leased { token, is_expired: false };
    state.grants.push(LeaseGrant { worker, attempt: state.row.attempt, token });
    Some(())
}

fn set_expired(state: &mut LeaseState, value: bool) -> Option<()> {
    let CommandState::Leased { is_expired, .. } = &mut state.row.status else {
        return None;
    };
    *is_expired = value;
    Some(())
}

/// Checks a model and returns the actions that lead to a violation of the property.
fn find_violation(
    fence: ReportFence,
    reap_check: ReapCheck,
    property: &'static str,
) -> Vec<LeaseAction> {
    let model = LeaseModel { workers: 2, fence, reap_check };
    let checker = model.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, but must be violated");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn fence_by_command_accepts_stale_result() {
    let actions =
        find_violation(ReportFence::CommandOnly, ReapCheck::AtWrite, "a result is the holder's");
    assert!(actions.iter().any(|action| matches!(action, LeaseAction::Report(_))), "{actions:?}");
    find_violation(ReportFence::CommandOnly, ReapCheck::AtWrite, "attempts in the log only grow");
}

/// Two grants have the same attempt if the first one was lost or released.
#[test]
fn fence_by_attempt_accepts_forgotten_grant() {
    let actions =
        find_violation(ReportFence::AttemptOnly, ReapCheck::AtWrite, "a result is the holder's");
    let is_lost =
        |action: &LeaseAction| matches!(action, LeaseAction::Crash | LeaseAction::Release(_));
    assert!(actions.iter().any(is_lost), "{actions:?}");
}

#[test]
fn reaper_without_recheck_takes_renewed_lease() {
    find_violation(ReportFence::AttemptAndToken, ReapCheck::AtScan, "a renewed lease is kept");
}

#[test]
fn attempt_token_and_expiry_fence_hold() {
    for workers in [2, 3] {
        let model = LeaseModel {
            workers,
            fence: ReportFence::AttemptAndToken,
            reap_check: ReapCheck::AtWrite,
        };
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!("{workers} workers: {} states", checker.unique_state_count());
    }
}
