//! Names whose members are looked up by special rules: `output`, the data of steps, and data in the
//! result store.

use std::sync::Arc;

use noetl_types::Json;

use super::environment::Binding;
use super::error::FetchNeed;

/// Data of a task or step, inline or in the result store.
#[derive(Debug, Clone)]
pub enum TemplateData {
    /// The data itself.
    Inline(Json),
    /// A reference to the data.
    External(Arc<ExternalData>),
}

impl From<Json> for TemplateData {
    fn from(value: Json) -> Self {
        Self::Inline(value)
    }
}

impl From<ExternalData> for TemplateData {
    fn from(external: ExternalData) -> Self {
        Self::External(Arc::new(external))
    }
}

impl TemplateData {
    fn to_binding(&self) -> Binding {
        match self {
            Self::Inline(value) => Binding::Value(value.clone()),
            Self::External(external) => Binding::External(Arc::clone(external)),
        }
    }

    fn get_member(&self, key: &str) -> Result<Option<Binding>, FetchNeed> {
        match self {
            Self::Inline(value) => Ok(value.get(key).cloned().map(Binding::Value)),
            Self::External(external) => external.get_member(key),
        }
    }

    fn to_value(&self) -> Result<Json, FetchNeed> {
        match self {
            Self::Inline(value) => Ok(value.clone()),
            Self::External(external) => external.payload(),
        }
    }
}

/// Data in the result store.
///
/// Fields of the reference are read from it directly. All other members need the payload, and
/// reading them stops the render until the environment provides it.
#[derive(Debug, Clone)]
pub struct ExternalData {
    reference: Json,
    payload: Option<Json>,
}

impl ExternalData {
    /// Data identified by its reference: the map with `ref`, `store`, `extracted` and so on in
    /// events.
    pub fn new(reference: Json) -> Self {
        Self { reference, payload: None }
    }

    /// Adds the payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    fn payload_need(&self) -> FetchNeed {
        let reference = match self.reference.get("ref") {
            Some(Json::Str(reference)) => Arc::clone(reference),
            Some(_) | None => Arc::from(""),
        };
        FetchNeed::Payload { reference }
    }

    pub(super) fn payload(&self) -> Result<Json, FetchNeed> {
        self.payload.clone().ok_or_else(|| self.payload_need())
    }

    fn reference_field(&self, key: &str) -> Option<&Json> {
        self.reference.get(key)
    }

    pub(super) fn get_member(&self, key: &str) -> Result<Option<Binding>, FetchNeed> {
        let field = match key {
            "_ref" => self.reference_field("ref"),
            "_store" => self.reference_field("store"),
            "_uri" => self.reference_field("uri").or_else(|| self.reference_field("ref")),
            "_preview" => {
                self.reference_field("preview").or_else(|| self.reference_field("extracted"))
            }
            _ => None,
        };
        if let Some(field) = field {
            return Ok(Some(Binding::Value(field.clone())));
        }
        if let Some(payload) = &self.payload {
            return Ok(payload.get(key).cloned().map(Binding::Value));
        }
        match self.reference_field("extracted").and_then(|extracted| extracted.get(key)) {
            Some(found) => Ok(Some(Binding::Value(found.clone()))),
            None => Err(self.payload_need()),
        }
    }
}

/// The data of the latest successful pass of a step.
#[derive(Debug, Clone)]
pub struct StepData {
    data: TemplateData,
    labels: Option<TemplateData>,
}

impl StepData {
    /// Data of a step with a single task or a loop.
    pub fn new(data: impl Into<TemplateData>) -> Self {
        Self { data: data.into(), labels: None }
    }

    /// Adds the data of each task of a pipeline, by label.
    #[must_use]
    pub fn with_labels(mut self, labels: impl Into<TemplateData>) -> Self {
        self.labels = Some(labels.into());
        self
    }

    pub(super) fn data(&self) -> Result<Json, FetchNeed> {
        self.data.to_value()
    }

    pub(super) fn get_member(&self, key: &str) -> Result<Option<Binding>, FetchNeed> {
        if let (Some(labels), "results") = (&self.labels, key) {
            return Ok(Some(labels.to_binding()));
        }
        if let Some(found) = self.data.get_member(key)? {
            return Ok(Some(found));
        }
        match (&self.labels, key) {
            (_, "data" | "result") => Ok(Some(self.data.to_binding())),
            (Some(labels), _) => labels.get_member(key),
            (None, _) => Ok(None),
        }
    }
}

/// Data with fallback keys, which are used where the data has no such key.
#[derive(Debug, Clone)]
pub struct OverlayData {
    data: TemplateData,
    fallback: Json,
}

impl OverlayData {
    pub(super) fn data(&self) -> Result<Json, FetchNeed> {
        self.data.to_value()
    }

    pub(super) fn get_member(&self, key: &str) -> Result<Option<Binding>, FetchNeed> {
        let found = self.data.get_member(key)?;
        Ok(found.or_else(|| self.fallback.get(key).cloned().map(Binding::Value)))
    }
}

/// The kinds of places that read `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPlace {
    /// A policy rule: the envelope comes before the data.
    Rule,
    /// A `set` or an arc: the data comes before the envelope.
    Set,
}

/// The output of a task or step.
#[derive(Debug, Clone)]
pub struct TaskOutput {
    place: OutputPlace,
    envelope: Json,
    data: TemplateData,
    is_outcome: bool,
}

impl TaskOutput {
    /// The output of a task or step. `envelope` holds everything except the data: `status`,
    /// `error`, `http` and so on.
    pub fn new(place: OutputPlace, envelope: Json, data: impl Into<TemplateData>) -> Self {
        Self { place, envelope, data: data.into(), is_outcome: false }
    }

    /// The output under its other name, `outcome`, in which the data is called `result`.
    #[must_use]
    pub fn as_outcome(mut self) -> Self {
        self.is_outcome = true;
        self
    }

    pub(super) fn data(&self) -> Result<Json, FetchNeed> {
        self.data.to_value()
    }

    pub(super) fn get_member(&self, key: &str) -> Result<Option<Binding>, FetchNeed> {
        let found = match self.place {
            OutputPlace::Rule => match self.envelope_member(key) {
                Some(found) => Some(found),
                None => self.data.get_member(key)?,
            },
            OutputPlace::Set => match self.data.get_member(key)? {
                Some(found) => Some(found),
                None => self.envelope_member(key),
            },
        };
        Ok(found.or_else(|| (key == "response").then(|| self.data_binding())))
    }

    fn envelope_member(&self, key: &str) -> Option<Binding> {
        if key == "data" || (key == "result" && self.is_outcome) {
            return Some(self.data_binding());
        }
        self.envelope.get(key).cloned().map(Binding::Value)
    }

    /// `output.data`. In a rule, the keys of the body are used where the result of an http task
    /// does not have them.
    fn data_binding(&self) -> Binding {
        let is_http = self.envelope.get("http").is_some_and(|http| !http.is_null());
        if self.place == OutputPlace::Rule
            && is_http
            && let Ok(data) = self.data.to_value()
            && let Some(body @ Json::Map(_)) = data.get("data")
        {
            let overlay = OverlayData { data: self.data.clone(), fallback: body.clone() };
            return Binding::Overlay(Arc::new(overlay));
        }
        self.data.to_binding()
    }
}
