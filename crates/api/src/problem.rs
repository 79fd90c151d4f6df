//! The body of error responses.

use noetl_types::{ErrorCode, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Problem document of a failed request (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// URI of the problem type.
    #[serde(rename = "type")]
    pub type_uri: Text,
    /// Title of the problem type.
    pub title: Text,
    /// HTTP status.
    pub status: u16,
    /// Human-readable description of this occurrence.
    pub detail: Text,
    /// Error code.
    pub code: Text,
    /// Request id, as in the logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Text>,
    /// Individual errors, if there are several or if they have a position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ProblemDetail>,
    /// Description of this occurrence, for classic clients.
    pub error: Text,
    /// Description of this occurrence, for the published console.
    #[serde(default)]
    pub message: Text,
}

/// An individual error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProblemDetail {
    /// Code, for example of a diagnostic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Text>,
    /// Position in the body, as a JSON pointer.
    #[serde(default)]
    pub pointer: Text,
    /// Position in the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// Line in the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Human-readable message.
    pub message: Text,
    /// Suggested fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Text>,
}

impl Problem {
    /// Creates a problem with an error code.
    pub fn new(code: ErrorCode, detail: impl Into<Text>) -> Self {
        let detail = detail.into();
        Self {
            type_uri: code.type_uri().into(),
            title: code.title().into(),
            status: code.http_status(),
            error: detail.clone(),
            message: detail.clone(),
            detail,
            code: code.as_str().into(),
            request_id: None,
            errors: Vec::new(),
        }
    }

    /// Adds individual errors.
    #[must_use]
    pub fn with_errors(self, errors: Vec<ProblemDetail>) -> Self {
        Self { errors, ..self }
    }

    /// Returns the error code, if it is a known one.
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(&self.code).ok()
    }
}
