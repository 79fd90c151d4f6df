//! One execution per message, however often it is delivered.
//!
//! Some servers get the same message, each delivery in two steps that a crash may part. A message is
//! delivered until somebody has answered for it, and now and then once more. Windows end at any time
//! that the rule allows; each may have an execution of its own.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Path, Property};

/// Servers that crash.
const MAX_CRASHES: u8 = 2;
/// Deliveries after somebody answered.
const MAX_REPEATS: u8 = 2;
/// Windows that end.
const MAX_ENDS: u8 = 1;

/// How a claim of the key and the creation of its execution belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Look for the key; where there is none, create, and claim the key with it.
    LookThenCreate,
    /// Claim the key in one transaction, create in the next.
    ClaimThenCreate,
    /// Both in one transaction.
    OneTransaction,
    /// Claim the key with all that creation needs; whoever comes, or a sweeper, completes it under
    /// the recorded id. The claim does not end before it is done.
    Reservation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Claim {
    execution: u8,
    is_done: bool,
}

/// What a server is about to do with the delivery in its hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Server {
    Idle,
    /// Found no claim.
    SawNone,
    /// Has claimed, and not yet created.
    Owes {
        execution: u8,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    claim: Option<Claim>,
    /// The executions that exist, with the window that each began in.
    executions: BTreeSet<(u8, u8)>,
    servers: Vec<Server>,
    window: u8,
    minted: u8,
    crashes: u8,
    repeats: u8,
    is_answered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// The message comes to a server, which does its first step.
    Deliver {
        server: usize,
    },
    /// The server does its second step.
    Go {
        server: usize,
    },
    Crash {
        server: usize,
    },
    Sweep,
    EndWindow,
}

struct Rules {
    servers: usize,
    rule: Rule,
}

impl World {
    fn mint(&mut self) -> u8 {
        self.minted += 1;
        self.minted
    }

    /// Creation is idempotent on the id of its execution.
    fn create(&mut self, execution: u8) {
        if !self.executions.iter().any(|(id, _)| *id == execution) {
            self.executions.insert((execution, self.window));
        }
    }

    fn claim_and_create(&mut self) {
        let execution = self.mint();
        self.create(execution);
        self.claim = Some(Claim {
            execution,
            is_done: true,
        });
        self.is_answered = true;
    }

    fn complete(&mut self, execution: u8) {
        self.create(execution);
        match &mut self.claim {
            Some(claim) if claim.execution == execution => claim.is_done = true,
            Some(_) | None => {}
        }
    }

    fn of_window(&self, window: u8) -> usize {
        let is_of_it = |(_, began): &&(u8, u8)| *began == window;
        self.executions.iter().filter(is_of_it).count()
    }
}

impl Rules {
    fn deliver(&self, world: &mut World, server: usize) {
        world.repeats += u8::from(world.is_answered);
        match (self.rule, world.claim) {
            (Rule::Reservation, Some(claim)) if !claim.is_done => {
                world.servers[server] = Server::Owes {
                    execution: claim.execution,
                };
            }
            (_, Some(_)) => world.is_answered = true,
            (Rule::LookThenCreate, None) => world.servers[server] = Server::SawNone,
            (Rule::OneTransaction, None) => world.claim_and_create(),
            (Rule::ClaimThenCreate | Rule::Reservation, None) => {
                let execution = world.mint();
                world.claim = Some(Claim {
                    execution,
                    is_done: false,
                });
                world.servers[server] = Server::Owes { execution };
            }
        }
    }

    fn may_end(&self, world: &World) -> bool {
        let is_done = world.claim.is_some_and(|claim| claim.is_done);
        world.window < MAX_ENDS && (is_done || self.rule == Rule::ClaimThenCreate)
    }
}

impl Model for Rules {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            claim: None,
            executions: BTreeSet::new(),
            servers: vec![Server::Idle; self.servers],
            window: 0,
            minted: 0,
            crashes: 0,
            repeats: 0,
            is_answered: false,
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        for server in 0..self.servers {
            match world.servers[server] {
                Server::Idle if !world.is_answered || world.repeats < MAX_REPEATS => {
                    acts.push(Act::Deliver { server });
                }
                Server::Idle => {}
                Server::SawNone | Server::Owes { .. } => {
                    acts.push(Act::Go { server });
                    if world.crashes < MAX_CRASHES {
                        acts.push(Act::Crash { server });
                    }
                }
            }
        }
        if self.rule == Rule::Reservation {
            acts.push(Act::Sweep);
        }
        if self.may_end(world) {
            acts.push(Act::EndWindow);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut world = last.clone();
        match act {
            Act::Deliver { server } => self.deliver(&mut world, server),
            Act::Go { server } => {
                match world.servers[server] {
                    Server::Idle => return None,
                    Server::SawNone => world.claim_and_create(),
                    Server::Owes { execution } => {
                        world.complete(execution);
                        world.is_answered = true;
                    }
                }
                world.servers[server] = Server::Idle;
            }
            Act::Crash { server } => {
                world.crashes += 1;
                world.servers[server] = Server::Idle;
            }
            Act::Sweep => {
                let claim = world.claim.filter(|claim| !claim.is_done)?;
                world.complete(claim.execution);
            }
            Act::EndWindow => {
                world.claim = None;
                world.window += 1;
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one in a window", |_, world: &World| {
                (0..=world.window).all(|window| world.of_window(window) <= 1)
            }),
            // Asked where nothing can happen any more.
            Property::eventually("a message has its execution", |_, world: &World| {
                !world.executions.is_empty()
            }),
            Property::always("a done claim names what exists", |_, world: &World| {
                world.claim.is_none_or(|claim| {
                    let is_it = |(id, _): &(u8, u8)| *id == claim.execution;
                    !claim.is_done || world.executions.iter().any(is_it)
                })
            }),
            Property::sometimes("each window has its own", |_, world: &World| {
                world.window == MAX_ENDS && world.of_window(0) == 1 && world.of_window(1) == 1
            }),
        ]
    }
}

fn violation(rule: Rule, property: &'static str) -> Vec<Act> {
    let checker = Rules { servers: 2, rule }.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, and should not");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn who_looks_before_creating_creates_twice() {
    violation(Rule::LookThenCreate, "at most one in a window");
}

/// The claim stays, its execution never comes, and each redelivery is called a duplicate of it.
/// Hole D1.
#[test]
fn a_crash_between_claim_and_creation_loses_the_message() {
    let acts = violation(Rule::ClaimThenCreate, "a message has its execution");
    let is_crash = |act: &Act| matches!(act, Act::Crash { .. });
    assert!(acts.iter().any(is_crash), "{acts:?}");
}

/// Hole D1.
#[test]
fn one_transaction_and_a_reservation_hold_everywhere() {
    for rule in [Rule::OneTransaction, Rule::Reservation] {
        for servers in [2, 3] {
            let checker = Rules { servers, rule }
                .checker()
                .threads(2)
                .spawn_bfs()
                .join();
            checker.assert_properties();
            assert!(checker.is_done());
            println!(
                "{rule:?}, {servers} servers: {} states",
                checker.unique_state_count()
            );
        }
    }
}
