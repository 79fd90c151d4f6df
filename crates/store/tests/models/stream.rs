//! The cursor of the event stream: who may move it, and what it may pass.
//!
//! Writers take a transaction number when they begin and a position when they write, and commit in
//! any order. Some publishers read what is committed, publish it and save how far they came, one at a
//! time by a lease that may run out at any moment: the former owner does not know. The stream may be
//! wiped; an owner that finds another stream than its cursor names begins anew.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Path, Property};

/// What is read after a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// What is committed and has a higher position.
    ByPosition,
    /// What has a higher pair of transaction and position, and no open transaction below it.
    BelowHorizon,
}

/// When a cursor is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saving {
    Always,
    /// When it moves forward.
    Forward,
    /// When it moves forward, and by the owner of the present epoch.
    ForwardByOwner,
}

/// Orders events: transaction, position. A rule that reads by position leaves the first at zero.
type Key = (u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Writer {
    Waiting,
    Open { tx: u8 },
    Written { tx: u8, position: u8 },
    Committed { tx: u8, position: u8 },
    Aborted,
}

/// A publisher: the epoch in which it owned the cursor, and what it has in hand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Publisher {
    epoch: u8,
    /// Where it believes the cursor is.
    cursor: Key,
    /// The event that it has published and not yet passed by.
    published: Option<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    writers: Vec<Writer>,
    next_tx: u8,
    next_position: u8,
    publishers: Vec<Publisher>,
    epoch: u8,
    cursor: Key,
    /// The stream that the cursor is about, and the one that there is.
    named: u8,
    stream: u8,
    in_stream: BTreeSet<Key>,
    went_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Begin { writer: usize },
    Write { writer: usize },
    Commit { writer: usize },
    Abort { writer: usize },
    Own { publisher: usize },
    Publish { publisher: usize },
    Save { publisher: usize },
    Wipe,
}

struct Rules {
    writers: usize,
    publishers: usize,
    /// How often the lease is taken.
    epochs: u8,
    /// How often the stream is wiped.
    wipes: u8,
    reading: Reading,
    saving: Saving,
}

impl Rules {
    fn key(&self, tx: u8, position: u8) -> Key {
        match self.reading {
            Reading::ByPosition => (0, position),
            Reading::BelowHorizon => (tx, position),
        }
    }

    fn committed(&self, world: &World) -> impl Iterator<Item = (u8, Key)> {
        world.writers.iter().filter_map(|writer| match *writer {
            Writer::Committed { tx, position } => Some((tx, self.key(tx, position))),
            Writer::Waiting | Writer::Open { .. } | Writer::Written { .. } | Writer::Aborted => {
                None
            }
        })
    }

    /// The first event after a cursor that may be published.
    fn after(&self, world: &World, cursor: Key) -> Option<Key> {
        let open = world.writers.iter().filter_map(|writer| match *writer {
            Writer::Open { tx } | Writer::Written { tx, .. } => Some(tx),
            Writer::Waiting | Writer::Committed { .. } | Writer::Aborted => None,
        });
        let horizon = match self.reading {
            Reading::ByPosition => u8::MAX,
            Reading::BelowHorizon => open.min().unwrap_or(u8::MAX),
        };
        self.committed(world)
            .filter(|(tx, key)| *tx < horizon && *key > cursor)
            .map(|(_, key)| key)
            .min()
    }

    fn may_save(&self, world: &World, publisher: &Publisher, to: Key) -> bool {
        match self.saving {
            Saving::Always => true,
            Saving::Forward => to > world.cursor,
            Saving::ForwardByOwner => to > world.cursor && publisher.epoch == world.epoch,
        }
    }

    fn move_writer(world: &mut World, act: Act) -> Option<()> {
        let (writer, next) = match act {
            Act::Begin { writer } => {
                world.next_tx += 1;
                (writer, Writer::Open { tx: world.next_tx })
            }
            Act::Write { writer } => {
                let Writer::Open { tx } = world.writers[writer] else {
                    return None;
                };
                world.next_position += 1;
                let position = world.next_position;
                (writer, Writer::Written { tx, position })
            }
            Act::Commit { writer } => {
                let Writer::Written { tx, position } = world.writers[writer] else {
                    return None;
                };
                (writer, Writer::Committed { tx, position })
            }
            Act::Abort { writer } => (writer, Writer::Aborted),
            Act::Own { .. } | Act::Publish { .. } | Act::Save { .. } | Act::Wipe => return None,
        };
        world.writers[writer] = next;
        Some(())
    }
}

impl World {
    /// A new owner gets a new epoch; where the stream is another, it begins from the first event.
    fn own(&mut self, publisher: usize) {
        self.epoch += 1;
        if self.named != self.stream {
            self.named = self.stream;
            self.cursor = (0, 0);
        }
        self.publishers[publisher] = Publisher {
            epoch: self.epoch,
            cursor: self.cursor,
            published: None,
        };
    }
}

