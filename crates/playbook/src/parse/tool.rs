//! Tools: single tasks, pipelines, and the keys of each kind.

use std::sync::Arc;

use noetl_types::Json;

use crate::diag::{Code, Sink, near};
use crate::model::{
    Build, COMMON_TASK_KEYS, Field, Fields, Key, KeyType, OutputSpec, Set, Task, TaskPolicy,
    TaskSpec, Tool, ToolKind, WorkbookTask,
};
use crate::source::{Span, Spanned};
use crate::template::Place;
use crate::yaml::{Entry, Node, NodeValue};

use super::output::{output, output_select};
use super::policy::{legacy_retry, task_policy};
use super::reader::{MapReader, duration, is_name, not_a_word, text, wrong_type};
use super::routing::old_key;
use super::values::{SetPlace, dynamic, field, fields, is_template, set};

/// What a task needs to know of the playbook around it.
#[derive(Clone, Copy)]
pub(super) struct ToolContext<'c> {
    pub(super) workbook: &'c [WorkbookTask],
    /// Features of the build that will run it, where that is known.
    pub(super) features: Option<&'c [String]>,
}

/// The tool of a step.
pub(super) fn tool(
    sink: &mut Sink<'_>,
    entry: &Entry,
    step: &Spanned<Arc<str>>,
    context: ToolContext<'_>,
) -> Option<Tool> {
    match &entry.value.value {
        NodeValue::Map(_) => {
            let task = task(sink, &entry.value, Some(step.clone()), context)?;
            Some(Tool::Single(Box::new(task)))
        }
        NodeValue::List(items) if items.is_empty() => {
            sink.add(
                Code::NP406,
                entry.value.span,
                format!("pipeline of '{}' is empty", step.value),
            );
            None
        }
        NodeValue::List(items) => pipeline(sink, items, step, context),
        NodeValue::Plain(_) | NodeValue::Text(_) => {
            wrong_type(
                sink,
                "tool",
                "a map with 'kind', or a list of them",
                &entry.value,
            );
            None
        }
    }
}

fn pipeline(
    sink: &mut Sink<'_>,
    items: &[Node],
    step: &Spanned<Arc<str>>,
    context: ToolContext<'_>,
) -> Option<Tool> {
    let mut tasks: Vec<Task> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let Some(task) = pipeline_item(sink, item, index, context) else {
            continue;
        };
        if tasks.iter().any(|earlier| earlier.label == task.label) {
            let message = format!(
                "label '{}' is used twice in '{}'",
                task.label.value, step.value
            );
            sink.add(Code::NP408, task.label.span, message);
        } else {
            tasks.push(task);
        }
    }
    (tasks.len() == items.len()).then_some(Tool::Pipeline(tasks))
}

/// `{name: L, kind: …}`, `{kind: …}` or `{L: {kind: …}}`.
fn pipeline_item(
    sink: &mut Sink<'_>,
    node: &Node,
    index: usize,
    context: ToolContext<'_>,
) -> Option<Task> {
    if node.get("kind").is_some() {
        let label = match node
            .as_map()
            .unwrap_or_default()
            .iter()
            .find(|entry| &*entry.key == "name")
        {
            Some(entry) => Spanned::new(text(sink, entry)?, entry.value.span),
            None => Spanned::new(format!("task_{index}").into(), node.head()),
        };
        return task(sink, node, Some(label), context);
    }
    if let Some([entry]) = node.as_map()
        && entry.value.as_map().is_some()
    {
        let label = Spanned::new(Arc::clone(&entry.key), entry.key_span);
        return task(sink, &entry.value, Some(label), context);
    }
    let hint = "write {name: <label>, kind: <kind>, …} or {<label>: {kind: <kind>, …}}";
    sink.hinted(
        Code::NP407,
        node.head(),
        "pipeline item needs 'kind' or exactly one label",
        hint,
    );
    None
}

