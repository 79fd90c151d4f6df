//! Collects all templates of a playbook with their locations.

use crate::model::{
    Loop, LoopSource, NamedValues, Playbook, RuleAction, RuleTest, SetClause, Step, Task,
    ValueOrTemplate,
};
use crate::source::{Span, Spanned};
use crate::template::{DynamicValue, Template};

/// Location of a template, which determines the names that it may read and where it is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SiteKind {
    /// Default input values, rendered once at the start.
    Workload,
    /// An entry of the keychain, rendered on the worker.
    Keychain,
    /// Concurrency and priority of the whole execution.
    Root,
    /// Guard or admission rule of a step.
    Guard,
    /// `loop.in` and the settings of a loop.
    LoopItems,
    /// Claim statement of a cursor loop.
    Claim,
    /// Cache key, concurrency key and priority of a step.
    StepKey,
    /// Input of a step or task, and configuration of a task.
    Task,
    /// A rule of a task's policy.
    Rule,
    /// A write of a task.
    TaskSet,
    /// A write of a step.
    StepSet,
    /// Condition of an arc.
    ArcWhen,
    /// A write of an arc.
    ArcSet,
}

impl SiteKind {
    /// True if the template is rendered after the task or the step has run.
    pub(super) fn sees_own_data(self) -> bool {
        matches!(self, Self::TaskSet | Self::Rule | Self::StepSet | Self::ArcWhen | Self::ArcSet)
    }

    /// True if the template is rendered before the end of its step is recorded.
    pub(super) fn is_during_step(self) -> bool {
        self == Self::Task || (self.sees_own_data() && self != Self::ArcSet)
    }
}

/// A template and its location.
pub(super) struct TemplateSite<'p> {
    pub(super) template: &'p Template,
    /// Position of the scalar in the document.
    pub(super) span: Span,
    pub(super) kind: SiteKind,
    /// True if the server renders the template.
    pub(super) on_server: bool,
    pub(super) step: Option<&'p Step>,
    pub(super) task: Option<&'p Task>,
}

/// Collects the templates of a playbook in no particular order.
pub(super) fn collect_template_sites(playbook: &Playbook) -> Vec<TemplateSite<'_>> {
    let mut collector = SiteCollector { sites: Vec::new(), step: None, task: None };
    for field in &playbook.workload {
        collector.visit_dynamic(&field.value, SiteKind::Workload);
    }
    for entry in &playbook.keychain {
        for value in [&entry.auth, &entry.token, &entry.endpoint].into_iter().flatten() {
            collector.visit_dynamic(value, SiteKind::Keychain);
        }
        for fields in [&entry.map, &entry.headers, &entry.data] {
            collector.visit_named_values(fields, SiteKind::Keychain);
        }
    }
    if let Some(concurrency) = &playbook.concurrency {
        collector.visit_setting(&concurrency.key, SiteKind::Root);
    }
    if let Some(priority) = &playbook.priority {
        collector.visit_setting(priority, SiteKind::Root);
    }
    for task in &playbook.workbook {
        collector.visit_task(&task.tool);
    }
    for step in &playbook.workflow {
        collector.visit_step(step);
    }
    collector.sites
}

struct SiteCollector<'p> {
    sites: Vec<TemplateSite<'p>>,
    step: Option<&'p Step>,
    task: Option<&'p Task>,
}

impl<'p> SiteCollector<'p> {
    fn visit_step(&mut self, step: &'p Step) {
        self.step = Some(step);
        let conditions = step
            .when
            .iter()
            .chain(step.spec.policy.admit.iter().filter_map(|rule| rule.when.as_ref()));
        for condition in conditions {
            self.visit_condition(condition, SiteKind::Guard);
        }
        if let Some(looping) = &step.looping {
            self.visit_loop(looping);
        }
        if let Some(cache) = &step.spec.cache {
            self.visit_setting(&cache.key, SiteKind::StepKey);
        }
        if let Some(concurrency) = &step.concurrency {
            self.visit_setting(&concurrency.key, SiteKind::StepKey);
        }
        if let Some(priority) = &step.priority {
            self.visit_setting(priority, SiteKind::StepKey);
        }
        self.visit_named_values(&step.input, SiteKind::Task);
        for task in step.tool.tasks() {
            self.visit_task(task);
        }
        self.visit_set(&step.set, SiteKind::StepSet);
        for arc in step.next.iter().flat_map(|router| &router.arcs) {
            if let Some(when) = &arc.when {
                self.visit_condition(when, SiteKind::ArcWhen);
            }
            self.visit_set(&arc.set, SiteKind::ArcSet);
        }
        self.step = None;
    }