impl Model for Rules {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            writers: vec![Writer::Waiting; self.writers],
            next_tx: 0,
            next_position: 0,
            publishers: vec![Publisher::default(); self.publishers],
            epoch: 0,
            cursor: (0, 0),
            named: 0,
            stream: 0,
            in_stream: BTreeSet::new(),
            went_back: false,
        }]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        for (writer, state) in world.writers.iter().enumerate() {
            match state {
                Writer::Waiting => acts.push(Act::Begin { writer }),
                Writer::Open { .. } => acts.extend([Act::Write { writer }, Act::Abort { writer }]),
                Writer::Written { .. } => acts.push(Act::Commit { writer }),
                Writer::Committed { .. } | Writer::Aborted => {}
            }
        }
        for publisher in 0..self.publishers {
            if world.epoch < self.epochs {
                acts.push(Act::Own { publisher });
            }
            match world.publishers[publisher] {
                Publisher { epoch: 0, .. } => {}
                Publisher {
                    published: None, ..
                } => acts.push(Act::Publish { publisher }),
                Publisher {
                    published: Some(_), ..
                } => acts.push(Act::Save { publisher }),
            }
        }
        if world.stream < self.wipes {
            acts.push(Act::Wipe);
        }
    }

    fn next_state(&self, last: &World, act: Act) -> Option<World> {
        let mut world = last.clone();
        match act {
            Act::Begin { .. } | Act::Write { .. } | Act::Commit { .. } | Act::Abort { .. } => {
                Self::move_writer(&mut world, act)?;
            }
            Act::Own { publisher } => world.own(publisher),
            Act::Publish { publisher } => {
                let key = self.after(last, last.publishers[publisher].cursor)?;
                world.in_stream.insert(key);
                world.publishers[publisher].published = Some(key);
            }
            Act::Save { publisher } => {
                let to = world.publishers[publisher].published.take()?;
                world.publishers[publisher].cursor = to;
                if self.may_save(last, &last.publishers[publisher], to) {
                    world.went_back |= to < world.cursor;
                    world.cursor = to;
                }
            }
            Act::Wipe => {
                world.stream += 1;
                world.in_stream.clear();
            }
        }
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "what was passed is in the stream",
                |rules: &Self, world: &World| {
                    let is_passed = |(_, key): &(u8, Key)| *key <= world.cursor;
                    let mut passed = rules.committed(world).filter(is_passed);
                    world.named != world.stream
                        || passed.all(|(_, key)| world.in_stream.contains(&key))
                },
            ),
            Property::always("the cursor never goes back", |_, world: &World| {
                !world.went_back
            }),
            Property::sometimes(
                "everything is passed, wiped stream and all",
                |rules: &Self, world: &World| {
                    let keys: Vec<Key> = rules.committed(world).map(|(_, key)| key).collect();
                    let is_all = keys.len() == world.writers.len();
                    is_all
                        && world.named == rules.wipes
                        && keys.iter().all(|key| *key <= world.cursor)
                },
            ),
        ]
    }
}

fn violation(rules: Rules, property: &'static str) -> Vec<Act> {
    let checker = rules.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, and should not");
    path.map(Path::into_actions).unwrap_or_default()
}

/// A transaction that takes its position early and commits late is passed by. It takes one publisher
/// that never loses its lease, and a stream that is never wiped.
#[test]
fn a_cursor_of_positions_passes_what_commits_late() {
    let rules = Rules {
        writers: 2,
        publishers: 1,
        epochs: 1,
        wipes: 0,
        reading: Reading::ByPosition,
        saving: Saving::ForwardByOwner,
    };
    violation(rules, "what was passed is in the stream");
}

#[test]
fn a_cursor_that_everybody_saves_goes_back() {
    let rules = Rules {
        writers: 2,
        publishers: 2,
        epochs: 2,
        wipes: 0,
        reading: Reading::BelowHorizon,
        saving: Saving::Always,
    };
    violation(rules, "the cursor never goes back");
}

/// What a former owner put into the stream that was wiped is passed in the new one.
#[test]
fn a_cursor_that_only_moves_forward_is_not_safe_from_a_former_owner() {
    let rules = Rules {
        writers: 2,
        publishers: 2,
        epochs: 3,
        wipes: 1,
        reading: Reading::BelowHorizon,
        saving: Saving::Forward,
    };
    let acts = violation(rules, "what was passed is in the stream");
    assert!(acts.contains(&Act::Wipe), "{acts:?}");
}

#[test]
fn the_horizon_and_the_owners_epoch_hold_everywhere() {
    for (writers, publishers) in [(3, 2), (2, 3)] {
        let rules = Rules {
            writers,
            publishers,
            epochs: 3,
            wipes: 1,
            reading: Reading::BelowHorizon,
            saving: Saving::ForwardByOwner,
        };
        let checker = rules.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!(
            "{writers} writers, {publishers} publishers: {} states",
            checker.unique_state_count()
        );
    }
}
