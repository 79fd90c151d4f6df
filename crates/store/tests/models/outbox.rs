//! A row of the outbox: claims, leases, and the fence before its marks.
//!
//! Some publishers share one row. A lease may run out at any time, a publisher may die between any
//! two of its steps, and a mark that was once sent may arrive at any later moment, and again: its
//! sender's HTTP client repeats it. An operator may replay what is dead.

use stateright::{Checker, Model, Path, Property};

/// Failures until the row is dead.
const MAX_FAILURES: u8 = 2;
/// Claims until the world ends.
const MAX_CLAIMS: u8 = 4;
/// Publishers that die.
const MAX_CRASHES: u8 = 2;

/// What becomes of a claim whose publisher never comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// Nothing: when it was claimed is written, and never read.
    Endless,
    /// It runs out, and the row may be claimed again.
    RunsOut,
}

/// What a mark has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fence {
    /// Nothing.
    None,
    /// That the row is in flight.
    Status,
    /// That it is in flight, and by the claim that the mark is about.
    StatusAndAttempt,
}

/// What a replay does with the number of the row's claims, which is what the fence compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replay {
    FromZero,
    KeepsCounting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    Pending,
    InFlight { claim: u8, has_run_out: bool },
    Published,
    Failed,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Outcome {
    Published,
    Failed,
}

/// A mark on its way; it stays there for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Mark {
    outcome: Outcome,
    attempt: u8,
    /// Which claim it is about: the truth, which no rule may look at.
    claim: u8,
}

/// What a publisher has in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Hand {
    attempt: u8,
    claim: u8,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own that a property looks at"
)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    status: Status,
    attempts: u8,
    failures: u8,
    claims: u8,
    crashes: u8,
    hands: Vec<Option<Hand>>,
    marks: Vec<Mark>,
    is_in_stream: bool,
    was_published: bool,
    was_replayed: bool,
    /// Whether a mark changed the row that was not its claim's.
    was_changed_by_another: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Claim { publisher: usize },
    Publish { publisher: usize },
    Fail { publisher: usize },
    Arrive(Mark),
    RunOut,
    Crash { publisher: usize },
    Replay,
}

struct Rules {
    publishers: usize,
    lease: Lease,
    fence: Fence,
    replay: Replay,
}

impl Rules {
    fn may_claim(&self, world: &World) -> bool {
        match world.status {
            Status::Pending | Status::Failed => true,
            Status::InFlight { has_run_out, .. } => has_run_out && self.lease == Lease::RunsOut,
            Status::Published | Status::Dead => false,
        }
    }

    fn lets_through(&self, world: &World, mark: Mark) -> bool {
        let is_in_flight = matches!(world.status, Status::InFlight { .. });
        match self.fence {
            Fence::None => true,
            Fence::Status => is_in_flight,
            Fence::StatusAndAttempt => is_in_flight && world.attempts == mark.attempt,
        }
    }
}

impl World {
    fn claim(&mut self, publisher: usize) {
        self.attempts += 1;
        self.claims += 1;
        self.status = Status::InFlight {
            claim: self.claims,
            has_run_out: false,
        };
        self.hands[publisher] = Some(Hand {
            attempt: self.attempts,
            claim: self.claims,
        });
    }

    /// Sends a mark about what a publisher has in hand, which it then forgets.
    fn send(&mut self, publisher: usize, outcome: Outcome) -> Option<()> {
        let hand = self.hands[publisher].take()?;
        self.marks.push(Mark {
            outcome,
            attempt: hand.attempt,
            claim: hand.claim,
        });
        Some(())
    }

    fn mark(&mut self, mark: Mark) {
        let is_own = matches!(self.status, Status::InFlight { claim, .. } if claim == mark.claim);
        self.was_changed_by_another |= !is_own;
        match mark.outcome {
            Outcome::Published => {
                self.status = Status::Published;
                self.was_published = true;
            }
            Outcome::Failed => {
                self.failures = (self.failures + 1).min(MAX_FAILURES);
                let is_over = self.failures >= MAX_FAILURES;
                self.status = if is_over {
                    Status::Dead
                } else {
                    Status::Failed
                };
            }
        }
    }
}

