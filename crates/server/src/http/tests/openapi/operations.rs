//! Texts and properties of operations that cannot be derived from types.
//!
//! The test of the OpenAPI document fails if a route has no entry here, or an entry has no route.

use axum::http::Method;
use noetl_types::ErrorCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::shape::SchemaBuilder;
use super::{catalog, platform, runs, workers};

/// Tag of an operation: its chapter on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationTag {
    Playbooks,
    Runs,
    Control,
    Signals,
    Data,
    Credentials,
    Workers,
    ClassicWorkers,
    Stream,
    Server,
    Identities,
    Platform,
}

impl OperationTag {
    /// All tags, in the order of the page.
    pub(super) const ALL: [Self; 12] = [
        Self::Playbooks,
        Self::Runs,
        Self::Control,
        Self::Signals,
        Self::Data,
        Self::Credentials,
        Self::Workers,
        Self::ClassicWorkers,
        Self::Stream,
        Self::Server,
        Self::Identities,
        Self::Platform,
    ];

    /// Name and description of the tag.
    pub(super) const fn name_and_description(self) -> (&'static str, &'static str) {
        match self {
            Self::Playbooks => {
                ("Playbooks", "Register, validate and read playbooks and other definitions.")
            }
            Self::Runs => ("Runs", "Start and inspect executions."),
            Self::Control => ("Control", "Pause, resume, cancel and rerun executions."),
            Self::Signals => ("Signals", "Send signals and approvals to waiting executions."),
            Self::Data => ("Data", "Results and variables of executions."),
            Self::Credentials => {
                ("Credentials", "Credentials and resolved keychain entries of playbooks.")
            }
            Self::Workers => ("Workers", "Register workers, and lease, renew and report commands."),
            Self::ClassicWorkers => ("Classic workers", "Protocol of workers of earlier releases."),
            Self::Stream => ("Stream", "The stream of all events."),
            Self::Server => ("Server", "Health, status and metadata of the server."),
            Self::Identities => ("Identities", "API tokens and the audit log."),
            Self::Platform => ("Platform", "Internal API between components of the platform."),
        }
    }
}

/// Texts and properties of an operation.
#[derive(Debug, Clone)]
pub(super) struct OperationSpec {
    pub(super) id: &'static str,
    pub(super) method: Method,
    /// Path pattern of the router.
    pub(super) route: &'static str,
    /// Path in the document, if it differs from the route.
    pub(super) path: Option<&'static str>,
    pub(super) tag: OperationTag,
    pub(super) summary: &'static str,
    pub(super) details: &'static str,
    /// Schema of an object whose fields are the query parameters.
    pub(super) query: Option<SchemaBuilder>,
    /// Names of the required query parameters.
    pub(super) required_params: &'static [&'static str],
    /// Schema of the response, if the type of the handler does not determine it.
    pub(super) response: Option<SchemaBuilder>,
    pub(super) media_types: &'static [&'static str],
    /// Response headers with their descriptions.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// Error codes in addition to those of every operation of the same shape.
    pub(super) error_codes: &'static [ErrorCode],
    /// Second status with the same response body.
    pub(super) also_status: Option<u16>,
    /// True if the operation changes nothing, even if its method is not GET.
    pub(super) read_only: bool,
    pub(super) is_deprecated: bool,
    pub(super) example: Option<Value>,
}

pub(super) fn new_operation(
    method: Method,
    id: &'static str,
    route: &'static str,
    tag: OperationTag,
    summary: &'static str,
) -> OperationSpec {
    OperationSpec {
        id,
        read_only: method == Method::GET,
        method,
        route,
        path: None,
        tag,
        summary,
        details: "",
        query: None,
        required_params: &[],
        response: None,
        media_types: &["application/json"],
        headers: &[],
        error_codes: &[],
        also_status: None,
        is_deprecated: false,
        example: None,
    }
}

pub(super) fn get_operation(
    id: &'static str,
    route: &'static str,
    tag: OperationTag,
    summary: &'static str,
) -> OperationSpec {
    new_operation(Method::GET, id, route, tag, summary)
}

pub(super) fn post_operation(
    id: &'static str,
    route: &'static str,
    tag: OperationTag,
    summary: &'static str,
) -> OperationSpec {
    new_operation(Method::POST, id, route, tag, summary)
}

pub(super) fn put_operation(
    id: &'static str,
    route: &'static str,
    tag: OperationTag,
    summary: &'static str,
) -> OperationSpec {
    new_operation(Method::PUT, id, route, tag, summary)
}

pub(super) fn delete_operation(
    id: &'static str,
    route: &'static str,
    tag: OperationTag,
    summary: &'static str,
) -> OperationSpec {
    new_operation(Method::DELETE, id, route, tag, summary)
}

impl OperationSpec {
    pub(super) fn with_path(self, path: &'static str) -> Self {
        Self { path: Some(path), ..self }
    }

    pub(super) fn details(self, details: &'static str) -> Self {
        Self { details, ..self }
    }

    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    pub(super) fn required_params(self, required_params: &'static [&'static str]) -> Self {
        Self { required_params, ..self }
    }

    pub(super) fn with_response<T: JsonSchema>(self) -> Self {
        Self { response: Some(SchemaGenerator::subschema_for::<T>), ..self }
    }

    pub(super) fn with_media_types(self, media_types: &'static [&'static str]) -> Self {
        Self { media_types, ..self }
    }

    pub(super) fn headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    pub(super) fn error_codes(self, error_codes: &'static [ErrorCode]) -> Self {
        Self { error_codes, ..self }
    }

    pub(super) fn also_status(self, status: u16) -> Self {
        Self { also_status: Some(status), ..self }
    }

    pub(super) fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    pub(super) fn deprecated(self) -> Self {
        Self { is_deprecated: true, ..self }
    }

    pub(super) fn example(self, example: Value) -> Self {
        Self { example: Some(example), ..self }
    }
}

/// All operations.
pub(super) fn all_operations() -> Vec<OperationSpec> {
    let mut all = catalog::catalog_operations();
    all.extend(runs::execution_operations());
    all.extend(workers::worker_operations());
    all.extend(platform::platform_operations());
    all
}
