//! The error that a task ends with, as policies, arcs and the log see it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::{Json, JsonMap};
use crate::text::Text;
use crate::words::words;

words! {
    /// Kind of a task's failure, the same for all tools.
    pub enum TaskErrorKind("an error kind") {
        Connection = "connection",
        Timeout = "timeout",
        /// The other side asks to slow down (HTTP 429).
        RateLimit = "rate_limit",
        /// The other side failed (HTTP 5xx).
        ServerError = "server_error",
        DbConnection = "db_connection",
        DbDeadlock = "db_deadlock",
        DbTimeout = "db_timeout",
        /// The worker is gone.
        Lost = "lost",
        /// Not logged in, or not allowed (HTTP 401, 403).
        Auth = "auth",
        /// Not there (HTTP 404).
        NotFound = "not_found",
        /// Any other refusal (HTTP 4xx).
        ClientError = "client_error",
        /// A value of the wrong shape.
        Schema = "schema",
        /// A text that cannot be read.
        Parse = "parse",
        /// The user's own code failed.
        Transform = "transform",
        DbConstraint = "db_constraint",
        DbError = "db_error",
        StorageQuota = "storage_quota",
        StorageAccess = "storage_access",
        /// A template that cannot be rendered.
        Template = "template",
        /// No arc matched where one had to.
        Routing = "routing",
        /// Over a bound of the house.
        Limit = "limit",
        /// A playbook that was called failed.
        Child = "child",
        Cancelled = "cancelled",
        Unsupported = "unsupported",
        Unknown = "unknown",
    }
}

impl TaskErrorKind {
    /// Whether trying again can help, unless the error itself says otherwise.
    pub const fn retryable(self) -> bool {
        match self {
            Self::Connection
            | Self::Timeout
            | Self::RateLimit
            | Self::ServerError
            | Self::DbConnection
            | Self::DbDeadlock
            | Self::DbTimeout
            | Self::Lost => true,
            Self::Auth
            | Self::NotFound
            | Self::ClientError
            | Self::Schema
            | Self::Parse
            | Self::Transform
            | Self::DbConstraint
            | Self::DbError
            | Self::StorageQuota
            | Self::StorageAccess
            | Self::Template
            | Self::Routing
            | Self::Limit
            | Self::Child
            | Self::Cancelled
            | Self::Unsupported
            | Self::Unknown => false,
        }
    }

    /// The kind of an HTTP status that means failure; `None` for those that do not.
    pub const fn of_http_status(status: u16) -> Option<Self> {
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
    /// What kind of failure it is.
    pub kind: TaskErrorKind,
    /// Whether trying again can help.
    pub retryable: bool,
    /// The code of the tool itself: an SQLSTATE, an exit code, an HTTP status.
    pub code: Option<Json>,
    /// The HTTP status, where there is one.
    pub status: Option<u16>,
    /// What happened, for a person.
    pub message: Text,
    /// What else the tool knows.
    pub details: Option<Json>,
    /// The task that failed.
    pub task: Option<Text>,
    /// The attempt that failed, from 1.
    pub attempt: Option<u32>,
    /// The iteration that failed, in a loop.
    pub index: Option<u64>,
}

impl TaskError {
    /// An error of a kind, as retryable as its kind.
    pub fn new(kind: TaskErrorKind, message: impl Into<Text>) -> Self {
        Self {
            kind,
            retryable: kind.retryable(),
            code: None,
            status: None,
            message: message.into(),
            details: None,
            task: None,
            attempt: None,
            index: None,
        }
    }

    /// The error object. All fields but `index` are always there, so that a template may ask for
    /// them.
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

