//! The context of a command: the values that its templates read, as of its issue.
//!
//! Owns the form in which values are sent from an execution to its workers, and their lookup on the
//! worker. A value that templates read by a constant path is stored at that path. The data of a
//! step that is read as a whole, or that is in the result store, has its own lookup rules on the
//! worker, so it is marked as such.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use noetl_types::{Digest, Json, JsonMap};

use crate::command_machine::ContinuationState;
use crate::template::{Binding, ExternalData, FetchNeed, StepData, TemplateData};

/// Fetched payloads, by the URI in their reference.
pub trait PayloadLookup {
    /// Returns a payload if it is available.
    fn get_payload(&self, uri: &str) -> Option<Json>;
}

/// A payload source without payloads.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyPayloads;

impl PayloadLookup for EmptyPayloads {
    fn get_payload(&self, _: &str) -> Option<Json> {
        None
    }
}

impl PayloadLookup for BTreeMap<Arc<str>, Json> {
    fn get_payload(&self, uri: &str) -> Option<Json> {
        BTreeMap::get(self, uri).cloned()
    }
}

/// The values that a command carries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandContext {
    /// Values by name. Under `ctx`, `steps` and `workload` they are nested as templates read them.
    pub values: JsonMap,
    /// Values that are the data of a step, by path (`load`, `ctx.load`, `steps.load.data`).
    pub steps: BTreeMap<Arc<str>, StepDataLabels>,
    /// Values that are references to the result store, by path.
    pub references: BTreeSet<Arc<str>>,
    /// Variables that `set` wrote under `step.`. Only filled if the context is complete.
    pub variables: JsonMap,
    /// True if the context has everything that a template of the execution can read. Names are then
    /// looked up by precedence: variables, then data of steps, then the input of the execution.
    pub is_complete: bool,
    /// State from earlier commands of the same pipeline.
    pub continuation: Option<ContinuationState>,
}

/// Origin of the data of a step, as far as its lookup depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepDataLabels {
    /// From a pipeline with these labels, whose data is found in the data of the step. Without
    /// labels, from a single task.
    Names(Arc<[Arc<str>]>),
    /// From a pipeline, with the data of each task by label, because the data of the last task
    /// hides some of it.
    Data(Json),
    /// From a loop, whose results are also available as `data`.
    Loop,
}

impl StepDataLabels {
    /// For data that does not come from a pipeline.
    pub fn unlabeled() -> Self {
        Self::Names(Arc::default())
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Names(names) => texts_to_json(names.iter()),
            Self::Data(by_label) => by_label.clone(),
            Self::Loop => Json::from("loop"),
        }
    }

    fn from_json(labels: &Json) -> Option<Self> {
        match labels {
            Json::Map(_) => Some(Self::Data(labels.clone())),
            Json::Str(_) => Some(Self::Loop),
            other => texts_from_json(other).map(Self::Names),
        }
    }
}

fn texts_to_json<'t>(texts: impl Iterator<Item = &'t Arc<str>>) -> Json {
    Json::list(texts.map(|text| Json::Str(Arc::clone(text))))
}

fn texts_from_json<C: FromIterator<Arc<str>>>(list: &Json) -> Option<C> {
    list.as_list()?.iter().map(|text| text.as_str().map(Arc::from)).collect()
}

