//! The control plane.
//!
//! Owns [`Runtime`], which drives executions on a store, and `http`, the routes in front of it.
//!
//! Must not: hold rules of the language, which are the engine's, or SQL, which is the store's.

pub mod chance;
pub mod clock;
pub mod http;
mod metrics;
mod read;
pub mod runtime;
pub mod vault;

pub use chance::{Chance, SystemChance};
pub use clock::{Clock, SystemClock};
pub use noetl_bus::nats::LinkSettings;
pub use read::replay;
pub use runtime::{
    Behalf, Capability, NatsSettings, Runtime, RuntimeError, Settings, StreamSettings,
};
