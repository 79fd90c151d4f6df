//! Parses tools: single tasks, pipelines, and the keys of each tool kind.

use std::sync::Arc;

use noetl_types::Json;
use noetl_types::time::Millis;

use crate::diag::{Code, DiagnosticSink, nearest_name};
use crate::model::{
    KeyType, KindKey, NamedValue, NamedValues, RESERVED_KINDS, SetClause, Task, TaskPolicy,
    TaskSpec, Tool, ToolKind, WorkbookTask,
};
use crate::source::{Span, Spanned};
use crate::template::TemplatePlace;
use crate::yaml::{NodeValue, YamlEntry, YamlNode};

use super::policy::parse_legacy_retry;
use super::read::{
    MapReader, NAME_SEPARATORS, ReadValue, is_name, read_keyword, report_no_effect,
    report_unknown_key, report_wrong_type,
};
use super::routing::report_deprecated_key;
use super::values::{SetPlace, is_template, parse_dynamic, parse_named_value, parse_set};

/// Information about the playbook that is required to parse a task.
#[derive(Clone, Copy)]
pub(super) struct ToolContext<'c> {
    pub(super) workbook: &'c [WorkbookTask],
    /// Cargo features of the build that will run the playbook, if known.
    pub(super) features: Option<&'c [&'c str]>,
}

/// Parses the tool of a step.
pub(super) fn parse_tool(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    step: &Spanned<Arc<str>>,
    context: ToolContext<'_>,
) -> Option<Tool> {
    match &entry.value.value {
        NodeValue::Map(_) => {
            let task = parse_task(sink, &entry.value, Some(step.clone()), context)?;
            Some(Tool::Single(Box::new(task)))
        }
        NodeValue::List(items) if items.is_empty() => {
            sink.add_finding(
                Code::NP406,
                entry.value.span,
                format!("pipeline of '{}' is empty", step.value),
            );
            None
        }
        NodeValue::List(items) => parse_pipeline(sink, items, step, context),
        NodeValue::Plain(_) | NodeValue::Text(_) => {
            report_wrong_type(sink, "tool", "a map with 'kind', or a list of them", &entry.value);
            None
        }
    }
}

fn parse_pipeline(
    sink: &mut DiagnosticSink<'_>,
    items: &[YamlNode],
    step: &Spanned<Arc<str>>,
    context: ToolContext<'_>,
) -> Option<Tool> {
    let mut tasks: Vec<Task> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let Some(task) = parse_pipeline_item(sink, item, index, context) else {
            continue;
        };
        if tasks.iter().any(|earlier| earlier.label == task.label) {
            let message = format!("label '{}' is used twice in '{}'", task.label.value, step.value);
            sink.add_finding(Code::NP408, task.label.span, message);
        } else {
            tasks.push(task);
        }
    }
    (tasks.len() == items.len()).then_some(Tool::Pipeline(tasks))
}

/// Parses `{name: L, kind: …}`, `{kind: …}` or `{L: {kind: …}}`.
fn parse_pipeline_item(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    index: usize,
    context: ToolContext<'_>,
) -> Option<Task> {
    if node.get("kind").is_some() {
        let label = match node.get("name") {
            Some(name) => Spanned::read_value(sink, "name", name)?,
            None => Spanned::new(format!("task_{index}").into(), node.head_span()),
        };
        return parse_task(sink, node, Some(label), context);
    }
    if let Some([entry]) = node.as_map()
        && entry.value.as_map().is_some()
    {
        let label = Spanned::new(Arc::clone(&entry.key), entry.key_span);
        return parse_task(sink, &entry.value, Some(label), context);
    }
    let hint = "write {name: <label>, kind: <kind>, …} or {<label>: {kind: <kind>, …}}";
    sink.add_with_hint(
        Code::NP407,
        node.head_span(),
        "pipeline item needs 'kind' or exactly one label",
        hint,
    );
    None
}