/// One task. Without a label its own `name` is one.
pub(super) fn task(
    sink: &mut Sink<'_>,
    node: &Node,
    label: Option<Spanned<Arc<str>>>,
    context: ToolContext<'_>,
) -> Option<Task> {
    let mut reader = MapReader::open(sink, "tool", "tool", node)?;
    let kind_entry = reader.require(sink, "kind")?;
    let kind = kind(sink, kind_entry, context.features)?;
    let own_name = reader
        .take("name")
        .and_then(|entry| Some(Spanned::new(text(sink, entry)?, entry.value.span)));
    let label = label
        .or_else(|| own_name.clone())
        .unwrap_or_else(|| Spanned::new("task".into(), node.head()));
    check_label(sink, &label);
    let common = Common::read(sink, &mut reader, kind.value);
    let mut config = config(sink, &mut reader, kind.value);
    // What the task says itself wins over what its `spec` says.
    config.lay_under(common.config);
    let mut task = Task {
        label,
        kind,
        auth: common.auth,
        auth_span: common.auth_span,
        input: common.input,
        spec: common.spec,
        set: common.set,
        output: common.output,
        libs: common.libs,
        config,
    };
    if kind.value == ToolKind::Nats {
        name_the_object(&mut task, own_name.as_ref());
    }
    if kind.value == ToolKind::Workbook {
        return from_workbook(sink, task, own_name, context.workbook);
    }
    check_needs(sink, &task, node);
    Some(task)
}

fn kind(
    sink: &mut Sink<'_>,
    entry: &Entry,
    features: Option<&[String]>,
) -> Option<Spanned<ToolKind>> {
    let name = text(sink, entry)?;
    let Some(kind) = ToolKind::find(&name) else {
        let known = ToolKind::WORDS.iter().copied().filter(|word| {
            ToolKind::parse(word).is_some_and(|kind| kind.spec().build != Build::Reserved)
        });
        let near = near(&name, known);
        sink.misspelt(
            Code::NP401,
            entry.value.span,
            format!("unknown tool kind '{name}'"),
            near,
        );
        return None;
    };
    match kind.spec().build {
        Build::Core => {}
        Build::Reserved => {
            sink.add(
                Code::NP403,
                entry.value.span,
                format!("kind '{kind}' is reserved and cannot run"),
            );
        }
        Build::Feature(feature) => {
            if features.is_some_and(|features| features.iter().all(|have| have != feature)) {
                let message = format!("'{kind}' needs a build with feature '{feature}'");
                let hint = format!("build with: cargo build --release --features {feature}");
                sink.hinted(Code::NP402, entry.value.span, message, hint);
            }
        }
    }
    if kind.is_addition() {
        sink.addition(entry.value.span, &format!("kind: {kind}"));
    }
    Some(Spanned::new(kind, entry.value.span))
}

fn check_label(sink: &mut Sink<'_>, label: &Spanned<Arc<str>>) {
    if !is_name(label, true) {
        sink.add(
            Code::NP013,
            label.span,
            format!("'{}' is not a valid name", label.value),
        );
    }
}

/// The keys of every task.
#[derive(Default)]
struct Common {
    auth: Option<crate::template::Dynamic>,
    auth_span: Spanned<()>,
    input: Fields,
    spec: TaskSpec,
    set: Set,
    output: Option<OutputSpec>,
    libs: Option<Json>,
    /// Keys of the kind that stand under `spec`.
    config: Fields,
}

impl Common {
    fn read(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, kind: ToolKind) -> Self {
        let auth = reader.take("auth").or(reader.take("credential"));
        let mut common = Self {
            auth: auth.map(|entry| dynamic(sink, &entry.value)),
            auth_span: Spanned::new((), auth.map(|entry| entry.value.span).unwrap_or_default()),
            input: reader
                .take("input")
                .map(|entry| fields(sink, entry))
                .unwrap_or_default(),
            set: reader
                .take("set")
                .map(|entry| set(sink, entry, SetPlace::Task))
                .unwrap_or_default(),
            output: reader.take("output").and_then(|entry| output(sink, entry)),
            libs: reader.take("libs").map(|entry| entry.value.to_json()),
            ..Self::default()
        };
        // These two have arguments of their own.
        if !matches!(kind, ToolKind::Container | ToolKind::Script)
            && let Some(args) = reader.take("args")
        {
            old_key(sink, args.key_span, "args", "input");
            common.input.lay_under(fields(sink, args));
        }
        if let Some(names) = reader
            .take("output_select")
            .and_then(|entry| output_select(sink, entry))
        {
            common.output.get_or_insert_default().output_select = Some(names);
        }
        for old in ["eval", "expr"] {
            if let Some(entry) = reader.take_raw(old) {
                sink.add(
                    Code::NP416,
                    entry.key_span,
                    format!("'{old}' is not supported; use spec.policy.rules"),
                );
            }
        }
        let retry = reader
            .take("retry")
            .and_then(|entry| legacy_retry(sink, entry));
        if let Some(spec) = reader.take("spec") {
            common.read_spec(sink, spec, kind);
        }
        if let Some(rule) = retry {
            let policy = common.spec.policy.get_or_insert_with(|| TaskPolicy {
                on_unmatched: crate::model::OnUnmatched::Fail,
                rules: Vec::new(),
            });
            policy.rules.insert(0, rule);
        }
        for key in ["timeout_seconds", "timeout"] {
            if let Some(entry) = reader.take(key) {
                common.spec.timeout = duration(sink, &entry.value).or(common.spec.timeout);
            }
        }
        common
    }

