//! What a command carries: the values that its templates read, as of its issue.
//!
//! Owns the form in which values travel from a run to its workers, and the way in which a worker
//! finds them again. A value that a template reads by a written path is carried at that path. The
//! data of a step that is read as a whole, or that is kept in the result store, keeps its own rules
//! of lookup on the worker, so it is marked as what it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_types::{Digest, Json, JsonMap};

use crate::shift::Relay;
use crate::template::{Binding, Data as TemplateData, External, Need, StepData};

/// Payloads that were fetched, by the address in their reference.
pub trait Payloads {
    /// A payload, if it is at hand.
    fn get(&self, uri: &str) -> Option<Json>;
}

/// No payload at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPayloads;

impl Payloads for NoPayloads {
    fn get(&self, _: &str) -> Option<Json> {
        None
    }
}

impl Payloads for BTreeMap<Arc<str>, Json> {
    fn get(&self, uri: &str) -> Option<Json> {
        BTreeMap::get(self, uri).cloned()
    }
}

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
    /// What earlier commands of the same pipeline hand on.
    pub relay: Option<Relay>,
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
        if let Some(relay) = &self.relay {
            put("relay", Json::from(relay.to_json()));
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
        if let Some(relay) = map.get("relay") {
            carried.relay = Some(Relay::from_json(relay.as_map()?)?);
        }
        Some(carried)
    }

    /// The digest that a carried reference tells of its data.
    pub fn digest_of(&self, uri: &str) -> Option<Digest> {
        let mut references = self.references.iter().filter_map(|path| {
            let mut keys = path.split('.');
            let first = self.values.get(keys.next()?)?;
            keys.try_fold(first, |value, key| value.get(key))
        });
        let reference = references.find(|reference| uri_of(reference) == uri)?;
        Digest::parse(reference.get("sha256")?.as_str()?).ok()
    }

    /// The value of a name.
    pub fn lookup(&self, name: &str, payloads: &dyn Payloads) -> Option<Binding> {
        match name {
            "ctx" | "steps" => Some(Binding::Members(name.into())),
            _ if self.everything => self.by_precedence(name, payloads),
            _ => self.named(name, payloads),
        }
    }

    /// A member of `ctx` or `steps`.
    pub fn member(&self, root: &str, key: &str, payloads: &dyn Payloads) -> Option<Binding> {
        let value = self.values.get(root).and_then(|members| members.get(key));
        match root {
            "ctx" if self.everything => match value {
                Some(value) => Some(Binding::Value(value.clone())),
                None => self.data_or_input(key, payloads),
            },
            "ctx" => Some(self.at(&format!("ctx.{key}"), value?, payloads)),
            "steps" => Some(self.facts(key, value?.as_map()?, payloads)),
            _ => None,
        }
    }

    /// All of `ctx` or `steps`.
    pub fn whole(&self, root: &str, payloads: &dyn Payloads) -> Option<Binding> {
        let members = |root: &str| {
            self.values
                .get(root)
                .and_then(Json::as_map)
                .into_iter()
                .flatten()
        };
        if root == "ctx" && self.everything {
            let steps = members("steps").map(|(name, _)| name);
            let data = steps.filter(|name| self.is_step(name));
            let data =
                data.filter_map(|name| Some((Arc::clone(name), self.named(name, payloads)?)));
            let layers = [
                self.values.get("ctx").cloned().map(Binding::Value),
                Some(Binding::map(data)),
                self.named("workload", payloads),
            ];
            return Some(Binding::layers(layers.into_iter().flatten()));
        }
        let all = members(root).filter_map(|(key, _)| {
            let member = self.member(root, key, payloads)?;
            Some((Arc::clone(key), member))
        });
        Some(Binding::map(all))
    }

    /// What `steps` tells of a step.
    fn facts(&self, step: &str, facts: &JsonMap, payloads: &dyn Payloads) -> Binding {
        let is_completed = facts.get("status").and_then(Json::as_str) == Some("COMPLETED");
        let told = facts.iter().map(|(fact, value)| {
            let path = format!("steps.{step}.{fact}");
            (Arc::clone(fact), plain(self.data(&path, value, payloads)))
        });
        let mut told: BTreeMap<Arc<str>, Binding> = told.collect();
        // The data of a step that went well is carried once, under its name.
        if self.everything
            && is_completed
            && let Some(data) = self.data_at(step, payloads)
        {
            told.insert("data".into(), plain(data));
        }
        Binding::Map(Arc::new(told))
    }

    /// Whether a name is that of a step with data, where everything is carried.
    fn is_step(&self, name: &str) -> bool {
        let facts = self.values.get("steps").and_then(|steps| steps.get(name));
        facts.is_some() && self.steps.contains_key(name)
    }

    fn by_precedence(&self, name: &str, payloads: &dyn Payloads) -> Option<Binding> {
        let variable = self
            .variables
            .get(name)
            .or_else(|| self.values.get("ctx")?.get(name));
        match variable {
            Some(value) => Some(Binding::Value(value.clone())),
            None => self
                .data_or_input(name, payloads)
                .or_else(|| self.named(name, payloads)),
        }
    }

    fn data_or_input(&self, name: &str, payloads: &dyn Payloads) -> Option<Binding> {
        if self.is_step(name) {
            return self.named(name, payloads);
        }
        let workload = self.values.get("workload")?;
        if !self.references.contains("workload") {
            return workload.get(name).cloned().map(Binding::Value);
        }
        let uri = uri_of(workload);
        match payloads.get(uri) {
            Some(workload) => workload.get(name).cloned().map(Binding::Value),
            None => Some(Binding::Needs(Need::Payload {
                reference: uri.into(),
            })),
        }
    }

    fn named(&self, name: &str, payloads: &dyn Payloads) -> Option<Binding> {
        Some(self.at(name, self.values.get(name)?, payloads))
    }

    /// The value at a path as what it is.
    fn at(&self, path: &str, value: &Json, payloads: &dyn Payloads) -> Binding {
        let data = self.data(path, value, payloads);
        match self.steps.get(path) {
            Some(labels) => Binding::Step(Arc::new(step_data(data, labels))),
            None => plain(data),
        }
    }

    fn data_at(&self, name: &str, payloads: &dyn Payloads) -> Option<TemplateData> {
        Some(self.data(name, self.values.get(name)?, payloads))
    }

    fn data(&self, path: &str, value: &Json, payloads: &dyn Payloads) -> TemplateData {
        let labels = self.steps.get(path);
        if self.references.contains(path) {
            external(value.clone(), payloads.get(uri_of(value)), labels)
        } else if labels == Some(&Labels::Loop) {
            TemplateData::Inline(with_data(value.clone()))
        } else {
            TemplateData::Inline(value.clone())
        }
    }
}

