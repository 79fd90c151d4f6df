//! Structured values with templates inside.

use std::sync::Arc;

use noetl_types::limits::MAX_JSON_DEPTH;
use noetl_types::{Json, JsonMap};

use super::compiled::{ParseOptions, Template};
use super::environment::TemplateEnvironment;
use super::error::{EvalError, RenderError, RenderLimit, TemplateError};
use super::facts::NameRead;
use super::rendered::{PathSegment, RenderedValue, ValuePath};
use crate::source::Span;

/// A value whose texts may be templates. Parts without templates are stored as constants.
#[derive(Debug, Clone, PartialEq)]
pub enum DynamicValue {
    /// A value without templates.
    Const(Json),
    /// A text with tags.
    Text(LocatedTemplate),
    /// A list that contains templates.
    List(Vec<DynamicValue>),
    /// A map that contains templates, in document order.
    Map(Vec<(DynamicKey, DynamicValue)>),
}

/// A template and its location in the document.
#[derive(Debug, Clone)]
pub struct LocatedTemplate {
    /// The template.
    pub template: Template,
    /// Location of the text.
    pub span: Option<Span>,
}

/// The location does not affect equality.
impl PartialEq for LocatedTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.template == other.template
    }
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq)]
pub enum DynamicKey {
    /// A constant key.
    Name(Arc<str>),
    /// A key that is a template.
    Template(LocatedTemplate),
}

impl Default for DynamicValue {
    fn default() -> Self {
        Self::Const(Json::Null)
    }
}

impl DynamicValue {
    /// Wraps a value that has no templates.
    pub fn from_constant(value: Json) -> Self {
        Self::Const(value)
    }

    /// A template at a location in a document.
    pub fn from_template(template: Template, span: Span) -> Self {
        Self::from_leaf(template, Some(span))
    }

    fn from_leaf(template: Template, span: Option<Span>) -> Self {
        if template.is_literal() {
            return Self::Const(Json::from(template.source()));
        }
        Self::Text(LocatedTemplate { template, span })
    }

    /// A list. It is a constant if it has no templates.
    pub fn from_list(items: Vec<Self>) -> Self {
        if items.iter().all(Self::is_const) {
            return Self::Const(Json::list(items.iter().map(Self::to_source_json)));
        }
        Self::List(items)
    }

    /// A map. It is a constant if it has no templates. Keys can be templates too.
    pub fn from_entries(entries: Vec<(Self, Self)>) -> Self {
        let entries: Vec<_> =
            entries.into_iter().map(|(key, value)| (DynamicKey::from(key), value)).collect();
        let constant = entries.iter().map(|(key, value)| match (key, value) {
            (DynamicKey::Name(name), Self::Const(value)) => Some((Arc::clone(name), value.clone())),
            _ => None,
        });
        let constant = constant.collect::<Option<Vec<_>>>();
        constant.map_or(Self::Map(entries), |entries| Self::Const(Json::object(entries)))
    }

    /// Parses every text inside a value.
    pub fn from_json(value: &Json, options: &ParseOptions) -> Result<Self, Vec<TemplateError>> {
        let parse_text = |text: &Arc<str>| {
            Template::parse_with(text, options).map(|template| Self::from_leaf(template, None))
        };
        match value {
            Json::Str(text) => parse_text(text),
            Json::List(items) => {
                let items = items.iter().map(|item| Self::from_json(item, options));
                Ok(Self::from_list(collect_results(items)?))
            }
            Json::Map(map) => {
                let entries = map.iter().map(|(key, value)| {
                    match (parse_text(key), Self::from_json(value, options)) {
                        (Ok(key), Ok(value)) => Ok((key, value)),
                        (key, value) => {
                            Err(key.err().into_iter().chain(value.err()).flatten().collect())
                        }
                    }
                });
                Ok(Self::from_entries(collect_results(entries)?))
            }
            _ => Ok(Self::Const(value.clone())),
        }
    }

