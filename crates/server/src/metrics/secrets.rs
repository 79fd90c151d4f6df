//! What is done to secrets. Neither their names nor whose they are is told here; the trail has both.

use noetl_api::credential::Rotation;
use noetl_types::{ErrorCode, SecretOperation};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::book::Book;
use super::labels::{OutcomeLabels, SecretLabels};

#[derive(Debug, Default)]
pub(crate) struct Secrets {
    acts: Family<SecretLabels, Counter>,
    sealed: Counter,
    rotated: Family<OutcomeLabels, Counter>,
}

impl Secrets {
    pub(super) fn registered(book: &mut Book) -> Self {
        let it = Self::default();
        let text = "What was done to secrets, or tried, as their trail has it";
        book.register("secret_acts", text, it.acts.clone());
        let text = "Credentials that were sealed for a worker";
        book.register("credentials_sealed", text, it.sealed.clone());
        let text = "Secrets that a rotation looked at";
        book.register("wallet_rotate", text, it.rotated.clone());
        it
    }

    /// Something was done to a secret, or refused with a code, or failed.
    pub(crate) fn acted(&self, operation: SecretOperation, outcome: Result<(), &str>) {
        let outcome = match outcome.map_err(ErrorCode::parse) {
            Ok(()) => "ok",
            Err(Ok(code)) if code.status() < 500 => "refused",
            Err(_) => "failed",
        };
        let operation = operation.as_str();
        let labels = SecretLabels { operation, outcome };
        self.acts.get_or_create_owned(&labels).inc();
    }

    /// A credential was sealed for a worker.
    pub(crate) fn sealed(&self) {
        self.sealed.inc();
    }

    /// A rotation looked at secrets.
    pub(crate) fn rotated(&self, done: Rotation) {
        for (outcome, count) in [
            ("rewrapped", done.rewrapped),
            ("skipped", done.skipped),
            ("failed", done.failed),
        ] {
            let labels = OutcomeLabels { outcome };
            self.rotated.get_or_create_owned(&labels).inc_by(count);
        }
    }
}