fn uri_of(reference: &Json) -> &str {
    reference
        .get("ref")
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// Data without rules of its own.
pub fn plain(data: TemplateData) -> Binding {
    match data {
        TemplateData::Inline(value) => Binding::Value(value),
        TemplateData::External(external) => Binding::External(external),
    }
}

/// Data in the result store for templates, with its payload where that is at hand.
pub fn external(reference: Json, payload: Option<Json>, from: Option<&Labels>) -> TemplateData {
    let external = External::new(reference);
    TemplateData::from(match payload {
        None => external,
        Some(payload) if from == Some(&Labels::Loop) => external.with_payload(with_data(payload)),
        Some(payload) => external.with_payload(payload),
    })
}

/// The data of a step for templates: that of a pipeline is also found by label.
pub fn step_data(data: TemplateData, labels: &Labels) -> StepData {
    match data_by_label(&data, labels) {
        Some(by_label) => StepData::new(data).with_labels(by_label),
        None => StepData::new(data),
    }
}

/// The data of each task of a pipeline.
pub fn data_by_label(data: &TemplateData, labels: &Labels) -> Option<TemplateData> {
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

/// The data of a loop as templates see it: `data` is another name for its results. The log does not
/// write them twice.
pub fn with_data(value: Json) -> Json {
    let Json::Map(mut map) = value else {
        return value;
    };
    if let Some(results) = map.get("results").cloned() {
        Arc::make_mut(&mut map)
            .entry("data".into())
            .or_insert(results);
    }
    Json::Map(map)
}

/// The data of a loop as the log and commands hold it.
pub fn without_data(value: Json) -> Json {
    let Json::Map(mut map) = value else {
        return value;
    };
    if map.contains_key("data") && map.contains_key("results") {
        Arc::make_mut(&mut map).remove("data");
    }
    Json::Map(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_also_called_data() {
        let results = Json::list([Json::from(1)]);
        let data = with_data(Json::object([("results", results), ("stats", Json::Null)]));
        assert_eq!(data.get("data"), data.get("results"));
        assert_eq!(with_data(without_data(data.clone())), data);
        assert_eq!(without_data(data).get("data"), None);
        assert_eq!(with_data(Json::from(1)), Json::from(1));
    }
}
