//! Names that the templates of a task see, before and after an attempt.

use std::sync::Arc;

use noetl_playbook::model::{Step, Task, Tool, ToolKind};
use noetl_playbook::template::OutputPlace;
use noetl_types::{Json, JsonMap};

use super::executor::{PipelineExecutor, TaskAttempt};
use super::{LoopItem, pipeline_data};
use crate::names::{NamePrecedence, StepValue, TemplateNames};
use crate::outcome::ToolAnswer;

impl PipelineExecutor<'_> {
    /// Returns the names that the templates of a task see before it runs.
    pub(super) fn task_template_names(&self, task: &Task, attempt: u64) -> TemplateNames {
        let progress = &self.progress;
        let mut names = self.view.template_names(&self.command.step.name.value);
        names.add_names(NamePrecedence::Label, &progress.results);
        names.add_names(NamePrecedence::Variable, &progress.variables);
        names.add_name(NamePrecedence::Builtin, "iter", Json::from(progress.iter.clone()));
        names.add_name(NamePrecedence::Builtin, "results", Json::from(progress.results.clone()));
        names.add_name(NamePrecedence::Builtin, "_task", Json::from(&*task.label.value));
        names.add_name(NamePrecedence::Builtin, "_attempt", Json::from(attempt));
        if let Some(previous) = &progress.previous {
            names.add_name(NamePrecedence::Builtin, "_prev", previous.clone());
        }
        if let (Some(item), Some(looping)) = (&self.command.item, &self.command.step.looping) {
            add_loop_item(&mut names, &looping.iterator.value, item);
        }
        names
    }

    /// Returns the names before the task, with the outcome of the attempt.
    pub(super) fn attempt_template_names(
        &self,
        attempt: &TaskAttempt<'_>,
        place: OutputPlace,
    ) -> TemplateNames {
        let mut names = self.task_template_names(attempt.task, attempt.number);
        add_input(&mut names, &attempt.input);
        let data = attempt.result_data();
        let (status, error) = match &attempt.answer {
            ToolAnswer::Ok(_) => ("ok", Json::Null),
            ToolAnswer::Error(error) => {
                ("error", error.to_error_object(&attempt.task.label.value, attempt.number))
            }
        };
        let meta = Json::object([
            ("task", Json::from(&*attempt.task.label.value)),
            ("attempt", Json::from(attempt.number)),
        ]);
        let mut envelope =
            vec![("status", Json::from(status)), ("error", error.clone()), ("meta", meta)];
        if attempt.task.kind.value == ToolKind::Http {
            let http_status = data.get("status_code").or_else(|| error.get("status"));
            let headers = data.get("headers").cloned().unwrap_or_default();
            let http = [("status", http_status.cloned().unwrap_or_default()), ("headers", headers)];
            envelope.push(("http", Json::object(http)));
        }
        names.add_output(place, Json::object(envelope), &data);
        self.add_own_names(&mut names, attempt.task, data);
        names
    }

    /// Adds the data of the attempt under the names of its task and its step.
    fn add_own_names(&self, names: &mut TemplateNames, task: &Task, data: Json) {
        let (step, label) = (self.command.step, &task.label.value);
        let mut results = self.progress.results.clone();
        results.insert(Arc::clone(label), data.clone());
        let own = match &step.tool {
            Tool::Single(_) => StepValue { data, labels: None },
            Tool::Pipeline(_) => {
                names.add_name(NamePrecedence::Label, Arc::clone(label), data.clone());
                let data = pipeline_data(&results, data);
                StepValue { data, labels: Some(results.clone()) }
            }
        };
        let is_label =
            matches!(step.tool, Tool::Pipeline(_)) && results.contains_key(&step.name.value);
        if !is_label {
            names.add_name(NamePrecedence::Label, Arc::clone(&step.name.value), own.to_binding());
        }
        names.add_name(NamePrecedence::Builtin, "results", Json::from(results));
    }
}

/// Adds the input of a task, as a whole and name by name.
pub(super) fn add_input(names: &mut TemplateNames, input: &JsonMap) {
    names.add_name(NamePrecedence::Builtin, "input", Json::from(input.clone()));
    names.add_names(NamePrecedence::Input, input);
}

/// Returns the value of `iter` at the start of an iteration.
pub(super) fn iteration_variables(step: &Step, item: &LoopItem) -> JsonMap {
    let mut iter = JsonMap::new();
    if let Some(looping) = &step.looping {
        iter.insert(Arc::clone(&looping.iterator.value), item.value.clone());
    }
    for name in ["index", "_index"] {
        iter.insert(name.into(), Json::from(item.index));
    }
    iter.insert("_total".into(), Json::from(item.total));
    iter.insert("_first".into(), Json::Bool(item.index == 0));
    iter.insert("_last".into(), Json::Bool(item.index + 1 == item.total));
    iter
}

/// Adds the values of an iteration under their bare names.
fn add_loop_item(names: &mut TemplateNames, iterator: &Arc<str>, item: &LoopItem) {
    let index = Json::from(item.index);
    names.add_name(NamePrecedence::Iterator, Arc::clone(iterator), item.value.clone());
    names.add_name(NamePrecedence::Iterator, "loop_index", index.clone());
    names.add_name(NamePrecedence::Builtin, "_index", index.clone());
    names.add_name(NamePrecedence::Builtin, "_total", Json::from(item.total));
    let members = [
        ("index", index),
        ("first", Json::Bool(item.index == 0)),
        ("last", Json::Bool(item.index + 1 == item.total)),
        ("length", Json::from(item.total)),
    ];
    names.add_name(NamePrecedence::Iterator, "loop", Json::object(members));
}
