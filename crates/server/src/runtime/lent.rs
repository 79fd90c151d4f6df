//! Secrets that were lent for a run, looked for in what workers tell of it.
//!
//! Workers of this release hide what they resolve before they tell anything. Those of earlier releases
//! do not, and a secret that one worker left somewhere another one may find.

use noetl_types::redact::Secrets;
use noetl_types::{ExecutionId, Json};

use super::Runtime;

impl Runtime {
    /// Notes a secret that somebody is given who works for a run.
    pub(super) fn note_lent(&self, run: ExecutionId, secret: Option<&Json>) {
        if let Some(secret) = secret {
            self.core.lent.of(run).add_for_run(secret);
        }
    }

    /// What has to be hidden in what is told of a run, as far as this process knows.
    pub(crate) fn lent_for(&self, run: ExecutionId) -> Secrets {
        self.core.lent.known(run)
    }
}
