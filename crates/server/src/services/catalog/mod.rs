//! The catalog: registration and lookup of definitions.

pub(crate) mod definition;
mod list;
mod register;
mod ui_schema;

use std::sync::Arc;

use noetl_types::CatalogId;

use crate::services::Infrastructure;
use crate::services::lru::SharedLru;
use definition::MAX_CACHED_DEFINITIONS;
pub(crate) use definition::{Definition, catalog_key, no_definition};

/// Registered definitions.
pub struct Catalog {
    infra: Arc<Infrastructure>,
    /// The most recently used definitions.
    compiled: SharedLru<CatalogId, Arc<Definition>>,
}

impl Catalog {
    pub(crate) fn new(infra: &Arc<Infrastructure>) -> Self {
        Self {
            infra: Arc::clone(infra),
            compiled: SharedLru::with_capacity(MAX_CACHED_DEFINITIONS),
        }
    }
}
