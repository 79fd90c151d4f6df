//! What the commands of a step must carry: the names that its templates read on the worker and
//! that the worker does not have by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_playbook::model::{
    Action, Condition, Cursor, Fields, LoopSource, Playbook, RuleTest, Set, Setting, Step, Task,
};
use noetl_playbook::shift::asks_for_everything;
use noetl_playbook::template::{Dynamic, Place, Read, Template};

/// What the commands of a step must carry.
#[derive(Debug)]
pub(crate) struct Carry {
    pub(crate) values: CarriedValues,
    /// Whether the item of a loop is read.
    pub(crate) item: bool,
}

/// The values of a run that commands carry.
#[derive(Debug)]
pub(crate) enum CarriedValues {
    /// All that a template of the run can see: the code of a task may ask for any of it.
    Everything,
    /// What is read.
    Reads(Vec<CarriedRead>),
}

/// One read that a command carries the value of.
#[derive(Debug)]
pub(crate) struct CarriedRead {
    /// What it reads from.
    pub(crate) base: ReadBase,
    /// All keys of the path, the base included.
    pub(crate) path: Vec<Arc<str>>,
    /// Yields the value.
    pub(crate) value: Template,
    /// Tells a null from nothing at all.
    pub(crate) is_defined: Template,
}

/// What a read begins with, as far as it may be the data of a step.
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
    /// The input of the run.
    Workload,
}

impl ReadBase {
    fn of(path: &[Arc<str>]) -> Option<Self> {
        let key = |at: usize| path.get(at).cloned();
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

    /// How many keys of a path it takes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Name(_) | Self::Workload => 1,
            Self::Ctx(_) => 2,
            Self::StepsData(_) | Self::StepsFact => 3,
        }
    }
}

/// Names that the worker has by itself, or that no task sees.
const OF_WORKER: [&str; 11] = [
    "execution_id",
    "input",
    "output",
    "outcome",
    "error",
    "event",
    "results",
    "_prev",
    "_task",
    "_attempt",
    "__frame_max_rows",
];
/// Names of an iteration, besides that of its item.
const OF_ITERATION: [&str; 4] = ["_index", "_total", "loop_index", "loop"];

pub(super) fn carry(playbook: &Playbook, step: &Step) -> Carry {
    let mut reader = Reader {
        playbook,
        iterator: step
            .looping
            .as_ref()
            .map(|looping| &*looping.iterator.value),
        paths: BTreeSet::new(),
        item: false,
        everything: false,
        entries: BTreeSet::new(),
    };
    let cursor = match step.looping.as_ref().map(|looping| &looping.source) {
        Some(LoopSource::Cursor(cursor)) => Some(cursor),
        Some(LoopSource::In(_)) | None => None,
    };
    if let Some(cursor) = cursor {
        reader.cursor(cursor);
    }
    reader.fields(&step.input, &BTreeSet::new());
    for task in step.tool.tasks() {
        reader.task(step, task);
    }
    // The rows of a cursor are known to nobody but the worker that claims them.
    let is_told = step.looping.is_some() && cursor.is_none();
    let item = is_told && (reader.item || reader.everything);
    let values = if reader.everything {
        CarriedValues::Everything
    } else {
        CarriedValues::Reads(compile(&reader.paths))
    };
    Carry { values, item }
}

struct Reader<'p> {
    playbook: &'p Playbook,
    iterator: Option<&'p str>,
    paths: BTreeSet<Vec<Arc<str>>>,
    item: bool,
    everything: bool,
    /// Entries of the keychain that were read already.
    entries: BTreeSet<&'p str>,
}

impl<'p> Reader<'p> {
    fn task(&mut self, step: &'p Step, task: &'p Task) {
        let nothing = BTreeSet::new();
        let inputs: BTreeSet<&str> = step
            .input
            .iter()
            .chain(&task.input)
            .map(|field| &*field.name.value)
            .collect();
        self.fields(&task.input, &nothing);
        self.everything |= asks_for_everything(task);
        if let Some(auth) = &task.auth {
            self.dynamic(auth, &inputs);
        }
        self.fields(&task.config, &inputs);
        self.set(&task.set, &inputs);
        for rule in task.spec.policy.iter().flat_map(|policy| &policy.rules) {
            if let RuleTest::When(when) = &rule.test {
                self.condition(&when.value, &inputs);
            }
            if let Action::Retry(retry) = &rule.then.action {
                if let Some(attempts) = &retry.attempts {
                    self.setting(&attempts.value, &inputs);
                }
                for delay in [&retry.delay, &retry.max_delay].into_iter().flatten() {
                    self.setting(delay, &inputs);
                }
            }
            self.set(&rule.then.set, &inputs);
        }
    }

