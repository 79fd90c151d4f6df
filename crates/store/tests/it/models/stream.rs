//! The cursor of the event stream: its owner and the events that it passes.
//!
//! Writers get a transaction id when they begin and a position when they write, and commit in any
//! order. Publishers read committed events, publish them and save the cursor, one at a time under a
//! lease. The lease may expire at any time, and its former owner does not notice. The stream may be
//! wiped. An owner whose cursor names another stream starts from the first event.

use std::collections::BTreeSet;

use stateright::{Checker, Model, Path, Property};

/// Events that are read after a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadRule {
    /// Committed events with a higher position.
    ByPosition,
    /// Events with a higher pair of transaction and position, and no open transaction below it.
    BelowHorizon,
}

/// Condition for saving a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SaveRule {
    Always,
    /// It moves forward.
    Forward,
    /// It moves forward, and the publisher owns the current epoch.
    ForwardByOwner,
}

/// Order of events: transaction, position. Rules that read by position leave the transaction at
/// zero.
type EventKey = (u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum WriterState {
    Waiting,
    Open { tx: u8 },
    Written { tx: u8, position: u8 },
    Committed { tx: u8, position: u8 },
    Aborted,
}

/// A publisher: the epoch in which it owned the cursor, and its unsaved progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct PublisherState {
    epoch: u8,
    /// The cursor as the publisher last read or saved it.
    cursor: EventKey,
    /// The event that it has published and not yet saved.
    published: Option<EventKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StreamState {
    writers: Vec<WriterState>,
    next_tx: u8,
    next_position: u8,
    publishers: Vec<PublisherState>,
    epoch: u8,
    cursor: EventKey,
    /// The stream of the cursor, and the current stream.
    cursor_stream: u8,
    stream: u8,
    published: BTreeSet<EventKey>,
    moved_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamAction {
    Begin { writer: usize },
    Write { writer: usize },
    Commit { writer: usize },
    Abort { writer: usize },
    TakeLease { publisher: usize },
    Publish { publisher: usize },
    Save { publisher: usize },
    Wipe,
}

struct StreamModel {
    writers: usize,
    publishers: usize,
    /// Maximum leases.
    epochs: u8,
    /// Maximum wipes of the stream.
    wipes: u8,
    read_rule: ReadRule,
    save_rule: SaveRule,
}

impl StreamModel {
    fn event_key(&self, tx: u8, position: u8) -> EventKey {
        match self.read_rule {
            ReadRule::ByPosition => (0, position),
            ReadRule::BelowHorizon => (tx, position),
        }
    }

    fn committed_events(&self, state: &StreamState) -> impl Iterator<Item = (u8, EventKey)> {
        state.writers.iter().filter_map(|writer| match *writer {
            WriterState::Committed { tx, position } => Some((tx, self.event_key(tx, position))),
            WriterState::Waiting
            | WriterState::Open { .. }
            | WriterState::Written { .. }
            | WriterState::Aborted => None,
        })
    }

    /// Returns the first event after a cursor that may be published.
    fn next_event_after(&self, state: &StreamState, cursor: EventKey) -> Option<EventKey> {
        let open = state.writers.iter().filter_map(|writer| match *writer {
            WriterState::Open { tx } | WriterState::Written { tx, .. } => Some(tx),
            WriterState::Waiting | WriterState::Committed { .. } | WriterState::Aborted => None,
        });
        let horizon = match self.read_rule {
            ReadRule::ByPosition => u8::MAX,
            ReadRule::BelowHorizon => open.min().unwrap_or(u8::MAX),
        };
        self.committed_events(state)
            .filter(|(tx, key)| *tx < horizon && *key > cursor)
            .map(|(_, key)| key)
            .min()
    }

    fn can_save(&self, state: &StreamState, publisher: &PublisherState, to: EventKey) -> bool {
        match self.save_rule {
            SaveRule::Always => true,
            SaveRule::Forward => to > state.cursor,
            SaveRule::ForwardByOwner => to > state.cursor && publisher.epoch == state.epoch,
        }
    }

    fn move_writer(state: &mut StreamState, action: StreamAction) -> Option<()> {
        let (writer, next) = match action {
            StreamAction::Begin { writer } => {
                state.next_tx += 1;
                (writer, WriterState::Open { tx: state.next_tx })
            }
            StreamAction::Write { writer } => {
                let WriterState::Open { tx } = state.writers[writer] else {
                    return None;
                };
                state.next_position += 1;
                let position = state.next_position;
                (writer, WriterState::Written { tx, position })
            }
            StreamAction::Commit { writer } => {
                let WriterState::Written { tx, position } = state.writers[writer] else {
                    return None;
                };
                (writer, WriterState::Committed { tx, position })
            }
            StreamAction::Abort { writer } => (writer, WriterState::Aborted),
            StreamAction::TakeLease { .. }
            | StreamAction::Publish { .. }
            | StreamAction::Save { .. }
            | StreamAction::Wipe => return None,
        };
        state.writers[writer] = next;
        Some(())
    }
}

impl StreamState {
    /// Starts a new epoch. If the stream was replaced, the cursor restarts from the first event.
    fn take_lease(&mut self, publisher: usize) {
        self.epoch += 1;
        if self.cursor_stream != self.stream {
            self.cursor_stream = self.stream;
            self.cursor = (0, 0);
        }
        self.publishers[publisher] =
            PublisherState { epoch: self.epoch, cursor: self.cursor, published: None };
    }
}

impl Model for StreamModel {
    type State = StreamState;
    type Action = StreamAction;

    fn init_states(&self) -> Vec<StreamState> {
        vec![StreamState {
            writers: vec![WriterState::Waiting; self.writers],
            next_tx: 0,
            next_position: 0,
            publishers: vec![PublisherState::default(); self.publishers],
            epoch: 0,
            cursor: (0, 0),
            cursor_stream: 0,
            stream: 0,
            published: BTreeSet::new(),
            moved_back: false,
        }]
    }

    fn actions(&self, state: &StreamState, actions: &mut Vec<StreamAction>) {
        for (writer, state) in state.writers.iter().enumerate() {
            match state {
                WriterState::Waiting => actions.push(StreamAction::Begin { writer }),
                WriterState::Open { .. } => {
                    actions
                        .extend([StreamAction::Write { writer }, StreamAction::Abort { writer }]);
                }
                WriterState::Written { .. } => actions.push(StreamAction::Commit { writer }),
                WriterState::Committed { .. } | WriterState::Aborted => {}
            }
        }
        for publisher in 0..self.publishers {
            if state.epoch < self.epochs {
                actions.push(StreamAction::TakeLease { publisher });
            }
            match state.publishers[publisher] {
                PublisherState { epoch: 0, .. } => {}
                PublisherState { published: None, .. } => {
                    actions.push(StreamAction::Publish { publisher });
                }
                PublisherState { published: Some(_), .. } => {
                    actions.push(StreamAction::Save { publisher });
                }
            }
        }
        if state.stream < self.wipes {
            actions.push(StreamAction::Wipe);
        }
    }

    fn next_state(&self, last: &StreamState, action: StreamAction) -> Option<StreamState> {
        let mut state = last.clone();
        match action {
            StreamAction::Begin { .. }
            | StreamAction::Write { .. }
            | StreamAction::Commit { .. }
            | StreamAction::Abort { .. } => {
                Self::move_writer(&mut state, action)?;
            }
            StreamAction::TakeLease { publisher } => state.take_lease(publisher),
            StreamAction::Publish { publisher } => {
                let key = self.next_event_after(last, last.publishers[publisher].cursor)?;
                state.published.insert(key);
                state.publishers[publisher].published = Some(key);
            }
            StreamAction::Save { publisher } => {
                let to = state.publishers[publisher].published.take()?;
                state.publishers[publisher].cursor = to;
                if self.can_save(last, &last.publishers[publisher], to) {
                    state.moved_back |= to < state.cursor;
                    state.cursor = to;
                }
            }
            StreamAction::Wipe => {
                state.stream += 1;
                state.published.clear();
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "every passed event is in the stream",
                |model: &Self, state: &StreamState| {
                    let is_passed = |(_, key): &(u8, EventKey)| *key <= state.cursor;
                    let mut passed = model.committed_events(state).filter(is_passed);
                    state.cursor_stream != state.stream
                        || passed.all(|(_, key)| state.published.contains(&key))
                },
            ),
            Property::always("the cursor never moves back", |_, state: &StreamState| {
                !state.moved_back
            }),
            Property::sometimes(
                "every event is passed after all wipes",
                |model: &Self, state: &StreamState| {
                    let keys: Vec<EventKey> =
                        model.committed_events(state).map(|(_, key)| key).collect();
                    let all_committed = keys.len() == state.writers.len();
                    all_committed
                        && state.cursor_stream == model.wipes
                        && keys.iter().all(|key| *key <= state.cursor)
                },
            ),
        ]
    }
}

fn find_violation(model: StreamModel, property: &'static str) -> Vec<StreamAction> {
    let checker = model.checker().spawn_bfs().join();
    let path = checker.discovery(property);
    assert!(path.is_some(), "`{property}` holds, but must be violated");
    path.map(Path::into_actions).unwrap_or_default()
}

/// A transaction that gets its position early and commits late is skipped, even with one publisher
/// that never loses its lease and a stream that is never wiped.
#[test]
fn position_cursor_skips_late_commit() {
    let model = StreamModel {
        writers: 2,
        publishers: 1,
        epochs: 1,
        wipes: 0,
        read_rule: ReadRule::ByPosition,
        save_rule: SaveRule::ForwardByOwner,
    };
    find_violation(model, "every passed event is in the stream");
}

#[test]
fn unfenced_cursor_moves_back() {
    let model = StreamModel {
        writers: 2,
        publishers: 2,
        epochs: 2,
        wipes: 0,
        read_rule: ReadRule::BelowHorizon,
        save_rule: SaveRule::Always,
    };
    find_violation(model, "the cursor never moves back");
}

/// Events that a former owner published into the wiped stream are skipped in the new one.
#[test]
fn forward_only_cursor_is_unsafe_from_former_owner() {
    let model = StreamModel {
        writers: 2,
        publishers: 2,
        epochs: 3,
        wipes: 1,
        read_rule: ReadRule::BelowHorizon,
        save_rule: SaveRule::Forward,
    };
    let actions = find_violation(model, "every passed event is in the stream");
    assert!(actions.contains(&StreamAction::Wipe), "{actions:?}");
}

#[test]
fn horizon_and_owner_epoch_hold() {
    for (writers, publishers) in [(3, 2), (2, 3)] {
        let model = StreamModel {
            writers,
            publishers,
            epochs: 3,
            wipes: 1,
            read_rule: ReadRule::BelowHorizon,
            save_rule: SaveRule::ForwardByOwner,
        };
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        assert!(checker.is_done());
        println!(
            "{writers} writers, {publishers} publishers: {} states",
            checker.unique_state_count()
        );
    }
}
