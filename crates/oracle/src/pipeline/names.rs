//! What templates of a task see, before and after an attempt.

use std::sync::Arc;

use noetl_playbook::model::{Step, Task, ToolKind};
use noetl_playbook::template::OutputPlace;
use noetl_types::{Json, JsonMap};

use super::Item;
use super::run::{Attempt, Pipeline};
use crate::names::{Names, Rank};
use crate::outcome::Answer;

impl Pipeline<'_> {
    /// What templates of a task see before it runs.
    pub(super) fn names(&self, task: &Task, attempt: u64) -> Names {
        let progress = &self.progress;
        let mut names = self.view.names(&self.command.step.name.value);
        names.put_all(Rank::Label, &progress.results);
        names.put_all(Rank::Variable, &progress.variables);
        names.put(Rank::Place, "iter", Json::from(progress.iter.clone()));
        names.put(Rank::Place, "results", Json::from(progress.results.clone()));
        names.put(Rank::Place, "_task", Json::from(&*task.label.value));
        names.put(Rank::Place, "_attempt", Json::from(attempt));
        if let Some(previous) = &progress.previous {
            names.put(Rank::Place, "_prev", previous.clone());
        }
        if let (Some(item), Some(looping)) = (&self.command.item, &self.command.step.looping) {
            put_item(&mut names, &looping.iterator.value, item);
        }
        names
    }

    /// The same with what the attempt came to.
    pub(super) fn names_after(&self, attempt: &Attempt<'_>, place: OutputPlace) -> Names {
        let mut names = self.names(attempt.task, attempt.number);
        put_input(&mut names, &attempt.input);
        let data = attempt.data();
        let (status, error) = match &attempt.answer {
            Answer::Ok(_) => ("ok", Json::Null),
            Answer::Error(error) => (
                "error",
                error.object(&attempt.task.label.value, attempt.number),
            ),
        };
        let meta = Json::object([
            ("task", Json::from(&*attempt.task.label.value)),
            ("attempt", Json::from(attempt.number)),
        ]);
        let mut envelope = vec![
            ("status", Json::from(status)),
            ("error", error.clone()),
            ("meta", meta),
        ];
        if attempt.task.kind.value == ToolKind::Http {
            let found = data.get("status_code").or_else(|| error.get("status"));
            let headers = data.get("headers").cloned().unwrap_or_default();
            let http = [
                ("status", found.cloned().unwrap_or_default()),
                ("headers", headers),
            ];
            envelope.push(("http", Json::object(http)));
        }
        names.put_output(place, Json::object(envelope), &data);
        names
    }
}

/// Adds the input of a task, whole and name by name.
pub(super) fn put_input(names: &mut Names, input: &JsonMap) {
    names.put(Rank::Place, "input", Json::from(input.clone()));
    names.put_all(Rank::Input, input);
}

/// What `iter` holds at the start of an iteration.
pub(super) fn iter_map(step: &Step, item: &Item) -> JsonMap {
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

/// The same values under their bare names.
fn put_item(names: &mut Names, iterator: &Arc<str>, item: &Item) {
    let index = Json::from(item.index);
    names.put(Rank::Iterator, Arc::clone(iterator), item.value.clone());
    names.put(Rank::Iterator, "loop_index", index.clone());
    names.put(Rank::Place, "_index", index.clone());
    names.put(Rank::Place, "_total", Json::from(item.total));
    let members = [
        ("index", index),
        ("first", Json::Bool(item.index == 0)),
        ("last", Json::Bool(item.index + 1 == item.total)),
        ("length", Json::from(item.total)),
    ];
    names.put(Rank::Iterator, "loop", Json::object(members));
}
