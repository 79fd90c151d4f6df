//! The lease of a command and the fence before its result.
//!
//! Some workers, a reaper and a server share one command. Grants, renewals and returns are not
//! durable by themselves: a crash forgets those behind the last append. A lease may run out at any
//! time. Workers never forget: whoever once had the command may report at any later moment.

use stateright::{Checker, Model, Path, Property};

/// Attempts of the command in all.
const MAX_ATTEMPTS: u8 = 3;
/// Grants until the world ends; more than attempts, since some are forgotten.
const MAX_GRANTS: u8 = 5;

/// What a report has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fence {
    /// That the command is open.
    CommandAlone,
    /// That the attempt is the present one.
    AttemptAlone,
    /// That attempt and token are those of the lease.
    AttemptAndToken,
}

/// When the reaper may take a lease away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaping {
    /// When it had run out as the reaper looked.
    WhenSeen,
    /// When it still has run out as the append is written.
    WhenWritten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    Pending,
    Leased { token: u8, has_run_out: bool },
    Done,
}

/// The row of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    status: Status,
    attempt: u8,
}

/// What a worker once got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Grant {
    worker: u8,
    attempt: u8,
    token: u8,
}

/// What the log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    Expired { attempt: u8 },
    Completed { attempt: u8, by_holder: bool },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    row: Row,
    /// The row that a crash leaves.
    durable: Row,
    grants: Vec<Grant>,
    /// The attempt that the reaper has seen run out.
    seen: Option<u8>,
    /// Whether a lease was taken from a worker that had renewed it.
    was_robbed: bool,
    /// Whether a crash forgot a grant.
    has_forgotten: bool,
    log: Vec<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Lease {
        worker: u8,
    },
    RunOut,
    Extend(Grant),
    Release(Grant),
    Report(Grant),
    Look,
    Reap {
        attempt: u8,
    },
    /// What was not durable becomes so by itself, sooner or later.
    Flush,
    Crash,
}

struct Rules {
    workers: u8,
    fence: Fence,
    reaping: Reaping,
}

impl World {
    /// Writes events with a change of the row: that makes the row durable.
    fn append(&mut self, entry: Entry, status: Status) {
        self.row.status = status;
        self.durable = self.row;
        self.log.push(entry);
    }

    fn is_holder(&self, grant: Grant) -> bool {
        match self.row.status {
            Status::Leased { token, .. } => {
                token == grant.token && self.row.attempt == grant.attempt
            }
            Status::Pending | Status::Done => false,
        }
    }
}

impl Rules {
    fn lets_through(&self, world: &World, grant: Grant) -> bool {
        let is_leased = matches!(world.row.status, Status::Leased { .. });
        match self.fence {
            Fence::CommandAlone => world.row.status != Status::Done,
            Fence::AttemptAlone => is_leased && world.row.attempt == grant.attempt,
            Fence::AttemptAndToken => world.is_holder(grant),
        }
    }

    fn may_reap(&self, world: &World, seen: u8) -> bool {
        let Status::Leased { has_run_out, .. } = world.row.status else {
            return false;
        };
        let still = match self.reaping {
            Reaping::WhenSeen => true,
            Reaping::WhenWritten => has_run_out,
        };
        still && world.row.attempt == seen
    }
}

