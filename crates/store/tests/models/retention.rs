//! What a purge may drop, and what becomes of what comes late.
//!
//! The executions of one range are old: by the clock all of it may go. Some still run, some wait to be
//! published, and one may have been given its id long before its first event is written. An append
//! looks at what was dropped and then writes; a purge looks at the executions and then drops. The two
//! may stand in each other's way at every step.

use stateright::{Checker, Model, Path, Property};

/// Events of an execution in all.
const MAX_EVENTS: u8 = 3;

/// What a purge asks before it drops a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// The clock.
    Age,
    /// Whether all has ended and is published, in a look before the drop.
    Before,
    /// The same in the transaction that drops, with appends to the range locked out.
    UnderLock,
}

/// What an append does about what was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    /// Nothing.
    Accepted,
    /// It looks for its range before it writes, and nothing holds the answer.
    Looked,
    /// It looks in its own transaction, under the lock that a purge needs.
    LookedUnderLock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    /// It has an id, and no event yet.
    Unborn,
    Running,
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Execution {
    status: Status,
    events: u8,
    published: u8,
    /// An append that has looked and has not yet written.
    is_in_append: bool,
}

impl Execution {
    fn may_go(self) -> bool {
        match self.status {
            Status::Unborn => true,
            Status::Running => false,
            Status::Ended => self.published == self.events,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    executions: Vec<Execution>,
    /// Whether the purge has seen that all may go.
    has_seen: bool,
    is_dropped: bool,
    /// Whether something was dropped that still ran or was not published.
    has_lost: bool,
    refused: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Look { execution: usize },
    Write { execution: usize, is_last: bool },
    Publish { execution: usize },
    Ask,
    Drop,
}

struct Rules {
    executions: usize,
    asking: Asking,
    late: Late,
}

impl Rules {
    fn may_drop(&self, world: &World) -> bool {
        let all_may_go = world.executions.iter().copied().all(Execution::may_go);
        let nobody_writes = !world.executions.iter().any(|one| one.is_in_append);
        let is_free = self.late != Late::LookedUnderLock || nobody_writes;
        match self.asking {
            Asking::Age => is_free,
            Asking::Before => is_free && world.has_seen,
            Asking::UnderLock => is_free && all_may_go,
        }
    }
}

impl World {
    fn drop_range(&mut self) {
        let is_lost = |one: &Execution| !one.may_go();
        self.has_lost |= self.executions.iter().any(is_lost);
        self.is_dropped = true;
        for one in &mut self.executions {
            one.events = 0;
            one.published = 0;
        }
    }

    fn write(&mut self, execution: usize, is_last: bool) -> Option<()> {
        let one = &mut self.executions[execution];
        if !one.is_in_append || one.events == MAX_EVENTS {
            return None;
        }
        one.is_in_append = false;
        one.events += 1;
        // Nothing re-opens what has ended: copied events are stored behind the end all the same.
        one.status = match one.status {
            Status::Ended => Status::Ended,
            Status::Unborn | Status::Running if is_last => Status::Ended,
            Status::Unborn | Status::Running => Status::Running,
        };
        Some(())
    }
}

impl Model for Rules {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let execution = Execution {
            status: Status::Unborn,
            events: 0,
            published: 0,
            is_in_append: false,
        };
        vec![World {
            executions: vec![execution; self.executions],
            has_seen: false,
            is_dropped: false,
            has_lost: false,
            refused: 0,
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        for execution in 0..self.executions {
            let one = &world.executions[execution];
            if one.is_in_append {
                acts.extend([true, false].map(|is_last| Act::Write { execution, is_last }));
            } else if one.events < MAX_EVENTS {
                acts.push(Act::Look { execution });
            }
            if one.published < one.events {
                acts.push(Act::Publish { execution });
            }
        }
        if !world.is_dropped {
            acts.push(Act::Ask);
            if self.may_drop(world) {
                acts.push(Act::Drop);
            }
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut world = last.clone();
        match act {
            Act::Look { execution } if last.is_dropped && self.late != Late::Accepted => {
                // The caller is told that it is gone; one such answer shows that it happens.
                world.refused = 1;
                world.executions[execution].is_in_append = false;
            }
            Act::Look { execution } => world.executions[execution].is_in_append = true,
            Act::Write { execution, is_last } => world.write(execution, is_last)?,
            Act::Publish { execution } => world.executions[execution].published += 1,
            Act::Ask => world.has_seen = last.executions.iter().copied().all(Execution::may_go),
            Act::Drop => world.drop_range(),
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what runs or is unpublished stays", |_, world: &World| {
                !world.has_lost
            }),
            Property::always(
                "no history begins in what was dropped",
                |_, world: &World| {
                    !world.is_dropped || world.executions.iter().all(|one| one.events == 0)
                },
            ),
            Property::sometimes("what has ended is dropped", |_, world: &World| {
                let is_ended = |one: &Execution| one.status == Status::Ended;
                world.is_dropped && world.executions.iter().all(is_ended)
            }),
            Property::sometimes("what comes late is refused", |_, world: &World| {
                world.refused > 0
            }),
        ]
    }
}

fn violation(asking: Asking, late: Late, property: &'static str) -> Vec<Act> {
    let rules = Rules {
        executions: 2,
        asking,
        late,
    };
    let checker = rules.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, and should not");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn a_purge_by_age_drops_what_runs() {
    violation(
        Asking::Age,
        Late::LookedUnderLock,
        "what runs or is unpublished stays",
    );
}

#[test]
fn a_purge_that_asks_before_it_drops_drops_what_came_between() {
    let acts = violation(
        Asking::Before,
        Late::LookedUnderLock,
        "what runs or is unpublished stays",
    );
    assert!(acts.contains(&Act::Ask), "{acts:?}");
}

#[test]
fn an_append_that_asks_nothing_begins_a_history_anew() {
    violation(
        Asking::UnderLock,
        Late::Accepted,
        "no history begins in what was dropped",
    );
}

#[test]
fn an_append_that_asks_before_it_writes_begins_one_too() {
    violation(
        Asking::UnderLock,
        Late::Looked,
        "no history begins in what was dropped",
    );
}

#[test]
fn asking_and_dropping_under_one_lock_hold_everywhere() {
    for executions in [2, 3] {
        let rules = Rules {
            executions,
            asking: Asking::UnderLock,
            late: Late::LookedUnderLock,
        };
        let checker = rules.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!(
            "{executions} executions: {} states",
            checker.unique_state_count()
        );
    }
}
