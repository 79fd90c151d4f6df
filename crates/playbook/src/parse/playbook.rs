//! Parses the top level of a playbook.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::{Json, JsonMap, PlaybookPath};

use crate::diag::{Code, DiagnosticSink, nearest_name_within};
use crate::model::{
    DocumentMetadata, ExecutorConfig, ExecutorPolicy, ExecutorSpec, KeychainEntry, KeychainKind,
    Playbook, ResultsPolicy, RootConcurrency, RunLimits, RuntimeRequirements, Step, TaskDefaults,
    WorkbookTask,
};
use crate::source::{Span, Spanned};
use crate::template::TemplatePlace;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::CheckOptions;
use super::read::{
    MapReader, ReadValue, display_scalar, read_integer, read_list, read_map, read_name,
    report_unknown_key, report_wrong_type,
};
use super::step::{parse_priority, parse_step, read_extension};
use super::tool::{ToolContext, parse_task};
use super::values::read_named_values;

read_map! {
    ExecutorConfig, "executor",
    optional { requires, spec },
    unused ExecutorConfig::KEYS_WITHOUT_EFFECT,
}

read_map! { RuntimeRequirements, "executor.requires", optional { tools, features } }

read_map! {
    ExecutorSpec, "executor.spec",
    optional { entry_step, final_step, final_step_timeout, no_next_is_error, timeout, policy },
}

read_map! {
    ExecutorPolicy, "executor.spec.policy",
    optional { defaults, results, limits, keychain },
}

read_map! { TaskDefaults, "policy.defaults", optional { timeout = "timeout_s" } }

read_map! { ResultsPolicy, "policy.results", optional { reference_first } }

read_map! {
    RunLimits, "policy.limits",
    optional { max_payload_bytes, max_step_runs => read_max_step_runs },
}

read_map! {
    KeychainEntry, "keychain entry",
    required { name => read_name, kind => read_keychain_kind },
    optional { auth | "credential", map, token, endpoint, method, headers, data },
    known ["provider"],
    unused KeychainEntry::KEYS_WITHOUT_EFFECT,
}

read_map! {
    RootConcurrency, "concurrency",
    required { key }, optional { limit: Spanned::new(1, Span::default()), overlap },
}

/// Parses a playbook.
pub(super) fn parse_playbook(
    sink: &mut DiagnosticSink<'_>,
    root: &YamlNode,
    options: &CheckOptions,
    api_version: Option<Arc<str>>,
) -> Option<Playbook> {
    let mut reader = MapReader::open(sink, "document", "playbook", root)?;
    reader.mark_known(["apiVersion", "kind"]);
    let metadata = parse_metadata(sink, &mut reader);
    let executor = reader.read(sink, "executor").unwrap_or_default();
    let workload = reader
        .take_entry("workload")
        .and_then(|entry| read_named_values(sink, "workload", &entry.value, TemplatePlace::Start))
        .unwrap_or_default();
    let keychain =
        reader.take_entry("keychain").map(|entry| parse_keychain(sink, entry)).unwrap_or_default();
    if let Some(entry) = reader.take_unsupported("vars") {
        let hint = "put defaults of the input under 'workload'; write variables with 'set'";
        sink.add_with_hint(
            Code::NP015,
            entry.key_span,
            "root 'vars' is not supported; use workload or set",
            hint,
        );
    }
    let context = ToolContext { workbook: &[], features: options.features };
    let workbook = reader
        .take_entry("workbook")
        .map(|entry| parse_workbook(sink, entry, context))
        .unwrap_or_default();
    let context = ToolContext { workbook: &workbook, ..context };
    let steps = reader
        .require_entry(sink, "workflow")
        .and_then(|entry| parse_workflow(sink, entry, context));
    let concurrency = read_extension(sink, &mut reader, "concurrency");
    let priority = reader.take_entry("priority").and_then(|entry| parse_priority(sink, entry));
    reader.report_unread(sink);
    // Missing keys have been reported, so the document is rejected. The rest is still checked.
    Some(Playbook {
        api_version: api_version.unwrap_or_default(),
        kind: "Playbook".into(),
        metadata: metadata.unwrap_or_default(),
        executor,
        workload,
        keychain,
        workbook,
        workflow: steps.unwrap_or_default(),
        concurrency,
        priority,
    })
}

