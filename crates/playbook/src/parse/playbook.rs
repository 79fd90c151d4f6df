//! The root of a playbook.

use std::collections::HashMap;
use std::sync::Arc;

use noetl_types::{Json, JsonMap};

use crate::diag::{Code, Sink, near};
use crate::model::{
    Executor, ExecutorPolicy, ExecutorSpec, Fields, KeychainEntry, KeychainKind, KeychainScope,
    Metadata, Playbook, Requires, RootConcurrency, RunLimits, Step, TaskDefaults, WorkbookTask,
};
use crate::source::{Span, Spanned};
use crate::template::Place;
use crate::yaml::{Entry, Node, NodeValue};

use super::CheckOptions;
use super::reader::{
    MapReader, bool, count, duration, integer, list, not_a_word, size, spanned_text, text, texts,
    word, wrong_type,
};
use super::step::{priority, step};
use super::tool::{ToolContext, task};
use super::values::{dynamic, field, fields, text_setting};

/// Reads a playbook.
pub(super) fn playbook(
    sink: &mut Sink<'_>,
    root: &Node,
    options: &CheckOptions,
    api_version: Option<Arc<str>>,
) -> Option<Playbook> {
    let mut reader = MapReader::open(sink, "document", "playbook", root)?;
    reader.know(["apiVersion", "kind"]);
    let metadata = metadata(sink, &mut reader);
    let executor = reader
        .take("executor")
        .map(|entry| executor(sink, entry))
        .unwrap_or_default();
    let workload = reader
        .take("workload")
        .map(|entry| workload(sink, entry))
        .unwrap_or_default();
    let keychain = reader
        .take("keychain")
        .map(|entry| keychain(sink, entry))
        .unwrap_or_default();
    if let Some(entry) = reader.take_raw("vars") {
        let hint = "put defaults of the input under 'workload'; write variables with 'set'";
        sink.hinted(
            Code::NP015,
            entry.key_span,
            "root 'vars' is not supported; use workload or set",
            hint,
        );
    }
    let context = ToolContext {
        workbook: &[],
        features: options.features.as_deref(),
    };
    let workbook = reader
        .take("workbook")
        .map(|entry| workbook(sink, entry, context))
        .unwrap_or_default();
    let context = ToolContext {
        workbook: &workbook,
        ..context
    };
    let steps = reader
        .require(sink, "workflow")
        .and_then(|entry| workflow(sink, entry, context));
    let concurrency = reader
        .take("concurrency")
        .and_then(|entry| concurrency(sink, entry));
    let priority = reader
        .take("priority")
        .and_then(|entry| priority(sink, entry));
    reader.finish(sink);
    // What is missing has been reported, so the document is refused; the rest is worth checking.
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

/// What a document says about itself.
pub(super) fn metadata(sink: &mut Sink<'_>, reader: &mut MapReader<'_>) -> Option<Metadata> {
    let entry = reader.require(sink, "metadata")?;
    let mut reader = MapReader::open(sink, "metadata", "metadata", &entry.value)?;
    let name = reader
        .require(sink, "name")
        .and_then(|entry| text(sink, entry));
    let path = reader.take("path").and_then(|entry| text(sink, entry));
    let description = reader
        .take("description")
        .and_then(|entry| text(sink, entry));
    for key in ["labels", "tags"] {
        let Some(entry) = entry
            .value
            .as_map()
            .unwrap_or_default()
            .iter()
            .find(|entry| &*entry.key == key)
        else {
            continue;
        };
        let fits = match (&entry.value.value, key) {
            (NodeValue::Map(_), "labels") | (NodeValue::List(_) | NodeValue::Text(_), "tags") => {
                true
            }
            (NodeValue::Plain(json), _) => json.is_null(),
            (NodeValue::Map(_) | NodeValue::List(_) | NodeValue::Text(_), _) => false,
        };
        if !fits {
            let wanted = if key == "labels" {
                "a map"
            } else {
                "a list or a text"
            };
            wrong_type(sink, key, wanted, &entry.value);
        }
    }
    let more: JsonMap = reader
        .rest()
        .map(|entry| (Arc::clone(&entry.key), entry.value.to_json()))
        .collect();
    Some(Metadata {
        name: name?,
        path,
        description,
        more: Json::from(more),
    })
}

fn executor(sink: &mut Sink<'_>, entry: &Entry) -> Executor {
    let Some(mut reader) = MapReader::open(sink, "executor", "executor", &entry.value) else {
        return Executor::default();
    };
    let executor = Executor {
        profile: reader.take("profile").and_then(|entry| word(sink, entry)),
        version: reader.take("version").and_then(|entry| text(sink, entry)),
        requires: reader
            .take("requires")
            .map(|entry| requires(sink, entry))
            .unwrap_or_default(),
        spec: reader
            .take("spec")
            .map(|entry| executor_spec(sink, entry))
            .unwrap_or_default(),
    };
    reader.finish(sink);
    executor
}

fn requires(sink: &mut Sink<'_>, entry: &Entry) -> Requires {
    let Some(mut reader) = MapReader::open(sink, "requires", "executor.requires", &entry.value)
    else {
        return Requires::default();
    };
    let requires = Requires {
        tools: reader
            .take("tools")
            .map(|entry| texts(sink, entry))
            .unwrap_or_default(),
        features: reader
            .take("features")
            .map(|entry| texts(sink, entry))
            .unwrap_or_default(),
    };
    reader.finish(sink);
    requires
}

fn executor_spec(sink: &mut Sink<'_>, entry: &Entry) -> ExecutorSpec {
    let Some(mut reader) = MapReader::open(sink, "spec", "executor.spec", &entry.value) else {
        return ExecutorSpec::default();
    };
    let spec = ExecutorSpec {
        entry_step: reader
            .take("entry_step")
            .and_then(|entry| spanned_text(sink, entry)),
        final_step: reader
            .take("final_step")
            .and_then(|entry| spanned_text(sink, entry)),
        no_next_is_error: reader
            .take("no_next_is_error")
            .and_then(|entry| bool(sink, entry))
            .unwrap_or_default(),
        timeout: reader
            .take("timeout")
            .and_then(|entry| duration(sink, &entry.value)),
        policy: reader
            .take("policy")
            .map(|entry| executor_policy(sink, entry))
            .unwrap_or_default(),
    };
    reader.finish(sink);
    spec
}

fn executor_policy(sink: &mut Sink<'_>, entry: &Entry) -> ExecutorPolicy {
    let Some(mut reader) = MapReader::open(sink, "policy", "executor.spec.policy", &entry.value)
    else {
        return ExecutorPolicy::default();
    };
    let mut policy = ExecutorPolicy::default();
    if let Some(mut reader) = open_child(sink, &mut reader, "defaults", "policy.defaults") {
        let timeout = reader
            .take("timeout_s")
            .and_then(|entry| duration(sink, &entry.value));
        policy.defaults = TaskDefaults { timeout };
        reader.finish(sink);
    }
    if let Some(mut reader) = open_child(sink, &mut reader, "results", "policy.results") {
        policy.reference_first = reader
            .take("reference_first")
            .and_then(|entry| bool(sink, entry))
            .unwrap_or_default();
        reader.finish(sink);
    }
    if let Some(mut reader) = open_child(sink, &mut reader, "limits", "policy.limits") {
        policy.limits = RunLimits {
            max_payload_bytes: reader
                .take("max_payload_bytes")
                .and_then(|entry| size(sink, &entry.value)),
            max_step_runs: reader
                .take("max_step_runs")
                .and_then(|entry| integer(sink, entry, 1..=1_000_000_000))
                .and_then(|runs| u64::try_from(runs).ok()),
        };
        reader.finish(sink);
    }
    policy.keychain = reader
        .take("keychain")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    policy
}

fn open_child<'n>(
    sink: &mut Sink<'_>,
    reader: &mut MapReader<'n>,
    key: &'static str,
    place: &'static str,
) -> Option<MapReader<'n>> {
    let entry = reader.take(key)?;
    MapReader::open(sink, key, place, &entry.value)
}

