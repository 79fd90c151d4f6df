//! Registered processes: worker pools and servers.

use noetl_types::{Json, RuntimeId, Text, Timestamp};

noetl_types::text_enum! {
    /// Kind of a process.
    pub enum RuntimeKind("a kind of runtime") {
        /// Executes commands.
        WorkerPool = "worker_pool",
        /// Serves the API and drives executions.
        ServerApi = "server_api",
        /// Forwards messages.
        Broker = "broker",
    }
}

/// First or repeated registration of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeRegistration {
    /// Id of the registration, unless the name is already registered.
    pub runtime_id: RuntimeId,
    pub kind: RuntimeKind,
    /// Unique per kind.
    pub name: Text,
    pub uri: Option<Text>,
    /// Self-reported details.
    pub detail: Option<Json>,
    pub now: Timestamp,
}

/// A registered process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredRuntime {
    pub runtime_id: RuntimeId,
    pub kind: RuntimeKind,
    pub name: Text,
    pub uri: Option<Text>,
    /// Self-reported details.
    pub detail: Option<Json>,
    /// Time of the last heartbeat.
    pub heartbeat: Timestamp,
    /// Time of the first registration.
    pub created_at: Timestamp,
}

impl RuntimeRegistration {
    pub(crate) fn into_runtime(self) -> RegisteredRuntime {
        RegisteredRuntime {
            runtime_id: self.runtime_id,
            kind: self.kind,
            name: self.name,
            uri: self.uri,
            detail: self.detail,
            heartbeat: self.now,
            created_at: self.now,
        }
    }
}