/// Reads the path of a document in the catalog.
pub(super) fn read_document_path(
    sink: &mut DiagnosticSink<'_>,
    text: &Spanned<Arc<str>>,
) -> Option<Arc<str>> {
    match PlaybookPath::new(Arc::clone(&text.value)) {
        Ok(path) => Some(path.as_str().into()),
        Err(error) => {
            let message = format!("'{}' is not a valid path: {error}", text.value);
            sink.add_finding(Code::NP013, text.span, message);
            None
        }
    }
}

/// Parses the metadata of a document.
pub(super) fn parse_metadata(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<DocumentMetadata> {
    let entry = reader.require_entry(sink, "metadata")?;
    let mut reader = MapReader::open(sink, "metadata", "metadata", &entry.value)?;
    let name: Option<Spanned<Arc<str>>> = reader.require(sink, "name");
    let path: Option<Spanned<Arc<str>>> = reader.read(sink, "path");
    let path = match path.as_ref().or(name.as_ref()) {
        Some(text) => {
            read_document_path(sink, text).filter(|found| path.is_some() || *found != text.value)
        }
        None => None,
    };
    let name = name.map(|name| name.value);
    let description = reader.read(sink, "description");
    for key in ["labels", "tags"] {
        let Some(entry) =
            entry.value.as_map().unwrap_or_default().iter().find(|entry| &*entry.key == key)
        else {
            continue;
        };
        let has_valid_type = match (&entry.value.value, key) {
            (NodeValue::Map(_), "labels") | (NodeValue::List(_) | NodeValue::Text(_), "tags") => {
                true
            }
            (NodeValue::Plain(json), _) => json.is_null(),
            (NodeValue::Map(_) | NodeValue::List(_) | NodeValue::Text(_), _) => false,
        };
        if !has_valid_type {
            let expected = if key == "labels" { "a map" } else { "a list or text" };
            report_wrong_type(sink, key, expected, &entry.value);
        }
    }
    // Other keys are kept, so a key is misspelled only if it is one edit away from a known key.
    let keys = ["name", "path", "description"].into_iter().chain(DocumentMetadata::OTHER_KEYS);
    for entry in reader.unread_entries() {
        let is_known = DocumentMetadata::OTHER_KEYS.contains(&&*entry.key);
        let nearest = nearest_name_within(1, &entry.key, keys.clone());
        if !is_known && nearest.is_some() {
            report_unknown_key(sink, "metadata", entry, nearest);
        }
    }
    let more: JsonMap = reader
        .unread_entries()
        .map(|entry| (Arc::clone(&entry.key), entry.value.to_json()))
        .collect();
    Some(DocumentMetadata { name: name?, path, description, more: Json::from(more) })
}

#[expect(clippy::option_option, reason = "the outer option says whether the value is valid")]
fn read_max_step_runs(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<Option<u64>> {
    let runs = read_integer(sink, key, node, 1..=1_000_000_000)?;
    Some(u64::try_from(runs).ok())
}

fn parse_keychain(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Vec<KeychainEntry> {
    let items = read_list(sink, &entry.key, &entry.value).unwrap_or_default();
    let mut entries: Vec<KeychainEntry> = Vec::with_capacity(items.len());
    for item in items {
        if let Some(provider) = item.get("provider").filter(|provider| !provider.is_null()) {
            let provider_name = display_scalar(provider);
            let message = format!("secret manager '{provider_name}' is not part of this build");
            let hint = "store the secret as a credential, and name it in 'auth'";
            sink.add_with_hint(Code::NP402, provider.span, message, hint);
        }
        let Some(entry) = KeychainEntry::read_value(sink, "keychain", item) else {
            continue;
        };
        if entries.iter().any(|earlier| earlier.name == entry.name) {
            let message = format!("keychain entry '{}' is declared twice", entry.name.value);
            sink.add_finding(Code::NP604, entry.name.span, message);
        } else {
            entries.push(entry);
        }
    }
    entries
}

/// Reads the kind of a keychain entry, including the alias `secrets`.
fn read_keychain_kind(
    sink: &mut DiagnosticSink<'_>,
    key: &str,
    node: &YamlNode,
) -> Option<KeychainKind> {
    match node.as_text().map(|text| &**text) {
        Some("secrets") => Some(KeychainKind::SecretManager),
        Some("google_id_token") => {
            let message = "keychain kind 'google_id_token' is not part of this build";
            let hint = "store a token as a credential, and use kind: bearer";
            sink.add_with_hint(Code::NP402, node.span, message, hint);
            None
        }
        Some(_) | None => KeychainKind::read_value(sink, key, node),
    }
}

/// Parses a list of `{name, tool}`, or a map under `tasks`.
fn parse_workbook(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    context: ToolContext<'_>,
) -> Vec<WorkbookTask> {
    let mut workbook = Vec::new();
    match &entry.value.value {
        NodeValue::List(items) => {
            for item in items {
                let Some(mut reader) = MapReader::open(sink, "workbook", "workbook task", item)
                else {
                    continue;
                };
                let name = reader
                    .require_entry(sink, "name")
                    .and_then(|entry| read_name(sink, &entry.key, &entry.value));
                workbook.extend(parse_workbook_task(sink, reader, name, context));
            }
        }
        NodeValue::Map(_) => {
            let Some(mut reader) = MapReader::open(sink, "workbook", "workbook", &entry.value)
            else {
                return workbook;
            };
            let tasks = reader
                .require_entry(sink, "tasks")
                .and_then(|entry| entry.value.as_map())
                .unwrap_or_default();
            reader.report_unread(sink);
            for entry in tasks {
                let Some(reader) = MapReader::open(sink, "tasks", "workbook task", &entry.value)
                else {
                    continue;
                };
                let name = Spanned::new(Arc::clone(&entry.key), entry.key_span);
                workbook.extend(parse_workbook_task(sink, reader, Some(name), context));
            }
        }
        NodeValue::Plain(_) | NodeValue::Text(_) => {
            report_wrong_type(sink, "workbook", "a list", &entry.value);
        }
    }
    workbook
}

fn parse_workbook_task(
    sink: &mut DiagnosticSink<'_>,
    mut reader: MapReader<'_>,
    name: Option<Spanned<Arc<str>>>,
    context: ToolContext<'_>,
) -> Option<WorkbookTask> {
    let tool = reader
        .require_entry(sink, "tool")
        .and_then(|entry| parse_task(sink, &entry.value, name.clone(), context));
    reader.report_keys_without_effect(sink, &WorkbookTask::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    Some(WorkbookTask { name: name?, tool: tool? })
}

fn parse_workflow(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    context: ToolContext<'_>,
) -> Option<Vec<Step>> {
    let items = read_list(sink, &entry.key, &entry.value)?;
    if items.is_empty() {
        sink.add_finding(Code::NP014, entry.value.span, "workflow has no steps");
    }
    let mut defined: HashMap<Arc<str>, Span> = HashMap::new();
    let mut steps = Vec::with_capacity(items.len());
    for item in items {
        if let Some(name) = step_name(item) {
            if let Some(first) = defined.get(&name.value) {
                let line = sink.source.position(first.start).line;
                let message = format!("step '{}' is already defined at line {line}", name.value);
                sink.add_finding(Code::NP101, name.span, message);
            } else {
                defined.insert(name.value, name.span);
            }
        }
        steps.extend(parse_step(sink, item, context));
    }
    Some(steps)
}

/// Returns the name of a step, even if the step is invalid.
pub(crate) fn step_name(node: &YamlNode) -> Option<Spanned<Arc<str>>> {
    let name = node.get("step")?;
    Some(Spanned::new(name.as_text()?.clone(), name.span))
}
