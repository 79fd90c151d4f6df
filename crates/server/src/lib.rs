//! The control plane.
//!
//! Owns [`ControlPlane`], the services that run executions on a store, and `http`, their HTTP API.
//!
//! Must not contain rules of the playbook language (these belong to the engine) or SQL (this
//! belongs to the store).

mod access;
pub mod classic;
pub mod clock;
pub mod crypto;
mod driver;
mod error;
pub mod http;
mod metrics;
pub mod random_source;
mod rng;
pub mod services;
mod settings;

pub use access::{AuthContext, CallContext};
pub use clock::{Clock, SystemClock};
pub use error::{RuntimeError, error_chain};
pub use noetl_messaging::nats::NatsConnectionSettings;
pub use random_source::{RandomSource, SystemRandom};
pub use services::command_token::CommandToken;
pub use services::executions::{StartRequest, StartedExecution};
pub use services::notifications::NatsSettings;
pub use services::publishing::event_stream::StreamSettings;
pub use services::queries::replay;
pub use services::{ControlPlane, LocalWorkerApi};
pub use services::{anchors, verification};
pub use settings::{OutboxSetting, Settings};
