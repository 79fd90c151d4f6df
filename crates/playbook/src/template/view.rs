//! The names whose parts are found by rules: `output`, the data of steps, and data that is kept in
//! the result store.

use std::sync::Arc;

use noetl_types::Json;

use super::error::Need;
use super::scope::Binding;

/// Data of a task or step, inline or in the result store.
#[derive(Debug, Clone)]
pub enum Data {
    /// The data itself.
    Inline(Json),
    /// A reference to it.
    External(Arc<External>),
}

impl From<Json> for Data {
    fn from(value: Json) -> Self {
        Self::Inline(value)
    }
}

impl From<External> for Data {
    fn from(external: External) -> Self {
        Self::External(Arc::new(external))
    }
}

impl Data {
    fn binding(&self) -> Binding {
        match self {
            Self::Inline(value) => Binding::Value(value.clone()),
            Self::External(external) => Binding::External(Arc::clone(external)),
        }
    }

    fn member(&self, key: &str) -> Result<Option<Binding>, Need> {
        match self {
            Self::Inline(value) => Ok(value.get(key).cloned().map(Binding::Value)),
            Self::External(external) => external.member(key),
        }
    }

    fn value(&self) -> Result<Json, Need> {
        match self {
            Self::Inline(value) => Ok(value.clone()),
            Self::External(external) => external.payload(),
        }
    }
}

/// Data in the result store.
///
/// What the reference tells is read from it; anything else needs the payload, and asking for it
/// stops the render until the scope has it.
#[derive(Debug, Clone)]
pub struct External {
    reference: Json,
    payload: Option<Json>,
}

impl External {
    /// Data known by its reference, the map with `ref`, `store`, `extracted` and so on that events
    /// carry.
    pub fn new(reference: Json) -> Self {
        Self {
            reference,
            payload: None,
        }
    }

    /// The same with its payload at hand.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    fn need(&self) -> Need {
        let reference = match self.reference.get("ref") {
            Some(Json::Str(reference)) => Arc::clone(reference),
            Some(_) | None => Arc::from(""),
        };
        Need::Payload { reference }
    }

    pub(super) fn payload(&self) -> Result<Json, Need> {
        self.payload.clone().ok_or_else(|| self.need())
    }

    fn field(&self, key: &str) -> Option<&Json> {
        self.reference.get(key)
    }

    pub(super) fn member(&self, key: &str) -> Result<Option<Binding>, Need> {
        let own = match key {
            "_ref" => self.field("ref"),
            "_store" => self.field("store"),
            "_uri" => self.field("uri").or_else(|| self.field("ref")),
            "_preview" => self.field("preview").or_else(|| self.field("extracted")),
            _ => None,
        };
        if let Some(own) = own {
            return Ok(Some(Binding::Value(own.clone())));
        }
        if let Some(payload) = &self.payload {
            return Ok(payload.get(key).cloned().map(Binding::Value));
        }
        match self
            .field("extracted")
            .and_then(|extracted| extracted.get(key))
        {
            Some(found) => Ok(Some(Binding::Value(found.clone()))),
            None => Err(self.need()),
        }
    }
}

/// The data of the latest successful run of a step.
#[derive(Debug, Clone)]
pub struct StepData {
    data: Data,
    labels: Option<Data>,
}

impl StepData {
    /// Data of a step with a single task or a loop.
    pub fn new(data: impl Into<Data>) -> Self {
        Self {
            data: data.into(),
            labels: None,
        }
    }

    /// Adds the data of each task of a pipeline, by label.
    #[must_use]
    pub fn with_labels(mut self, labels: impl Into<Data>) -> Self {
        self.labels = Some(labels.into());
        self
    }

    pub(super) fn data(&self) -> Result<Json, Need> {
        self.data.value()
    }

    pub(super) fn member(&self, key: &str) -> Result<Option<Binding>, Need> {
        if let (Some(labels), "results") = (&self.labels, key) {
            return Ok(Some(labels.binding()));
        }
        if let Some(found) = self.data.member(key)? {
            return Ok(Some(found));
        }
        match (&self.labels, key) {
            (_, "data" | "result") => Ok(Some(self.data.binding())),
            (Some(labels), _) => labels.member(key),
            (None, _) => Ok(None),
        }
    }
}

/// Data with further keys beneath it, which are found where it has none of that name.
#[derive(Debug, Clone)]
pub struct Overlay {
    data: Data,
    beneath: Json,
}

impl Overlay {
    pub(super) fn data(&self) -> Result<Json, Need> {
        self.data.value()
    }

    pub(super) fn member(&self, key: &str) -> Result<Option<Binding>, Need> {
        let found = self.data.member(key)?;
        Ok(found.or_else(|| self.beneath.get(key).cloned().map(Binding::Value)))
    }
}

/// Where `output` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPlace {
    /// A policy rule: the envelope comes before the data.
    Rule,
    /// A `set` or an arc: the data comes before the envelope.
    Set,
}

/// What a task or step put out.
#[derive(Debug, Clone)]
pub struct Output {
    place: OutputPlace,
    envelope: Json,
    data: Data,
    outcome: bool,
}

impl Output {
    /// The outcome of a task or step: `envelope` holds `status`, `error`, `http` and so on, all
    /// but the data.
    pub fn new(place: OutputPlace, envelope: Json, data: impl Into<Data>) -> Self {
        Self {
            place,
            envelope,
            data: data.into(),
            outcome: false,
        }
    }

    /// The same under its other name, `outcome`, which calls its data `result`.
    #[must_use]
    pub fn as_outcome(mut self) -> Self {
        self.outcome = true;
        self
    }

    pub(super) fn data(&self) -> Result<Json, Need> {
        self.data.value()
    }

    pub(super) fn member(&self, key: &str) -> Result<Option<Binding>, Need> {
        let found = match self.place {
            OutputPlace::Rule => match self.in_envelope(key) {
                Some(found) => Some(found),
                None => self.data.member(key)?,
            },
            OutputPlace::Set => match self.data.member(key)? {
                Some(found) => Some(found),
                None => self.in_envelope(key),
            },
        };
        Ok(found.or_else(|| (key == "response").then(|| self.whole_data())))
    }

    fn in_envelope(&self, key: &str) -> Option<Binding> {
        if key == "data" || (key == "result" && self.outcome) {
            return Some(self.whole_data());
        }
        self.envelope.get(key).cloned().map(Binding::Value)
    }

    /// `output.data`. In a rule, keys that the result of an http task does not use itself are
    /// those of its body.
    fn whole_data(&self) -> Binding {
        let is_http = self
            .envelope
            .get("http")
            .is_some_and(|http| !http.is_null());
        if self.place == OutputPlace::Rule
            && is_http
            && let Ok(data) = self.data.value()
            && let Some(body @ Json::Map(_)) = data.get("data")
        {
            let overlay = Overlay {
                data: self.data.clone(),
                beneath: body.clone(),
            };
            return Binding::Overlay(Arc::new(overlay));
        }
        self.data.binding()
    }
}
