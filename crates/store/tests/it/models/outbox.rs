//! An outbox row: claims, leases, and the fence of its marks.
//!
//! Several publishers share one row. A lease may expire at any time, a publisher may crash between
//! any two steps, and a sent mark may arrive at any later time, also repeatedly, because HTTP
//! clients retry. An operator may replay a dead row.

use stateright::{Checker, Model, Path, Property};

/// Failures until the row is dead.
const MAX_FAILURES: u8 = 2;
/// Maximum claims in the model.
const MAX_CLAIMS: u8 = 4;
/// Maximum crashes of publishers.
const MAX_CRASHES: u8 = 2;

/// Handling of a claim whose publisher crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseRule {
    /// The claim never expires: its time is stored and not used.
    Endless,
    /// The lease expires, and the row can be claimed again.
    Expires,
}

/// Condition for accepting a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkFence {
    /// No condition.
    None,
    /// The row is in flight.
    Status,
    /// The row is in flight with the attempt of the mark.
    StatusAndAttempt,
}

/// Effect of a replay on the attempts of the row, which the fence compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplayCounting {
    FromZero,
    KeepsCounting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RowStatus {
    Pending,
    InFlight { claim: u8, is_expired: bool },
    Published,
    Failed,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MarkOutcome {
    Published,
    Failed,
}

/// A mark that was sent. It may arrive any number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SentMark {
    outcome: MarkOutcome,
    attempt: u8,
    /// The claim of the mark, which no rule may use.
    claim: u8,
}

/// A claim held by a publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct HeldClaim {
    attempt: u8,
    claim: u8,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a separate fact that a property checks")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OutboxState {
    status: RowStatus,
    attempts: u8,
    failures: u8,
    claims: u8,
    crashes: u8,
    held_claims: Vec<Option<HeldClaim>>,
    marks: Vec<SentMark>,
    is_in_stream: bool,
    was_published: bool,
    was_replayed: bool,
    /// True if a mark of another claim changed the row.
    changed_by_other_claim: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutboxAction {
    Claim { publisher: usize },
    Publish { publisher: usize },
    Fail { publisher: usize },
    Arrive(SentMark),
    ExpireLease,
    Crash { publisher: usize },
    Replay,
}

struct OutboxModel {
    publishers: usize,
    lease: LeaseRule,
    fence: MarkFence,
    replay: ReplayCounting,
}

impl OutboxModel {
    fn can_claim(&self, state: &OutboxState) -> bool {
        match state.status {
            RowStatus::Pending | RowStatus::Failed => true,
            RowStatus::InFlight { is_expired, .. } => {
                is_expired && self.lease == LeaseRule::Expires
            }
            RowStatus::Published | RowStatus::Dead => false,
        }
    }

    fn accepts_mark(&self, state: &OutboxState, mark: SentMark) -> bool {
        let is_in_flight = matches!(state.status, RowStatus::InFlight { .. });
        match self.fence {
            MarkFence::None => true,
            MarkFence::Status => is_in_flight,
            MarkFence::StatusAndAttempt => is_in_flight && state.attempts == mark.attempt,
        }
    }
}

impl OutboxState {
    fn claim_row(&mut self, publisher: usize) {
        self.attempts += 1;
        self.claims += 1;
        self.status = RowStatus::InFlight { claim: self.claims, is_expired: false };
        self.held_claims[publisher] =
            Some(HeldClaim { attempt: self.attempts, claim: self.claims });
    }

    /// Sends a mark about the claim of a publisher and drops the claim.
    fn send_mark(&mut self, publisher: usize, outcome: MarkOutcome) -> Option<()> {
        let held = self.held_claims[publisher].take()?;
        self.marks.push(SentMark { outcome, attempt: held.attempt, claim: held.claim });
        Some(())
    }

    fn apply_mark(&mut self, mark: SentMark) {
        let is_own =
            matches!(self.status, RowStatus::InFlight { claim, .. } if claim == mark.claim);
        self.changed_by_other_claim |= !is_own;
        match mark.outcome {
            MarkOutcome::Published => {
                self.status = RowStatus::Published;
                self.was_published = true;
            }
            MarkOutcome::Failed => {
                self.failures = (self.failures + 1).min(MAX_FAILURES);
                let is_exhausted = self.failures >= MAX_FAILURES;
                self.status = if is_exhausted { RowStatus::Dead } else { RowStatus::Failed };
            }
        }
    }
}

impl Model for OutboxModel {
    type State = OutboxState;
    type Action = OutboxAction;

    fn init_states(&self) -> Vec<OutboxState> {
        vec![OutboxState {
            status: RowStatus::Pending,
            attempts: 0,
            failures: 0,
            claims: 0,
            crashes: 0,
            held_claims: vec![None; self.publishers],
            marks: Vec::new(),
            is_in_stream: false,
            was_published: false,
            was_replayed: false,
            changed_by_other_claim: false,
        }]
    }

