//! What a command carries: the values that its templates read, as of its issue.
//!
//! Owns the form in which values travel from a run to its workers, and the way in which a worker
//! finds them again. A value that a template reads by a written path is carried at that path. The
//! data of a step that is read as a whole, or that is kept in the result store, keeps its own rules
//! of lookup on the worker, so it is marked as what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_playbook::template::{Binding, Data as TemplateData, External, StepData};
use noetl_types::{Json, JsonMap};

use crate::loops::with_data;
use crate::payload::Payloads;

/// The values that a command carries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Carried {
    /// Values by name. Under `ctx`, `steps` and `workload` they are nested as templates read them.
    pub values: JsonMap,
    /// Which of the values are the data of a step, by path (`load`, `ctx.load`, `steps.load.data`).
    pub steps: BTreeMap<Arc<str>, Labels>,
    /// Which of the values are references to the result store, by path.
    pub references: BTreeSet<Arc<str>>,
    /// What `set` wrote under `step.`, where everything is carried.
    pub variables: JsonMap,
    /// Whether everything is here that a template of the run can see, so that names are found by
    /// their precedence: variables, then data of steps, then the input of the run.
    pub everything: bool,
}

/// Where the data of a step comes from, as far as its lookup depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Labels {
    /// From a pipeline with these labels, whose data is found in the data of the step; without
    /// labels from a single task.
    Names(Arc<[Arc<str>]>),
    /// From a pipeline; the data of each task is told apart, that of the last one hiding some of it.
    Data(Json),
    /// From a loop, whose results are also called `data`.
    Loop,
}

impl Labels {
    /// Of data that comes from no pipeline.
    pub fn none() -> Self {
        Self::Names(Arc::default())
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Names(names) => texts_json(names.iter()),
            Self::Data(by_label) => by_label.clone(),
            Self::Loop => Json::from("loop"),
        }
    }

    fn from_json(labels: &Json) -> Option<Self> {
        match labels {
            Json::Map(_) => Some(Self::Data(labels.clone())),
            Json::Str(_) => Some(Self::Loop),
            other => texts(other).map(Self::Names),
        }
    }
}

fn texts_json<'t>(texts: impl Iterator<Item = &'t Arc<str>>) -> Json {
    Json::list(texts.map(|text| Json::Str(Arc::clone(text))))
}

fn texts<C: FromIterator<Arc<str>>>(list: &Json) -> Option<C> {
    list.as_list()?
        .iter()
        .map(|text| text.as_str().map(Arc::from))
        .collect()
}

impl Carried {
    /// The form in which the event that issues a command holds them.
    pub fn to_json(&self) -> JsonMap {
        let mut map = JsonMap::new();
        let mut put = |key: &str, value: Json| map.insert(key.into(), value);
        if !self.values.is_empty() {
            put("render_context", Json::from(self.values.clone()));
        }
        if !self.steps.is_empty() {
            let steps = self.steps.iter();
            let steps = steps.map(|(path, labels)| (Arc::clone(path), labels.to_json()));
            put("steps", Json::object(steps));
        }
        if !self.references.is_empty() {
            put("references", texts_json(self.references.iter()));
        }
        if !self.variables.is_empty() {
            put("variables", Json::from(self.variables.clone()));
        }
        if self.everything {
            put("everything", Json::Bool(true));
        }
        map
    }

    /// Reads that form; nothing at all is a command that carries nothing.
    pub fn from_json(map: Option<&JsonMap>) -> Option<Self> {
        let Some(map) = map else {
            return Some(Self::default());
        };
        let mut carried = Self {
            everything: map.contains_key("everything"),
            ..Self::default()
        };
        if let Some(values) = map.get("render_context") {
            carried.values = values.as_map()?.clone();
        }
        if let Some(variables) = map.get("variables") {
            carried.variables = variables.as_map()?.clone();
        }
        for (path, labels) in map
            .get("steps")
            .and_then(Json::as_map)
            .into_iter()
            .flatten()
        {
            carried
                .steps
                .insert(Arc::clone(path), Labels::from_json(labels)?);
        }
        if let Some(references) = map.get("references") {
            carried.references = texts(references)?;
        }
        Some(carried)
    }

    /// The value of a name.
    pub fn lookup(&self, name: &str, payloads: &dyn Payloads) -> Option<Binding> {
        match name {
            "ctx" | "steps" => Some(Binding::Members(name.into())),
            _ if self.everything => self.by_precedence(name, payloads),
            _ => Some(self.at(name, self.values.get(name)?, payloads)),
        }
    }