impl Model for Rules {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let row = Row {
            status: Status::Pending,
            attempt: 0,
        };
        vec![World {
            row,
            durable: row,
            grants: Vec::new(),
            seen: None,
            was_robbed: false,
            has_forgotten: false,
            log: Vec::new(),
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        if world.row.status == Status::Pending && world.row.attempt < MAX_ATTEMPTS {
            acts.extend((0..self.workers).map(|worker| Act::Lease { worker }));
        }
        acts.extend([Act::RunOut, Act::Look, Act::Flush, Act::Crash]);
        acts.extend(world.seen.map(|attempt| Act::Reap { attempt }));
        for grant in &world.grants {
            acts.extend([
                Act::Extend(*grant),
                Act::Release(*grant),
                Act::Report(*grant),
            ]);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut world = last.clone();
        match act {
            Act::Lease { worker } => lease(&mut world, worker)?,
            Act::RunOut => set_run_out(&mut world, true)?,
            Act::Extend(grant) if last.is_holder(grant) => set_run_out(&mut world, false)?,
            Act::Release(grant) if last.is_holder(grant) => {
                world.row.status = Status::Pending;
                world.row.attempt -= 1;
            }
            Act::Report(grant) if self.lets_through(last, grant) => {
                let entry = Entry::Completed {
                    attempt: grant.attempt,
                    by_holder: last.is_holder(grant),
                };
                world.append(entry, Status::Done);
            }
            Act::Look => {
                let Status::Leased {
                    has_run_out: true, ..
                } = last.row.status
                else {
                    return None;
                };
                world.seen = Some(last.row.attempt);
            }
            Act::Reap { attempt } => {
                world.seen = None;
                if self.may_reap(last, attempt) {
                    let Status::Leased { has_run_out, .. } = last.row.status else {
                        return None;
                    };
                    world.was_robbed |= !has_run_out;
                    world.append(Entry::Expired { attempt }, Status::Pending);
                }
            }
            Act::Flush => world.durable = world.row,
            Act::Crash => {
                world.has_forgotten |= world.durable != world.row;
                world.row = world.durable;
                world.seen = None;
            }
            Act::Extend(_) | Act::Release(_) | Act::Report(_) => return None,
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one result", |_, world: &World| {
                let is_result = |entry: &&Entry| matches!(entry, Entry::Completed { .. });
                world.log.iter().filter(is_result).count() <= 1
            }),
            Property::always("a result is the holder's", |_, world: &World| {
                world.log.iter().all(|entry| match entry {
                    Entry::Completed { by_holder, .. } => *by_holder,
                    Entry::Expired { .. } => true,
                })
            }),
            Property::always("attempts in the log only grow", |_, world: &World| {
                let attempts = world.log.iter().map(|entry| match entry {
                    Entry::Expired { attempt } | Entry::Completed { attempt, .. } => *attempt,
                });
                attempts.is_sorted_by(|earlier, later| earlier < later)
            }),
            Property::always("nothing follows the result", |_, world: &World| {
                let before_last = world.log.iter().rev().skip(1);
                before_last
                    .into_iter()
                    .all(|entry| matches!(entry, Entry::Expired { .. }))
            }),
            Property::always("a renewed lease is kept", |_, world: &World| {
                !world.was_robbed
            }),
            Property::sometimes("it is done at the last attempt", |_, world: &World| {
                world.log.len() == usize::from(MAX_ATTEMPTS) && world.row.status == Status::Done
            }),
            Property::sometimes("it is done in spite of a crash", |_, world: &World| {
                world.has_forgotten && world.row.status == Status::Done
            }),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.grants.len() <= usize::from(MAX_GRANTS)
    }
}

fn lease(world: &mut World, worker: u8) -> Option<()> {
    let token = u8::try_from(world.grants.len()).ok()?;
    world.row.attempt += 1;
    world.row.status = Status::Leased {
        token,
        has_run_out: false,
    };
    world.grants.push(Grant {
        worker,
        attempt: world.row.attempt,
        token,
    });
    Some(())
}

fn set_run_out(world: &mut World, value: bool) -> Option<()> {
    let Status::Leased { has_run_out, .. } = &mut world.row.status else {
        return None;
    };
    *has_run_out = value;
    Some(())
}

/// Checks some rules until every property that can be broken or met was.
fn violation(fence: Fence, reaping: Reaping, property: &'static str) -> Vec<Act> {
    let rules = Rules {
        workers: 2,
        fence,
        reaping,
    };
    let checker = rules.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, and should not");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn a_result_that_is_accepted_by_its_command_alone_may_be_stale() {
    let acts = violation(
        Fence::CommandAlone,
        Reaping::WhenWritten,
        "a result is the holder's",
    );
    assert!(
        acts.iter().any(|act| matches!(act, Act::Report(_))),
        "{acts:?}"
    );
    violation(
        Fence::CommandAlone,
        Reaping::WhenWritten,
        "attempts in the log only grow",
    );
}

/// Two grants have the same attempt once the first was forgotten, or given back.
#[test]
fn a_result_that_is_accepted_by_its_attempt_may_be_of_a_forgotten_grant() {
    let acts = violation(
        Fence::AttemptAlone,
        Reaping::WhenWritten,
        "a result is the holder's",
    );
    let is_lost = |act: &Act| matches!(act, Act::Crash | Act::Release(_));
    assert!(acts.iter().any(is_lost), "{acts:?}");
}

#[test]
fn a_reaper_that_trusts_what_it_saw_takes_renewed_leases() {
    violation(
        Fence::AttemptAndToken,
        Reaping::WhenSeen,
        "a renewed lease is kept",
    );
}

#[test]
fn attempt_and_token_and_expiry_by_append_hold_everywhere() {
    for workers in [2, 3] {
        let rules = Rules {
            workers,
            fence: Fence::AttemptAndToken,
            reaping: Reaping::WhenWritten,
        };
        let checker = rules.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!("{workers} workers: {} states", checker.unique_state_count());
    }
}