fn workload(sink: &mut Sink<'_>, entry: &Entry) -> Fields {
    let Some(entries) = entry.value.as_map() else {
        wrong_type(sink, "workload", "a map", &entry.value);
        return Fields::default();
    };
    Fields(
        entries
            .iter()
            .map(|entry| field(sink, entry, Place::Start))
            .collect(),
    )
}

fn keychain(sink: &mut Sink<'_>, entry: &Entry) -> Vec<KeychainEntry> {
    let items = list(sink, entry).unwrap_or_default();
    let mut read: Vec<KeychainEntry> = Vec::with_capacity(items.len());
    for item in items {
        let Some(entry) = keychain_entry(sink, item) else {
            continue;
        };
        if read.iter().any(|earlier| earlier.name == entry.name) {
            let message = format!("keychain entry '{}' is declared twice", entry.name.value);
            sink.add(Code::NP604, entry.name.span, message);
        } else {
            read.push(entry);
        }
    }
    read
}

fn keychain_entry(sink: &mut Sink<'_>, node: &Node) -> Option<KeychainEntry> {
    let mut reader = MapReader::open(sink, "keychain", "keychain entry", node)?;
    let name = reader
        .require(sink, "name")
        .and_then(|entry| super::reader::name(sink, entry, true));
    let kind = reader
        .require(sink, "kind")
        .and_then(|entry| aliased_word(sink, entry, "secrets", "secret_manager"));
    let provider = reader
        .take("provider")
        .and_then(|entry| provider(sink, entry));
    let auth = reader
        .take("auth")
        .or(reader.take("credential"))
        .map(|entry| dynamic(sink, &entry.value));
    let mut entry = KeychainEntry {
        // A placeholder while the rest is read for its own mistakes.
        name: name
            .clone()
            .unwrap_or_else(|| Spanned::new("".into(), Span::default())),
        kind: kind.unwrap_or(KeychainKind::Credential),
        scope: reader
            .take("scope")
            .and_then(|entry| aliased_word::<KeychainScope>(sink, entry, "catalog", "shared")),
        provider,
        auth,
        map: reader
            .take("map")
            .map(|entry| fields(sink, entry))
            .unwrap_or_default(),
        token: reader
            .take("token")
            .map(|entry| dynamic(sink, &entry.value)),
        token_type: reader
            .take("token_type")
            .and_then(|entry| text(sink, entry)),
        endpoint: reader
            .take("endpoint")
            .map(|entry| dynamic(sink, &entry.value)),
        method: reader.take("method").and_then(|entry| text(sink, entry)),
        headers: reader
            .take("headers")
            .map(|entry| fields(sink, entry))
            .unwrap_or_default(),
        data: reader
            .take("data")
            .map(|entry| fields(sink, entry))
            .unwrap_or_default(),
        auto_renew: reader
            .take("auto_renew")
            .and_then(|entry| bool(sink, entry)),
        region: reader.take("region").and_then(|entry| text(sink, entry)),
        residency: reader.take("residency").and_then(|entry| word(sink, entry)),
        allowed_regions: reader
            .take("allowed_regions")
            .map(|entry| texts(sink, entry))
            .unwrap_or_default(),
        no_broker_fallback: reader
            .take("no_broker_fallback")
            .and_then(|entry| bool(sink, entry)),
    };
    reader.finish(sink);
    entry.name = name?;
    kind.map(|_| entry)
}