    /// Reads whatever a worker sends as an error. This never fails: a strange error is still an
    /// error.
    ///
    /// A text is the message; a kind that is not known becomes `unknown`, its word taking the place
    /// of a missing code; a field of the wrong type counts as absent.
    pub fn from_json(value: &Json) -> Self {
        let Some(map) = value.as_map() else {
            return Self::new(TaskErrorKind::Unknown, message_of(value));
        };
        let field = |name: &str| map.get(name).filter(|value| !value.is_null());
        let word = field("kind").and_then(Json::as_str);
        let kind = word.and_then(|word| TaskErrorKind::parse(word).ok());
        let foreign_word = word.filter(|_| kind.is_none()).map(Json::from);
        let kind = kind.unwrap_or(TaskErrorKind::Unknown);
        Self {
            kind,
            retryable: field("retryable")
                .and_then(Json::as_bool)
                .unwrap_or(kind.retryable()),
            code: field("code").cloned().or(foreign_word),
            status: number(field("status")),
            message: field("message").map_or_else(|| message_of(value), message_of),
            details: field("details").cloned(),
            task: field("task").and_then(Json::as_str).map(Text::from),
            attempt: number(field("attempt")),
            index: number(field("index")),
        }
    }
}

fn number<T: TryFrom<u64>>(value: Option<&Json>) -> Option<T> {
    value
        .and_then(Json::as_u64)
        .and_then(|number| T::try_from(number).ok())
}

fn message_of(value: &Json) -> Text {
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
mod tests {
    use super::*;
    use crate::json;

    fn read(text: &str) -> TaskError {
        TaskError::from_json(&json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn kinds() {
        let of = |retryable: bool| -> String {
            let words: Vec<&str> = TaskErrorKind::ALL
                .iter()
                .filter(|kind| kind.retryable() == retryable)
                .map(|kind| kind.as_str())
                .collect();
            words.join(" ")
        };
        insta::assert_snapshot!(of(true), @"connection timeout rate_limit server_error db_connection db_deadlock db_timeout lost");
        insta::assert_snapshot!(of(false), @"auth not_found client_error schema parse transform db_constraint db_error storage_quota storage_access template routing limit child cancelled unsupported unknown");
        for kind in TaskErrorKind::ALL {
            assert_eq!(TaskErrorKind::parse(kind.as_str()), Ok(*kind));
        }
    }

    #[test]
    fn kinds_of_http() {
        for (status, kind) in [
            (200, None),
            (304, None),
            (400, Some(TaskErrorKind::ClientError)),
            (401, Some(TaskErrorKind::Auth)),
            (403, Some(TaskErrorKind::Auth)),
            (404, Some(TaskErrorKind::NotFound)),
            (429, Some(TaskErrorKind::RateLimit)),
            (503, Some(TaskErrorKind::ServerError)),
            (600, None),
        ] {
            assert_eq!(TaskErrorKind::of_http_status(status), kind, "{status}");
        }
    }

    #[test]
    fn round_trip() {
        let error = TaskError {
            code: Some(Json::from("40P01")),
            status: Some(503),
            details: Some(Json::object([("table", Json::from("orders"))])),
            task: Some("insert".into()),
            attempt: Some(2),
            index: Some(7),
            retryable: false,
            ..TaskError::new(TaskErrorKind::DbDeadlock, "deadlock detected")
        };
        assert_eq!(
            error.to_json().to_string(),
            r#"{"attempt":2,"code":"40P01","details":{"table":"orders"},"index":7,"kind":"db_deadlock","message":"deadlock detected","retryable":false,"status":503,"task":"insert"}"#
        );
        assert_eq!(TaskError::from_json(&error.to_json()), error);

        let bare = TaskError::new(TaskErrorKind::Lost, "worker gone");
        assert_eq!(
            bare.to_json().to_string(),
            r#"{"attempt":null,"code":null,"details":null,"kind":"lost","message":"worker gone","retryable":true,"status":null,"task":null}"#
        );
        let text = serde_json::to_string(&bare).unwrap();
        assert_eq!(serde_json::from_str::<TaskError>(&text).unwrap(), bare);
    }

    #[test]
    fn strange_errors_are_errors_too() {
        assert_eq!(
            read(r#""boom""#),
            TaskError::new(TaskErrorKind::Unknown, "boom")
        );
        assert_eq!(read("[1]"), TaskError::new(TaskErrorKind::Unknown, "[1]"));
        assert_eq!(read("{}"), TaskError::new(TaskErrorKind::Unknown, "{}"));

        let foreign = read(r#"{"kind":"ZeroDivisionError","message":"division by zero"}"#);
        assert_eq!(foreign.kind, TaskErrorKind::Unknown);
        assert_eq!(foreign.code, Some(Json::from("ZeroDivisionError")));
        assert_eq!(foreign.message, "division by zero");

        let reported =
            read(r#"{"message":"busy","code":75,"retryable":true,"attempt":-1,"status":"x"}"#);
        assert!(reported.retryable);
        assert_eq!(reported.code, Some(Json::from(75_i64)));
        assert_eq!((reported.attempt, reported.status), (None, None));
    }
}
