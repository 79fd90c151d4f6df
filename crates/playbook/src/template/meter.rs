//! Limits on the cost of one template, and the meter that enforces them.
//!
//! Every operation of the evaluator that allocates in proportion to data, or iterates over data,
//! charges the meter before it incurs the cost.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use noetl_types::Json;
use noetl_types::json::push_canonical;
use noetl_types::limits::MAX_JSON_DEPTH;

use super::error::{EvalError, EvalResult, RenderLimit};
use super::print;

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

/// Limits for parsing and rendering one template.
///
/// Operators can configure them. A template that exceeds a limit ends with an error and never
/// brings down the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TemplateLimits {
    /// Units of work of one render: one for each operation, and one for each item or 64 bytes that
    /// an operation processes.
    pub fuel: u64,
    /// Levels of brackets and blocks in the text, and of lists and maps in a value that a render
    /// builds. Capped at [`MAX_JSON_DEPTH`].
    pub nesting: usize,
    /// Bytes of the text or of the canonical JSON that a render yields.
    pub output: usize,
    /// Numbers that one `range()` may yield.
    pub range: u64,
    /// Tokens of one `{{ }}` or `{% %}`.
    pub tokens: usize,
    /// Bytes of all values that one render creates, including the output.
    pub memory: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self {
            fuel: 1_000_000,
            nesting: MAX_JSON_DEPTH,
            output: 16 << 20,
            range: 100_000,
            tokens: 10_000,
            memory: 40 << 20,
        }
    }
}

impl TemplateLimits {
    /// The effective nesting limit.
    pub(super) fn max_depth(&self) -> usize {
        self.nesting.min(MAX_JSON_DEPTH)
    }
}

/// Fuel that several renders share, for example those of one decision of the server.
#[derive(Debug, Clone)]
pub struct FuelBudget(Arc<AtomicU64>);

impl FuelBudget {
    /// A budget with this much fuel.
    pub fn new(fuel: u64) -> Self {
        Self(Arc::new(AtomicU64::new(fuel)))
    }

    fn restrict(&self, limits: TemplateLimits) -> TemplateLimits {
        TemplateLimits { fuel: limits.fuel.min(self.0.load(Ordering::Relaxed)), ..limits }
    }

    fn subtract_fuel(&self, fuel: u64) {
        let rest = self.0.load(Ordering::Relaxed).saturating_sub(fuel);
        self.0.store(rest, Ordering::Relaxed);
    }
}

/// The remaining fuel and memory of a render.
#[derive(Debug)]
pub(super) struct RenderMeter {
    pub(super) limits: TemplateLimits,
    /// True if the fuel is what others have left of a shared budget.
    has_reduced_fuel: bool,
    fuel: Cell<u64>,
    memory: Cell<usize>,
    /// True if a list or map was built, so that the output may be larger than any input.
    has_built_container: Cell<bool>,
}

impl RenderMeter {
    pub(super) fn new(limits: TemplateLimits, budget: Option<&FuelBudget>) -> Self {
        let own_fuel = limits.fuel;
        let limits = budget.map_or(limits, |budget| budget.restrict(limits));
        Self {
            limits,
            has_reduced_fuel: limits.fuel < own_fuel,
            fuel: Cell::new(limits.fuel),
            memory: Cell::new(limits.memory),
            has_built_container: Cell::new(false),
        }
    }

    /// Subtracts the used fuel from a budget.
    pub(super) fn settle_budget(&self, budget: &FuelBudget) {
        budget.subtract_fuel(self.limits.fuel - self.fuel.get());
    }

    /// Charges units of work: operations, or items processed.
    pub(super) fn charge_fuel(&self, units: usize) -> EvalResult<()> {
        let remaining = self.fuel.get().checked_sub(units as u64);
        self.fuel.set(remaining.unwrap_or_default());
        remaining.map(drop).ok_or_else(|| {
            if self.has_reduced_fuel {
                EvalError::budget_exhausted()
            } else {
                EvalError::limit_exceeded(RenderLimit::Fuel, self.limits.fuel)
            }
        })
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
            return Err(self.output_exceeded());
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
            let limit = self.limits.max_depth();
            if levels > limit {
                return Err(EvalError::limit_exceeded(RenderLimit::Nesting, limit));
            }
            self.charge_fuel(len)
        };
        match item {
            Json::List(items) => {
                enter_level(items.len())?;
                items.iter().try_for_each(|item| self.check_nesting(item, levels + 1))
            }
            Json::Map(map) => {
                enter_level(map.len())?;
                map.values().try_for_each(|item| self.check_nesting(item, levels + 1))
            }
            _ => Ok(()),
        }
    }

    /// Returns the canonical text of a value.
    pub(super) fn to_canonical_text(&self, value: &Json) -> EvalResult<String> {
        let len = print::canonical_len(value, self.limits.output);
        let len = len.unwrap_or(self.limits.output.saturating_add(1));
        self.charge_text(len)?;
        let mut text = String::with_capacity(len);
        push_canonical(value, &mut text);
        Ok(text)
    }

    /// Checks the size of the output.
    pub(super) fn check_output(&self, value: &Json) -> EvalResult<()> {
        if self.has_built_container.get()
            && print::canonical_len(value, self.limits.output).is_none()
        {
            return Err(self.output_exceeded());
        }
        Ok(())
    }

    pub(super) fn output_exceeded(&self) -> EvalError {
        EvalError::limit_exceeded(RenderLimit::Output, self.limits.output)
    }
}