fn aliased_word<W: crate::words::Word>(
    sink: &mut Sink<'_>,
    entry: &Entry,
    alias: &str,
    of: &str,
) -> Option<W> {
    if entry.value.as_text().is_some_and(|text| &**text == alias) {
        return W::from_word(of);
    }
    word(sink, entry)
}

fn provider(sink: &mut Sink<'_>, entry: &Entry) -> Option<Arc<str>> {
    const PROVIDERS: [&str; 5] = ["gcp", "aws", "azure", "vault", "k8s"];
    let provider = text(sink, entry)?;
    if !PROVIDERS.contains(&&*provider) {
        not_a_word(sink, &entry.value, &provider, &PROVIDERS);
    }
    Some(provider)
}

/// A list of `{name, tool}`, or a map under `tasks`.
fn workbook(sink: &mut Sink<'_>, entry: &Entry, context: ToolContext<'_>) -> Vec<WorkbookTask> {
    let mut read = Vec::new();
    match &entry.value.value {
        NodeValue::List(items) => {
            for item in items {
                let Some(mut reader) = MapReader::open(sink, "workbook", "workbook task", item)
                else {
                    continue;
                };
                let name = reader
                    .require(sink, "name")
                    .and_then(|entry| super::reader::name(sink, entry, true));
                read.extend(workbook_task(sink, reader, name, context));
            }
        }
        NodeValue::Map(_) => {
            let Some(mut reader) = MapReader::open(sink, "workbook", "workbook", &entry.value)
            else {
                return read;
            };
            let tasks = reader
                .require(sink, "tasks")
                .and_then(|entry| entry.value.as_map())
                .unwrap_or_default();
            reader.finish(sink);
            for entry in tasks {
                let Some(reader) = MapReader::open(sink, "tasks", "workbook task", &entry.value)
                else {
                    continue;
                };
                let name = Spanned::new(Arc::clone(&entry.key), entry.key_span);
                read.extend(workbook_task(sink, reader, Some(name), context));
            }
        }
        NodeValue::Plain(_) | NodeValue::Text(_) => {
            wrong_type(sink, "workbook", "a list", &entry.value);
        }
    }
    read
}

