//! One execution per message and window, for any number of deliveries.
//!
//! Several servers receive the same message. Each delivery takes two steps, and a crash may occur
//! between them. A message is delivered until a server has answered, and sometimes once more.
//! Windows end at any time that the rule allows, and each window may have one execution.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Path, Property};

/// Maximum crashes of servers.
const MAX_CRASHES: u8 = 2;
/// Maximum deliveries after an answer.
const MAX_REPEATS: u8 = 2;
/// Maximum windows that end.
const MAX_ENDS: u8 = 1;

/// Relation of the key reservation to the creation of its execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CreationRule {
    /// Checks for the key. If it is free, creates the execution and reserves the key with it.
    CheckThenCreate,
    /// Reserves the key in one transaction and creates the execution in the next.
    ReserveThenCreate,
    /// Does both in one transaction.
    OneTransaction,
    /// Reserves the key with all data for the creation. Any later delivery, or a background task,
    /// completes it under the recorded id. The reservation does not expire before it is completed.
    RecoverableReservation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct KeyReservation {
    execution: u8,
    is_done: bool,
}

/// Next step of a server with its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ServerState {
    Idle,
    /// Found no reservation.
    FoundNoKey,
    /// Has reserved the key, and not yet created the execution.
    MustCreate {
        execution: u8,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct DedupState {
    reservation: Option<KeyReservation>,
    /// Existing executions, each with the window in which it was created.
    executions: BTreeSet<(u8, u8)>,
    servers: Vec<ServerState>,
    window: u8,
    last_execution: u8,
    crashes: u8,
    repeats: u8,
    is_answered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DedupAction {
    /// A server receives the message and does its first step.
    Deliver {
        server: usize,
    },
    SecondStep {
        server: usize,
    },
    Crash {
        server: usize,
    },
    Recover,
    EndWindow,
}

struct DedupModel {
    servers: usize,
    rule: CreationRule,
}

impl DedupState {
    fn next_execution(&mut self) -> u8 {
        self.last_execution += 1;
        self.last_execution
    }

    /// Creation is idempotent by the id of its execution.
    fn create_execution(&mut self, execution: u8) {
        if !self.executions.iter().any(|(id, _)| *id == execution) {
            self.executions.insert((execution, self.window));
        }
    }

    fn reserve_and_create(&mut self) {
        let execution = self.next_execution();
        self.create_execution(execution);
        self.reservation = Some(KeyReservation { execution, is_done: true });
        self.is_answered = true;
    }

    fn complete_reservation(&mut self, execution: u8) {
        self.create_execution(execution);
        match &mut self.reservation {
            Some(reservation) if reservation.execution == execution => reservation.is_done = true,
            Some(_) | None => {}
        }
    }

    fn count_in_window(&self, window: u8) -> usize {
        let is_in_window = |(_, created_in): &&(u8, u8)| *created_in == window;
        self.executions.iter().filter(is_in_window).count()
    }
}

impl DedupModel {
    fn deliver_message(&self, state: &mut DedupState, server: usize) {
        state.repeats += u8::from(state.is_answered);
        match (self.rule, state.reservation) {
            (CreationRule::RecoverableReservation, Some(reservation)) if !reservation.is_done => {
                state.servers[server] =
                    ServerState::MustCreate { execution: reservation.execution };
            }
            (_, Some(_)) => state.is_answered = true,
            (CreationRule::CheckThenCreate, None) => {
                state.servers[server] = ServerState::FoundNoKey;
            }
            (CreationRule::OneTransaction, None) => state.reserve_and_create(),
            (CreationRule::ReserveThenCreate | CreationRule::RecoverableReservation, None) => {
                let execution = state.next_execution();
                state.reservation = Some(KeyReservation { execution, is_done: false });
                state.servers[server] = ServerState::MustCreate { execution };
            }
        }
    }

    fn can_end_window(&self, state: &DedupState) -> bool {
        let is_done = state.reservation.is_some_and(|reservation| reservation.is_done);
        state.window < MAX_ENDS && (is_done || self.rule == CreationRule::ReserveThenCreate)
    }
}

impl Model for DedupModel {
    type State = DedupState;
    type Action = DedupAction;

    fn init_states(&self) -> Vec<DedupState> {
        vec![DedupState {
            reservation: None,
            executions: BTreeSet::new(),
            servers: vec![ServerState::Idle; self.servers],
            window: 0,
            last_execution: 0,
            crashes: 0,
            repeats: 0,
            is_answered: false,
        }]
    }

    fn actions(&self, state: &DedupState, actions: &mut Vec<DedupAction>) {
        for server in 0..self.servers {
            match state.servers[server] {
                ServerState::Idle if !state.is_answered || state.repeats < MAX_REPEATS => {
                    actions.push(DedupAction::Deliver { server });
                }
                ServerState::Idle => {}
                ServerState::FoundNoKey | ServerState::MustCreate { .. } => {
                    actions.push(DedupAction::SecondStep { server });
                    if state.crashes < MAX_CRASHES {
                        actions.push(DedupAction::Crash { server });
                    }
                }
            }
        }
        if self.rule == CreationRule::RecoverableReservation {
            actions.push(DedupAction::Recover);
        }
        if self.can_end_window(state) {
            actions.push(DedupAction::EndWindow);
        }
    }

    fn next_state(&self, last: &DedupState, action: DedupAction) -> Option<DedupState> {
        let mut state = last.clone();
        match action {
            DedupAction::Deliver { server } => self.deliver_message(&mut state, server),
            DedupAction::SecondStep { server } => {
                match state.servers[server] {
                    ServerState::Idle => return None,
                    ServerState::FoundNoKey => state.reserve_and_create(),
                    ServerState::MustCreate { execution } => {
                        state.complete_reservation(execution);
                        state.is_answered = true;
                    }
                }
                state.servers[server] = ServerState::Idle;
            }
            DedupAction::Crash { server } => {
                state.crashes += 1;
                state.servers[server] = ServerState::Idle;
            }
            DedupAction::Recover => {
                let reservation = state.reservation.filter(|reservation| !reservation.is_done)?;
                state.complete_reservation(reservation.execution);
            }
            DedupAction::EndWindow => {
                state.reservation = None;
                state.window += 1;
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one in a window", |_, state: &DedupState| {
                (0..=state.window).all(|window| state.count_in_window(window) <= 1)
            }),
            // Checked in final states.
            Property::eventually("a message has its execution", |_, state: &DedupState| {
                !state.executions.is_empty()
            }),
            Property::always(
                "a completed reservation has its execution",
                |_, state: &DedupState| {
                    state.reservation.is_none_or(|reservation| {
                        let is_reserved = |(id, _): &(u8, u8)| *id == reservation.execution;
                        !reservation.is_done || state.executions.iter().any(is_reserved)
                    })
                },
            ),
            Property::sometimes("each window has one execution", |_, state: &DedupState| {
                state.window == MAX_ENDS
                    && state.count_in_window(0) == 1
                    && state.count_in_window(1) == 1
            }),
        ]
    }
}

fn find_violation(rule: CreationRule, property: &'static str) -> Vec<DedupAction> {
    let checker = DedupModel { servers: 2, rule }.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, but must be violated");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn check_before_create_creates_twice() {
    find_violation(CreationRule::CheckThenCreate, "at most one in a window");
}

/// The reservation stays without an execution, and each redelivery is reported as a duplicate of
/// it.
#[test]
fn crash_between_reserve_and_create_loses_message() {
    let actions = find_violation(CreationRule::ReserveThenCreate, "a message has its execution");
    let is_crash = |action: &DedupAction| matches!(action, DedupAction::Crash { .. });
    assert!(actions.iter().any(is_crash), "{actions:?}");
}

#[test]
fn one_transaction_and_recoverable_reservation_hold() {
    for rule in [CreationRule::OneTransaction, CreationRule::RecoverableReservation] {
        for servers in [2, 3] {
            let checker = DedupModel { servers, rule }.checker().threads(2).spawn_bfs().join();
            checker.assert_properties();
            assert!(checker.is_done());
            println!("{rule:?}, {servers} servers: {} states", checker.unique_state_count());
        }
    }
}