impl CommandContext {
    /// Converts the context to the form that the event that issues a command has.
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
            put("references", texts_to_json(self.references.iter()));
        }
        if !self.variables.is_empty() {
            put("variables", Json::from(self.variables.clone()));
        }
        if self.is_complete {
            put("everything", Json::Bool(true));
        }
        if let Some(continuation) = &self.continuation {
            put("relay", Json::from(continuation.to_json()));
        }
        map
    }

    /// Parses that form. `None` is an empty context.
    pub fn from_json(map: Option<&JsonMap>) -> Option<Self> {
        let Some(map) = map else {
            return Some(Self::default());
        };
        let mut context = Self { is_complete: map.contains_key("everything"), ..Self::default() };
        if let Some(values) = map.get("render_context") {
            context.values = values.as_map()?.clone();
        }
        if let Some(variables) = map.get("variables") {
            context.variables = variables.as_map()?.clone();
        }
        for (path, labels) in map.get("steps").and_then(Json::as_map).into_iter().flatten() {
            context.steps.insert(Arc::clone(path), StepDataLabels::from_json(labels)?);
        }
        if let Some(references) = map.get("references") {
            context.references = texts_from_json(references)?;
        }
        if let Some(continuation) = map.get("relay") {
            context.continuation = Some(ContinuationState::from_json(continuation.as_map()?)?);
        }
        Some(context)
    }

    /// The digest of a payload, according to its reference in the context.
    pub fn payload_digest(&self, uri: &str) -> Option<Digest> {
        let mut references = self.references.iter().filter_map(|path| {
            let mut keys = path.split('.');
            let first = self.values.get(keys.next()?)?;
            keys.try_fold(first, |value, key| value.get(key))
        });
        let reference = references.find(|reference| reference_uri(reference) == uri)?;
        Digest::parse(reference.get("sha256")?.as_str()?).ok()
    }

    /// Looks up a name.
    pub fn lookup_name(&self, name: &str, payloads: &dyn PayloadLookup) -> Option<Binding> {
        match name {
            "ctx" | "steps" => Some(Binding::Members(name.into())),
            _ if self.is_complete => self.lookup_by_precedence(name, payloads),
            _ => self.named_binding(name, payloads),
        }
    }

    /// Looks up a member of `ctx` or `steps`.
    pub fn lookup_member(
        &self,
        root: &str,
        key: &str,
        payloads: &dyn PayloadLookup,
    ) -> Option<Binding> {
        let value = self.values.get(root).and_then(|members| members.get(key));
        match root {
            "ctx" if self.is_complete => match value {
                Some(value) => Some(Binding::Value(value.clone())),
                None => self.lookup_data_or_input(key, payloads),
            },
            "ctx" => Some(self.binding_at(&format!("ctx.{key}"), value?, payloads)),
            "steps" => Some(self.step_facts(key, value?.as_map()?, payloads)),
            _ => None,
        }
    }

    /// Returns all of `ctx` or `steps`.
    pub fn lookup_all(&self, root: &str, payloads: &dyn PayloadLookup) -> Option<Binding> {
        let members =
            |root: &str| self.values.get(root).and_then(Json::as_map).into_iter().flatten();
        if root == "ctx" && self.is_complete {
            let steps = members("steps").map(|(name, _)| name);
            let data = steps.filter(|name| self.is_step_with_data(name));
            let data = data
                .filter_map(|name| Some((Arc::clone(name), self.named_binding(name, payloads)?)));
            let layers = [
                self.values.get("ctx").cloned().map(Binding::Value),
                Some(Binding::from_map(data)),
                self.named_binding("workload", payloads),
            ];
            return Some(Binding::from_layers(layers.into_iter().flatten()));
        }
        let all = members(root).filter_map(|(key, _)| {
            let member = self.lookup_member(root, key, payloads)?;
            Some((Arc::clone(key), member))
        });
        Some(Binding::from_map(all))
    }

    /// The facts of a step in `steps`.
    fn step_facts(&self, step: &str, facts: &JsonMap, payloads: &dyn PayloadLookup) -> Binding {
        let is_completed = facts.get("status").and_then(Json::as_str) == Some("COMPLETED");
        let members = facts.iter().map(|(fact, value)| {
            let path = format!("steps.{step}.{fact}");
            (Arc::clone(fact), plain_binding(self.to_template_data(&path, value, payloads)))
        });
        let mut members: BTreeMap<Arc<str>, Binding> = members.collect();
        // The data of a completed step is stored once, under the name of the step.
        if self.is_complete
            && is_completed
            && let Some(data) = self.named_data(step, payloads)
        {
            members.insert("data".into(), plain_binding(data));
        }
        Binding::Map(Arc::new(members))
    }

    /// Returns true if the name is a step with data, in a complete context.
    fn is_step_with_data(&self, name: &str) -> bool {
        let facts = self.values.get("steps").and_then(|steps| steps.get(name));
        facts.is_some() && self.steps.contains_key(name)
    }

    fn lookup_by_precedence(&self, name: &str, payloads: &dyn PayloadLookup) -> Option<Binding> {
        let variable = self.variables.get(name).or_else(|| self.values.get("ctx")?.get(name));
        match variable {
            Some(value) => Some(Binding::Value(value.clone())),
            None => self
                .lookup_data_or_input(name, payloads)
                .or_else(|| self.named_binding(name, payloads)),
        }
    }

    fn lookup_data_or_input(&self, name: &str, payloads: &dyn PayloadLookup) -> Option<Binding> {
        if self.is_step_with_data(name) {
            return self.named_binding(name, payloads);
        }
        let workload = self.values.get("workload")?;
        if !self.references.contains("workload") {
            return workload.get(name).cloned().map(Binding::Value);
        }
        let uri = reference_uri(workload);
        match payloads.get_payload(uri) {
            Some(workload) => workload.get(name).cloned().map(Binding::Value),
            None => Some(Binding::Needs(FetchNeed::Payload { reference: uri.into() })),
        }
    }

    fn named_binding(&self, name: &str, payloads: &dyn PayloadLookup) -> Option<Binding> {
        Some(self.binding_at(name, self.values.get(name)?, payloads))
    }

    /// The value at a path, with the lookup rules of its kind.
    fn binding_at(&self, path: &str, value: &Json, payloads: &dyn PayloadLookup) -> Binding {
        let data = self.to_template_data(path, value, payloads);
        match self.steps.get(path) {
            Some(labels) => Binding::Step(Arc::new(to_step_data(data, labels))),
            None => plain_binding(data),
        }
    }

    fn named_data(&self, name: &str, payloads: &dyn PayloadLookup) -> Option<TemplateData> {
        Some(self.to_template_data(name, self.values.get(name)?, payloads))
    }

    fn to_template_data(
        &self,
        path: &str,
        value: &Json,
        payloads: &dyn PayloadLookup,
    ) -> TemplateData {
        let labels = self.steps.get(path);
        if self.references.contains(path) {
            external_data(value.clone(), payloads.get_payload(reference_uri(value)), labels)
        } else if labels == Some(&StepDataLabels::Loop) {
            TemplateData::Inline(add_data_alias(value.clone()))
        } else {
            TemplateData::Inline(value.clone())
        }
    }
}

