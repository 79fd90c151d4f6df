//! Templates: texts with `{{ }}` and `{% %}` that are rendered against an environment.
//!
//! Owns the syntax (Jinja without the parts that access anything outside the template), the
//! vocabulary, and the meaning of both. A template is parsed once into a program without deep
//! nesting. Rendering evaluates the program against a [`TemplateEnvironment`] and yields a
//! canonical [`Json`](noetl_types::Json) value.
//!
//! - Rendering is pure: no clock, randomness, environment variables, files or network. The same
//!   environment gives the same bytes.
//! - A rendered value is never rendered again. It is data, and only [`Template::parse`] turns data
//!   into a template.
//! - All costs are bounded, see [`TemplateLimits`], and the limit is checked before the cost is
//!   incurred.
//! - A value that was made from a secret is marked as secret, see [`RenderedValue`]. Error messages
//!   contain no values.

mod compiled;
mod data_view;
mod dynamic;
mod environment;
mod error;
mod eval;
mod facts;
mod lexer;
mod meter;
mod number;
mod order;
mod parser;
mod print;
mod program;
mod rendered;

pub use compiled::{ParseOptions, Template, is_truthy};
pub use data_view::{ExternalData, OutputPlace, OverlayData, StepData, TaskOutput, TemplateData};
pub use dynamic::{DynamicKey, DynamicValue, LocatedTemplate};
pub use environment::{Binding, MapEnvironment, StartEnvironment, TemplateEnvironment};
pub use error::{
    FetchNeed, RenderError, RenderErrorKind, RenderLimit, TemplateError, TemplateErrorKind,
    VocabularyKind,
};
pub use facts::{EventName, NameRead, TemplateFacts, TypeMismatch};
pub use meter::{FuelBudget, TemplateLimits};
pub use parser::TemplatePlace;
pub use rendered::{
    LoopItemsError, MAX_LOOP_ITEMS, PathSegment, REDACTED, RenderedValue, ValuePath, loop_items,
};