/// Parses a task. If no label is given, its `name` is the label.
pub(super) fn parse_task(
    sink: &mut DiagnosticSink<'_>,
    node: &YamlNode,
    label: Option<Spanned<Arc<str>>>,
    context: ToolContext<'_>,
) -> Option<Task> {
    let mut reader = MapReader::open(sink, "tool", "tool", node)?;
    let kind_entry = reader.require_entry(sink, "kind")?;
    let kind = parse_kind(sink, kind_entry, context.features)?;
    let own_name: Option<Spanned<Arc<str>>> = reader.read(sink, "name");
    let label = label
        .or_else(|| own_name.clone())
        .unwrap_or_else(|| Spanned::new("task".into(), node.head_span()));
    check_label(sink, &label);
    let mut task = Task {
        label,
        kind,
        auth: None,
        auth_span: Spanned::default(),
        input: NamedValues::default(),
        spec: TaskSpec::default(),
        set: SetClause::default(),
        output: None,
        libs: None,
        config: NamedValues::default(),
    };
    parse_common_keys(sink, &mut reader, &mut task);
    let spec_config = match reader.take_entry("spec") {
        Some(entry) => parse_task_spec(sink, &entry.value, &mut task),
        None => NamedValues::default(),
    };
    task.config = parse_config(sink, &mut reader, kind.value);
    // Keys of the task take precedence over keys of its `spec`.
    task.config.add_missing(spec_config);
    if kind.value == ToolKind::Nats {
        set_object_name(&mut task, own_name.as_ref());
    }
    if kind.value == ToolKind::Workbook {
        return resolve_workbook_task(sink, task, own_name, context.workbook);
    }
    check_required_keys(sink, &task, node);
    Some(task)
}

fn parse_kind(
    sink: &mut DiagnosticSink<'_>,
    entry: &YamlEntry,
    features: Option<&[&str]>,
) -> Option<Spanned<ToolKind>> {
    let span = entry.value.span;
    let name = Arc::<str>::read_value(sink, &entry.key, &entry.value)?;
    report_missing_kind(sink, &name, span, features);
    let Some(kind) = ToolKind::find_by_name(&name) else {
        if !RESERVED_KINDS.contains(&&*name) {
            let nearest = nearest_name(&name, ToolKind::WORDS.iter().copied());
            let message = format!("unknown tool kind '{name}'");
            sink.add_with_suggestion(Code::NP401, span, message, nearest);
        }
        return None;
    };
    if kind.is_extension() {
        sink.note_extension(span, &format!("kind: {kind}"));
    }
    Some(Spanned::new(kind, span))
}

/// Reports a known tool kind that is not part of this build.
pub(crate) fn report_missing_kind(
    sink: &mut DiagnosticSink<'_>,
    name: &str,
    span: Span,
    features: Option<&[&str]>,
) {
    let hint = match ToolKind::find_by_name(name) {
        Some(kind) if kind.is_in_build(features) => return,
        Some(kind) => {
            let feature = kind.spec().feature.unwrap_or_default();
            format!("build with: cargo build --release --features {feature}")
        }
        None if RESERVED_KINDS.contains(&name) => {
            let kinds = ToolKind::WORDS.iter().filter_map(|kind| ToolKind::parse(kind));
            let kinds = kinds.filter(|kind| kind.is_in_build(features)).map(ToolKind::as_str);
            format!("this build runs {}", kinds.collect::<Vec<_>>().join(", "))
        }
        None => return,
    };
    sink.add_with_hint(Code::NP402, span, format!("kind '{name}' is not part of this build"), hint);
}

fn check_label(sink: &mut DiagnosticSink<'_>, label: &Spanned<Arc<str>>) {
    if !is_name(label, &NAME_SEPARATORS) {
        sink.add_finding(Code::NP013, label.span, format!("'{}' is not a valid name", label.value));
    }
}

/// Parses the keys that every kind has, which are in the task or in its `spec`. Values that the task
/// has already take precedence.
fn parse_common_keys(sink: &mut DiagnosticSink<'_>, reader: &mut MapReader<'_>, task: &mut Task) {
    if let Some(entry) = reader.take_entry("auth").or(reader.take_entry("credential"))
        && task.auth.is_none()
    {
        task.auth = Some(parse_dynamic(sink, &entry.value));
        task.auth_span = Spanned::new((), entry.value.span);
    }
    task.input.add_missing(reader.read(sink, "input").unwrap_or_default());
    let set = parse_set(sink, reader.take_entry("set"), SetPlace::Task);
    if task.set.is_empty() {
        task.set = set;
    }
    let output = reader.read(sink, "output");
    task.output = task.output.take().or(output);
    let libs = reader.take_entry("libs").map(|entry| entry.value.to_json());
    task.libs = task.libs.take().or(libs);
    for key in ["timeout", "timeout_seconds"] {
        let timeout = reader.read(sink, key);
        task.spec.timeout = task.spec.timeout.or(timeout);
    }
    parse_legacy_keys(sink, reader, task);
}

