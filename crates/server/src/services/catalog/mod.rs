//! The catalog: registration and lookup of definitions.

pub(crate) mod definition;
mod list;
mod register;
mod ui_schema;

use std::sync::Arc;

use crate::services::Infrastructure;
use definition::CompiledDefinitions;
pub(crate) use definition::{Definition, catalog_key, no_definition};

/// Registered definitions.
pub struct Catalog {
    infra: Arc<Infrastructure>,
    /// The most recently loaded definitions.
    compiled: CompiledDefinitions,
}

impl Catalog {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        Self { infra: Arc::clone(infra), compiled: CompiledDefinitions::default() }
    }
}
