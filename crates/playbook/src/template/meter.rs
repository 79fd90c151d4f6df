//! Counts what a render costs, before the cost is incurred.
//!
//! Nothing in the evaluator allocates in proportion to data, or goes through data, without asking
//! here first.

use std::cell::Cell;

use noetl_types::Json;

use super::error::{Limit, Outcome, Stop};
use super::limits::TemplateLimits;
use super::print;

/// Bytes that cost as much to go through as one operation.
const BYTES_PER_FUEL: usize = 64;
/// The same where each character is looked at and written by itself.
const BYTES_PER_CHARACTER_FUEL: usize = 8;
/// What an entry of a map takes besides its value: the key, and its share of the tree.
const ENTRY: usize = 64;
/// What a text of its own takes besides its bytes.
const TEXT: usize = 32;
/// What a list or map takes besides its items.
const CONTAINER: usize = 64;

#[derive(Debug)]
pub(super) struct Meter {
    pub(super) limits: TemplateLimits,
    fuel: Cell<u64>,
    memory: Cell<usize>,
    /// Whether a list or map was made, so that the outcome may be larger than any input.
    built: Cell<bool>,
}

impl Meter {
    pub(super) fn new(limits: TemplateLimits) -> Self {
        Self {
            limits,
            fuel: Cell::new(limits.fuel),
            memory: Cell::new(limits.memory),
            built: Cell::new(false),
        }
    }

    /// Spends work: one operation, or so many items gone through.
    pub(super) fn work(&self, units: usize) -> Outcome<()> {
        let left = self.fuel.get().checked_sub(units as u64);
        self.fuel.set(left.unwrap_or_default());
        left.map(drop)
            .ok_or_else(|| Stop::limit(Limit::Fuel, self.limits.fuel))
    }

    /// Spends the work of going through a text.
    pub(super) fn scan(&self, bytes: usize) -> Outcome<()> {
        self.work(bytes / BYTES_PER_FUEL)
    }

    /// Spends the work of going through a text one character at a time.
    pub(super) fn scan_characters(&self, bytes: usize) -> Outcome<()> {
        self.work(bytes / BYTES_PER_CHARACTER_FUEL)
    }

    /// How far it makes sense to count: one more than there is work left for.
    pub(super) fn countable(&self) -> usize {
        usize::try_from(self.fuel.get())
            .unwrap_or(usize::MAX)
            .saturating_add(1)
    }

    fn take(&self, bytes: Option<usize>) -> Outcome<()> {
        let left = bytes.and_then(|bytes| self.memory.get().checked_sub(bytes));
        self.memory.set(left.unwrap_or_default());
        left.map(drop)
            .ok_or_else(|| Stop::limit(Limit::Memory, self.limits.memory))
    }

    /// Asks for a text of so many bytes; none may be larger than an outcome.
    pub(super) fn text(&self, bytes: usize) -> Outcome<()> {
        if bytes > self.limits.output {
            return Err(Stop::limit(Limit::Output, self.limits.output));
        }
        self.scan(bytes)?;
        self.take(bytes.checked_add(TEXT))
    }

    /// Asks for so many bytes more of a text that is being written.
    pub(super) fn more(&self, bytes: usize) -> Outcome<()> {
        self.scan(bytes)?;
        self.take(Some(bytes))
    }

    /// Asks for a list of so many items.
    pub(super) fn list(&self, items: usize) -> Outcome<()> {
        self.container(items, size_of::<Json>())
    }

    fn container(&self, items: usize, bytes: usize) -> Outcome<()> {
        self.built.set(true);
        self.work(items)?;
        self.take(
            items
                .checked_mul(bytes)
                .and_then(|own| own.checked_add(CONTAINER)),
        )
    }

    /// Asks for a list of so many new texts with so many bytes in all.
    pub(super) fn texts(&self, items: usize, bytes: usize) -> Outcome<()> {
        self.container(items, size_of::<Json>() + TEXT)?;
        self.more(bytes)
    }

    /// Asks for a map of so many entries.
    pub(super) fn map(&self, entries: usize) -> Outcome<()> {
        self.container(entries, ENTRY + size_of::<Json>())
    }

    /// Asks whether a value may stand so many levels deep in a list or map that is being made.
    pub(super) fn nest(&self, item: &Json, levels: usize) -> Outcome<()> {
        let deeper = |len: usize| {
            if levels > self.limits.depth() {
                return Err(Stop::limit(Limit::Nesting, self.limits.depth()));
            }
            self.work(len)
        };
        match item {
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Str(_) => Ok(()),
            Json::List(items) => {
                deeper(items.len())?;
                items
                    .iter()
                    .try_for_each(|item| self.nest(item, levels + 1))
            }
            Json::Map(map) => {
                deeper(map.len())?;
                map.values()
                    .try_for_each(|item| self.nest(item, levels + 1))
            }
        }
    }

    /// The canonical text of a value.
    pub(super) fn canonical(&self, value: &Json) -> Outcome<String> {
        let len = print::canonical_len(value, self.limits.output);
        let len = len.unwrap_or(self.limits.output.saturating_add(1));
        self.text(len)?;
        let mut text = String::with_capacity(len);
        print::push_canonical(value, len, &mut text);
        Ok(text)
    }

    /// Refuses an outcome that is larger than allowed.
    pub(super) fn outcome(&self, value: &Json) -> Outcome<()> {
        if self.built.get() && print::canonical_len(value, self.limits.output).is_none() {
            return Err(Stop::limit(Limit::Output, self.limits.output));
        }
        Ok(())
    }
}
