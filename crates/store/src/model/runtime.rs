//! Registered processes: worker pools and servers.

use noetl_types::{Json, RuntimeId, Text, Timestamp};

/// Kind of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeKind {
    /// Executes commands.
    WorkerPool,
    /// Serves the API and drives executions.
    ServerApi,
    /// Forwards messages.
    Broker,
}

/// Parse error of a runtime kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of runtime")]
pub struct UnknownRuntimeKind(pub String);

impl RuntimeKind {
    /// Canonical name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WorkerPool => "worker_pool",
            Self::ServerApi => "server_api",
            Self::Broker => "broker",
        }
    }

    /// Parses the canonical name.
    pub fn parse(text: &str) -> Result<Self, UnknownRuntimeKind> {
        match text {
            "worker_pool" => Ok(Self::WorkerPool),
            "server_api" => Ok(Self::ServerApi),
            "broker" => Ok(Self::Broker),
            other => Err(UnknownRuntimeKind(other.to_owned())),
        }
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
    pub(crate) fn into_runtime(self, existing: Option<&RegisteredRuntime>) -> RegisteredRuntime {
        RegisteredRuntime {
            runtime_id: existing.map_or(self.runtime_id, |existing| existing.runtime_id),
            created_at: existing.map_or(self.now, |existing| existing.created_at),
            kind: self.kind,
            name: self.name,
            uri: self.uri,
            detail: self.detail,
            heartbeat: self.now,
        }
    }
}