    fn visit_loop(&mut self, looping: &'p Loop) {
        match &looping.source {
            LoopSource::In(items) => self.visit_dynamic(items, SiteKind::LoopItems),
            LoopSource::Cursor(cursor) => {
                if let Some(auth) = &cursor.auth {
                    self.visit_dynamic(auth, SiteKind::Claim);
                }
                self.visit_dynamic(&cursor.claim, SiteKind::Claim);
                self.visit_named_values(&cursor.options, SiteKind::Claim);
            }
        }
        if let Some(width) = &looping.spec.max_in_flight {
            self.visit_setting(width, SiteKind::LoopItems);
        }
        let frame = &looping.spec.frame;
        for number in [&frame.max_rows, &frame.max_attempts].into_iter().flatten() {
            self.visit_setting(number, SiteKind::LoopItems);
        }
        for time in [&frame.max_seconds, &frame.lease_seconds, &frame.heartbeat_seconds]
            .into_iter()
            .flatten()
        {
            self.visit_setting(time, SiteKind::LoopItems);
        }
        if let Some(size) = &frame.max_bytes {
            self.visit_setting(size, SiteKind::LoopItems);
        }
    }

    fn visit_task(&mut self, task: &'p Task) {
        self.task = Some(task);
        if let Some(auth) = &task.auth {
            self.visit_dynamic(auth, SiteKind::Task);
        }
        self.visit_named_values(&task.input, SiteKind::Task);
        self.visit_named_values(&task.config, SiteKind::Task);
        self.visit_set(&task.set, SiteKind::TaskSet);
        for rule in task.spec.policy.iter().flat_map(|policy| &policy.rules) {
            if let RuleTest::When(when) = &rule.test {
                self.visit_condition(when, SiteKind::Rule);
            }
            if let RuleAction::Retry(retry) = &rule.then.action {
                if let Some(attempts) = &retry.attempts {
                    self.visit_setting(attempts, SiteKind::Rule);
                }
                for delay in [&retry.delay, &retry.max_delay].into_iter().flatten() {
                    self.visit_setting(delay, SiteKind::Rule);
                }
            }
            self.visit_set(&rule.then.set, SiteKind::Rule);
        }
        self.task = None;
    }

    fn visit_set(&mut self, set: &'p SetClause, kind: SiteKind) {
        for entry in &set.0 {
            self.visit_dynamic(&entry.value, kind);
        }
    }

    fn visit_named_values(&mut self, fields: &'p NamedValues, kind: SiteKind) {
        for field in fields {
            self.visit_dynamic(&field.value, kind);
        }
    }

    fn visit_dynamic(&mut self, value: &'p DynamicValue, kind: SiteKind) {
        for leaf in value.templates() {
            self.add_site(&leaf.template, leaf.span.unwrap_or_default(), kind);
        }
    }

    fn visit_condition(&mut self, condition: &'p Spanned<crate::model::Condition>, kind: SiteKind) {
        if let Some(template) = condition.value.as_template() {
            self.add_site(template, condition.span, kind);
        }
    }

    fn visit_setting<T>(&mut self, setting: &'p ValueOrTemplate<T>, kind: SiteKind) {
        if let Some(template) = setting.as_template() {
            self.add_site(&template.value, template.span, kind);
        }
    }

    fn add_site(&mut self, template: &'p Template, span: Span, kind: SiteKind) {
        let on_server = match kind {
            SiteKind::Workload
            | SiteKind::Root
            | SiteKind::Guard
            | SiteKind::LoopItems
            | SiteKind::StepKey
            | SiteKind::StepSet
            | SiteKind::ArcWhen
            | SiteKind::ArcSet => true,
            SiteKind::Keychain | SiteKind::Claim => false,
            SiteKind::Task | SiteKind::Rule | SiteKind::TaskSet => {
                self.task.is_some_and(|task| task.kind.value.is_server_side())
            }
        };
        self.sites.push(TemplateSite {
            template,
            span,
            kind,
            on_server,
            step: self.step,
            task: self.task,
        });
    }
}
