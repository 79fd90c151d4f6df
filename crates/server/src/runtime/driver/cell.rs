//! Mailboxes, and which executions stay in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use noetl_types::ExecutionId;

use super::letter::Envelope;
use super::live::Live;

/// An execution with its mailbox.
pub(super) struct Cell {
    pub(super) execution_id: ExecutionId,
    mail: Mutex<Mail>,
    /// The execution, once it is in memory.
    pub(super) live: tokio::sync::Mutex<Option<Live>>,
    /// Whether it was used since somebody looked for room.
    is_fresh: AtomicBool,
}

#[derive(Default)]
struct Mail {
    envelopes: VecDeque<Envelope>,
    /// Whether a task takes them out.
    is_open: bool,
}

impl Cell {
    fn new(execution_id: ExecutionId, live: Option<Live>) -> Arc<Self> {
        Arc::new(Self {
            execution_id,
            mail: Mutex::default(),
            live: tokio::sync::Mutex::new(live),
            is_fresh: AtomicBool::new(true),
        })
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        // A mailbox is whole between any two calls.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts letters in; whether the caller has to see to it that somebody takes them out.
    pub(super) fn put(&self, envelope: Envelope) -> bool {
        self.is_fresh.store(true, Ordering::Relaxed);
        let mut mail = self.mail();
        mail.envelopes.push_back(envelope);
        !std::mem::replace(&mut mail.is_open, true)
    }

    /// Takes out what has come together. An empty mailbox is closed with the same look, so that
    /// the next letter finds somebody to take it out.
    pub(super) fn take(&self, most: usize) -> Option<VecDeque<Envelope>> {
        let mut mail = self.mail();
        if mail.envelopes.is_empty() {
            mail.is_open = false;
            return None;
        }
        let count = most.min(mail.envelopes.len());
        let rest = mail.envelopes.split_off(count);
        Some(std::mem::replace(&mut mail.envelopes, rest))
    }

    /// Puts letters back where they came from.
    pub(super) fn put_back(&self, envelopes: VecDeque<Envelope>) {
        let mut mail = self.mail();
        for envelope in envelopes.into_iter().rev() {
            mail.envelopes.push_front(envelope);
        }
    }

    fn is_idle(&self) -> bool {
        let mail = self.mail();
        mail.envelopes.is_empty() && !mail.is_open
    }
}

/// Executions in memory, in parts that do not wait for each other.
pub(super) struct Cells {
    parts: [Mutex<Part>; PARTS],
    /// How many each part has room for.
    room: usize,
}

#[derive(Default)]
struct Part {
    cells: HashMap<ExecutionId, Arc<Cell>>,
    /// In the order in which they came or were last passed over.
    order: VecDeque<ExecutionId>,
}

const PARTS: usize = 16;

impl Cells {
    pub(super) fn with_room_for(room: usize) -> Self {
        Self {
            parts: Default::default(),
            room: (room / PARTS).max(1),
        }
    }

    fn part(&self, execution_id: ExecutionId) -> MutexGuard<'_, Part> {
        // Neighbouring ids differ in their last bits, which count within a millisecond, or else in
        // those of the time; both have to tell parts apart.
        let number = execution_id.get().unsigned_abs();
        let spread = number ^ (number >> 22);
        let index = usize::try_from(spread % PARTS as u64).unwrap_or_default();
        self.parts[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The cell of an execution, if there is one.
    pub(super) fn get(&self, execution_id: ExecutionId) -> Option<Arc<Cell>> {
        self.part(execution_id).cells.get(&execution_id).cloned()
    }

    /// The cell of an execution.
    pub(super) fn of(&self, execution_id: ExecutionId) -> Arc<Cell> {
        let mut part = self.part(execution_id);
        if let Some(cell) = part.cells.get(&execution_id) {
            return Arc::clone(cell);
        }
        part.add(Cell::new(execution_id, None), self.room)
    }

    /// The cell of an execution that is about to begin.
    pub(super) fn born(&self, execution_id: ExecutionId, live: Live) -> Arc<Cell> {
        let mut part = self.part(execution_id);
        part.add(Cell::new(execution_id, Some(live)), self.room)
    }

    /// Forgets an execution that has ended, unless something has come for it.
    pub(super) fn forget(&self, cell: &Arc<Cell>) {
        let mut part = self.part(cell.execution_id);
        // Two hold it: the map and the task that takes its turn. A third may be about to put
        // something in.
        if Arc::strong_count(cell) <= 2 {
            part.cells.remove(&cell.execution_id);
        }
    }
}

impl Part {
    fn add(&mut self, cell: Arc<Cell>, room: usize) -> Arc<Cell> {
        self.make_room(room);
        self.order.push_back(cell.execution_id);
        self.cells.insert(cell.execution_id, Arc::clone(&cell));
        cell
    }

    /// Puts idle executions out, those first that nobody asked for in a while.
    fn make_room(&mut self, room: usize) {
        let mut looks = self.order.len();
        while self.cells.len() >= room && looks > 0 {
            looks -= 1;
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            let Some(cell) = self.cells.get(&oldest) else {
                continue;
            };
            let was_fresh = cell.is_fresh.swap(false, Ordering::Relaxed);
            if was_fresh || !cell.is_idle() || Arc::strong_count(cell) > 1 {
                self.order.push_back(oldest);
            } else {
                self.cells.remove(&oldest);
            }
        }
        // Ended executions leave their ids behind; drop those once they are many.
        if self.order.len() > 2 * self.cells.len() + 64 {
            let cells = &self.cells;
            self.order.retain(|id| cells.contains_key(id));
        }
    }
}