    /// The claim of a frame is rendered on the worker.
    fn cursor(&mut self, cursor: &'p Cursor) {
        let nothing = BTreeSet::new();
        self.dynamic(&cursor.claim, &nothing);
        self.fields(&cursor.options, &nothing);
        if let Some(auth) = &cursor.auth {
            self.dynamic(auth, &nothing);
        }
    }

    fn fields(&mut self, fields: &'p Fields, inputs: &BTreeSet<&str>) {
        for field in fields {
            self.dynamic(&field.value, inputs);
        }
    }

    fn set(&mut self, set: &'p Set, inputs: &BTreeSet<&str>) {
        for entry in &set.0 {
            self.dynamic(&entry.value, inputs);
        }
    }

    fn condition(&mut self, condition: &'p Condition, inputs: &BTreeSet<&str>) {
        if let Some(template) = condition.template() {
            self.reads(template.reads(), inputs);
        }
    }

    fn setting<T>(&mut self, setting: &'p Setting<T>, inputs: &BTreeSet<&str>) {
        if let Some(template) = setting.template() {
            self.reads(template.reads(), inputs);
        }
    }

    fn dynamic(&mut self, value: &'p Dynamic, inputs: &BTreeSet<&str>) {
        for leaf in value.templates() {
            self.reads(leaf.template.reads(), inputs);
        }
    }

    fn reads(&mut self, reads: &'p [Read], inputs: &BTreeSet<&str>) {
        for read in reads {
            self.read(read, inputs);
        }
    }

    fn read(&mut self, read: &'p Read, inputs: &BTreeSet<&str>) {
        let root = read.root();
        match root {
            "keychain" => self.keychain(read),
            "iter" => {
                let member = read.path.get(1).map(|key| &**key);
                self.item |= member.is_none() || member == self.iterator;
            }
            _ if inputs.contains(root) || OF_WORKER.contains(&root) => {}
            _ if self.iterator == Some(root) => self.item = true,
            _ if self.iterator.is_some() && OF_ITERATION.contains(&root) => {}
            _ => self.value(&read.path),
        }
    }

    /// A value of the run. One that cannot be told apart before the template runs takes all.
    fn value(&mut self, path: &[Arc<str>]) {
        match ReadBase::of(path) {
            Some(_) => {
                self.paths.insert(path.to_vec());
            }
            None => self.everything = true,
        }
    }

    /// An entry of the keychain is resolved on the worker, by templates of its own.
    fn keychain(&mut self, read: &'p Read) {
        let named = read.path.get(1).map(|name| &**name);
        for entry in &self.playbook.keychain {
            if named.is_some_and(|name| name != &*entry.name.value)
                || !self.entries.insert(&*entry.name.value)
            {
                continue;
            }
            let nothing = BTreeSet::new();
            for value in [&entry.auth, &entry.token, &entry.endpoint]
                .into_iter()
                .flatten()
            {
                self.dynamic(value, &nothing);
            }
            for fields in [&entry.map, &entry.headers, &entry.data] {
                self.fields(fields, &nothing);
            }
        }
    }
}

/// The reads as expressions. What is read as a whole needs no reads of its parts.
fn compile(paths: &BTreeSet<Vec<Arc<str>>>) -> Vec<CarriedRead> {
    let mut compiled: BTreeMap<Vec<Arc<str>>, CarriedRead> = BTreeMap::new();
    for path in paths {
        // Paths are sorted, so a shorter one comes before those that it begins.
        let covered = |whole: &Vec<Arc<str>>| path.starts_with(whole);
        if compiled.keys().any(covered) {
            continue;
        }
        if let Some(read) = compile_one(path) {
            compiled.insert(read.path.clone(), read);
        }
    }
    compiled.into_values().collect()
}

/// A path that cannot be written as an expression is carried from further up.
fn compile_one(path: &[Arc<str>]) -> Option<CarriedRead> {
    let base = ReadBase::of(path)?;
    (base.len()..=path.len()).rev().find_map(|len| {
        let path = &path[..len];
        let expression = expression(path)?;
        Some(CarriedRead {
            base: base.clone(),
            value: Template::parse(&format!("{{{{ {expression} }}}}"), Place::Run).ok()?,
            is_defined: Template::condition(&format!("{expression} is defined")).ok()?,
            path: path.to_vec(),
        })
    })
}

/// A path as a template says it.
pub(crate) fn expression(path: &[Arc<str>]) -> Option<String> {
    let (root, keys) = path.split_first()?;
    let mut text = root.to_string();
    for key in keys {
        let quoted = key.replace('\\', "\\\\").replace('\'', "\\'");
        text.push_str(&format!("['{quoted}']"));
    }
    Some(text)
}
