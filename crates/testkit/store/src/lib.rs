//! Support for tests that use a store: injected faults, and databases with migrated tables.
//!
//! The unit tests of the store include this file as a module, because their types differ from those
//! of the store that other crates use.

mod faulty_store;
mod migrated_database;

pub use faulty_store::{DatabaseClockFn, Fault, FaultFn, FaultyStore, StoreMethod};
pub use migrated_database::migrated_database;
