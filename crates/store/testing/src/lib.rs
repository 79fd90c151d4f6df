//! Support for tests that use a store: injected faults.
//!
//! The unit tests of the store include this file as a module, because their types differ from those
//! of the store that other crates use.

mod faulty_store;

pub use faulty_store::{Fault, FaultFn, FaultyStore, StoreMethod};
