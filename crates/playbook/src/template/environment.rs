//! The names that a template can read.
//!
//! Names are looked up when the evaluation reaches them, so the cost of a render depends on what it
//! reads. The environment decides the precedence of names. The [`Binding`] of a name decides how
//! its members are looked up.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use noetl_types::digest::sha256_of_parts;
use noetl_types::time::Timestamp;
use noetl_types::{Json, JsonMap};

use super::data_view::{ExternalData, OverlayData, StepData, TaskOutput};
use super::error::FetchNeed;
use super::meter::{FuelBudget, TemplateLimits};
use super::rendered::REDACTED;

/// Provides the names of a render.
pub trait TemplateEnvironment {
    /// Looks up a name.
    fn lookup_name(&self, name: &str) -> Option<Binding>;

    /// Looks up one member of a name that is bound to [`Binding::Members`].
    fn lookup_member(&self, root: &str, key: &str) -> Option<Binding> {
        let _ = (root, key);
        None
    }

    /// Returns all members of a name that is bound to [`Binding::Members`].
    fn lookup_all(&self, root: &str) -> Option<Binding> {
        let _ = root;
        None
    }

    /// Limits of a render.
    fn limits(&self) -> TemplateLimits {
        TemplateLimits::default()
    }

    /// Fuel that the render shares with others.
    fn budget(&self) -> Option<&FuelBudget> {
        None
    }

    /// The time of `now()`.
    fn now(&self) -> Option<Timestamp> {
        None
    }

    /// The next `random()`, at least 0 and below 1.
    fn next_random(&self) -> Option<f64> {
        None
    }

    /// The next `uuid()`.
    fn next_uuid(&self) -> Option<String> {
        None
    }
}

/// The value of a name, or the rule for looking it up.
#[derive(Clone)]
pub enum Binding {
    /// A plain value.
    Value(Json),
    /// A secret value. Everything made from it is secret too.
    Secret(Json),
    /// `output` or `outcome`.
    Output(Arc<TaskOutput>),
    /// The data of a step.
    Step(Arc<StepData>),
    /// Data in the result store.
    External(Arc<ExternalData>),
    /// Data with fallback keys.
    Overlay(Arc<OverlayData>),
    /// A map whose values are bindings.
    Map(Arc<BTreeMap<Arc<str>, Binding>>),
    /// Layers in order of precedence, the strongest first.
    Layers(Arc<[Binding]>),
    /// A name whose members are looked up one by one with [`TemplateEnvironment::lookup_member`].
    Members(Arc<str>),
    /// A value that must be fetched before it can be read.
    Needs(FetchNeed),
}

/// Secrets are not printed.
impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => f.debug_tuple("Value").field(value).finish(),
            Self::Secret(_) => f.debug_tuple("Secret").field(&REDACTED).finish(),
            Self::Output(output) => f.debug_tuple("Output").field(output).finish(),
            Self::Step(step) => f.debug_tuple("Step").field(step).finish(),
            Self::External(external) => f.debug_tuple("External").field(external).finish(),
            Self::Overlay(overlay) => f.debug_tuple("Overlay").field(overlay).finish(),
            Self::Map(map) => f.debug_tuple("Map").field(map).finish(),
            Self::Layers(layers) => f.debug_tuple("Layers").field(layers).finish(),
            Self::Members(root) => f.debug_tuple("Members").field(root).finish(),
            Self::Needs(need) => f.debug_tuple("Needs").field(need).finish(),
        }
    }
}

impl From<Json> for Binding {
    fn from(value: Json) -> Self {
        Self::Value(value)
    }
}

