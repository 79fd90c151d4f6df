//! What a template on a worker sees.

use std::sync::Arc;

use noetl_engine::{Carried, Payloads};
use noetl_playbook::template::{Binding, Output, Scope};
use noetl_types::{Json, JsonMap, Timestamp};

/// The item of an iteration.
pub(super) struct Item {
    pub(super) iterator: Arc<str>,
    pub(super) value: Json,
    pub(super) index: u32,
    pub(super) total: u32,
}

/// What a command knows while its tasks run.
pub(super) struct Bench<'b> {
    pub(super) execution_id: String,
    pub(super) command_id: String,
    pub(super) idempotency_key: String,
    pub(super) carried: &'b Carried,
    pub(super) payloads: &'b dyn Payloads,
    pub(super) now: Timestamp,
    pub(super) item: Option<Item>,
    /// What `set` wrote: variables of the run, the iteration, the step and the pipeline.
    pub(super) ctx: Json,
    pub(super) iter: Json,
    pub(super) step_variables: Json,
    pub(super) pipeline: JsonMap,
    /// The data of the tasks so far.
    pub(super) results: JsonMap,
    pub(super) previous: Json,
}

/// A task in the middle of its work.
pub(super) struct TaskScope<'s> {
    pub(super) bench: &'s Bench<'s>,
    pub(super) label: &'s str,
    pub(super) attempt: u32,
    pub(super) input: Option<&'s JsonMap>,
    pub(super) output: Option<Output>,
    pub(super) error: Json,
}

impl TaskScope<'_> {
    fn iteration(&self, name: &str) -> Option<Json> {
        let item = self.bench.item.as_ref()?;
        let last = item.index + 1 == item.total;
        match name {
            _ if name == &*item.iterator => Some(item.value.clone()),
            "_index" | "loop_index" => Some(Json::from(item.index)),
            "_total" => Some(Json::from(item.total)),
            "loop" => Some(Json::object([
                ("index", Json::from(item.index)),
                ("first", Json::from(item.index == 0)),
                ("last", Json::from(last)),
                ("length", Json::from(item.total)),
            ])),
            _ => None,
        }
    }

    fn iter_map(&self) -> Json {
        let mut iter = self.bench.iter.as_map().cloned().unwrap_or_default();
        if let Some(item) = &self.bench.item {
            let last = item.index + 1 == item.total;
            iter.insert(Arc::clone(&item.iterator), item.value.clone());
            iter.insert("index".into(), Json::from(item.index));
            iter.insert("_index".into(), Json::from(item.index));
            iter.insert("_total".into(), Json::from(item.total));
            iter.insert("_first".into(), Json::from(item.index == 0));
            iter.insert("_last".into(), Json::from(last));
        }
        Json::from(iter)
    }

    fn below_input(&self, name: &str) -> Option<Binding> {
        let bench = self.bench;
        let own = self.iteration(name).or_else(|| {
            let step = bench.step_variables.get(name);
            let found = bench
                .pipeline
                .get(name)
                .or(step)
                .or_else(|| bench.results.get(name));
            found.or_else(|| bench.ctx.get(name)).cloned()
        });
        match own {
            Some(value) => Some(Binding::Value(value)),
            None => bench.carried.lookup(name, bench.payloads),
        }
    }
}

impl Scope for TaskScope<'_> {
    fn lookup(&self, name: &str) -> Option<Binding> {
        let bench = self.bench;
        let value = match name {
            "execution_id" => Json::from(bench.execution_id.as_str()),
            "ctx" | "steps" => return Some(Binding::Members(name.into())),
            "workload" => return bench.carried.lookup(name, bench.payloads),
            _ if self.input.is_some_and(|input| input.contains_key(name)) => {
                self.input.and_then(|input| input.get(name)).cloned()?
            }
            "output" => return Some(Binding::Output(Arc::new(self.output.clone()?))),
            "outcome" => {
                return Some(Binding::Output(Arc::new(self.output.clone()?.as_outcome())));
            }
            "error" => self.error.clone(),
            "iter" => self.iter_map(),
            "input" => Json::from(self.input.cloned().unwrap_or_default()),
            "results" => Json::from(bench.results.clone()),
            "_prev" => bench.previous.clone(),
            "_task" => Json::from(self.label),
            "_attempt" => Json::from(self.attempt),
            _ => {
                return self.below_input(name).or_else(|| match name {
                    "command_id" => Some(Json::from(bench.command_id.as_str()).into()),
                    "idempotency_key" => Some(Json::from(bench.idempotency_key.as_str()).into()),
                    _ => None,
                });
            }
        };
        Some(Binding::Value(value))
    }

    fn member(&self, root: &str, key: &str) -> Option<Binding> {
        let written = (root == "ctx").then(|| self.bench.ctx.get(key)).flatten();
        match written {
            Some(value) => Some(Binding::Value(value.clone())),
            None => self.bench.carried.member(root, key, self.bench.payloads),
        }
    }

    fn whole(&self, root: &str) -> Option<Binding> {
        let carried = self.bench.carried.whole(root, self.bench.payloads);
        match root {
            "ctx" => Some(Binding::layers(
                [Some(Binding::Value(self.bench.ctx.clone())), carried]
                    .into_iter()
                    .flatten(),
            )),
            _ => carried,
        }
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.bench.now)
    }
}
