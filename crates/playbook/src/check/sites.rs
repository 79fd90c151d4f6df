//! Every template of a playbook, and where it stands.

use crate::model::{
    Action, Fields, Loop, LoopSource, OutputSpec, Playbook, RuleTest, Set, Setting, Step, Task,
};
use crate::source::{Span, Spanned};
use crate::template::{Dynamic, Template};

/// Where a template stands, which decides what it may read and who renders it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Defaults of the input, rendered once at the start.
    Workload,
    /// An entry of the keychain, rendered on the worker.
    Keychain,
    /// Concurrency and priority of the whole run.
    Root,
    /// Guard or admission of a step.
    Guard,
    /// `loop.in` and the settings of a loop.
    LoopItems,
    /// The claim of a cursor loop.
    Claim,
    /// Keys of cache and concurrency, and the priority, of a step.
    StepKey,
    /// Input of a step or task, and configuration of a task.
    Task,
    /// A rule of a task's policy.
    Rule,
    /// A write of a task.
    TaskSet,
    /// A write of a step.
    StepSet,
    /// The condition of an arc.
    ArcWhen,
    /// A write of an arc.
    ArcSet,
}

/// A template and where it stands.
pub(super) struct Site<'p> {
    pub(super) template: &'p Template,
    /// The scalar in the document.
    pub(super) span: Span,
    pub(super) place: Place,
    /// Whether the server renders it.
    pub(super) on_server: bool,
    pub(super) step: Option<&'p Step>,
    pub(super) task: Option<&'p Task>,
}

/// Collects the templates of a playbook in no particular order.
pub(super) fn sites(playbook: &Playbook) -> Vec<Site<'_>> {
    let mut found = Collector {
        sites: Vec::new(),
        step: None,
        task: None,
    };
    for field in &playbook.workload {
        found.dynamic(&field.value, Place::Workload);
    }
    for entry in &playbook.keychain {
        for value in [&entry.auth, &entry.token, &entry.endpoint]
            .into_iter()
            .flatten()
        {
            found.dynamic(value, Place::Keychain);
        }
        for fields in [&entry.map, &entry.headers, &entry.data] {
            found.fields(fields, Place::Keychain);
        }
    }
    if let Some(concurrency) = &playbook.concurrency {
        found.setting(&concurrency.key, Place::Root);
    }
    if let Some(priority) = &playbook.priority {
        found.setting(priority, Place::Root);
    }
    for task in &playbook.workbook {
        found.task(&task.tool);
    }
    for step in &playbook.workflow {
        found.step(step);
    }
    found.sites
}

struct Collector<'p> {
    sites: Vec<Site<'p>>,
    step: Option<&'p Step>,
    task: Option<&'p Task>,
}

impl<'p> Collector<'p> {
    fn step(&mut self, step: &'p Step) {
        self.step = Some(step);
        let conditions = step.when.iter().chain(
            step.spec
                .policy
                .admit
                .iter()
                .filter_map(|rule| rule.when.as_ref()),
        );
        for condition in conditions {
            self.condition(condition, Place::Guard);
        }
        if let Some(looping) = &step.looping {
            self.looping(looping);
        }
        if let Some(cache) = &step.spec.cache {
            self.setting(&cache.key, Place::StepKey);
        }
        if let Some(concurrency) = &step.concurrency {
            self.setting(&concurrency.key, Place::StepKey);
        }
        if let Some(priority) = &step.priority {
            self.setting(priority, Place::StepKey);
        }
        self.fields(&step.input, Place::Task);
        for task in step.tool.tasks() {
            self.task(task);
        }
        self.output(step.output.as_ref());
        self.set(&step.set, Place::StepSet);
        for arc in step.next.iter().flat_map(|router| &router.arcs) {
            if let Some(when) = &arc.when {
                self.condition(when, Place::ArcWhen);
            }
            self.set(&arc.set, Place::ArcSet);
        }
        self.step = None;
    }