    fn actions(&self, state: &OutboxState, actions: &mut Vec<OutboxAction>) {
        for publisher in 0..self.publishers {
            if state.held_claims[publisher].is_some() {
                actions.extend([
                    OutboxAction::Publish { publisher },
                    OutboxAction::Fail { publisher },
                ]);
                if state.crashes < MAX_CRASHES {
                    actions.push(OutboxAction::Crash { publisher });
                }
            } else if self.can_claim(state) {
                actions.push(OutboxAction::Claim { publisher });
            }
        }
        actions.extend(state.marks.iter().copied().map(OutboxAction::Arrive));
        actions.push(OutboxAction::ExpireLease);
        if state.status == RowStatus::Dead && !state.was_replayed {
            actions.push(OutboxAction::Replay);
        }
    }

    fn next_state(&self, last: &OutboxState, action: OutboxAction) -> Option<OutboxState> {
        let mut state = last.clone();
        match action {
            OutboxAction::Claim { publisher } => state.claim_row(publisher),
            OutboxAction::Publish { publisher } => {
                state.is_in_stream = true;
                state.send_mark(publisher, MarkOutcome::Published)?;
            }
            OutboxAction::Fail { publisher } => state.send_mark(publisher, MarkOutcome::Failed)?,
            OutboxAction::Arrive(mark) if self.accepts_mark(last, mark) => state.apply_mark(mark),
            OutboxAction::Arrive(_) => return None,
            OutboxAction::ExpireLease => match &mut state.status {
                RowStatus::InFlight { is_expired, .. } => *is_expired = true,
                RowStatus::Pending | RowStatus::Published | RowStatus::Failed | RowStatus::Dead => {
                    return None;
                }
            },
            OutboxAction::Crash { publisher } => {
                state.crashes += 1;
                state.held_claims[publisher] = None;
            }
            OutboxAction::Replay => {
                state.was_replayed = true;
                state.status = RowStatus::Pending;
                state.failures = 0;
                if self.replay == ReplayCounting::FromZero {
                    state.attempts = 0;
                }
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "a row marked as published is in the stream",
                |_, state: &OutboxState| state.status != RowStatus::Published || state.is_in_stream,
            ),
            Property::always("a published row stays published", |_, state: &OutboxState| {
                !state.was_published || state.status == RowStatus::Published
            }),
            Property::always("only its claim changes a row", |_, state: &OutboxState| {
                !state.changed_by_other_claim
            }),
            // Checked in final states, so it finds rows that stay unpublished forever.
            Property::eventually("it is published or dead", |_, state: &OutboxState| {
                matches!(state.status, RowStatus::Published | RowStatus::Dead)
                    || state.claims >= MAX_CLAIMS
            }),
            Property::sometimes("it is published after a crash", |_, state: &OutboxState| {
                state.crashes > 0 && state.status == RowStatus::Published
            }),
            Property::sometimes("it is published after its replay", |_, state: &OutboxState| {
                state.was_replayed && state.status == RowStatus::Published
            }),
        ]
    }

    fn within_boundary(&self, state: &OutboxState) -> bool {
        state.claims <= MAX_CLAIMS
    }
}

fn find_violation(
    lease: LeaseRule,
    fence: MarkFence,
    replay: ReplayCounting,
    property: &'static str,
) -> Vec<OutboxAction> {
    let model = OutboxModel { publishers: 2, lease, fence, replay };
    let checker = model.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, but must be violated");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn row_without_lease_expiry_gets_stuck() {
    let actions = find_violation(
        LeaseRule::Endless,
        MarkFence::StatusAndAttempt,
        ReplayCounting::KeepsCounting,
        "it is published or dead",
    );
    let is_crash = |action: &OutboxAction| matches!(action, OutboxAction::Crash { .. });
    assert!(actions.iter().any(is_crash), "{actions:?}");
}

/// A repeated `mark-failed` is enough, with or without lease expiry.
#[test]
fn unfenced_mark_reopens_published_row() {
    for lease in [LeaseRule::Endless, LeaseRule::Expires] {
        find_violation(
            lease,
            MarkFence::None,
            ReplayCounting::KeepsCounting,
            "a published row stays published",
        );
    }
}

#[test]
fn status_fence_lets_other_claim_change_row() {
    let actions = find_violation(
        LeaseRule::Expires,
        MarkFence::Status,
        ReplayCounting::KeepsCounting,
        "only its claim changes a row",
    );
    let claims = actions.iter().filter(|action| matches!(action, OutboxAction::Claim { .. }));
    assert!(claims.count() > 1, "{actions:?}");
}

/// Two claims have the same attempt if a replay restarts the count.
#[test]
fn replay_from_zero_breaks_fence() {
    let actions = find_violation(
        LeaseRule::Expires,
        MarkFence::StatusAndAttempt,
        ReplayCounting::FromZero,
        "only its claim changes a row",
    );
    assert!(actions.contains(&OutboxAction::Replay), "{actions:?}");
}

#[test]
fn status_and_attempt_fence_holds() {
    for publishers in [2, 3] {
        let model = OutboxModel {
            publishers,
            lease: LeaseRule::Expires,
            fence: MarkFence::StatusAndAttempt,
            replay: ReplayCounting::KeepsCounting,
        };
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!("{publishers} publishers: {} states", checker.unique_state_count());
    }
}
