//! What a template can see.
//!
//! A scope is asked for a name when the evaluation reaches it, so a render costs what it reads. It
//! decides which name wins; what a name means once found is said by its [`Binding`].

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use noetl_types::digest::sha256_of_parts;
use noetl_types::time::Timestamp;
use noetl_types::{Json, JsonMap};

use super::error::Need;
use super::limits::TemplateLimits;
use super::rendered::REDACTED;
use super::view::{External, Output, Overlay, StepData};

/// The names of a render.
pub trait Scope {
    /// The value of a name, if there is one.
    fn lookup(&self, name: &str) -> Option<Binding>;

    /// One member of a name that is bound to [`Binding::Members`].
    fn member(&self, root: &str, key: &str) -> Option<Binding> {
        let _ = (root, key);
        None
    }

    /// All of a name that is bound to [`Binding::Members`].
    fn whole(&self, root: &str) -> Option<Binding> {
        let _ = root;
        None
    }

    /// What a render may cost.
    fn limits(&self) -> TemplateLimits {
        TemplateLimits::default()
    }

    /// The time of `now()`.
    fn now(&self) -> Option<Timestamp> {
        None
    }

    /// The next `random()`, at least 0 and below 1.
    fn random(&self) -> Option<f64> {
        None
    }

    /// The next `uuid()`.
    fn uuid(&self) -> Option<String> {
        None
    }
}

/// What a name stands for.
#[derive(Clone)]
pub enum Binding {
    /// A plain value.
    Value(Json),
    /// A value that must not leave: whatever is made from it is secret.
    Secret(Json),
    /// `output` or `outcome`.
    Output(Arc<Output>),
    /// The data of a step.
    Step(Arc<StepData>),
    /// Data in the result store.
    External(Arc<External>),
    /// Data with further keys beneath it.
    Overlay(Arc<Overlay>),
    /// A map whose values are bindings.
    Map(Arc<BTreeMap<Arc<str>, Binding>>),
    /// Layers, the strongest first: a key is looked for in each of them in turn.
    Layers(Arc<[Binding]>),
    /// A name whose members are asked for one by one, through [`Scope::member`].
    Members(Arc<str>),
    /// Something that has to be fetched before it can be read.
    Needs(Need),
}

/// A secret does not print.
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
    pub fn map<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(Arc::new(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        ))
    }

    /// Layers, the strongest first.
    pub fn layers(layers: impl IntoIterator<Item = Self>) -> Self {
        Self::Layers(layers.into_iter().collect())
    }

    /// The member under a key.
    pub(super) fn member(&self, key: &str, scope: &dyn Scope) -> Result<Option<Self>, Need> {
        match self {
            Self::Value(value) => Ok(value.get(key).cloned().map(Self::Value)),
            Self::Secret(value) => Ok(value.get(key).cloned().map(Self::Secret)),
            Self::Output(output) => output.member(key),
            Self::Step(step) => step.member(key),
            Self::External(external) => external.member(key),
            Self::Overlay(overlay) => overlay.member(key),
            Self::Map(map) => Ok(map.get(key).cloned()),
            Self::Layers(layers) => {
                for layer in layers.iter() {
                    if let Some(found) = layer.member(key, scope)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
            Self::Members(root) => Ok(scope.member(root, key)),
            Self::Needs(need) => Err(need.clone()),
        }
    }

    /// The whole of it as a value, and whether it is secret.
    pub(crate) fn settle(&self, scope: &dyn Scope) -> Result<(Json, bool), Need> {
        match self {
            Self::Value(value) => Ok((value.clone(), false)),
            Self::Secret(value) => Ok((value.clone(), true)),
            Self::Output(output) => Ok((output.data()?, false)),
            Self::Step(step) => Ok((step.data()?, false)),
            Self::External(external) => Ok((external.payload()?, false)),
            Self::Overlay(overlay) => Ok((overlay.data()?, false)),
            Self::Map(map) => {
                let mut secret = false;
                let mut whole = JsonMap::new();
                for (key, member) in map.iter() {
                    let (value, is_secret) = member.settle(scope)?;
                    secret |= is_secret;
                    whole.insert(Arc::clone(key), value);
                }
                Ok((Json::from(whole), secret))
            }
            Self::Layers(layers) => {
                let mut secret = false;
                let mut whole = JsonMap::new();
                for layer in layers.iter().rev() {
                    let (value, is_secret) = layer.settle(scope)?;
                    secret |= is_secret;
                    whole.extend(
                        value
                            .as_map()
                            .into_iter()
                            .flatten()
                            .map(|(k, v)| (k.clone(), v.clone())),
                    );
                }
                Ok((Json::from(whole), secret))
            }
            Self::Members(root) => match scope.whole(root) {
                // Members of members would never end.
                None | Some(Self::Members(_)) => Ok((Json::Null, false)),
                Some(whole) => whole.settle(scope),
            },
            Self::Needs(need) => Err(need.clone()),
        }
    }
}

/// A scope made of a map of names.
#[derive(Debug, Clone, Default)]
pub struct MapScope {
    names: BTreeMap<Arc<str>, Binding>,
    now: Option<Timestamp>,
    limits: TemplateLimits,
}

impl MapScope {
    /// A scope without names.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scope of plain values.
    pub fn of(values: &JsonMap) -> Self {
        let names = values
            .iter()
            .map(|(name, value)| (name.clone(), Binding::Value(value.clone())));
        Self {
            names: names.collect(),
            ..Self::default()
        }
    }

    /// Binds a name.
    #[must_use]
    pub fn with(mut self, name: impl Into<Arc<str>>, binding: impl Into<Binding>) -> Self {
        self.names.insert(name.into(), binding.into());
        self
    }

    /// Sets the time of `now()`.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// Sets what a render may cost.
    #[must_use]
    pub fn limited(mut self, limits: TemplateLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl Scope for MapScope {
    fn lookup(&self, name: &str) -> Option<Binding> {
        self.names.get(name).cloned()
    }

    fn limits(&self) -> TemplateLimits {
        self.limits
    }

    fn now(&self) -> Option<Timestamp> {
        self.now
    }
}

/// The scope of the defaults of the input, when a run starts.
///
/// Chance comes from a seed that the caller draws: the same seed gives the same values, in the
/// order in which they are asked for.
#[derive(Debug)]
pub struct StartScope {
    names: MapScope,
    seed: [u8; 32],
    drawn: Cell<u64>,
}

impl StartScope {
    /// A scope with the names of the start, such as `env`, `job` and `payload`.
    pub fn new(names: MapScope, seed: [u8; 32]) -> Self {
        Self {
            names,
            seed,
            drawn: Cell::new(0),
        }
    }

    fn draw(&self) -> [u8; 32] {
        let drawn = self.drawn.get();
        self.drawn.set(drawn.wrapping_add(1));
        *sha256_of_parts(&[&self.seed, &drawn.to_le_bytes()]).as_bytes()
    }
}

impl Scope for StartScope {
    fn lookup(&self, name: &str) -> Option<Binding> {
        self.names.lookup(name)
    }

    fn limits(&self) -> TemplateLimits {
        self.names.limits
    }

    fn now(&self) -> Option<Timestamp> {
        self.names.now
    }

    fn random(&self) -> Option<f64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.draw()[..8]);
        // 53 bits are what a float holds exactly.
        let bits = u64::from_le_bytes(bytes) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        Some(bits as f64 / (1_u64 << 53) as f64)
    }

    fn uuid(&self) -> Option<String> {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.draw()[..16]);
        // Version 4, variant of RFC 9562.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        Some(parts.join("-"))
    }
}
