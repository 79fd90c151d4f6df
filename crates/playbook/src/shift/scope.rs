//! What a template on a worker sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_types::{Json, JsonMap, Text, Timestamp};

use super::call::Surroundings;
use super::secrets::Secrets;
use crate::carried::Carried;
use crate::template::{Binding, Need, Output, Scope, TemplateLimits};

/// The item of an iteration.
pub(super) struct Item {
    pub(super) iterator: Arc<str>,
    pub(super) value: Json,
    pub(super) index: u32,
    pub(super) total: u32,
}

impl Item {
    fn is_last(&self) -> bool {
        self.index.saturating_add(1) == self.total
    }

    /// What an iteration calls itself, without `iter.`.
    fn bare(&self, name: &str) -> Option<Json> {
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

    fn put_into(&self, iter: &mut JsonMap) {
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

/// What a command knows while its tasks run.
pub(super) struct Bench {
    pub(super) execution_id: Text,
    pub(super) command_id: Option<Text>,
    pub(super) worker_id: Option<Text>,
    pub(super) carried: Carried,
    pub(super) payloads: BTreeMap<Arc<str>, Json>,
    pub(super) secrets: Secrets,
    pub(super) now: Timestamp,
    pub(super) limits: TemplateLimits,
    pub(super) item: Option<Item>,
    /// How many rows the frame of the command asks for.
    pub(super) frame_max_rows: Option<u32>,
    /// What `set` wrote: variables of the run, the iteration, the step and the pipeline.
    pub(super) ctx: Json,
    pub(super) iter: Json,
    pub(super) step_variables: Json,
    pub(super) pipeline: JsonMap,
    /// The data of the tasks so far.
    pub(super) results: JsonMap,
    pub(super) previous: Json,
}

impl Bench {
    fn own_value(&self, name: &str) -> Option<Json> {
        let iteration = self.item.as_ref().and_then(|item| item.bare(name));
        iteration.or_else(|| {
            let variable = self.pipeline.get(name);
            let variable = variable.or_else(|| self.step_variables.get(name));
            let own = variable.or_else(|| self.results.get(name));
            own.or_else(|| self.ctx.get(name)).cloned()
        })
    }

    fn iter_map(&self) -> Json {
        let mut iter = self.iter.as_map().cloned().unwrap_or_default();
        if let Some(item) = &self.item {
            item.put_into(&mut iter);
        }
        Json::from(iter)
    }
}

/// A task in the middle of its work.
pub(super) struct TaskScope<'s> {
    pub(super) bench: &'s Bench,
    pub(super) label: &'s str,
    pub(super) idempotency_key: &'s str,
    pub(super) attempt: u32,
    pub(super) input: Option<&'s JsonMap>,
    pub(super) output: Option<Output>,
    pub(super) error: Json,
}

impl TaskScope<'_> {
    fn given(&self, name: &str) -> Option<&Json> {
        self.input.and_then(|input| input.get(name))
    }

    /// A name that no part of the language keeps for itself.
    fn bare(&self, name: &str) -> Option<Binding> {
        let bench = self.bench;
        if let Some(value) = bench.own_value(name) {
            return Some(Binding::Value(value));
        }
        bench
            .carried
            .lookup(name, &bench.payloads)
            .or_else(|| self.name_of_worker(name).map(Binding::Value))
    }

    fn name_of_worker(&self, name: &str) -> Option<Json> {
        match name {
            "command_id" => self.bench.command_id.as_ref().map(Json::from),
            "worker_id" => self.bench.worker_id.as_ref().map(Json::from),
            "idempotency_key" => Some(Json::from(self.idempotency_key)),
            _ => None,
        }
    }

    /// All that code may ask for: every name of the task with its value. What is in the result
    /// store is needed as a whole.
    pub(super) fn surroundings(&self) -> Result<Surroundings, Need> {
        let mut context = JsonMap::new();
        for name in self.names()? {
            if let Some(binding) = self.lookup(&name) {
                context.insert(name, binding.settle(self)?.0);
            }
        }
        let mut variables = self.map_of("ctx").cloned().unwrap_or_default();
        let written = self.bench.ctx.as_map().into_iter().flatten();
        variables.extend(written.map(|(name, value)| (Arc::clone(name), value.clone())));
        Ok(Surroundings { context, variables })
    }

    fn map_of(&self, name: &str) -> Option<&JsonMap> {
        self.bench.carried.values.get(name).and_then(Json::as_map)
    }

    /// Every name that can be told without asking for it.
    fn names(&self) -> Result<BTreeSet<Arc<str>>, Need> {
        const ALWAYS: [&str; 9] = [
            "execution_id",
            "workload",
            "ctx",
            "steps",
            "iter",
            "results",
            "command_id",
            "worker_id",
            "idempotency_key",
        ];
        const OF_ITERATION: [&str; 4] = ["_index", "_total", "loop_index", "loop"];
        let bench = self.bench;
        let mut names: BTreeSet<Arc<str>> = ALWAYS.into_iter().map(Arc::from).collect();
        if let Some(item) = &bench.item {
            names.extend(OF_ITERATION.into_iter().map(Arc::from));
            names.insert(Arc::clone(&item.iterator));
        }
        if let Some(workload) = self.lookup("workload") {
            let workload = workload.settle(self)?.0;
            names.extend(
                workload
                    .as_map()
                    .into_iter()
                    .flat_map(JsonMap::keys)
                    .cloned(),
            );
        }
        let maps = [
            Some(&bench.carried.values),
            Some(&bench.carried.variables),
            self.map_of("ctx"),
            bench.ctx.as_map(),
            bench.step_variables.as_map(),
            Some(&bench.pipeline),
            Some(&bench.results),
        ];
        names.extend(maps.into_iter().flatten().flat_map(JsonMap::keys).cloned());
        Ok(names)
    }
}

impl Scope for TaskScope<'_> {
    fn lookup(&self, name: &str) -> Option<Binding> {
        let bench = self.bench;
        let value = match name {
            "execution_id" => Json::from(&bench.execution_id),
            "ctx" | "steps" | "keychain" => return Some(Binding::Members(name.into())),
            "workload" => return bench.carried.lookup(name, &bench.payloads),
            _ if let Some(given) = self.given(name) => given.clone(),
            "output" => return Some(Binding::Output(Arc::new(self.output.clone()?))),
            "outcome" => {
                return Some(Binding::Output(Arc::new(self.output.clone()?.as_outcome())));
            }
            "error" => self.error.clone(),
            "iter" => bench.iter_map(),
            "input" => Json::from(self.input.cloned().unwrap_or_default()),
            "results" => Json::from(bench.results.clone()),
            "_prev" => bench.previous.clone(),
            "_task" => Json::from(self.label),
            "_attempt" => Json::from(self.attempt),
            "__frame_max_rows" => Json::from(bench.frame_max_rows?),
            _ => return self.bare(name),
        };
        Some(Binding::Value(value))
    }

    fn member(&self, root: &str, key: &str) -> Option<Binding> {
        let bench = self.bench;
        match root {
            "keychain" => Some(match bench.secrets.get(key) {
                Some(secret) => Binding::Secret(secret),
                None => Binding::Needs(Need::Secret { name: key.into() }),
            }),
            "ctx" if let Some(written) = bench.ctx.get(key) => {
                Some(Binding::Value(written.clone()))
            }
            _ => bench.carried.member(root, key, &bench.payloads),
        }
    }

    fn whole(&self, root: &str) -> Option<Binding> {
        let bench = self.bench;
        let carried = bench.carried.whole(root, &bench.payloads);
        match root {
            "keychain" => Some(Binding::Needs(Need::Secret { name: "*".into() })),
            "ctx" => {
                let written = Binding::Value(bench.ctx.clone());
                Some(Binding::layers(
                    [Some(written), carried].into_iter().flatten(),
                ))
            }
            _ => carried,
        }
    }

    fn limits(&self) -> TemplateLimits {
        self.bench.limits
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.bench.now)
    }
}