impl Binding {
    /// A map of bindings.
    pub fn from_map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(Arc::new(entries.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }

    /// Layers, the strongest first.
    pub fn from_layers(layers: impl IntoIterator<Item = Self>) -> Self {
        Self::Layers(layers.into_iter().collect())
    }

    /// The member under a key.
    pub(super) fn get_member(
        &self,
        key: &str,
        environment: &dyn TemplateEnvironment,
    ) -> Result<Option<Self>, FetchNeed> {
        match self {
            Self::Value(value) => Ok(value.get(key).cloned().map(Self::Value)),
            Self::Secret(value) => Ok(value.get(key).cloned().map(Self::Secret)),
            Self::Output(output) => output.get_member(key),
            Self::Step(step) => step.get_member(key),
            Self::External(external) => external.get_member(key),
            Self::Overlay(overlay) => overlay.get_member(key),
            Self::Map(map) => Ok(map.get(key).cloned()),
            Self::Layers(layers) => {
                for layer in layers.iter() {
                    if let Some(found) = layer.get_member(key, environment)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
            Self::Members(root) => Ok(environment.lookup_member(root, key)),
            Self::Needs(need) => Err(need.clone()),
        }
    }

    /// Converts the binding to a value. The bool is true if the value is secret.
    pub(crate) fn to_value(
        &self,
        environment: &dyn TemplateEnvironment,
    ) -> Result<(Json, bool), FetchNeed> {
        match self {
            Self::Value(value) => Ok((value.clone(), false)),
            Self::Secret(value) => Ok((value.clone(), true)),
            Self::Output(output) => Ok((output.data()?, false)),
            Self::Step(step) => Ok((step.data()?, false)),
            Self::External(external) => Ok((external.payload()?, false)),
            Self::Overlay(overlay) => Ok((overlay.data()?, false)),
            Self::Map(map) => {
                let mut secret = false;
                let mut values = JsonMap::new();
                for (key, member) in map.iter() {
                    let (value, is_secret) = member.to_value(environment)?;
                    secret |= is_secret;
                    values.insert(Arc::clone(key), value);
                }
                Ok((Json::from(values), secret))
            }
            Self::Layers(layers) => {
                let mut secret = false;
                let mut values = JsonMap::new();
                for layer in layers.iter().rev() {
                    let (value, is_secret) = layer.to_value(environment)?;
                    secret |= is_secret;
                    values.extend(
                        value.as_map().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())),
                    );
                }
                Ok((Json::from(values), secret))
            }
            Self::Members(root) => match environment.lookup_all(root) {
                // Nested `Members` could recurse without end.
                None | Some(Self::Members(_)) => Ok((Json::Null, false)),
                Some(binding) => binding.to_value(environment),
            },
            Self::Needs(need) => Err(need.clone()),
        }
    }
}

/// An environment made of a map of names.
#[derive(Debug, Clone, Default)]
pub struct MapEnvironment {
    names: BTreeMap<Arc<str>, Binding>,
    now: Option<Timestamp>,
    limits: TemplateLimits,
    budget: Option<FuelBudget>,
}

impl MapEnvironment {
    /// An environment without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// An environment of plain values.
    pub fn from_values(values: &JsonMap) -> Self {
        let names =
            values.iter().map(|(name, value)| (name.clone(), Binding::Value(value.clone())));
        Self { names: names.collect(), ..Self::default() }
    }

    /// Binds a name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<Arc<str>>, binding: impl Into<Binding>) -> Self {
        self.names.insert(name.into(), binding.into());
        self
    }

    /// Sets the time of `now()`.
    #[must_use]
    pub fn with_now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets the limits of a render.
    #[must_use]
    pub fn with_limits(mut self, limits: TemplateLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the fuel that the render shares with others.
    #[must_use]
    pub fn with_budget(mut self, budget: FuelBudget) -> Self {
        self.budget = Some(budget);
        self
    }
}

impl TemplateEnvironment for MapEnvironment {
    fn lookup_name(&self, name: &str) -> Option<Binding> {
        self.names.get(name).cloned()
    }

    fn limits(&self) -> TemplateLimits {
        self.limits
    }

    fn budget(&self) -> Option<&FuelBudget> {
        self.budget.as_ref()
    }

    fn now(&self) -> Option<Timestamp> {
        self.now
    }
}

/// The environment of the defaults of the input, when an execution starts.
///
/// Random values come from a seed that the caller provides: the same seed gives the same values, in
/// the order in which they are requested.
#[derive(Debug)]
pub struct StartEnvironment {
    names: MapEnvironment,
    seed: [u8; 32],
    draw_count: Cell<u64>,
}

impl StartEnvironment {
    /// An environment with the names of the start, such as `env`, `job` and `payload`.
    pub fn new(names: MapEnvironment, seed: [u8; 32]) -> Self {
        Self { names, seed, draw_count: Cell::new(0) }
    }

    fn next_random_bytes(&self) -> [u8; 32] {
        let draw = self.draw_count.get();
        self.draw_count.set(draw.wrapping_add(1));
        *sha256_of_parts(&[&self.seed, &draw.to_le_bytes()]).as_bytes()
    }
}

impl TemplateEnvironment for StartEnvironment {
    fn lookup_name(&self, name: &str) -> Option<Binding> {
        self.names.lookup_name(name)
    }

    fn limits(&self) -> TemplateLimits {
        self.names.limits
    }

    fn budget(&self) -> Option<&FuelBudget> {
        self.names.budget()
    }

    fn now(&self) -> Option<Timestamp> {
        self.names.now
    }

    fn next_random(&self) -> Option<f64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.next_random_bytes()[..8]);
        // A float holds 53 bits exactly.
        let bits = u64::from_le_bytes(bytes) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        Some(bits as f64 / (1_u64 << 53) as f64)
    }

    fn next_uuid(&self) -> Option<String> {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.next_random_bytes()[..16]);
        // Version 4, variant of RFC 9562.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Some(parts.join("-"))
    }
}
