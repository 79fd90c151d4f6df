//! Computes the context that the commands of a step need: the names that its templates read on the
//! worker and that the worker does not provide itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_playbook::command_machine::needs_full_context;
use noetl_playbook::model::{
    Condition, CursorSource, LoopSource, NamedValues, Playbook, RuleAction, RuleTest, SetClause,
    Step, Task, ValueOrTemplate,
};
use noetl_playbook::template::{DynamicValue, NameRead, Template, TemplatePlace};

/// Context that the commands of a step need.
#[derive(Debug)]
pub(crate) struct ContextNeeds {
    pub(crate) values: NeededValues,
    /// True if the item of a loop is read.
    pub(crate) item: bool,
}

/// Values of the execution that commands need.
#[derive(Debug)]
pub(crate) enum NeededValues {
    /// Everything that a template can see: the code of a task may ask for any of it.
    Everything,
    /// Only these reads.
    Reads(Vec<NeededRead>),
}

/// A read whose value a command needs.
#[derive(Debug)]
pub(crate) struct NeededRead {
    /// The root of the read.
    pub(crate) base: ReadBase,
    /// All keys of the path, including the base.
    pub(crate) path: Vec<Arc<str>>,
    /// Template that yields the value.
    pub(crate) value: Template,
    /// Template that distinguishes null from undefined.
    pub(crate) is_defined: Template,
}

/// Root of a read, if it may refer to the data of a step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadBase {
    /// A name.
    Name(Arc<str>),
    /// A member of `ctx`.
    Ctx(Arc<str>),
    /// The `data` of a member of `steps`.
    StepsData(Arc<str>),
    /// Any other member of a member of `steps`.
    StepsFact,
    /// The input of the execution.
    Workload,
}

impl ReadBase {
    fn from_path(path: &[Arc<str>]) -> Option<Self> {
        let key = |index: usize| path.get(index).cloned();
        match &**path.first()? {
            "ctx" => key(1).map(Self::Ctx),
            "steps" => match key(2).as_deref() {
                Some("data") => key(1).map(Self::StepsData),
                Some(_) => Some(Self::StepsFact),
                None => None,
            },
            "workload" => Some(Self::Workload),
            _ => key(0).map(Self::Name),
        }
    }

    /// Number of path keys that the base covers.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Name(_) | Self::Workload => 1,
            Self::Ctx(_) => 2,
            Self::StepsData(_) | Self::StepsFact => 3,
        }
    }
}

/// Names that the worker provides itself, or that no task can see.
const WORKER_NAMES: [&str; 11] = [
    "execution_id", "input", "output", "outcome", "error", "event", "results", "_prev", "_task",
    "_attempt", "__frame_max_rows",
];
/// Names of an iteration, in addition to its item.
const ITERATION_NAMES: [&str; 4] = ["_index", "_total", "loop_index", "loop"];

pub(super) fn context_needs(playbook: &Playbook, step: &Step) -> ContextNeeds {
    let final_step = playbook.executor.spec.final_step.as_ref();
    let mut collector = ReadCollector {
        playbook,
        iterator: step.looping.as_ref().map(|looping| &*looping.iterator.value),
        paths: BTreeSet::new(),
        sees_event: final_step.is_some_and(|name| name.value == step.name.value),
        item: false,
        everything: false,
        visited_entries: BTreeSet::new(),
    };
    let cursor = match step.looping.as_ref().map(|looping| &looping.source) {
        Some(LoopSource::Cursor(cursor)) => Some(cursor),
        Some(LoopSource::In(_)) | None => None,
    };
    if let Some(cursor) = cursor {
        collector.visit_cursor(cursor);
    }
    collector.visit_fields(&step.input, &BTreeSet::new());
    for task in step.tool.tasks() {
        collector.visit_task(step, task);
    }
    // Only the worker that claims the rows of a cursor has them.
    let is_supplied = step.looping.is_some() && cursor.is_none();
    let item = is_supplied && (collector.item || collector.everything);
    let values = if collector.everything {
        NeededValues::Everything
    } else {
        NeededValues::Reads(compile_reads(&collector.paths))
    };
    ContextNeeds { values, item }
}

struct ReadCollector<'p> {
    playbook: &'p Playbook,
    iterator: Option<&'p str>,
    paths: BTreeSet<Vec<Arc<str>>>,
    /// True for the final step: its tasks can read the event with which the execution ends.
    sees_event: bool,
    item: bool,
    everything: bool,
    /// Keychain entries that were already visited.
    visited_entries: BTreeSet<&'p str>,
}

impl<'p> ReadCollector<'p> {
    fn visit_task(&mut self, step: &'p Step, task: &'p Task) {
        let no_inputs = BTreeSet::new();
        let inputs: BTreeSet<&str> =
            step.input.iter().chain(&task.input).map(|field| &*field.name.value).collect();
        self.visit_fields(&task.input, &no_inputs);
        self.everything |= needs_full_context(task);
        if let Some(auth) = &task.auth {
            self.visit_dynamic(auth, &inputs);
        }
        self.visit_fields(&task.config, &inputs);
        // After the task, its own name and that of its step refer to its data on the worker.
        let mut inputs = inputs;
        inputs.extend([&*task.label.value, &*step.name.value]);
        self.visit_set(&task.set, &inputs);
        for rule in task.spec.policy.iter().flat_map(|policy| &policy.rules) {
            if let RuleTest::When(when) = &rule.test {
                self.visit_condition(&when.value, &inputs);
            }
            if let RuleAction::Retry(retry) = &rule.then.action {
                if let Some(attempts) = &retry.attempts {
                    self.visit_setting(&attempts.value, &inputs);
                }
                for delay in [&retry.delay, &retry.max_delay].into_iter().flatten() {
                    self.visit_setting(delay, &inputs);
                }
            }
            self.visit_set(&rule.then.set, &inputs);
        }
    }

