//! The body of every failure.

use noetl_types::{ErrorCode, Text};
use serde::{Deserialize, Serialize};

/// Media type of a problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Names the kind of problem.
    #[serde(rename = "type")]
    pub type_uri: Text,
    /// The kind in words.
    pub title: Text,
    /// The status of the answer.
    pub status: u16,
    /// What happened, for a person.
    pub detail: Text,
    /// The kind of problem.
    pub code: Text,
    /// The request, as logs know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Text>,
    /// Each thing that is wrong, where there are several or places to point at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Detail>,
    /// What happened, as classic clients read it.
    pub error: Text,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Detail {
    /// Its code, such as that of a diagnostic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Text>,
    /// Where in the body, as a JSON pointer.
    #[serde(default)]
    pub pointer: Text,
    /// Where in the playbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Text>,
    /// The line of the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column of the playbook, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What is wrong.
    pub message: Text,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<Text>,
}

impl Problem {
    /// A problem of a kind.
    pub fn new(code: ErrorCode, detail: impl Into<Text>) -> Self {
        let detail = detail.into();
        Self {
            type_uri: code.type_uri().into(),
            title: code.title().into(),
            status: code.status(),
            error: detail.clone(),
            detail,
            code: code.as_str().into(),
            request_id: None,
            errors: Vec::new(),
        }
    }

    /// The same with each thing that is wrong.
    #[must_use]
    pub fn with_errors(self, errors: Vec<Detail>) -> Self {
        Self { errors, ..self }
    }

    /// Its code, if it is one of ours.
    pub fn known_code(&self) -> Option<ErrorCode> {
        ErrorCode::parse(&self.code).ok()
    }
}
