//! The environment of templates on a worker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_types::{Json, JsonMap, Text, Timestamp};

use super::call::CodeContext;
use super::state::pipeline_data;
use crate::command_context::CommandContext;
use crate::model::{Step, Tool};
use crate::template::{
    Binding, FetchNeed, FuelBudget, StepData, TaskOutput, TemplateEnvironment, TemplateLimits,
};

/// The item of an iteration.
pub(super) struct LoopItem {
    pub(super) iterator: Arc<str>,
    pub(super) value: Json,
    pub(super) index: u32,
    pub(super) total: u32,
}

/// Stands for the whole keychain, which must not be read.
pub(super) const WHOLE_KEYCHAIN: &str = "*";

impl LoopItem {
    fn is_last(&self) -> bool {
        self.index.saturating_add(1) == self.total
    }

    /// A name of the iteration that is available without `iter.`.
    fn lookup_bare(&self, name: &str) -> Option<Json> {
        match name {
            _ if name == &*self.iterator => Some(self.value.clone()),
            "_index" | "loop_index" => Some(Json::from(self.index)),
            "_total" => Some(Json::from(self.total)),
            "loop" => Some(Json::object([
                ("index", Json::from(self.index)),
                ("first", Json::from(self.index == 0)),
                ("last", Json::from(self.is_last())),
                ("length", Json::from(self.total)),
            ])),
            _ => None,
        }
    }

    fn insert_into(&self, iter: &mut JsonMap) {
        iter.insert(Arc::clone(&self.iterator), self.value.clone());
        for (name, value) in [
            ("index", Json::from(self.index)),
            ("_index", Json::from(self.index)),
            ("_total", Json::from(self.total)),
            ("_first", Json::from(self.index == 0)),
            ("_last", Json::from(self.is_last())),
        ] {
            iter.insert(name.into(), value);
        }
    }
}

/// The data of a command while its tasks run.
pub(super) struct CommandData {
    pub(super) execution_id: Text,
    pub(super) command_id: Option<Text>,
    pub(super) worker_id: Option<Text>,
    pub(super) context: CommandContext,
    pub(super) payloads: BTreeMap<Arc<str>, Json>,
    /// Resolved keychain entries.
    pub(super) secrets: BTreeMap<Arc<str>, Json>,
    pub(super) now: Timestamp,
    pub(super) limits: TemplateLimits,
    pub(super) budget: Option<FuelBudget>,
    pub(super) item: Option<LoopItem>,
    /// Number of rows that the frame of the command claims.
    pub(super) frame_max_rows: Option<u32>,
    /// Values written by `set`: variables of the execution, the iteration, the step and the
    /// pipeline.
    pub(super) ctx: Json,
    pub(super) iter: Json,
    pub(super) step_variables: Json,
    pub(super) pipeline: JsonMap,
    /// The data of the tasks so far.
    pub(super) results: JsonMap,
    pub(super) previous: Json,
}

impl CommandData {
    /// A name of the iteration, or a variable of the pipeline or of the step pass.
    fn variable(&self, name: &str) -> Option<Json> {
        let iteration = self.item.as_ref().and_then(|item| item.lookup_bare(name));
        iteration.or_else(|| {
            let variable = self.pipeline.get(name);
            variable.or_else(|| self.step_variables.get(name)).cloned()
        })
    }

    fn iter_map(&self) -> Json {
        let mut iter = self.iter.as_map().cloned().unwrap_or_default();
        if let Some(item) = &self.item {
            item.insert_into(&mut iter);
        }
        Json::from(iter)
    }
}

/// The environment of the templates of one task.
pub(super) struct TaskEnvironment<'s> {
    pub(super) command: &'s CommandData,
    pub(super) label: &'s str,
    pub(super) idempotency_key: &'s str,
    pub(super) attempt: u32,
    pub(super) input: Option<&'s JsonMap>,
    pub(super) output: Option<TaskOutput>,
    pub(super) error: Json,
    /// The attempt whose `set` or rules are rendered.
    pub(super) completed: Option<CompletedTask<'s>>,
}

/// A completed attempt, as the step's and the task's own name refer to it.
pub(super) struct CompletedTask<'s> {
    pub(super) step: &'s Step,
    pub(super) data: &'s Json,
}