    /// Returns true if there is nothing to render.
    pub fn is_const(&self) -> bool {
        matches!(self, Self::Const(_))
    }

    /// The value, if there is nothing to render.
    pub fn as_const(&self) -> Option<&Json> {
        if let Self::Const(value) = self { Some(value) } else { None }
    }

    /// The value as written, with templates as texts.
    pub fn to_source_json(&self) -> Json {
        match self {
            Self::Const(value) => value.clone(),
            Self::Text(leaf) => Json::from(leaf.template.source()),
            Self::List(items) => Json::list(items.iter().map(Self::to_source_json)),
            Self::Map(entries) => Json::object(
                entries.iter().map(|(key, value)| (key.source_text(), value.to_source_json())),
            ),
        }
    }

    /// All templates inside, in document order.
    pub fn templates(&self) -> Vec<&LocatedTemplate> {
        let mut leaves = Vec::new();
        self.collect_templates(&mut leaves);
        leaves
    }

    fn collect_templates<'d>(&'d self, leaves: &mut Vec<&'d LocatedTemplate>) {
        match self {
            Self::Const(_) => {}
            Self::Text(leaf) => leaves.push(leaf),
            Self::List(items) => items.iter().for_each(|item| item.collect_templates(leaves)),
            Self::Map(entries) => {
                for (key, value) in entries {
                    if let DynamicKey::Template(leaf) = key {
                        leaves.push(leaf);
                    }
                    value.collect_templates(leaves);
                }
            }
        }
    }

    /// All reads of environment names, in document order.
    pub fn reads(&self) -> impl Iterator<Item = &NameRead> {
        self.templates().into_iter().flat_map(|leaf| leaf.template.reads())
    }

    /// Returns true if any template reads the environment name.
    pub fn reads_name(&self, root: &str) -> bool {
        self.reads().any(|read| read.root() == root)
    }

    /// Renders every template inside.
    pub fn render(
        &self,
        environment: &dyn TemplateEnvironment,
    ) -> Result<RenderedValue, RenderError> {
        self.render_at_level(environment, 0)
    }

    fn render_at_level(
        &self,
        environment: &dyn TemplateEnvironment,
        level: usize,
    ) -> Result<RenderedValue, RenderError> {
        match self {
            Self::Const(value) => Ok(RenderedValue::without_secrets(value.clone())),
            Self::Text(leaf) => leaf.render_nested(environment, level),
            Self::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                let mut secrets = SecretParts::default();
                for (index, item) in items.iter().enumerate() {
                    let segment = PathSegment::Index(index);
                    list.push(secrets.render_member(item, segment, environment, level + 1)?);
                }
                Ok(secrets.into_rendered(Json::from(list)))
            }
            Self::Map(entries) => {
                let mut map = JsonMap::new();
                let mut secrets = SecretParts::default();
                for (key, value) in entries {
                    let (name, key_secrets) = key.render_key(environment)?;
                    if !key_secrets.is_empty() {
                        // A path must not contain a secret key, so the whole map is marked.
                        secrets.paths.push(ValuePath::default());
                        secrets.parts.extend(key_secrets);
                    }
                    let segment = PathSegment::Key(Arc::clone(&name));
                    let value = secrets.render_member(value, segment, environment, level + 1)?;
                    if map.insert(name, value).is_some() {
                        return Err(key.key_error("two keys of a map render to the same text"));
                    }
                }
                Ok(secrets.into_rendered(Json::from(map)))
            }
        }
    }
}

/// The secrets of the rendered members of a list or map.
#[derive(Default)]
struct SecretParts {
    paths: Vec<ValuePath>,
    parts: Vec<Json>,
}

