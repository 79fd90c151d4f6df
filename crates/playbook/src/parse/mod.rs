//! From a text to the model: every mistake is reported, whatever can be read is read.

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

use crate::diag::{Code, Sink};
use crate::model::{Document, OtherDocument};
use crate::source::Source;
use crate::yaml::{Node, YamlFault, load};

pub(crate) use playbook::step_name;

use reader::{MapReader, text};

/// What the checker knows besides the document.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Notes each use of an addition to the classic language.
    pub portable: bool,
    /// Cargo features of the build that will run the document; `None` where that is not known.
    pub features: Option<Vec<String>>,
    /// What the catalog holds; `None` where there is none to ask.
    pub catalog: Option<CatalogNames>,
}

/// Names that a catalog holds.
#[derive(Debug, Clone, Default)]
pub struct CatalogNames {
    /// Paths of playbooks.
    pub playbooks: Vec<String>,
    /// Names of credentials.
    pub credentials: Vec<String>,
}

/// A text that was read.
pub(crate) struct Parsed<'t> {
    pub(crate) sink: Sink<'t>,
    pub(crate) root: Option<Node>,
    pub(crate) document: Option<Document>,
}

/// Reads a text.
pub(crate) fn parse<'t>(source: &'t str, options: &CheckOptions) -> Parsed<'t> {
    let mut sink = Sink::new(Source::new(source), options.portable);
    let (root, faults) = load(source);
    for fault in faults {
        report(&mut sink, fault);
    }
    let document = root
        .as_ref()
        .and_then(|root| document(&mut sink, root, options));
    Parsed {
        sink,
        root,
        document,
    }
}

fn report(sink: &mut Sink<'_>, fault: YamlFault) {
    match fault {
        YamlFault::Syntax { span, reason, hint } => {
            let message = format!("invalid YAML: {reason}");
            match hint {
                Some(hint) => sink.hinted(Code::NP001, span, message, hint),
                None => sink.add(Code::NP001, span, message),
            }
        }
        YamlFault::DuplicateKey { span, key, first } => {
            let line = sink.source.position(first.start).line;
            sink.add(
                Code::NP002,
                span,
                format!("duplicate key '{key}', first at line {line}"),
            );
        }
        YamlFault::TooLarge { limit } => {
            sink.add(
                Code::NP007,
                crate::source::Span::default(),
                format!("document exceeds {limit}"),
            );
        }
        YamlFault::SecondDocument { span } => {
            sink.hinted(
                Code::NP008,
                span,
                "more than one document in the file",
                "put each document into a file of its own",
            );
        }
    }
}

/// Versions of the language and the kinds that they fit.
const PLAYBOOK_VERSIONS: [&str; 2] = ["noetl.io/v2", "noetl.io/v10"];
const RESOURCE_VERSIONS: [&str; 1] = ["noetl.io/v1"];

fn document(sink: &mut Sink<'_>, root: &Node, options: &CheckOptions) -> Option<Document> {
    let mut reader = MapReader::open(sink, "document", "document", root)?;
    let Some(entry) = reader.take("kind") else {
        let hint = "start with: apiVersion: noetl.io/v2, kind: Playbook, metadata: {name: …}";
        sink.hinted(Code::NP004, root.head(), "'kind' is missing", hint);
        return None;
    };
    let kind = text(sink, entry)?;
    match &*kind {
        "Playbook" => {
            let version = api_version(sink, &mut reader, &kind, &PLAYBOOK_VERSIONS);
            let playbook = playbook::playbook(sink, root, options, version)?;
            Some(Document::Playbook(Box::new(playbook)))
        }
        "Subscription" => {
            let version = api_version(sink, &mut reader, &kind, &RESOURCE_VERSIONS);
            let subscription = subscription::subscription(sink, root, version)?;
            Some(Document::Subscription(Box::new(subscription)))
        }
        "Schedule" => {
            sink.addition(entry.value.span, "kind: Schedule");
            let version = api_version(sink, &mut reader, &kind, &RESOURCE_VERSIONS);
            let schedule = schedule::schedule(sink, root, version)?;
            Some(Document::Schedule(Box::new(schedule)))
        }
        _ => {
            playbook::unknown_kind(sink, entry.value.span, &kind);
            let metadata = root.get("metadata");
            let path = ["path", "name"]
                .iter()
                .find_map(|key| metadata.and_then(|metadata| metadata.get(key)?.as_text()));
            Some(Document::Other(OtherDocument {
                kind,
                path: path.cloned(),
            }))
        }
    }
}

fn api_version(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'_>,
    kind: &str,
    valid: &[&str],
) -> Option<Arc<str>> {
    let entry = reader.require(sink, "apiVersion")?;
    let version = text(sink, entry)?;
    if valid.contains(&&*version) {
        return Some(version);
    }
    let message = format!(
        "apiVersion '{version}' is not valid for {kind}; use {}",
        valid.join(" or ")
    );
    sink.add(Code::NP003, entry.value.span, message);
    None
}
