//! Any value with templates inside.

use std::sync::Arc;

use noetl_types::limits::MAX_JSON_DEPTH;
use noetl_types::{Json, JsonMap};

use super::compiled::{ParseOptions, Template};
use super::error::{Limit, RenderError, Stop};
use super::facts::Read;
use super::fault::Fault;
use super::rendered::{Rendered, Segment, ValuePath};
use super::scope::Scope;
use crate::source::Span;

/// A value whose texts may be templates; parts without templates are kept as they are.
#[derive(Debug, Clone, PartialEq)]
pub enum Dynamic {
    /// Nothing to render.
    Const(Json),
    /// A text with tags.
    Text(Leaf),
    /// A list with something to render in it.
    List(Vec<Dynamic>),
    /// A map with something to render in it, in document order.
    Map(Vec<(Key, Dynamic)>),
}

/// A template and where it stands in its document.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The template.
    pub template: Template,
    /// The text that holds it.
    pub span: Option<Span>,
}

/// Moving a text does not change it.
impl PartialEq for Leaf {
    fn eq(&self, other: &Self) -> bool {
        self.template == other.template
    }
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// As written.
    Name(Arc<str>),
    /// To be rendered.
    Template(Leaf),
}

impl Default for Dynamic {
    fn default() -> Self {
        Self::Const(Json::Null)
    }
}

impl Dynamic {
    /// A value without templates.
    pub fn constant(value: Json) -> Self {
        Self::Const(value)
    }

    /// A text that stands somewhere in a document.
    pub fn text(template: Template, span: Span) -> Self {
        Self::leaf(template, Some(span))
    }

    fn leaf(template: Template, span: Option<Span>) -> Self {
        if template.is_literal() {
            return Self::Const(Json::from(template.source()));
        }
        Self::Text(Leaf { template, span })
    }

    /// A list; one without templates is a constant.
    pub fn list(items: Vec<Self>) -> Self {
        if items.iter().all(Self::is_const) {
            return Self::Const(Json::list(items.iter().map(Self::source_json)));
        }
        Self::List(items)
    }

    /// A map; one without templates is a constant. A key is a text, like any other.
    pub fn map(entries: Vec<(Self, Self)>) -> Self {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(key, value)| (Key::from(key), value))
            .collect();
        let constant = entries
            .iter()
            .map(|(key, value)| match (key, value) {
                (Key::Name(name), Self::Const(value)) => Some((Arc::clone(name), value.clone())),
                (Key::Name(_) | Key::Template(_), _) => None,
            })
            .collect::<Option<Vec<_>>>();
        constant.map_or(Self::Map(entries), |entries| {
            Self::Const(Json::object(entries))
        })
    }

    /// Reads every text inside of a value.
    pub fn from_json(value: &Json, options: &ParseOptions) -> Result<Self, Vec<Fault>> {
        let read = |text: &Arc<str>| match Template::parse_with(text, options) {
            Ok(template) => Ok(Self::leaf(template, None)),
            Err(faults) => Err(faults),
        };
        match value {
            Json::Str(text) => read(text),
            Json::List(items) => {
                let items = items.iter().map(|item| Self::from_json(item, options));
                Ok(Self::list(collect(items)?))
            }
            Json::Map(map) => {
                let entries = map.iter().map(|(key, value)| {
                    match (read(key), Self::from_json(value, options)) {
                        (Ok(key), Ok(value)) => Ok((key, value)),
                        (key, value) => {
                            Err(key.err().into_iter().chain(value.err()).flatten().collect())
                        }
                    }
                });
                Ok(Self::map(collect(entries)?))
            }
            Json::Null | Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_) => {
                Ok(Self::Const(value.clone()))
            }
        }
    }

    /// Whether there is nothing to render.
    pub fn is_const(&self) -> bool {
        matches!(self, Self::Const(_))
    }

    /// The value, where there is nothing to render.
    pub fn as_const(&self) -> Option<&Json> {
        match self {
            Self::Const(value) => Some(value),
            Self::Text(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    /// The value as written, templates as texts.
    pub fn source_json(&self) -> Json {
        match self {
            Self::Const(value) => value.clone(),
            Self::Text(leaf) => Json::from(leaf.template.source()),
            Self::List(items) => Json::list(items.iter().map(Self::source_json)),
            Self::Map(entries) => Json::object(
                entries
                    .iter()
                    .map(|(key, value)| (key.source(), value.source_json())),
            ),
        }
    }

    /// Every template inside, in document order.
    pub fn templates(&self) -> Vec<&Leaf> {
        let mut leaves = Vec::new();
        self.collect_templates(&mut leaves);
        leaves
    }

    fn collect_templates<'d>(&'d self, leaves: &mut Vec<&'d Leaf>) {
        match self {
            Self::Const(_) => {}
            Self::Text(leaf) => leaves.push(leaf),
            Self::List(items) => items.iter().for_each(|item| item.collect_templates(leaves)),
            Self::Map(entries) => {
                for (key, value) in entries {
                    if let Key::Template(leaf) = key {
                        leaves.push(leaf);
                    }
                    value.collect_templates(leaves);
                }
            }
        }
    }

    /// Every read of a name of the scope, in document order.
    pub fn reads(&self) -> impl Iterator<Item = &Read> {
        self.templates()
            .into_iter()
            .flat_map(|leaf| leaf.template.reads())
    }

    /// Whether a name of the scope is read.
    pub fn mentions(&self, root: &str) -> bool {
        self.reads().any(|read| read.root() == root)
    }

    /// Renders every template inside.
    pub fn render(&self, scope: &dyn Scope) -> Result<Rendered, RenderError> {
        self.render_at(scope, 0)
    }

    fn render_at(&self, scope: &dyn Scope, level: usize) -> Result<Rendered, RenderError> {
        match self {
            Self::Const(value) => Ok(Rendered::open(value.clone())),
            Self::Text(leaf) => leaf.render(scope, level),
            Self::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                let (mut secrets, mut told) = (Vec::new(), Vec::new());
                for (index, item) in items.iter().enumerate() {
                    let segment = Segment::Index(index);
                    let item = item
                        .render_at(scope, level + 1)
                        .map_err(|error| within(error, &segment))?;
                    secrets.extend(
                        item.secrets
                            .into_iter()
                            .map(|path| path.under(segment.clone())),
                    );
                    told.extend(item.told);
                    list.push(item.value);
                }
                Ok(Rendered {
                    value: Json::from(list),
                    secrets,
                    told,
                })
            }
            Self::Map(entries) => render_map(entries, scope, level),
        }
    }
}

