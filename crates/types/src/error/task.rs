//! The error of a failed task, as seen by policies, arcs and the log.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::{Json, JsonMap};
use crate::string_enum::string_enum;
use crate::text::Text;

string_enum! {
    /// Kind of a task failure. The same for all tools.
    pub enum TaskErrorKind("an error kind") {
        Connection = "connection",
        Timeout = "timeout",
        /// The remote side asks to slow down (HTTP 429).
        RateLimit = "rate_limit",
        /// The remote side failed (HTTP 5xx).
        ServerError = "server_error",
        DbConnection = "db_connection",
        DbDeadlock = "db_deadlock",
        DbTimeout = "db_timeout",
        /// The worker stopped responding.
        Lost = "lost",
        /// Not authenticated, or not allowed (HTTP 401, 403).
        Auth = "auth",
        /// Not found (HTTP 404).
        NotFound = "not_found",
        /// Any other client error (HTTP 4xx).
        ClientError = "client_error",
        /// A value does not have the expected shape.
        Schema = "schema",
        /// A text cannot be parsed.
        Parse = "parse",
        /// The user's code failed.
        Transform = "transform",
        DbConstraint = "db_constraint",
        DbError = "db_error",
        StorageQuota = "storage_quota",
        StorageAccess = "storage_access",
        /// A template cannot be rendered.
        Template = "template",
        /// No arc matched although one was required.
        Routing = "routing",
        /// A limit of the platform was exceeded.
        Limit = "limit",
        /// A called playbook failed.
        Child = "child",
        Cancelled = "cancelled",
        Unsupported = "unsupported",
        Unknown = "unknown",
    }
}

impl TaskErrorKind {
    /// True if a retry can help, unless the error itself states otherwise.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::Timeout
                | Self::RateLimit
                | Self::ServerError
                | Self::DbConnection
                | Self::DbDeadlock
                | Self::DbTimeout
                | Self::Lost
        )
    }

    /// Returns the kind for an HTTP error status; `None` for a status that is not an error.
    pub const fn from_http_status(status: u16) -> Option<Self> {
        match status {
            401 | 403 => Some(Self::Auth),
            404 => Some(Self::NotFound),
            429 => Some(Self::RateLimit),
            400..=499 => Some(Self::ClientError),
            500..=599 => Some(Self::ServerError),
            0..400 | 600.. => None,
        }
    }
}

/// The error object of a failed task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    /// Kind of the failure.
    pub kind: TaskErrorKind,
    /// True if a retry can help.
    pub retryable: bool,
    /// Code of the tool: an SQLSTATE, an exit code, an HTTP status.
    pub code: Option<Json>,
    /// HTTP status, if there is one.
    pub status: Option<u16>,
    /// Human-readable message.
    pub message: Text,
    /// Further details from the tool.
    pub details: Option<Json>,
    /// Task that failed.
    pub task: Option<Text>,
    /// Attempt that failed, from 1.
    pub attempt: Option<u32>,
    /// Iteration that failed, in a loop.
    pub index: Option<u64>,
}

impl TaskError {
    /// Creates an error of a kind, with the default retryability of the kind.
    pub fn new(kind: TaskErrorKind, message: impl Into<Text>) -> Self {
        Self {
            kind,
            retryable: kind.is_retryable(),
            code: None,
            status: None,
            message: message.into(),
            details: None,
            task: None,
            attempt: None,
            index: None,
        }
    }

    /// Returns the error object. All fields except `index` are always present, so that templates
    /// can refer to them.
    pub fn to_json(&self) -> Json {
        let mut map = JsonMap::from([
            ("kind".into(), Json::from(self.kind.as_str())),
            ("retryable".into(), Json::from(self.retryable)),
            ("code".into(), self.code.clone().unwrap_or_default()),
            ("status".into(), Json::from(self.status.map(u32::from))),
            ("message".into(), Json::from(&self.message)),
            ("details".into(), self.details.clone().unwrap_or_default()),
            ("task".into(), Json::from(self.task.clone())),
            ("attempt".into(), Json::from(self.attempt)),
        ]);
        if let Some(index) = self.index {
            map.insert("index".into(), Json::from(index));
        }
        map.into()
    }

    /// Reads the error that a worker sent. This never fails: a malformed error is still an error.
    ///
    /// A string becomes the message. An unknown kind becomes `unknown`, and its text replaces a
    /// missing code. A field of the wrong type counts as absent.
    pub fn from_json(value: &Json) -> Self {
        let Some(map) = value.as_map() else {
            return Self::new(TaskErrorKind::Unknown, error_message_from_json(value));
        };
        let field = |name: &str| map.get(name).filter(|value| !value.is_null());
        let kind_text = field("kind").and_then(Json::as_str);
        let kind = kind_text.and_then(|kind_text| TaskErrorKind::parse(kind_text).ok());
        let unknown_kind = kind_text.filter(|_| kind.is_none()).map(Json::from);
        let kind = kind.unwrap_or(TaskErrorKind::Unknown);
        Self {
            kind,
            retryable: field("retryable").and_then(Json::as_bool).unwrap_or(kind.is_retryable()),
            code: field("code").cloned().or(unknown_kind),
            status: unsigned_from_json(field("status")),
            message: field("message")
                .map_or_else(|| error_message_from_json(value), error_message_from_json),
            details: field("details").cloned(),
            task: field("task").and_then(Json::as_str).map(Text::from),
            attempt: unsigned_from_json(field("attempt")),
            index: unsigned_from_json(field("index")),
        }
    }
}

fn unsigned_from_json<T: TryFrom<u64>>(value: Option<&Json>) -> Option<T> {
    value.and_then(Json::as_u64).and_then(|number| T::try_from(number).ok())
}

fn error_message_from_json(value: &Json) -> Text {
    match value {
        Json::Str(text) => Text::from(&**text),
        other => Text::from(other.to_string()),
    }
}

impl Serialize for TaskError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TaskError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer).map(|value| Self::from_json(&value))
    }
}

#[cfg(test)]
mod tests;