    /// A member of `ctx` or `steps`.
    pub fn member(&self, root: &str, key: &str, payloads: &dyn Payloads) -> Option<Binding> {
        match root {
            "ctx" if self.everything => match self.values.get("ctx")?.get(key) {
                Some(value) => Some(Binding::Value(value.clone())),
                None => self.by_precedence(key, payloads),
            },
            "ctx" => {
                let value = self.values.get("ctx")?.get(key)?;
                Some(self.at(&format!("ctx.{key}"), value, payloads))
            }
            "steps" => {
                let facts = self.values.get("steps")?.get(key)?.as_map()?;
                let mut facts: BTreeMap<Arc<str>, Binding> = facts
                    .iter()
                    .map(|(fact, value)| {
                        let path = format!("steps.{key}.{fact}");
                        (fact.clone(), self.at(&path, value, payloads))
                    })
                    .collect();
                let is_completed = || {
                    let status = self.values.get("steps")?.get(key)?.get("status")?;
                    (status.as_str()? == "COMPLETED").then_some(())
                };
                if self.everything
                    && is_completed().is_some()
                    && let Some(data) = self.values.get(key)
                {
                    facts.insert("data".into(), self.at(key, data, payloads));
                }
                Some(Binding::Map(Arc::new(facts)))
            }
            _ => None,
        }
    }

    /// All of `ctx` or `steps`.
    pub fn whole(&self, root: &str, payloads: &dyn Payloads) -> Option<Binding> {
        let names: BTreeSet<&Arc<str>> = match root {
            "ctx" if self.everything => {
                let known = self.values.get("steps").and_then(Json::as_map);
                let data = known.into_iter().flat_map(|steps| steps.keys());
                let data = data.filter(|name| self.is_step(name));
                let inputs = self.values.get("workload").and_then(Json::as_map);
                let variables = self.values.get("ctx").and_then(Json::as_map);
                let keys = [inputs, variables]
                    .into_iter()
                    .flatten()
                    .flat_map(|map| map.keys());
                data.chain(keys).collect()
            }
            "ctx" | "steps" => self.values.get(root)?.as_map()?.keys().collect(),
            _ => return None,
        };
        let members = names.into_iter().filter_map(|name| {
            let member = self.member(root, name, payloads)?;
            Some((Arc::clone(name), member))
        });
        Some(Binding::map(members))
    }

    /// Whether a name is that of a step with data, where everything is carried.
    fn is_step(&self, name: &str) -> bool {
        let facts = self.values.get("steps").and_then(|steps| steps.get(name));
        facts.is_some() && self.steps.contains_key(name)
    }

    fn by_precedence(&self, name: &str, payloads: &dyn Payloads) -> Option<Binding> {
        let within = |root: &str| self.values.get(root).and_then(|map| map.get(name)).cloned();
        if let Some(variable) = self.variables.get(name).cloned().or_else(|| within("ctx")) {
            return Some(Binding::Value(variable));
        }
        if self.is_step(name) {
            return Some(self.at(name, self.values.get(name)?, payloads));
        }
        if let Some(input) = within("workload") {
            return Some(Binding::Value(input));
        }
        Some(self.at(name, self.values.get(name)?, payloads))
    }

    /// The value at a path as what it is.
    fn at(&self, path: &str, value: &Json, payloads: &dyn Payloads) -> Binding {
        let labels = self.steps.get(path);
        let data = if self.references.contains(path) {
            let uri = value.get("ref").and_then(Json::as_str).unwrap_or_default();
            external(value.clone(), payloads.get(uri), labels)
        } else if labels == Some(&Labels::Loop) {
            TemplateData::Inline(with_data(value.clone()))
        } else {
            TemplateData::Inline(value.clone())
        };
        match (labels, data) {
            (Some(labels), data) => Binding::Step(Arc::new(step_data(data, labels))),
            (None, TemplateData::Inline(value)) => Binding::Value(value),
            (None, TemplateData::External(external)) => Binding::External(external),
        }
    }
}

/// Data in the result store for templates, with its payload where that is at hand.
pub(crate) fn external(
    reference: Json,
    payload: Option<Json>,
    from: Option<&Labels>,
) -> TemplateData {
    let external = External::new(reference);
    TemplateData::from(match payload {
        None => external,
        Some(payload) if from == Some(&Labels::Loop) => external.with_payload(with_data(payload)),
        Some(payload) => external.with_payload(payload),
    })
}

/// The data of a step for templates: that of a pipeline is also found by label.
pub(crate) fn step_data(data: TemplateData, labels: &Labels) -> StepData {
    match data_by_label(&data, labels) {
        Some(by_label) => StepData::new(data).with_labels(by_label),
        None => StepData::new(data),
    }
}

/// The data of each task of a pipeline.
pub(crate) fn data_by_label(data: &TemplateData, labels: &Labels) -> Option<TemplateData> {
    match (labels, data) {
        (Labels::Loop, _) => None,
        (Labels::Names(names), _) if names.is_empty() => None,
        (Labels::Data(by_label), _) => Some(TemplateData::Inline(by_label.clone())),
        (Labels::Names(names), TemplateData::Inline(value)) => {
            let found = |label: &Arc<str>| Some((label.clone(), value.get(label)?.clone()));
            let by_label = Json::object(names.iter().filter_map(found));
            Some(TemplateData::Inline(by_label))
        }
        (Labels::Names(_), TemplateData::External(external)) => {
            Some(TemplateData::External(Arc::clone(external)))
        }
    }
}