impl Model for Rules {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            status: Status::Pending,
            attempts: 0,
            failures: 0,
            claims: 0,
            crashes: 0,
            hands: vec![None; self.publishers],
            marks: Vec::new(),
            is_in_stream: false,
            was_published: false,
            was_replayed: false,
            was_changed_by_another: false,
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        for publisher in 0..self.publishers {
            if world.hands[publisher].is_some() {
                acts.extend([Act::Publish { publisher }, Act::Fail { publisher }]);
                if world.crashes < MAX_CRASHES {
                    acts.push(Act::Crash { publisher });
                }
            } else if self.may_claim(world) {
                acts.push(Act::Claim { publisher });
            }
        }
        acts.extend(world.marks.iter().copied().map(Act::Arrive));
        acts.push(Act::RunOut);
        if world.status == Status::Dead && !world.was_replayed {
            acts.push(Act::Replay);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut world = last.clone();
        match act {
            Act::Claim { publisher } => world.claim(publisher),
            Act::Publish { publisher } => {
                world.is_in_stream = true;
                world.send(publisher, Outcome::Published)?;
            }
            Act::Fail { publisher } => world.send(publisher, Outcome::Failed)?,
            Act::Arrive(mark) if self.lets_through(last, mark) => world.mark(mark),
            Act::Arrive(_) => return None,
            Act::RunOut => match &mut world.status {
                Status::InFlight { has_run_out, .. } => *has_run_out = true,
                Status::Pending | Status::Published | Status::Failed | Status::Dead => {
                    return None;
                }
            },
            Act::Crash { publisher } => {
                world.crashes += 1;
                world.hands[publisher] = None;
            }
            Act::Replay => {
                world.was_replayed = true;
                world.status = Status::Pending;
                world.failures = 0;
                if self.replay == Replay::FromZero {
                    world.attempts = 0;
                }
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what is marked is in the stream", |_, world: &World| {
                world.status != Status::Published || world.is_in_stream
            }),
            Property::always("what was published stays so", |_, world: &World| {
                !world.was_published || world.status == Status::Published
            }),
            Property::always("only its claim changes a row", |_, world: &World| {
                !world.was_changed_by_another
            }),
            // Asked where nothing can happen any more, so it finds what nobody will ever do.
            Property::eventually("it is published or dead", |_, world: &World| {
                matches!(world.status, Status::Published | Status::Dead)
                    || world.claims >= MAX_CLAIMS
            }),
            Property::sometimes("it is published after a crash", |_, world: &World| {
                world.crashes > 0 && world.status == Status::Published
            }),
            Property::sometimes("it is published after its replay", |_, world: &World| {
                world.was_replayed && world.status == Status::Published
            }),
        ]
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.claims <= MAX_CLAIMS
    }
}

fn violation(lease: Lease, fence: Fence, replay: Replay, property: &'static str) -> Vec<Act> {
    let rules = Rules {
        publishers: 2,
        lease,
        fence,
        replay,
    };
    let checker = rules.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, and should not");
    path.map(Path::into_actions).unwrap_or_default()
}

#[test]
fn a_row_of_a_dead_publisher_is_stuck_without_a_lease() {
    let acts = violation(
        Lease::Endless,
        Fence::StatusAndAttempt,
        Replay::KeepsCounting,
        "it is published or dead",
    );
    let is_crash = |act: &Act| matches!(act, Act::Crash { .. });
    assert!(acts.iter().any(is_crash), "{acts:?}");
}

/// A repeated `mark-failed` is enough, with leases or without.
#[test]
fn a_mark_without_a_fence_opens_a_published_row_again() {
    for lease in [Lease::Endless, Lease::RunsOut] {
        violation(
            lease,
            Fence::None,
            Replay::KeepsCounting,
            "what was published stays so",
        );
    }
}

#[test]
fn a_lease_that_is_fenced_by_the_status_alone_lets_another_change_the_row() {
    let acts = violation(
        Lease::RunsOut,
        Fence::Status,
        Replay::KeepsCounting,
        "only its claim changes a row",
    );
    let claims = acts.iter().filter(|act| matches!(act, Act::Claim { .. }));
    assert!(claims.count() > 1, "{acts:?}");
}

/// Two claims have the same number once a replay began to count anew.
#[test]
fn a_replay_that_counts_from_zero_breaks_the_fence() {
    let acts = violation(
        Lease::RunsOut,
        Fence::StatusAndAttempt,
        Replay::FromZero,
        "only its claim changes a row",
    );
    assert!(acts.contains(&Act::Replay), "{acts:?}");
}

#[test]
fn a_lease_with_a_fence_of_status_and_attempt_holds_everywhere() {
    for publishers in [2, 3] {
        let rules = Rules {
            publishers,
            lease: Lease::RunsOut,
            fence: Fence::StatusAndAttempt,
            replay: Replay::KeepsCounting,
        };
        let checker = rules.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!(
            "{publishers} publishers: {} states",
            checker.unique_state_count()
        );
    }
}