    fn read_spec(&mut self, sink: &mut Sink<'_>, entry: &Entry, kind: ToolKind) {
        let Some(mut reader) = MapReader::open(sink, "spec", "tool.spec", &entry.value) else {
            return;
        };
        self.spec.timeout = reader
            .take("timeout")
            .and_then(|entry| duration(sink, &entry.value));
        self.spec.policy = reader
            .take_raw("policy")
            .and_then(|entry| task_policy(sink, entry));
        self.spec.result = reader.take("result").map(|entry| entry.value.to_json());
        self.config = config(sink, &mut reader, kind);
    }
}

/// The keys of the kind; what is left is unknown.
fn config(sink: &mut Sink<'_>, reader: &mut MapReader<'_>, kind: ToolKind) -> Fields {
    let spec = kind.spec();
    let mut config = Fields::default();
    for entry in reader.rest() {
        if spec.build == Build::Reserved {
            config.0.push(field(sink, entry, Place::Run));
            continue;
        }
        let legacy_body = kind == ToolKind::Http && matches!(&*entry.key, "payload" | "data");
        let key = if legacy_body {
            old_key(sink, entry.key_span, &entry.key, "body");
            Some(("body", KeyType::Any))
        } else if &*entry.key == "args" && matches!(kind, ToolKind::Container | ToolKind::Script) {
            Some(("args", KeyType::Any))
        } else {
            find_key(spec.keys, &entry.key).map(|key| (key.name, key.takes))
        };
        let Some((name, takes)) = key else {
            let known = spec.keys.iter().map(|key| key.name).chain(COMMON_TASK_KEYS);
            let near = near(&entry.key, known);
            sink.misspelt(
                Code::NP010,
                entry.key_span,
                format!("unknown key '{}' in {kind}", entry.key),
                near,
            );
            continue;
        };
        check_type(sink, entry, takes);
        let mut field = field(sink, entry, Place::Run);
        field.name.value = name.into();
        if let Some(earlier) = config.get(name) {
            let message = format!("'{}' and '{name}' exclude each other", entry.key);
            let earlier = earlier.name.span;
            sink.add(Code::NP417, entry.key_span.max(earlier), message);
        } else {
            config.0.push(field);
        }
    }
    config
}

fn find_key<'k>(keys: &'k [Key], name: &str) -> Option<&'k Key> {
    keys.iter()
        .find(|key| key.name == name || key.aliases.contains(&name))
}