impl SecretParts {
    /// Renders a member and collects its secrets.
    fn render_member(
        &mut self,
        member: &DynamicValue,
        segment: PathSegment,
        environment: &dyn TemplateEnvironment,
        level: usize,
    ) -> Result<Json, RenderError> {
        match member.render_at_level(environment, level) {
            Ok(RenderedValue { value, secrets, secret_parts }) => {
                self.paths.extend(secrets.into_iter().map(|path| path.prepended(segment.clone())));
                self.parts.extend(secret_parts);
                Ok(value)
            }
            Err(error) => Err(prepend_path(error, segment)),
        }
    }

    fn into_rendered(self, value: Json) -> RenderedValue {
        RenderedValue { value, secrets: self.paths, secret_parts: self.parts }
    }
}

fn collect_results<T>(
    results: impl Iterator<Item = Result<T, Vec<TemplateError>>>,
) -> Result<Vec<T>, Vec<TemplateError>> {
    let mut values = Vec::new();
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(found) => errors.extend(found),
        }
    }
    if errors.is_empty() { Ok(values) } else { Err(errors) }
}

/// Prepends a segment to the path of an error.
fn prepend_path(error: RenderError, segment: PathSegment) -> RenderError {
    let outer = ValuePath(vec![segment]);
    let inner = &error.path;
    let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
    RenderError { path: format!("{outer}{dot}{inner}"), ..error }
}

impl LocatedTemplate {
    fn render_nested(
        &self,
        environment: &dyn TemplateEnvironment,
        level: usize,
    ) -> Result<RenderedValue, RenderError> {
        let rendered =
            self.template.render(environment).map_err(|error| self.with_location(error))?;
        if level > 0 && nesting_depth(&rendered.value) + level > MAX_JSON_DEPTH {
            let error = EvalError::limit_exceeded(RenderLimit::Nesting, MAX_JSON_DEPTH);
            return Err(self.with_location(error.into_render_error(self.template.source())));
        }
        Ok(rendered)
    }

    fn with_location(&self, error: RenderError) -> RenderError {
        RenderError { document: self.span, ..error }
    }
}

/// Nesting depth of lists and maps.
fn nesting_depth(value: &Json) -> usize {
    match value {
        Json::List(items) => 1 + items.iter().map(nesting_depth).max().unwrap_or_default(),
        Json::Map(map) => 1 + map.values().map(nesting_depth).max().unwrap_or_default(),
        _ => 0,
    }
}

impl From<DynamicValue> for DynamicKey {
    fn from(key: DynamicValue) -> Self {
        match key {
            DynamicValue::Text(leaf) => Self::Template(leaf),
            DynamicValue::Const(Json::Str(name)) => Self::Name(name),
            other => Self::Name(other.to_source_json().to_string().into()),
        }
    }
}

impl DynamicKey {
    fn source_text(&self) -> Arc<str> {
        match self {
            Self::Name(name) => Arc::clone(name),
            Self::Template(leaf) => leaf.template.source().into(),
        }
    }

    /// Renders the key to text. Also returns its parts that were made from secrets.
    fn render_key(
        &self,
        environment: &dyn TemplateEnvironment,
    ) -> Result<(Arc<str>, Vec<Json>), RenderError> {
        match self {
            Self::Name(name) => Ok((Arc::clone(name), Vec::new())),
            Self::Template(leaf) => {
                let RenderedValue { value, secret_parts, .. } =
                    leaf.render_nested(environment, 0)?;
                let name = match value {
                    Json::Str(name) => name,
                    Json::Null => Arc::from(""),
                    Json::List(_) | Json::Map(_) => {
                        return Err(self.key_error("a list or map cannot be a key"));
                    }
                    scalar => scalar.to_string().into(),
                };
                Ok((name, secret_parts))
            }
        }
    }

    fn key_error(&self, message: &str) -> RenderError {
        let error = EvalError::failed(message).into_render_error(&self.source_text());
        match self {
            Self::Name(_) => error,
            Self::Template(leaf) => leaf.with_location(error),
        }
    }
}
