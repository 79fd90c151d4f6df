//! Parses the top level of a playbook.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use crate::diag::{Code, DiagnosticSink};
use crate::model::{
    DocumentMetadata, ExecutorConfig, ExecutorPolicy, ExecutorSpec, KeychainEntry, KeychainKind,
    NamedValues, Playbook, RootConcurrency, RunLimits, RuntimeRequirements, Step, TaskDefaults,
    WorkbookTask,
};
use crate::source::{Span, Spanned};
use crate::template::TemplatePlace;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::CheckOptions;
use super::reader::{
    MapReader, display_scalar, read_bool, read_count, read_duration, read_integer, read_keyword,
    read_list, read_size, read_spanned_text, read_spanned_texts, read_text, report_wrong_type,
};
use super::step::{parse_priority, parse_step};
use super::tool::{ToolContext, parse_task};
use super::values::{parse_dynamic, parse_named_value, parse_named_values, parse_text_setting};

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
    let executor =
        reader.take_entry("executor").map(|entry| parse_executor(sink, entry)).unwrap_or_default();
    let workload =
        reader.take_entry("workload").map(|entry| parse_workload(sink, entry)).unwrap_or_default();
    let keychain =
        reader.take_entry("keychain").map(|entry| parse_keychain(sink, entry)).unwrap_or_default();
    if let Some(entry) = reader.take_nullable("vars") {
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
    let concurrency =
        reader.take_entry("concurrency").and_then(|entry| parse_root_concurrency(sink, entry));
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

/// Parses the metadata of a document.
pub(super) fn parse_metadata(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
) -> Option<DocumentMetadata> {
    let entry = reader.require_entry(sink, "metadata")?;
    let mut reader = MapReader::open(sink, "metadata", "metadata", &entry.value)?;
    let name = reader.require_entry(sink, "name").and_then(|entry| read_text(sink, entry));
    let path = reader.take_entry("path").and_then(|entry| read_text(sink, entry));
    let description = reader.take_entry("description").and_then(|entry| read_text(sink, entry));
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
    let more: JsonMap = reader
        .unread_entries()
        .map(|entry| (Arc::clone(&entry.key), entry.value.to_json()))
        .collect();
    Some(DocumentMetadata { name: name?, path, description, more: Json::from(more) })
}

fn parse_executor(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> ExecutorConfig {
    let Some(mut reader) = MapReader::open(sink, "executor", "executor", &entry.value) else {
        return ExecutorConfig::default();
    };
    let executor = ExecutorConfig {
        requires: reader
            .take_entry("requires")
            .map(|entry| parse_requires(sink, entry))
            .unwrap_or_default(),
        spec: reader
            .take_entry("spec")
            .map(|entry| parse_executor_spec(sink, entry))
            .unwrap_or_default(),
    };
    reader.report_keys_without_effect(sink, &ExecutorConfig::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    executor
}

fn parse_requires(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> RuntimeRequirements {
    let Some(mut reader) = MapReader::open(sink, "requires", "executor.requires", &entry.value)
    else {
        return RuntimeRequirements::default();
    };
    let mut texts = |key| {
        reader.take_entry(key).map(|entry| read_spanned_texts(sink, entry)).unwrap_or_default()
    };
    let requires = RuntimeRequirements { tools: texts("tools"), features: texts("features") };
    reader.report_unread(sink);
    requires
}

fn parse_executor_spec(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> ExecutorSpec {
    let Some(mut reader) = MapReader::open(sink, "spec", "executor.spec", &entry.value) else {
        return ExecutorSpec::default();
    };
    let spec = ExecutorSpec {
        entry_step: reader
            .take_entry("entry_step")
            .and_then(|entry| read_spanned_text(sink, entry)),
        final_step: reader
            .take_entry("final_step")
            .and_then(|entry| read_spanned_text(sink, entry)),
        no_next_is_error: reader
            .take_entry("no_next_is_error")
            .and_then(|entry| read_bool(sink, entry))
            .unwrap_or_default(),
        timeout: reader.take_entry("timeout").and_then(|entry| read_duration(sink, &entry.value)),
        policy: reader
            .take_entry("policy")
            .map(|entry| parse_executor_policy(sink, entry))
            .unwrap_or_default(),
    };
    reader.report_unread(sink);
    spec
}

fn parse_executor_policy(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> ExecutorPolicy {
    let Some(mut reader) = MapReader::open(sink, "policy", "executor.spec.policy", &entry.value)
    else {
        return ExecutorPolicy::default();
    };
    let mut policy = ExecutorPolicy::default();
    if let Some(mut reader) = open_child(sink, &mut reader, "defaults", "policy.defaults") {
        let timeout =
            reader.take_entry("timeout_s").and_then(|entry| read_duration(sink, &entry.value));
        policy.defaults = TaskDefaults { timeout };
        reader.report_unread(sink);
    }
    if let Some(mut reader) = open_child(sink, &mut reader, "results", "policy.results") {
        policy.reference_first = reader
            .take_entry("reference_first")
            .and_then(|entry| read_bool(sink, entry))
            .unwrap_or_default();
        reader.report_unread(sink);
    }
    if let Some(mut reader) = open_child(sink, &mut reader, "limits", "policy.limits") {
        policy.limits = RunLimits {
            max_payload_bytes: reader
                .take_entry("max_payload_bytes")
                .and_then(|entry| read_size(sink, &entry.value)),
            max_step_runs: reader
                .take_entry("max_step_runs")
                .and_then(|entry| read_integer(sink, entry, 1..=1_000_000_000))
                .and_then(|runs| u64::try_from(runs).ok()),
        };
        reader.report_unread(sink);
    }
    policy.keychain = reader
        .take_entry("keychain")
        .and_then(|entry| read_keyword(sink, entry))
        .unwrap_or_default();
    reader.report_unread(sink);
    policy
}

fn open_child<'n>(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'n>,
    key: &'static str,
    context: &'static str,
) -> Option<MapReader<'n>> {
    let entry = reader.take_entry(key)?;
    MapReader::open(sink, key, context, &entry.value)
}

fn parse_workload(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> NamedValues {
    let Some(entries) = entry.value.as_map() else {
        report_wrong_type(sink, "workload", "a map", &entry.value);
        return NamedValues::default();
    };
    NamedValues(
        entries.iter().map(|entry| parse_named_value(sink, entry, TemplatePlace::Start)).collect(),
    )
}

fn parse_keychain(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Vec<KeychainEntry> {
    let items = read_list(sink, entry).unwrap_or_default();
    let mut entries: Vec<KeychainEntry> = Vec::with_capacity(items.len());
    for item in items {
        let Some(entry) = parse_keychain_entry(sink, item) else {
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

fn parse_keychain_entry(sink: &mut DiagnosticSink<'_>, node: &YamlNode) -> Option<KeychainEntry> {
    let mut reader = MapReader::open(sink, "keychain", "keychain entry", node)?;
    let name = reader
        .require_entry(sink, "name")
        .and_then(|entry| super::reader::read_name(sink, entry, true));
    let kind =
        reader.require_entry(sink, "kind").and_then(|entry| parse_keychain_kind(sink, entry));
    if let Some(provider) = reader.take_entry("provider") {
        let message = format!(
            "secret manager '{}' is not part of this build",
            display_scalar(&provider.value)
        );
        let hint = "store the secret as a credential, and name it in 'auth'";
        sink.add_with_hint(Code::NP402, provider.value.span, message, hint);
    }
    let auth = reader
        .take_entry("auth")
        .or(reader.take_entry("credential"))
        .map(|entry| parse_dynamic(sink, &entry.value));
    let mut entry = KeychainEntry {
        // A placeholder, so that the remaining keys are checked too.
        name: name.clone().unwrap_or_else(|| Spanned::new("".into(), Span::default())),
        kind: kind.unwrap_or(KeychainKind::Credential),
        auth,
        map: reader
            .take_entry("map")
            .map(|entry| parse_named_values(sink, entry))
            .unwrap_or_default(),
        token: reader.take_entry("token").map(|entry| parse_dynamic(sink, &entry.value)),
        endpoint: reader.take_entry("endpoint").map(|entry| parse_dynamic(sink, &entry.value)),
        method: reader.take_entry("method").and_then(|entry| read_text(sink, entry)),
        headers: reader
            .take_entry("headers")
            .map(|entry| parse_named_values(sink, entry))
            .unwrap_or_default(),
        data: reader
            .take_entry("data")
            .map(|entry| parse_named_values(sink, entry))
            .unwrap_or_default(),
    };
    reader.report_keys_without_effect(sink, &KeychainEntry::KEYS_WITHOUT_EFFECT);
    reader.report_unread(sink);
    entry.name = name?;
    kind.map(|_| entry)
}

/// Parses the kind of a keychain entry, including the alias `secrets`.
fn parse_keychain_kind(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry) -> Option<KeychainKind> {
    match entry.value.as_text().map(|text| &**text) {
        Some("secrets") => Some(KeychainKind::SecretManager),
        Some("google_id_token") => {
            let message = "keychain kind 'google_id_token' is not part of this build";
            let hint = "store a token as a credential, and use kind: bearer";
            sink.add_with_hint(Code::NP402, entry.value.span, message, hint);
            None
        }
        Some(_) | None => read_keyword(sink, entry),
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
                    .and_then(|entry| super::reader::read_name(sink, entry, true));
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
    let items = read_list(sink, entry)?;
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

fn parse_root_concurrency(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
) -> Option<RootConcurrency> {
    sink.note_extension(entry.key_span, "concurrency");
    let mut reader = MapReader::open(sink, "concurrency", "concurrency", &entry.value)?;
    let key = reader.require_entry(sink, "key").and_then(|entry| parse_text_setting(sink, entry));
    let limit = reader
        .take_entry("limit")
        .and_then(|entry| Some(Spanned::new(read_count(sink, entry, 1)?, entry.value.span)));
    let overlap = reader
        .take_entry("overlap")
        .and_then(|entry| read_keyword(sink, entry))
        .unwrap_or_default();
    reader.report_unread(sink);
    Some(RootConcurrency {
        key: key?.value,
        limit: limit.unwrap_or(Spanned::new(1, entry.value.span)),
        overlap,
    })
}
