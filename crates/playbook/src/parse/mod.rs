//! Parses a text into the model. Reports all mistakes and parses as much as possible.

mod looping;
mod output;
mod playbook;
mod policy;

mod read;
mod routing;
mod step;
mod tool;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{BUILD_FEATURES, Document, OtherDocument};
use crate::source::{DocumentText, Spanned};
use crate::yaml::{YamlError, YamlNode, load_yaml};

pub(crate) use playbook::step_name;
pub(crate) use tool::report_missing_kind;

use read::{MapReader, ReadValue as _};

/// Options of the checker.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Reports each use of an extension to the classic language.
    pub portable: bool,
    /// Cargo features of the build that will run the document. `None` if unknown.
    pub features: Option<&'static [&'static str]>,
    /// Entries that exist. References to others are reported.
    pub catalog: CatalogNames,
}

impl CheckOptions {
    /// Options for documents that this build runs.
    pub fn for_this_build() -> Self {
        Self { features: Some(BUILD_FEATURES), ..Self::default() }
    }
}

/// Names of catalog entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogNames {
    /// Paths of playbooks. `None` if they are unknown.
    pub playbooks: Option<BTreeSet<String>>,
    /// Names of credentials. `None` if they are unknown.
    pub credentials: Option<BTreeSet<String>>,
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

/// Language versions that a playbook accepts.
const PLAYBOOK_VERSIONS: [&str; 2] = ["noetl.io/v2", "noetl.io/v10"];

/// Kinds that start runs in other runtimes but not in this release, and what to use instead.
const KINDS_WITHOUT_RUNNER: [(&str, &str, &str); 2] = [
    ("Schedule", "schedules", "start runs with `noetl exec` from cron or a systemd timer"),
    ("Subscription", "subscriptions", "start runs with `noetl exec` from a message consumer"),
];

/// Kinds that are checked or rejected, and known kinds that are only stored.
const KNOWN_KINDS: [&str; 7] =
    ["Playbook", "Subscription", "Schedule", "Tool", "Model", "Mcp", "Agent"];

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
    let kind = Arc::<str>::read_value(sink, &entry.key, &entry.value)?;
    if &*kind == "Playbook" {
        let version = parse_api_version(sink, &mut reader);
        let playbook = playbook::parse_playbook(sink, root, options, version)?;
        return Some(Document::Playbook(Box::new(playbook)));
    }
    if let Some((_, noun, hint)) = KINDS_WITHOUT_RUNNER.iter().find(|(name, ..)| *name == &*kind) {
        let message = format!("this release does not run {noun}");
        sink.add_with_hint(Code::NP021, entry.value.span, message, *hint);
        return None;
    }
    if !KNOWN_KINDS.contains(&&*kind) {
        let nearest = nearest_name(&kind, KNOWN_KINDS);
        let message = format!("kind '{kind}' is stored unchecked");
        sink.add_with_suggestion(Code::NP009, entry.value.span, message, nearest);
    }
    let metadata = root.get("metadata");
    let path = ["path", "name"].iter().find_map(|key| {
        let node = metadata?.get(key)?;
        Some(Spanned::new(Arc::clone(node.as_text()?), node.span))
    });
    let path = path.and_then(|path| playbook::read_document_path(sink, &path));
    Some(Document::Other(OtherDocument { kind, path }))
}

fn parse_api_version(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<Arc<str>> {
    let version: Spanned<Arc<str>> = reader.require(sink, "apiVersion")?;
    if PLAYBOOK_VERSIONS.contains(&&**version) {
        return Some(version.value);
    }
    let message = format!(
        "apiVersion '{}' is not valid for Playbook; use {}",
        version.value,
        PLAYBOOK_VERSIONS.join(" or ")
    );
    sink.add_finding(Code::NP003, version.span, message);
    None
}
