//! A whole run in one thread, without clock, store or network.
//!
//! Drives the engine with workers that follow a script: they render what a real worker renders, follow
//! the policies of tasks, and are lost, late or doubled when told so. Time stands still until the test
//! moves it. Every event that a run makes is checked on the way: it must read back from its record as
//! itself, fold to the state that the decision promised, and leave a consistent state.

mod chaos;
mod desk;
mod drive;
mod play;
mod run;
mod splitmix;
mod table;
mod worker;
mod world;

pub use chaos::{Chaos, Odds};
pub use drive::Drive;
pub use play::{Call, Play};
pub use run::{Lease, Sim};
pub use splitmix::SplitMix;
pub use world::{Ask, Word};
