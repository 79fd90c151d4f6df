//! Tool outcomes: the only part of a run that the playbook does not determine.

use noetl_playbook::model::ToolKind;
use noetl_types::Json;

/// One attempt of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskCall<'c> {
    pub step: &'c str,
    /// Pass of the step, from 1.
    pub run: u64,
    /// Index of the iteration, in a loop.
    pub index: Option<usize>,
    pub label: &'c str,
    pub kind: ToolKind,
    /// Number of times that the pipeline has reached this task, from 1. A jump reaches it again.
    pub visit: u64,
    /// Attempt within this visit, from 1.
    pub attempt: u64,
    /// Rendered configuration of the task.
    pub config: &'c Json,
    /// Rendered input of the task.
    pub input: &'c Json,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolAnswer {
    /// The attempt succeeded with this data.
    Ok(Json),
    /// The attempt failed.
    Error(TaskError),
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskError {
    pub kind: ErrorKind,
    pub message: String,
    /// Native code, such as an exit code.
    pub code: Json,
    /// HTTP status, if any.
    pub status: Json,
    pub details: Json,
    /// Data that the tool returned despite the failure.
    pub data: Json,
}

impl TaskError {
    /// Creates a failure without data.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            code: Json::Null,
            status: Json::Null,
            details: Json::Null,
            data: Json::Null,
        }
    }

    /// Adds data to the failure.
    #[must_use]
    pub fn with_data(mut self, data: Json) -> Self {
        self.data = data;
        self
    }

    /// Builds the error object that templates see.
    pub fn to_error_object(&self, task: &str, attempt: u64) -> Json {
        Json::object([
            ("kind", Json::from(self.kind.as_str())),
            ("retryable", Json::Bool(self.kind.retryable())),
            ("code", self.code.clone()),
            ("status", self.status.clone()),
            ("message", Json::from(self.message.as_str())),
            ("details", self.details.clone()),
            ("task", Json::from(task)),
            ("attempt", Json::from(attempt)),
        ])
    }
}

/// Source of tool outcomes. The same call must always get the same answer.
pub trait ToolOutcomes {
    /// Returns the outcome of an attempt. Not called for tasks of kind `noop`, whose configuration
    /// contains their result.
    fn answer_call(&self, call: &TaskCall<'_>) -> ToolAnswer;
}

impl<F: Fn(&TaskCall<'_>) -> ToolAnswer> ToolOutcomes for F {
    fn answer_call(&self, call: &TaskCall<'_>) -> ToolAnswer {
        self(call)
    }
}

/// Declares the error kinds with their names.
macro_rules! error_kinds {
    ($($(#[$meta:meta])* $kind:ident = $name:literal $retryable:literal,)+) => {
        /// Kind of a failure.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorKind {
            $(
                #[doc = concat!("`", $name, "`")]
                $kind,
            )+
        }

        impl ErrorKind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// True if a retry may succeed.
            pub const fn retryable(self) -> bool {
                match self {
                    $(Self::$kind => $retryable,)+
                }
            }
        }
    };
}

error_kinds! {
    Connection = "connection" true,
    Timeout = "timeout" true,
    RateLimit = "rate_limit" true,
    ServerError = "server_error" true,
    DbConnection = "db_connection" true,
    DbDeadlock = "db_deadlock" true,
    DbTimeout = "db_timeout" true,
    Lost = "lost" true,
    Auth = "auth" false,
    NotFound = "not_found" false,
    ClientError = "client_error" false,
    Schema = "schema" false,
    Parse = "parse" false,
    Transform = "transform" false,
    DbConstraint = "db_constraint" false,
    DbError = "db_error" false,
    StorageQuota = "storage_quota" false,
    StorageAccess = "storage_access" false,
    Template = "template" false,
    Routing = "routing" false,
    Limit = "limit" false,
    Child = "child" false,
    Cancelled = "cancelled" false,
    Unsupported = "unsupported" false,
    Unknown = "unknown" false,
}

impl ErrorKind {
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}
