//! Verification of API tokens.

use noetl_types::limits::PageLimit;

use super::{Pass, Problem, ProblemKind, Verification, VerifyObserver};
use crate::error::Result;

impl Verification {
    /// Verifies the seals of all tokens, if this process has the server's key.
    pub(super) async fn verify_tokens(
        &self,
        pass: &mut Pass<'_, impl VerifyObserver>,
    ) -> Result<()> {
        let Some(sealer) = &self.token_sealer else {
            return Ok(());
        };
        let mut after = None;
        loop {
            let page = self.infra.store.list_all_tokens(after, PageLimit::MAX).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.token_id);
            for token in page.iter().filter(|token| !sealer.is_valid(token)) {
                let text = format!(
                    "API token {} ({}) of tenant {} was written or changed without the server's \
                     key; it is refused",
                    token.token_id, token.name, token.tenant_id
                );
                pass.report(Problem::of_store(ProblemKind::ModifiedToken, text));
            }
        }
    }
}
