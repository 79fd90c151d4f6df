//! Processes that take part: worker pools, servers.

use noetl_types::{Json, RuntimeId, Text, Timestamp};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuntimeKind {
    /// Runs commands.
    WorkerPool,
    /// Serves the API and drives executions.
    ServerApi,
    /// Hands messages on.
    Broker,
}

/// A text that names no kind of process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of runtime")]
pub struct UnknownRuntimeKind(pub String);

impl RuntimeKind {
    /// The one spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WorkerPool => "worker_pool",
            Self::ServerApi => "server_api",
            Self::Broker => "broker",
        }
    }

    /// Reads the one spelling.
    pub fn parse(text: &str) -> Result<Self, UnknownRuntimeKind> {
        match text {
            "worker_pool" => Ok(Self::WorkerPool),
            "server_api" => Ok(Self::ServerApi),
            "broker" => Ok(Self::Broker),
            other => Err(UnknownRuntimeKind(other.to_owned())),
        }
    }
}

/// A process introduces itself, or does so again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRuntime {
    /// The id that it gets unless its name is known already.
    pub runtime_id: RuntimeId,
    /// What it does.
    pub kind: RuntimeKind,
    /// Its name, unique among its kind.
    pub name: Text,
    /// Where it is reached.
    pub uri: Option<Text>,
    /// What it says about itself.
    pub detail: Option<Json>,
    /// The server's clock.
    pub now: Timestamp,
}

/// A process that has introduced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// The id.
    pub runtime_id: RuntimeId,
    /// What it does.
    pub kind: RuntimeKind,
    /// Its name.
    pub name: Text,
    /// Where it is reached.
    pub uri: Option<Text>,
    /// What it says about itself.
    pub detail: Option<Json>,
    /// When it was last heard of.
    pub heartbeat: Timestamp,
    /// When it first introduced itself.
    pub created_at: Timestamp,
}

impl NewRuntime {
    pub(crate) fn into_runtime(self, known: Option<&Runtime>) -> Runtime {
        Runtime {
            runtime_id: known.map_or(self.runtime_id, |known| known.runtime_id),
            created_at: known.map_or(self.now, |known| known.created_at),
            kind: self.kind,
            name: self.name,
            uri: self.uri,
            detail: self.detail,
            heartbeat: self.now,
        }
    }
}
