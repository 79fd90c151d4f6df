//! A few words about each operation: what no type can tell.
//!
//! A route that is not here fails the test of the document, and so does an entry without a route.

mod catalog;
mod platform;
mod queries;
mod runs;
mod workers;

use axum::http::Method;
use noetl_types::ErrorCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::describe::Made;
use crate::http::tests::METHODS;

/// What an operation is about: its chapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Playbooks,
    Runs,
    Steering,
    Signals,
    Data,
    Credentials,
    Workers,
    ClassicWorkers,
    Stream,
    Server,
    Identities,
    Platform,
    NotSupported,
}

impl Tag {
    /// In the order of the page.
    pub(super) const ALL: [Self; 13] = [
        Self::Playbooks,
        Self::Runs,
        Self::Steering,
        Self::Signals,
        Self::Data,
        Self::Credentials,
        Self::Workers,
        Self::ClassicWorkers,
        Self::Stream,
        Self::Server,
        Self::Identities,
        Self::Platform,
        Self::NotSupported,
    ];

    /// Its name, and what it holds.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Playbooks => ("Playbooks", "Definitions: registered, checked, listed."),
            Self::Runs => ("Runs", "Runs begin and are looked at."),
            Self::Steering => ("Steering", "Runs are held, ended and run again."),
            Self::Signals => ("Signals", "Signals and decisions reach runs that wait."),
            Self::Data => ("Data", "Results and variables beside the log of a run."),
            Self::Credentials => ("Credentials", "Secrets that playbooks name."),
            Self::Workers => ("Workers", "Workers get, keep and report commands."),
            Self::ClassicWorkers => (
                "Classic workers",
                "The wire of workers of earlier releases.",
            ),
            Self::Stream => ("Stream", "All events of the log."),
            Self::Server => ("Server", "Whether and how the server is."),
            Self::Identities => ("Identities", "Tokens, and the trail of what was done."),
            Self::Platform => (
                "Platform",
                "What the parts of the platform ask of each other.",
            ),
            Self::NotSupported => ("Not supported", "Known by name, and not done here."),
        }
    }
}

/// What is said about an operation.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) id: &'static str,
    pub(super) method: Method,
    /// As the router has it.
    pub(super) route: &'static str,
    /// As the document has it, where the two differ.
    pub(super) path: Option<&'static str>,
    pub(super) tag: Tag,
    pub(super) summary: &'static str,
    pub(super) details: &'static str,
    /// An object whose fields are the parameters.
    pub(super) query: Option<Made>,
    /// Those of them that must be there.
    pub(super) needs: &'static [&'static str],
    /// The answer, where the handler's type does not tell it.
    pub(super) answer: Option<Made>,
    pub(super) media_types: &'static [&'static str],
    /// Headers of the answer.
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// Beside what every operation of its shape may fail with.
    pub(super) fails: &'static [ErrorCode],
    /// Another status under which the same answer comes.
    pub(super) also: Option<u16>,
    /// Whether it changes nothing, whatever its method is.
    pub(super) only_reads: bool,
    pub(super) is_deprecated: bool,
    pub(super) example: Option<Value>,
}

fn new(
    method: Method,
    id: &'static str,
    route: &'static str,
    tag: Tag,
    summary: &'static str,
) -> Operation {
    Operation {
        id,
        only_reads: method == Method::GET,
        method,
        route,
        path: None,
        tag,
        summary,
        details: "",
        query: None,
        needs: &[],
        answer: None,
        media_types: &["application/json"],
        headers: &[],
        fails: &[],
        also: None,
        is_deprecated: false,
        example: None,
    }
}

fn get(id: &'static str, route: &'static str, tag: Tag, summary: &'static str) -> Operation {
    new(Method::GET, id, route, tag, summary)
}

fn post(id: &'static str, route: &'static str, tag: Tag, summary: &'static str) -> Operation {
    new(Method::POST, id, route, tag, summary)
}

fn put(id: &'static str, route: &'static str, tag: Tag, summary: &'static str) -> Operation {
    new(Method::PUT, id, route, tag, summary)
}

fn delete(id: &'static str, route: &'static str, tag: Tag, summary: &'static str) -> Operation {
    new(Method::DELETE, id, route, tag, summary)
}

impl Operation {
    fn at(self, path: &'static str) -> Self {
        Self {
            path: Some(path),
            ..self
        }
    }

    fn details(self, details: &'static str) -> Self {
        Self { details, ..self }
    }

    fn query<T: JsonSchema>(self) -> Self {
        Self {
            query: Some(T::json_schema),
            ..self
        }
    }

    fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    fn answers<T: JsonSchema>(self) -> Self {
        Self {
            answer: Some(SchemaGenerator::subschema_for::<T>),
            ..self
        }
    }

    fn of_media(self, media_types: &'static [&'static str]) -> Self {
        Self {
            media_types,
            ..self
        }
    }

    fn headers(self, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self { headers, ..self }
    }

    fn fails(self, fails: &'static [ErrorCode]) -> Self {
        Self { fails, ..self }
    }

    fn also(self, status: u16) -> Self {
        Self {
            also: Some(status),
            ..self
        }
    }

    fn only_reads(self) -> Self {
        Self {
            only_reads: true,
            ..self
        }
    }

    fn deprecated(self) -> Self {
        Self {
            is_deprecated: true,
            ..self
        }
    }

    fn example(self, example: Value) -> Self {
        Self {
            example: Some(example),
            ..self
        }
    }
}

/// What is known by name alone, as its own address tells.
pub(super) fn not_supported(method: &str, route: &str) -> Operation {
    let method = METHODS.iter().find(|(_, known)| known.as_str() == method);
    let (_, method) = method.cloned().unwrap();
    let words = route.replace("/api/", "").replace(['{', '}', '*'], "");
    let id = format!("{}_{}", method.as_str(), words.replace(['/', '-'], "_"));
    Operation {
        // The document is made once, by a test.
        id: id.to_ascii_lowercase().leak(),
        method,
        route: route.to_owned().leak(),
        ..get(
            "",
            "",
            Tag::NotSupported,
            "Answers `not_supported`, and changes nothing",
        )
    }
}

/// All of them.
pub(super) fn all() -> Vec<Operation> {
    let mut all = catalog::operations();
    all.extend(runs::operations());
    all.extend(workers::operations());
    all.extend(platform::operations());
    all
}