/// Parses the keys of a task that have another form now.
fn parse_legacy_keys(sink: &mut DiagnosticSink<'_>, reader: &mut MapReader<'_>, task: &mut Task) {
    // For these kinds `args` is a key of the kind.
    if !matches!(task.kind.value, ToolKind::Container | ToolKind::Script)
        && let Some(args) = reader.take_entry("args")
    {
        report_deprecated_key(sink, args.key_span, "args", "input");
        task.input.add_missing(reader.read(sink, "args").unwrap_or_default());
    }
    if let Some(names) = reader.read(sink, "output_select") {
        task.output.get_or_insert_default().output_select.get_or_insert(names);
    }
    if let Some(entry) = reader.take_entry("retry")
        && let Some(rule) = parse_legacy_retry(sink, entry)
    {
        task.spec.policy.get_or_insert_default().rules.insert(0, rule);
    }
    for old in ["eval", "expr"] {
        if let Some(entry) = reader.take_unsupported(old) {
            let message = format!("'{old}' is not supported; use spec.policy.rules");
            sink.add_finding(Code::NP416, entry.key_span, message);
        }
    }
}

/// Parses the `spec` of a task: policy, and common keys that the task lacks. Returns the keys of its
/// kind that are under `spec`.
fn parse_task_spec(sink: &mut DiagnosticSink<'_>, node: &YamlNode, task: &mut Task) -> NamedValues {
    let Some(mut reader) = MapReader::open(sink, "spec", "tool.spec", node) else {
        return NamedValues::default();
    };
    let policy = reader
        .take_nullable("policy")
        .and_then(|entry| TaskPolicy::read_value(sink, "policy", &entry.value));
    if let Some(policy) = policy {
        let legacy = task.spec.policy.replace(policy);
        let rules = legacy.into_iter().flat_map(|legacy| legacy.rules);
        task.spec.policy.get_or_insert_default().rules.splice(0..0, rules);
    }
    reader.report_keys_without_effect(sink, &TaskSpec::KEYS_WITHOUT_EFFECT);
    parse_common_keys(sink, &mut reader, task);
    parse_config(sink, &mut reader, task.kind.value)
}

/// Parses the keys of the tool kind. Reports unknown keys.
fn parse_config(
    sink: &mut DiagnosticSink<'_>,
    reader: &mut MapReader<'_>,
    kind: ToolKind,
) -> NamedValues {
    let spec = kind.spec();
    let mut config = NamedValues::default();
    for entry in reader.unread_entries() {
        let legacy_body = kind == ToolKind::Http && matches!(&*entry.key, "payload" | "data");
        let key = if legacy_body {
            report_deprecated_key(sink, entry.key_span, &entry.key, "body");
            Some(("body", KeyType::Any))
        } else if &*entry.key == "args" && matches!(kind, ToolKind::Container | ToolKind::Script) {
            Some(("args", KeyType::Any))
        } else {
            find_key(spec.keys, &entry.key).map(|key| (key.name, key.value_type))
        };
        let Some((name, value_type)) = key else {
            let names = spec.keys.iter().flat_map(KindKey::spellings);
            reader.report_unknown_key(sink, kind.as_str(), entry, names);
            continue;
        };
        if value_type == KeyType::NoEffect {
            report_no_effect(sink, entry);
            continue;
        }
        check_key_type(sink, entry, value_type);
        let mut field = parse_named_value(sink, entry, TemplatePlace::Run);
        field.name.value = name.into();
        if let Some(earlier) = config.get(name) {
            let message = format!("'{}' and '{name}' are mutually exclusive", entry.key);
            let earlier = earlier.name.span;
            sink.add_finding(Code::NP417, entry.key_span.max(earlier), message);
        } else {
            config.0.push(field);
        }
    }
    config
}

fn find_key<'k>(keys: &'k [KindKey], name: &str) -> Option<&'k KindKey> {
    keys.iter().find(|key| key.spellings().any(|spelling| spelling == name))
}

/// Checks the type of a literal value. A template can produce any type.
fn check_key_type(sink: &mut DiagnosticSink<'_>, entry: &YamlEntry, value_type: KeyType) {
    let node = &entry.value;
    if node.is_null() || node.as_text().is_some_and(|text| is_template(text)) {
        return;
    }
    let json = node.to_json();
    let is_number = matches!(json, Json::Int(_) | Json::UInt(_) | Json::Float(_));
    let (is_text, is_list) = (matches!(json, Json::Str(_)), matches!(json, Json::List(_)));
    let is_map = matches!(json, Json::Map(_));
    let (is_valid, expected) = match value_type {
        KeyType::Any | KeyType::NoEffect => return,
        KeyType::Duration => {
            Millis::read_value(sink, &entry.key, node);
            return;
        }
        KeyType::Words(keywords) => {
            read_keyword(sink, &entry.key, node, keywords);
            return;
        }
        KeyType::Text => (is_text || is_number, "text"),
        KeyType::Bool => (matches!(json, Json::Bool(_)), "a bool"),
        KeyType::Integer => (matches!(json, Json::Int(_) | Json::UInt(_)), "an integer"),
        KeyType::List | KeyType::Items(_) => (is_list, "a list"),
        KeyType::Map | KeyType::Fields(_) => (is_map, "a map"),
        KeyType::TextOrList => (is_text || is_list, "text or a list"),
        KeyType::MapOrList => (is_map || is_list, "a map or a list"),
    };
    if !is_valid {
        report_wrong_type(sink, &entry.key, expected, node);
    } else if let KeyType::Fields(keys) | KeyType::Items(keys) = value_type {
        check_inner_keys(sink, &entry.key, node, keys);
    }
}