    /// Visits a cursor: the claim of a frame is rendered on the worker.
    fn visit_cursor(&mut self, cursor: &'p CursorSource) {
        let no_inputs = BTreeSet::new();
        self.visit_dynamic(&cursor.claim, &no_inputs);
        self.visit_fields(&cursor.options, &no_inputs);
        if let Some(auth) = &cursor.auth {
            self.visit_dynamic(auth, &no_inputs);
        }
    }

    fn visit_fields(&mut self, fields: &'p NamedValues, inputs: &BTreeSet<&str>) {
        for field in fields {
            self.visit_dynamic(&field.value, inputs);
        }
    }

    fn visit_set(&mut self, set: &'p SetClause, inputs: &BTreeSet<&str>) {
        for entry in &set.0 {
            self.visit_dynamic(&entry.value, inputs);
        }
    }

    fn visit_condition(&mut self, condition: &'p Condition, inputs: &BTreeSet<&str>) {
        if let Some(template) = condition.as_template() {
            self.visit_reads(template.reads(), inputs);
        }
    }

    fn visit_setting<T>(&mut self, setting: &'p ValueOrTemplate<T>, inputs: &BTreeSet<&str>) {
        if let Some(template) = setting.as_template() {
            self.visit_reads(template.reads(), inputs);
        }
    }

    fn visit_dynamic(&mut self, value: &'p DynamicValue, inputs: &BTreeSet<&str>) {
        for leaf in value.templates() {
            self.visit_reads(leaf.template.reads(), inputs);
        }
    }

    fn visit_reads(&mut self, reads: &'p [NameRead], inputs: &BTreeSet<&str>) {
        for read in reads {
            self.visit_read(read, inputs);
        }
    }

    fn visit_read(&mut self, read: &'p NameRead, inputs: &BTreeSet<&str>) {
        let root = read.root();
        match root {
            "keychain" => self.visit_keychain(read),
            "iter" => {
                let member = read.path.get(1).map(|key| &**key);
                self.item |= member.is_none() || member == self.iterator;
            }
            "event" if self.sees_event => self.add_value(&read.path),
            _ if inputs.contains(root) || WORKER_NAMES.contains(&root) => {}
            _ if self.iterator == Some(root) => self.item = true,
            _ if self.iterator.is_some() && ITERATION_NAMES.contains(&root) => {}
            _ => self.add_value(&read.path),
        }
    }

    /// Adds a value of the execution. If its path is only known at render time, everything is
    /// needed.
    fn add_value(&mut self, path: &[Arc<str>]) {
        match ReadBase::from_path(path) {
            Some(_) => {
                self.paths.insert(path.to_vec());
            }
            None => self.everything = true,
        }
    }

    /// Visits keychain entries: the worker resolves them with their own templates.
    fn visit_keychain(&mut self, read: &'p NameRead) {
        let named = read.path.get(1).map(|name| &**name);
        for entry in &self.playbook.keychain {
            if named.is_some_and(|name| name != &*entry.name.value)
                || !self.visited_entries.insert(&*entry.name.value)
            {
                continue;
            }
            let no_inputs = BTreeSet::new();
            for value in [&entry.auth, &entry.token, &entry.endpoint].into_iter().flatten() {
                self.visit_dynamic(value, &no_inputs);
            }
            for fields in [&entry.map, &entry.headers, &entry.data] {
                self.visit_fields(fields, &no_inputs);
            }
        }
    }
}

/// Compiles reads to expressions. A read of a whole value makes reads of its parts unnecessary.
fn compile_reads(paths: &BTreeSet<Vec<Arc<str>>>) -> Vec<NeededRead> {
    let mut compiled: BTreeMap<Vec<Arc<str>>, NeededRead> = BTreeMap::new();
    for path in paths {
        // Paths are sorted, so a prefix comes before the paths that it covers.
        let covered = |whole: &Vec<Arc<str>>| path.starts_with(whole);
        if compiled.keys().any(covered) {
            continue;
        }
        if let Some(read) = compile_read(path) {
            compiled.insert(read.path.clone(), read);
        }
    }
    compiled.into_values().collect()
}

/// Compiles one path. If it cannot be written as an expression, the longest prefix that can is
/// used.
fn compile_read(path: &[Arc<str>]) -> Option<NeededRead> {
    let base = ReadBase::from_path(path)?;
    (base.len()..=path.len()).rev().find_map(|len| {
        let path = &path[..len];
        let expression = path_expression(path)?;
        Some(NeededRead {
            base: base.clone(),
            value: Template::parse(&format!("{{{{ {expression} }}}}"), TemplatePlace::Run).ok()?,
            is_defined: Template::parse_condition(&format!("{expression} is defined")).ok()?,
            path: path.to_vec(),
        })
    })
}

/// Formats a path as a template expression.
pub(crate) fn path_expression(path: &[Arc<str>]) -> Option<String> {
    let (root, keys) = path.split_first()?;
    let mut text = root.to_string();
    for key in keys {
        let quoted = key.replace('\\', "\\\\").replace('\'', "\\'");
        text.push_str(&format!("['{quoted}']"));
    }
    Some(text)
}