fn reference_uri(reference: &Json) -> &str {
    reference.get("ref").and_then(Json::as_str).unwrap_or_default()
}

/// Binds data without special lookup rules.
pub fn plain_binding(data: TemplateData) -> Binding {
    match data {
        TemplateData::Inline(value) => Binding::Value(value),
        TemplateData::External(external) => Binding::External(external),
    }
}

/// Converts data in the result store for templates, with its payload if it is available.
pub fn external_data(
    reference: Json,
    payload: Option<Json>,
    labels: Option<&StepDataLabels>,
) -> TemplateData {
    let external = ExternalData::new(reference);
    TemplateData::from(match payload {
        None => external,
        Some(payload) if labels == Some(&StepDataLabels::Loop) => {
            external.with_payload(add_data_alias(payload))
        }
        Some(payload) => external.with_payload(payload),
    })
}

/// Converts the data of a step for templates. The data of a pipeline is also found by label.
pub fn to_step_data(data: TemplateData, labels: &StepDataLabels) -> StepData {
    match data_by_label(&data, labels) {
        Some(by_label) => StepData::new(data).with_labels(by_label),
        None => StepData::new(data),
    }
}

/// The data of each task of a pipeline.
pub fn data_by_label(data: &TemplateData, labels: &StepDataLabels) -> Option<TemplateData> {
    match (labels, data) {
        (StepDataLabels::Loop, _) => None,
        (StepDataLabels::Names(names), _) if names.is_empty() => None,
        (StepDataLabels::Data(by_label), _) => Some(TemplateData::Inline(by_label.clone())),
        (StepDataLabels::Names(names), TemplateData::Inline(value)) => {
            let labeled_data = |label: &Arc<str>| Some((label.clone(), value.get(label)?.clone()));
            let by_label = Json::object(names.iter().filter_map(labeled_data));
            Some(TemplateData::Inline(by_label))
        }
        (StepDataLabels::Names(_), TemplateData::External(external)) => {
            Some(TemplateData::External(Arc::clone(external)))
        }
    }
}

/// Adds `data` as another name of `results` to the data of a loop, as templates read it. The log
/// does not store the results twice.
pub fn add_data_alias(value: Json) -> Json {
    let Json::Map(mut map) = value else {
        return value;
    };
    if let Some(results) = map.get("results").cloned() {
        Arc::make_mut(&mut map).entry("data".into()).or_insert(results);
    }
    Json::Map(map)
}

/// Removes `data` from the data of a loop, for the log and for commands.
pub fn remove_data_alias(value: Json) -> Json {
    let Json::Map(mut map) = value else {
        return value;
    };
    if map.contains_key("data") && map.contains_key("results") {
        Arc::make_mut(&mut map).remove("data");
    }
    Json::Map(map)
}

#[cfg(test)]
mod tests;