fn render_map(
    entries: &[(Key, Dynamic)],
    scope: &dyn Scope,
    level: usize,
) -> Result<Rendered, RenderError> {
    let mut map = JsonMap::new();
    let (mut secrets, mut told) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        let (name, told_by_key) = key.render(scope)?;
        let segment = Segment::Key(Arc::clone(&name));
        let value = value
            .render_at(scope, level + 1)
            .map_err(|error| within(error, &segment))?;
        if !told_by_key.is_empty() {
            // A path cannot name a key that must not be seen, so the map as a whole is secret.
            secrets.push(ValuePath::default());
            told.extend(told_by_key);
        }
        secrets.extend(
            value
                .secrets
                .into_iter()
                .map(|path| path.under(segment.clone())),
        );
        told.extend(value.told);
        if map.insert(name, value.value).is_some() {
            return Err(key.failed("two keys of a map are the same once rendered"));
        }
    }
    Ok(Rendered {
        value: Json::from(map),
        secrets,
        told,
    })
}

fn collect<T>(results: impl Iterator<Item = Result<T, Vec<Fault>>>) -> Result<Vec<T>, Vec<Fault>> {
    let mut values = Vec::new();
    let mut faults = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(found) => faults.extend(found),
        }
    }
    if faults.is_empty() {
        Ok(values)
    } else {
        Err(faults)
    }
}

/// Names the place of an error from one step further out.
fn within(mut error: RenderError, segment: &Segment) -> RenderError {
    let inner = std::mem::take(&mut error.path);
    let outer = ValuePath(vec![segment.clone()]).to_string();
    let dot = if inner.is_empty() || inner.starts_with('[') {
        ""
    } else {
        "."
    };
    error.path = format!("{outer}{dot}{inner}");
    error
}

impl Leaf {
    fn render(&self, scope: &dyn Scope, level: usize) -> Result<Rendered, RenderError> {
        let rendered = self
            .template
            .render(scope)
            .map_err(|error| self.placed(error))?;
        if level > 0 && depth(&rendered.value) + level > MAX_JSON_DEPTH {
            let stop = Stop::limit(Limit::Nesting, MAX_JSON_DEPTH);
            return Err(self.placed(stop.located(self.template.source())));
        }
        Ok(rendered)
    }

    fn placed(&self, error: RenderError) -> RenderError {
        RenderError {
            document: self.span,
            ..error
        }
    }
}

/// Levels of lists and maps.
fn depth(value: &Json) -> usize {
    match value {
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::UInt(_)
        | Json::Float(_)
        | Json::Str(_) => 0,
        Json::List(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Json::Map(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
    }
}

impl From<Dynamic> for Key {
    fn from(key: Dynamic) -> Self {
        match key {
            Dynamic::Text(leaf) => Self::Template(leaf),
            Dynamic::Const(Json::Str(name)) => Self::Name(name),
            other => Self::Name(other.source_json().to_string().into()),
        }
    }
}

impl Key {
    fn source(&self) -> Arc<str> {
        match self {
            Self::Name(name) => Arc::clone(name),
            Self::Template(leaf) => leaf.template.source().into(),
        }
    }

    /// The key as text, and what of it was made from secrets.
    fn render(&self, scope: &dyn Scope) -> Result<(Arc<str>, Vec<Json>), RenderError> {
        match self {
            Self::Name(name) => Ok((Arc::clone(name), Vec::new())),
            Self::Template(leaf) => {
                let Rendered { value, told, .. } = leaf.render(scope, 0)?;
                match value {
                    Json::Str(name) => Ok((name, told)),
                    Json::Null => Ok((Arc::from(""), told)),
                    Json::List(_) | Json::Map(_) => {
                        Err(self.failed("a list or map cannot be a key"))
                    }
                    scalar @ (Json::Bool(_) | Json::Int(_) | Json::UInt(_) | Json::Float(_)) => {
                        Ok((scalar.to_string().into(), told))
                    }
                }
            }
        }
    }

    fn failed(&self, message: &str) -> RenderError {
        match self {
            Self::Name(name) => Stop::failed(message).located(name),
            Self::Template(leaf) => {
                leaf.placed(Stop::failed(message).located(leaf.template.source()))
            }
        }
    }
}