fn workbook_task(
    sink: &mut Sink<'_>,
    mut reader: MapReader<'_>,
    name: Option<Spanned<Arc<str>>>,
    context: ToolContext<'_>,
) -> Option<WorkbookTask> {
    let tool = reader
        .require(sink, "tool")
        .and_then(|entry| task(sink, &entry.value, name.clone(), context));
    let assert = reader.take("assert").map(|entry| entry.value.to_json());
    let sink_spec = reader.take("sink").map(|entry| entry.value.to_json());
    reader.finish(sink);
    Some(WorkbookTask {
        name: name?,
        tool: tool?,
        assert,
        sink: sink_spec,
    })
}

fn workflow(sink: &mut Sink<'_>, entry: &Entry, context: ToolContext<'_>) -> Option<Vec<Step>> {
    let items = list(sink, entry)?;
    if items.is_empty() {
        sink.add(Code::NP014, entry.value.span, "workflow has no step");
    }
    let mut defined: HashMap<Arc<str>, Span> = HashMap::new();
    let mut steps = Vec::with_capacity(items.len());
    for item in items {
        if let Some(name) = step_name(item) {
            if let Some(first) = defined.get(&name.value) {
                let line = sink.source.position(first.start).line;
                let message = format!("step '{}' is already defined at line {line}", name.value);
                sink.add(Code::NP101, name.span, message);
            } else {
                defined.insert(name.value, name.span);
            }
        }
        steps.extend(step(sink, item, context));
    }
    Some(steps)
}

/// The name of a step, also of one that cannot be read.
pub(crate) fn step_name(node: &Node) -> Option<Spanned<Arc<str>>> {
    let name = node.get("step")?;
    Some(Spanned::new(name.as_text()?.clone(), name.span))
}

fn concurrency(sink: &mut Sink<'_>, entry: &Entry) -> Option<RootConcurrency> {
    sink.addition(entry.key_span, "concurrency");
    let mut reader = MapReader::open(sink, "concurrency", "concurrency", &entry.value)?;
    let key = reader
        .require(sink, "key")
        .and_then(|entry| text_setting(sink, entry));
    let limit = reader
        .take("limit")
        .and_then(|entry| Some(Spanned::new(count(sink, entry, 1)?, entry.value.span)));
    let overlap = reader
        .take("overlap")
        .and_then(|entry| word(sink, entry))
        .unwrap_or_default();
    reader.finish(sink);
    Some(RootConcurrency {
        key: key?.value,
        limit: limit.unwrap_or(Spanned::new(1, entry.value.span)),
        overlap,
    })
}

/// The kinds that are checked, and those that are known to be stored only.
const KINDS: [&str; 7] = [
    "Playbook",
    "Subscription",
    "Schedule",
    "Tool",
    "Model",
    "Mcp",
    "Agent",
];

/// Reports a kind that nobody knows.
pub(super) fn unknown_kind(sink: &mut Sink<'_>, span: Span, kind: &str) {
    if !KINDS.contains(&kind) {
        let near = near(kind, KINDS);
        sink.misspelt(
            Code::NP009,
            span,
            format!("kind '{kind}' is stored unchecked"),
            near,
        );
    }
}
