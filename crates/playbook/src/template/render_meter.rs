//! Counts the cost of a render before it is incurred.
//!
//! Every operation of the evaluator that allocates in proportion to data, or iterates over data,
//! charges this meter first.

use std::cell::Cell;

use noetl_types::Json;

use super::limits::TemplateLimits;
use super::print;
use super::render_error::{EvalError, EvalResult, RenderLimit};

/// Bytes that cost one unit of fuel to scan.
const SCAN_BYTES_PER_FUEL: usize = 64;
/// Bytes that cost one unit of fuel to process one character at a time.
const CHARACTER_BYTES_PER_FUEL: usize = 8;
/// Memory of a map entry besides its value: the key, and its share of the tree.
const MAP_ENTRY_BYTES: usize = 64;
/// Memory of an allocated text besides its bytes.
const TEXT_OVERHEAD_BYTES: usize = 32;
/// Memory of a list or map besides its items.
const CONTAINER_OVERHEAD_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct RenderMeter {
    pub(super) limits: TemplateLimits,
    fuel: Cell<u64>,
    memory: Cell<usize>,
    /// True if a list or map was built, so that the output may be larger than any input.
    has_built_container: Cell<bool>,
}

impl RenderMeter {
    pub(super) fn new(limits: TemplateLimits) -> Self {
        Self {
            limits,
            fuel: Cell::new(limits.fuel),
            memory: Cell::new(limits.memory),
            has_built_container: Cell::new(false),
        }
    }

    /// Charges units of work: operations, or items processed.
    pub(super) fn charge_fuel(&self, units: usize) -> EvalResult<()> {
        let remaining = self.fuel.get().checked_sub(units as u64);
        self.fuel.set(remaining.unwrap_or_default());
        remaining
            .map(drop)
            .ok_or_else(|| EvalError::limit_exceeded(RenderLimit::Fuel, self.limits.fuel))
    }

    /// Charges the scan of a text.
    pub(super) fn charge_scan(&self, bytes: usize) -> EvalResult<()> {
        self.charge_fuel(bytes / SCAN_BYTES_PER_FUEL)
    }

    /// Charges the processing of a text one character at a time.
    pub(super) fn charge_character_scan(&self, bytes: usize) -> EvalResult<()> {
        self.charge_fuel(bytes / CHARACTER_BYTES_PER_FUEL)
    }

    /// One more than the remaining fuel: counting further is useless, since the charge then fails.
    pub(super) fn max_countable(&self) -> usize {
        usize::try_from(self.fuel.get()).unwrap_or(usize::MAX).saturating_add(1)
    }

    fn charge_memory(&self, bytes: Option<usize>) -> EvalResult<()> {
        let remaining = bytes.and_then(|bytes| self.memory.get().checked_sub(bytes));
        self.memory.set(remaining.unwrap_or_default());
        remaining
            .map(drop)
            .ok_or_else(|| EvalError::limit_exceeded(RenderLimit::Memory, self.limits.memory))
    }

    /// Charges a text of this size. No text may be larger than the output limit.
    pub(super) fn charge_text(&self, bytes: usize) -> EvalResult<()> {
        if bytes > self.limits.output {
            return Err(EvalError::limit_exceeded(RenderLimit::Output, self.limits.output));
        }
        self.charge_scan(bytes)?;
        self.charge_memory(bytes.checked_add(TEXT_OVERHEAD_BYTES))
    }

    /// Charges additional bytes of a text under construction.
    pub(super) fn charge_text_growth(&self, bytes: usize) -> EvalResult<()> {
        self.charge_scan(bytes)?;
        self.charge_memory(Some(bytes))
    }

    /// Charges a list with this many items.
    pub(super) fn charge_list(&self, items: usize) -> EvalResult<()> {
        self.charge_container(items, size_of::<Json>())
    }

    fn charge_container(&self, items: usize, bytes: usize) -> EvalResult<()> {
        self.has_built_container.set(true);
        self.charge_fuel(items)?;
        self.charge_memory(
            items.checked_mul(bytes).and_then(|size| size.checked_add(CONTAINER_OVERHEAD_BYTES)),
        )
    }

    /// Charges a list of new texts with this many bytes in total.
    pub(super) fn charge_text_list(&self, items: usize, bytes: usize) -> EvalResult<()> {
        self.charge_container(items, size_of::<Json>() + TEXT_OVERHEAD_BYTES)?;
        self.charge_text_growth(bytes)
    }

    /// Charges a map with this many entries.
    pub(super) fn charge_map(&self, entries: usize) -> EvalResult<()> {
        self.charge_container(entries, MAP_ENTRY_BYTES + size_of::<Json>())
    }

    /// Checks the nesting limit for a value at this level of a list or map under construction.
    pub(super) fn check_nesting(&self, item: &Json, levels: usize) -> EvalResult<()> {
        let enter_level = |len: usize| {
            if levels > self.limits.max_depth() {
                return Err(EvalError::limit_exceeded(
                    RenderLimit::Nesting,
                    self.limits.max_depth(),
                ));
            }
            self.charge_fuel(len)
        };
        match item {
            Json::Null
            | Json::Bool(_)
            | Json::Int(_)
            | Json::UInt(_)
            | Json::Float(_)
            | Json::Str(_) => Ok(()),
            Json::List(items) => {
                enter_level(items.len())?;
                items.iter().try_for_each(|item| self.check_nesting(item, levels + 1))
            }
            Json::Map(map) => {
                enter_level(map.len())?;
                map.values().try_for_each(|item| self.check_nesting(item, levels + 1))
            }
        }
    }

    /// Returns the canonical text of a value.
    pub(super) fn to_canonical_text(&self, value: &Json) -> EvalResult<String> {
        let len = print::canonical_len(value, self.limits.output);
        let len = len.unwrap_or(self.limits.output.saturating_add(1));
        self.charge_text(len)?;
        let mut text = String::with_capacity(len);
        print::push_canonical(value, len, &mut text);
        Ok(text)
    }

    /// Checks the size of the output.
    pub(super) fn check_output(&self, value: &Json) -> EvalResult<()> {
        if self.has_built_container.get()
            && print::canonical_len(value, self.limits.output).is_none()
        {
            return Err(EvalError::limit_exceeded(RenderLimit::Output, self.limits.output));
        }
        Ok(())
    }
}
