//! Parses a text into the model. Reports all mistakes and parses as much as possible.

mod looping;
mod output;
mod playbook;
mod policy;
mod reader;
mod resource;
mod routing;
mod schedule;
mod step;
mod subscription;
mod tool;
mod values;

use std::sync::Arc;

use crate::diag::{Code, DiagnosticSink};
use crate::model::{Document, OtherDocument};
use crate::source::DocumentText;
use crate::yaml::{YamlError, YamlNode, load_yaml};

pub(crate) use playbook::step_name;

use reader::{MapReader, read_text};

/// Options of the checker.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Reports each use of an extension to the classic language.
    pub portable: bool,
    /// Cargo features of the build that will run the document. `None` if unknown.
    pub features: Option<Vec<String>>,
    /// Contents of the catalog. `None` if no catalog is available.
    pub catalog: Option<CatalogNames>,
}

/// Names that a catalog contains.
#[derive(Debug, Clone, Default)]
pub struct CatalogNames {
    /// Paths of playbooks.
    pub playbooks: Vec<String>,
    /// Names of credentials.
    pub credentials: Vec<String>,
}

/// Result of parsing a text.
pub(crate) struct ParsedDocument<'t> {
    pub(crate) sink: DiagnosticSink<'t>,
    pub(crate) root: Option<YamlNode>,
    pub(crate) document: Option<Document>,
}

/// Parses a text.
pub(crate) fn parse<'t>(source: &'t str, options: &CheckOptions) -> ParsedDocument<'t> {
    let mut sink = DiagnosticSink::new(DocumentText::new(source), options.portable);
    let (root, errors) = load_yaml(source);
    for error in errors {
        report_yaml_error(&mut sink, error);
    }
    let document = root.as_ref().and_then(|root| parse_document(&mut sink, root, options));
    ParsedDocument { sink, root, document }
}

fn report_yaml_error(sink: &mut DiagnosticSink<'_>, error: YamlError) {
    match error {
        YamlError::Syntax { span, reason, hint } => {
            let message = format!("invalid YAML: {reason}");
            match hint {
                Some(hint) => sink.add_with_hint(Code::NP001, span, message, hint),
                None => sink.add_finding(Code::NP001, span, message),
            }
        }
        YamlError::DuplicateKey { span, key, first } => {
            let line = sink.source.position(first.start).line;
            sink.add_finding(
                Code::NP002,
                span,
                format!("duplicate key '{key}', first at line {line}"),
            );
        }
        YamlError::TooLarge { limit } => {
            sink.add_finding(
                Code::NP007,
                crate::source::Span::default(),
                format!("document exceeds {limit}"),
            );
        }
        YamlError::SecondDocument { span } => {
            sink.add_with_hint(
                Code::NP008,
                span,
                "more than one document in the file",
                "put each document into a separate file",
            );
        }
    }
}

/// Language versions that each kind of document accepts.
const PLAYBOOK_VERSIONS: [&str; 2] = ["noetl.io/v2", "noetl.io/v10"];
const RESOURCE_VERSIONS: [&str; 1] = ["noetl.io/v1"];

fn parse_document(
    sink: &mut DiagnosticSink<'_>,
    root: &YamlNode,
    options: &CheckOptions,
) -> Option<Document> {
    let mut reader = MapReader::open(sink, "document", "document", root)?;
    let Some(entry) = reader.take_entry("kind") else {
        let hint = "start with: apiVersion: noetl.io/v2, kind: Playbook, metadata: {name: …}";
        sink.add_with_hint(Code::NP004, root.head_span(), "'kind' is missing", hint);
        return None;
    };
    let kind = read_text(sink, entry)?;
    match &*kind {
        "Playbook" => {
            let version = parse_api_version(sink, &mut reader, &kind, &PLAYBOOK_VERSIONS);
            let playbook = playbook::parse_playbook(sink, root, options, version)?;
            Some(Document::Playbook(Box::new(playbook)))
        }
        "Subscription" => {
            let version = parse_api_version(sink, &mut reader, &kind, &RESOURCE_VERSIONS);
            let subscription = subscription::parse_subscription(sink, root, version)?;
            Some(Document::Subscription(Box::new(subscription)))
        }
        "Schedule" => {
            sink.note_extension(entry.value.span, "kind: Schedule");
            let version = parse_api_version(sink, &mut reader, &kind, &RESOURCE_VERSIONS);
            let schedule = schedule::parse_schedule(sink, root, version)?;
            Some(Document::Schedule(Box::new(schedule)))
        }
        _ => {
            playbook::report_unknown_kind(sink, entry.value.span, &kind);
            let metadata = root.get("metadata");
            let path = ["path", "name"]
                .iter()
                .find_map(|key| metadata.and_then(|metadata| metadata.get(key)?.as_text()));
            Some(Document::Other(OtherDocument { kind, path: path.cloned() }))
        }
    }
}

fn parse_api_version(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    kind: &str,
    valid_versions: &[&str],
) -> Option<Arc<str>> {
    let entry = reader.require_entry(sink, "apiVersion")?;
    let version = read_text(sink, entry)?;
    if valid_versions.contains(&&*version) {
        return Some(version);
    }
    let message = format!(
        "apiVersion '{version}' is not valid for {kind}; use {}",
        valid_versions.join(" or ")
    );
    sink.add_finding(Code::NP003, entry.value.span, message);
    None
}