    fn looping(&mut self, looping: &'p Loop) {
        match &looping.source {
            LoopSource::In(items) => self.dynamic(items, Place::LoopItems),
            LoopSource::Cursor(cursor) => {
                if let Some(auth) = &cursor.auth {
                    self.dynamic(auth, Place::Claim);
                }
                self.dynamic(&cursor.claim, Place::Claim);
                self.fields(&cursor.options, Place::Claim);
            }
        }
        if let Some(width) = &looping.spec.max_in_flight {
            self.setting(width, Place::LoopItems);
        }
        let frame = &looping.spec.frame;
        for number in [&frame.max_rows, &frame.row_concurrency, &frame.max_attempts]
            .into_iter()
            .flatten()
        {
            self.setting(number, Place::LoopItems);
        }
        for time in [
            &frame.max_seconds,
            &frame.lease_seconds,
            &frame.heartbeat_seconds,
        ]
        .into_iter()
        .flatten()
        {
            self.setting(time, Place::LoopItems);
        }
        if let Some(size) = &frame.max_bytes {
            self.setting(size, Place::LoopItems);
        }
    }

    fn task(&mut self, task: &'p Task) {
        self.task = Some(task);
        if let Some(auth) = &task.auth {
            self.dynamic(auth, Place::Task);
        }
        self.fields(&task.input, Place::Task);
        self.fields(&task.config, Place::Task);
        self.output(task.output.as_ref());
        self.set(&task.set, Place::TaskSet);
        for rule in task.spec.policy.iter().flat_map(|policy| &policy.rules) {
            if let RuleTest::When(when) = &rule.test {
                self.condition(when, Place::Rule);
            }
            if let Action::Retry(retry) = &rule.then.action {
                if let Some(attempts) = &retry.attempts {
                    self.setting(attempts, Place::Rule);
                }
                for delay in [&retry.delay, &retry.max_delay].into_iter().flatten() {
                    self.setting(delay, Place::Rule);
                }
            }
            self.set(&rule.then.set, Place::Rule);
        }
        self.task = None;
    }

    fn output(&mut self, output: Option<&'p OutputSpec>) {
        let Some(store) = output.and_then(|output| output.store.as_ref()) else {
            return;
        };
        for text in [&store.bucket, &store.prefix].into_iter().flatten() {
            self.setting(text, Place::Task);
        }
    }

    fn set(&mut self, set: &'p Set, place: Place) {
        for entry in &set.0 {
            self.dynamic(&entry.value, place);
        }
    }

    fn fields(&mut self, fields: &'p Fields, place: Place) {
        for field in fields {
            self.dynamic(&field.value, place);
        }
    }

    fn dynamic(&mut self, value: &'p Dynamic, place: Place) {
        for leaf in value.templates() {
            self.push(&leaf.template, leaf.span.unwrap_or_default(), place);
        }
    }

    fn condition(&mut self, condition: &'p Spanned<crate::model::Condition>, place: Place) {
        if let Some(template) = condition.value.template() {
            self.push(template, condition.span, place);
        }
    }

    fn setting<T>(&mut self, setting: &'p Setting<T>, place: Place) {
        if let Some(template) = setting.template() {
            self.push(&template.value, template.span, place);
        }
    }

    fn push(&mut self, template: &'p Template, span: Span, place: Place) {
        let on_server = match place {
            Place::Workload
            | Place::Root
            | Place::Guard
            | Place::LoopItems
            | Place::StepKey
            | Place::StepSet
            | Place::ArcWhen
            | Place::ArcSet => true,
            Place::Keychain | Place::Claim => false,
            Place::Task | Place::Rule | Place::TaskSet => self
                .task
                .is_some_and(|task| task.kind.value.is_server_side()),
        };
        self.sites.push(Site {
            template,
            span,
            place,
            on_server,
            step: self.step,
            task: self.task,
        });
    }
}