impl TaskEnvironment<'_> {
    /// The data of this pass, under the name of the task or of the step.
    fn own_data(&self, name: &str) -> Option<Binding> {
        let completed = self.completed.as_ref()?;
        let is_step = name == &*completed.step.name.value;
        match &completed.step.tool {
            Tool::Pipeline(_) if name == self.label => Some(Binding::Value(completed.data.clone())),
            Tool::Pipeline(_) if is_step && !self.command.results.contains_key(name) => {
                let labels = self.results();
                let data = pipeline_data(&labels, Some(completed.data.clone()));
                let data = StepData::new(data).with_labels(Json::from(labels));
                Some(Binding::Step(Arc::new(data)))
            }
            Tool::Single(_) if is_step => {
                Some(Binding::Step(Arc::new(StepData::new(completed.data.clone()))))
            }
            Tool::Pipeline(_) | Tool::Single(_) => None,
        }
    }

    /// The data of the tasks so far, by label.
    fn results(&self) -> JsonMap {
        let mut results = self.command.results.clone();
        if let Some(completed) = &self.completed {
            results.insert(self.label.into(), completed.data.clone());
        }
        results
    }

    fn input_value(&self, name: &str) -> Option<&Json> {
        self.input.and_then(|input| input.get(name))
    }

    /// Looks up a name that is not reserved by the language.
    fn lookup_bare(&self, name: &str) -> Option<Binding> {
        let command = self.command;
        if let Some(value) = command.variable(name) {
            return Some(Binding::Value(value));
        }
        if let Some(own) = self.own_data(name) {
            return Some(own);
        }
        if let Some(value) = command.results.get(name).or_else(|| command.ctx.get(name)) {
            return Some(Binding::Value(value.clone()));
        }
        command
            .context
            .lookup_name(name, &command.payloads)
            .or_else(|| self.worker_value(name).map(Binding::Value))
    }

    fn worker_value(&self, name: &str) -> Option<Json> {
        match name {
            "command_id" => self.command.command_id.as_ref().map(Json::from),
            "worker_id" => self.command.worker_id.as_ref().map(Json::from),
            "idempotency_key" => Some(Json::from(self.idempotency_key)),
            _ => None,
        }
    }

    /// Everything that code may read: all names of the task with their values. Data in the result
    /// store is needed as a whole.
    pub(super) fn code_context(&self) -> Result<CodeContext, FetchNeed> {
        let mut context = JsonMap::new();
        for name in self.known_names()? {
            if let Some(binding) = self.lookup_name(&name) {
                context.insert(name, binding.to_value(self)?.0);
            }
        }
        let mut variables = self.context_map("ctx").cloned().unwrap_or_default();
        let written = self.command.ctx.as_map().into_iter().flatten();
        variables.extend(written.map(|(name, value)| (Arc::clone(name), value.clone())));
        Ok(CodeContext { context, variables })
    }

    fn context_map(&self, name: &str) -> Option<&JsonMap> {
        self.command.context.values.get(name).and_then(Json::as_map)
    }

    /// All names that are known without looking them up.
    fn known_names(&self) -> Result<BTreeSet<Arc<str>>, FetchNeed> {
        const FIXED_NAMES: [&str; 9] = [
            "execution_id", "workload", "ctx", "steps", "iter", "results", "command_id",
            "worker_id", "idempotency_key",
        ];
        const ITERATION_NAMES: [&str; 4] = ["_index", "_total", "loop_index", "loop"];
        let command = self.command;
        let mut names: BTreeSet<Arc<str>> = FIXED_NAMES.into_iter().map(Arc::from).collect();
        if let Some(item) = &command.item {
            names.extend(ITERATION_NAMES.into_iter().map(Arc::from));
            names.insert(Arc::clone(&item.iterator));
        }
        if let Some(workload) = self.lookup_name("workload") {
            let workload = workload.to_value(self)?.0;
            names.extend(workload.as_map().into_iter().flat_map(JsonMap::keys).cloned());
        }
        let maps = [
            Some(&command.context.values),
            Some(&command.context.variables),
            self.context_map("ctx"),
            command.ctx.as_map(),
            command.step_variables.as_map(),
            Some(&command.pipeline),
            Some(&command.results),
        ];
        names.extend(maps.into_iter().flatten().flat_map(JsonMap::keys).cloned());
        Ok(names)
    }
}

impl TemplateEnvironment for TaskEnvironment<'_> {
    fn lookup_name(&self, name: &str) -> Option<Binding> {
        let command = self.command;
        let value = match name {
            "execution_id" => Json::from(&command.execution_id),
            "ctx" | "steps" | "keychain" => return Some(Binding::Members(name.into())),
            "workload" => return command.context.lookup_name(name, &command.payloads),
            _ if let Some(input) = self.input_value(name) => input.clone(),
            "output" => return Some(Binding::Output(Arc::new(self.output.clone()?))),
            "outcome" => {
                return Some(Binding::Output(Arc::new(self.output.clone()?.as_outcome())));
            }
            "error" => self.error.clone(),
            "iter" => command.iter_map(),
            "input" => Json::from(self.input.cloned().unwrap_or_default()),
            "results" => Json::from(self.results()),
            "_prev" => command.previous.clone(),
            "_task" => Json::from(self.label),
            "_attempt" => Json::from(self.attempt),
            "__frame_max_rows" => Json::from(command.frame_max_rows?),
            _ => return self.lookup_bare(name),
        };
        Some(Binding::Value(value))
    }

    fn lookup_member(&self, root: &str, key: &str) -> Option<Binding> {
        let command = self.command;
        match root {
            "keychain" => Some(match command.secrets.get(key) {
                Some(secret) => Binding::Secret(secret.clone()),
                None => Binding::Needs(FetchNeed::Secret { name: key.into() }),
            }),
            "ctx" if let Some(written) = command.ctx.get(key) => {
                Some(Binding::Value(written.clone()))
            }
            _ => command.context.lookup_member(root, key, &command.payloads),
        }
    }

    fn lookup_all(&self, root: &str) -> Option<Binding> {
        let command = self.command;
        let from_context = command.context.lookup_all(root, &command.payloads);
        match root {
            "keychain" => Some(Binding::Needs(FetchNeed::Secret { name: WHOLE_KEYCHAIN.into() })),
            "ctx" => {
                let written = Binding::Value(command.ctx.clone());
                Some(Binding::from_layers([Some(written), from_context].into_iter().flatten()))
            }
            _ => from_context,
        }
    }

    fn limits(&self) -> TemplateLimits {
        self.command.limits
    }

    fn budget(&self) -> Option<&FuelBudget> {
        self.command.budget.as_ref()
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.command.now)
    }
}