/// A template may yield anything, so only what is written out is checked.
fn check_type(sink: &mut Sink<'_>, entry: &Entry, takes: KeyType) {
    let node = &entry.value;
    if node.is_null() || node.as_text().is_some_and(|text| is_template(text)) {
        return;
    }
    let json = node.to_json();
    let wanted = match takes {
        KeyType::Any => return,
        KeyType::Duration => {
            duration(sink, node);
            return;
        }
        KeyType::Words(words) => {
            match node.as_text() {
                Some(text) if words.contains(&&**text) => {}
                Some(text) => not_a_word(sink, node, text, words),
                None => wrong_type(
                    sink,
                    &entry.key,
                    &format!("one of {}", words.join(", ")),
                    node,
                ),
            }
            return;
        }
        KeyType::Text
            if matches!(
                json,
                Json::Str(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_)
            ) =>
        {
            return;
        }
        KeyType::Text => "text",
        KeyType::Bool if matches!(json, Json::Bool(_)) => return,
        KeyType::Bool => "a bool",
        KeyType::Integer if matches!(json, Json::Int(_) | Json::UInt(_)) => return,
        KeyType::Integer => "a whole number",
        KeyType::List if matches!(json, Json::List(_)) => return,
        KeyType::List => "a list",
        KeyType::Map if matches!(json, Json::Map(_)) => return,
        KeyType::Map => "a map",
        KeyType::TextOrList if matches!(json, Json::Str(_) | Json::List(_)) => return,
        KeyType::TextOrList => "a text or a list",
        KeyType::MapOrList if matches!(json, Json::Map(_) | Json::List(_)) => return,
        KeyType::MapOrList => "a map or a list",
    };
    wrong_type(sink, &entry.key, wanted, node);
}

fn check_needs(sink: &mut Sink<'_>, task: &Task, node: &Node) {
    let spec = task.kind.value.spec();
    let has = |name: &&&str| task.config.get(name).is_some();
    for group in spec.needs {
        if !group.iter().any(|name| has(&name)) {
            let message = format!("{} needs {}", task.kind.value, any_of(group));
            sink.add(Code::NP404, node.head(), message);
        }
    }
    for group in spec.excludes {
        let mut given: Vec<(Span, &str)> = group
            .iter()
            .filter_map(|name| task.config.get(name).map(|field| (field.name.span, *name)))
            .collect();
        given.sort_unstable();
        if let [(_, first), rest @ ..] = given.as_slice() {
            for (span, other) in rest {
                sink.add(
                    Code::NP417,
                    *span,
                    format!("'{first}' and '{other}' exclude each other"),
                );
            }
        }
    }
}

fn any_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names
        .iter()
        .take(4)
        .map(|name| format!("'{name}'"))
        .collect();
    let more = if names.len() > 4 {
        " or another way to give it"
    } else {
        ""
    };
    format!("{}{more}", quoted.join(" or "))
}

/// In an object operation of NATS, `name` may be the object's.
fn name_the_object(task: &mut Task, name: Option<&Spanned<Arc<str>>>) {
    let operation = task
        .config
        .get("operation")
        .and_then(|field| field.value.as_const()?.as_str().map(str::to_owned));
    let is_object = operation.is_some_and(|operation| operation.starts_with("object_"));
    if let Some(name) = name
        && is_object
        && task.config.get("object").is_none()
    {
        task.config.0.push(Field {
            name: Spanned::new("object".into(), name.span),
            value: crate::template::Dynamic::constant(Json::Str(Arc::clone(name))),
            value_span: Spanned::new((), name.span),
        });
    }
}

/// The workbook's task in place of its name; label, policy and input of the caller win.
fn from_workbook(
    sink: &mut Sink<'_>,
    caller: Task,
    own_name: Option<Spanned<Arc<str>>>,
    workbook: &[WorkbookTask],
) -> Option<Task> {
    let named = caller
        .config
        .get("task")
        .and_then(|field| {
            Some(Spanned::new(
                field.value.as_const()?.as_str()?.into(),
                field.span(),
            ))
        })
        .or(own_name)
        .unwrap_or_else(|| caller.label.clone());
    let Some(found) = workbook.iter().find(|task| task.name == named) else {
        let names: Vec<&str> = workbook.iter().map(|task| &*task.name.value).collect();
        let message = format!(
            "workbook task '{}' not found; there are [{}]",
            named.value,
            names.join(", ")
        );
        sink.misspelt(
            Code::NP405,
            named.span,
            message,
            near(&named, names.iter().copied()),
        );
        return None;
    };
    let mut task = found.tool.clone();
    task.label = caller.label;
    let mut input = caller.input;
    input.lay_under(task.input);
    task.input = input;
    if caller.auth.is_some() {
        task.auth = caller.auth;
        task.auth_span = caller.auth_span;
    }
    task.spec.timeout = caller.spec.timeout.or(task.spec.timeout);
    task.spec.policy = caller.spec.policy.or(task.spec.policy);
    for entry in caller.set.0 {
        task.set.put(entry);
    }
    task.output = caller.output.or(task.output);
    Some(task)
}
