//! Verification of definitions.

use std::collections::BTreeMap;

use noetl_types::limits::PageLimit;
use noetl_types::{CatalogId, sha256};

use super::{
    DefinitionFacts, Pass, Problem, ProblemKind, Verification, VerifyObserver, VerifyScope,
};
use crate::error::Result;

/// Definitions that are read at a time.
const PAGE_DEFINITIONS: i64 = 50;

impl Verification {
    /// Verifies the digests of all definitions, and returns the facts that logs refer to. The text
    /// of a definition is verified only together with the whole store.
    pub(super) async fn verify_definitions(
        &self,
        scope: VerifyScope,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<BTreeMap<CatalogId, DefinitionFacts>> {
        let (mut facts, mut after) = (BTreeMap::new(), None);
        loop {
            let limit = PageLimit::clamped(PAGE_DEFINITIONS);
            let page = self.infra.store.list_all_definitions(after, limit).await?;
            let Some(last) = page.last() else {
                return Ok(facts);
            };
            after = Some(last.catalog_id);
            for entry in page {
                if scope == VerifyScope::All && sha256(entry.content.as_bytes()) != entry.sha256 {
                    let text = format!(
                        "definition {} version {} of tenant {} was modified: its text does not \
                         have the digest in its row",
                        entry.path, entry.version, entry.tenant_id
                    );
                    pass.report(Problem::of_store(ProblemKind::ModifiedDefinition, text));
                }
                let entry_facts = DefinitionFacts {
                    tenant_id: entry.tenant_id,
                    path: entry.path,
                    version: entry.version,
                    sha256: entry.sha256,
                };
                facts.insert(entry.catalog_id, entry_facts);
            }
        }
    }
}
