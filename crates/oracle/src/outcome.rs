//! What tools answer: the one thing that a playbook does not say itself.

use noetl_playbook::model::ToolKind;
use noetl_types::Json;

/// One attempt of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'c> {
    /// The step.
    pub step: &'c str,
    /// The run of the step, from 1.
    pub run: u64,
    /// The index of the iteration, in a loop.
    pub index: Option<usize>,
    /// The label of the task.
    pub label: &'c str,
    /// The kind of the task.
    pub kind: ToolKind,
    /// How many times the pipeline has come to this task, from 1; a jump comes to it again.
    pub visit: u64,
    /// The attempt of this visit, from 1.
    pub attempt: u64,
    /// The rendered configuration of the task.
    pub config: &'c Json,
    /// Its rendered input.
    pub input: &'c Json,
}

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It went well and gave this.
    Ok(Json),
    /// It failed.
    Error(TaskError),
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// What went wrong.
    pub message: String,
    /// The native code, such as an exit code.
    pub code: Json,
    /// The HTTP status, if there is one.
    pub status: Json,
    /// More about it.
    pub details: Json,
    /// Data that the tool gave nevertheless.
    pub data: Json,
}

impl TaskError {
    /// A failure of a kind that gave no data.
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

    /// The same failure with data.
    #[must_use]
    pub fn with_data(mut self, data: Json) -> Self {
        self.data = data;
        self
    }

    /// The error object that templates see.
    pub fn object(&self, task: &str, attempt: u64) -> Json {
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

/// Answers for tools. The same call must always get the same answer.
pub trait Outcomes {
    /// What an attempt comes to. Tasks of kind `noop` are not asked about: they say it themselves.
    fn answer(&self, call: &Call<'_>) -> Answer;
}

impl<F: Fn(&Call<'_>) -> Answer> Outcomes for F {
    fn answer(&self, call: &Call<'_>) -> Answer {
        self(call)
    }
}

/// Declares the kinds of errors with the word for each.
macro_rules! error_kinds {
    ($($(#[$meta:meta])* $kind:ident = $word:literal $retryable:literal,)+) => {
        /// Why something failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorKind {
            $(
                #[doc = concat!("`", $word, "`")]
                $kind,
            )+
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)+
                }
            }

            /// Whether trying again may help.
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
    /// The kind that a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}