/// Checks the keys of a map, or of the maps of a list.
fn check_inner_keys(sink: &mut DiagnosticSink<'_>, context: &str, node: &YamlNode, keys: &[&str]) {
    for map in node.as_list().unwrap_or(std::slice::from_ref(node)) {
        for entry in map.as_map().unwrap_or_default() {
            if !keys.contains(&&*entry.key) {
                let nearest = nearest_name(&entry.key, keys.iter().copied());
                report_unknown_key(sink, context, entry, nearest);
            } else if entry.value.as_map().is_some() {
                // The long form of a script has a map in `source`.
                check_inner_keys(sink, &entry.key, &entry.value, keys);
            }
        }
    }
}

fn check_required_keys(sink: &mut DiagnosticSink<'_>, task: &Task, node: &YamlNode) {
    let spec = task.kind.value.spec();
    let has = |name: &&&str| task.config.get(name).is_some();
    for group in spec.required_groups {
        if !group.iter().any(|name| has(&name)) {
            let message = format!("{} needs {}", task.kind.value, format_alternatives(group));
            sink.add_finding(Code::NP404, node.head_span(), message);
        }
    }
    for group in spec.exclusive_groups {
        let mut present: Vec<(Span, &str)> = group
            .iter()
            .filter_map(|name| task.config.get(name).map(|field| (field.name.span, *name)))
            .collect();
        present.sort_unstable();
        if let [(_, first), rest @ ..] = present.as_slice() {
            for (span, other) in rest {
                sink.add_finding(
                    Code::NP417,
                    *span,
                    format!("'{first}' and '{other}' are mutually exclusive"),
                );
            }
        }
    }
}

fn format_alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(4).map(|name| format!("'{name}'")).collect();
    let suffix = if names.len() > 4 { " or an equivalent key" } else { "" };
    format!("{}{suffix}", quoted.join(" or "))
}

/// In an object operation of NATS, `name` may be the name of the object.
fn set_object_name(task: &mut Task, name: Option<&Spanned<Arc<str>>>) {
    let operation = task
        .config
        .get("operation")
        .and_then(|field| field.value.as_const()?.as_str().map(str::to_owned));
    let is_object = operation.is_some_and(|operation| operation.starts_with("object_"));
    if let Some(name) = name
        && is_object
        && task.config.get("object").is_none()
    {
        task.config.0.push(NamedValue {
            name: Spanned::new("object".into(), name.span),
            value: crate::template::DynamicValue::from_constant(Json::Str(Arc::clone(name))),
            value_span: Spanned::new((), name.span),
        });
    }
}

/// Replaces a reference by the task of the workbook. Label, policy and input of the caller take
/// precedence.
fn resolve_workbook_task(
    sink: &mut DiagnosticSink<'_>,
    caller: Task,
    own_name: Option<Spanned<Arc<str>>>,
    workbook: &[WorkbookTask],
) -> Option<Task> {
    let task_name = caller
        .config
        .get("task")
        .and_then(|field| {
            Some(Spanned::new(field.value.as_const()?.as_str()?.into(), field.span()))
        })
        .or(own_name)
        .unwrap_or_else(|| caller.label.clone());
    let Some(workbook_task) = workbook.iter().find(|task| task.name == task_name) else {
        let names: Vec<&str> = workbook.iter().map(|task| &*task.name.value).collect();
        let message = format!(
            "workbook task '{}' not found; available: [{}]",
            task_name.value,
            names.join(", ")
        );
        sink.add_with_suggestion(
            Code::NP405,
            task_name.span,
            message,
            nearest_name(&task_name, names.iter().copied()),
        );
        return None;
    };
    let mut task = workbook_task.tool.clone();
    task.label = caller.label;
    let mut input = caller.input;
    input.add_missing(task.input);
    task.input = input;
    if caller.auth.is_some() {
        task.auth = caller.auth;
        task.auth_span = caller.auth_span;
    }
    task.spec.timeout = caller.spec.timeout.or(task.spec.timeout);
    task.spec.policy = caller.spec.policy.or(task.spec.policy);
    for entry in caller.set.0 {
        task.set.insert_entry(entry);
    }
    task.output = caller.output.or(task.output);
    Some(task)
}
