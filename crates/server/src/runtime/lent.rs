//! Secrets that were lent for a run, looked for in what workers tell of it.
//!
//! Workers of this release hide what they resolve before they tell anything. Those of earlier releases
//! do not, and a secret that one worker left somewhere another one may find.

use std::collections::BTreeMap;

use noetl_types::redact::Secrets;
use noetl_types::{ErrorCode, ExecutionId, Json};

use super::{Runtime, RuntimeError};

impl Runtime {
    /// Notes a credential, or an entry of the keychain, that somebody is given who works for a run.
    pub(super) fn note_lent(&self, run: ExecutionId, kind: Option<&str>, data: Option<&Json>) {
        if let Some(data) = data {
            self.core.lent.of(run).add_for_run(kind, data);
        }
    }

    /// What is told of runs, without what was lent for them as far as this process knows. The search takes longer than other
    /// requests should wait, so it is made beside them.
    pub(crate) async fn without_lent<T: Send + 'static>(
        &self,
        told: Vec<(ExecutionId, T)>,
        hide: impl Fn(T, &Secrets) -> T + Send + 'static,
    ) -> Result<Vec<T>, RuntimeError> {
        let mut lent = BTreeMap::new();
        for (run, _) in &told {
            lent.entry(*run)
                .or_insert_with(|| self.core.lent.known(*run));
        }
        lent.retain(|_, secrets| !secrets.is_empty());
        if lent.is_empty() {
            return Ok(told.into_iter().map(|(_, told)| told).collect());
        }
        let hidden = move |(run, told): (ExecutionId, T)| match lent.get(&run) {
            Some(secrets) => hide(told, secrets),
            None => told,
        };
        let hiding =
            tokio::task::spawn_blocking(move || told.into_iter().map(hidden).collect::<Vec<T>>());
        hiding.await.map_err(|error| {
            tracing::error!(%error, "the search for secrets failed");
            let text = "what was told could not be searched for secrets";
            RuntimeError::refused(ErrorCode::Internal, text)
        })
    }
}
