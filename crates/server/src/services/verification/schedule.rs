//! Scheduled verification in a server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_api::health::HealthStatus;
use noetl_types::{Text, Timestamp};

use super::{OutsideAnchor, Problem, Verification, VerifyObserver, VerifyScope};
use crate::error::error_chain;
use crate::services::maintenance::HealthWarning;

/// Problems of a verification that are logged. All are counted.
const MAX_LOGGED_PROBLEMS: u64 = 100;

/// Result of the last scheduled verification.
#[derive(Debug, Default)]
pub(crate) struct VerifyStatus(Mutex<Option<LastVerification>>);

#[derive(Debug, Clone)]
struct LastVerification {
    ended_at: Timestamp,
    problems: u64,
    first_problem: Option<Text>,
    /// Reason why the verification could not be completed.
    error: Option<Text>,
}

/// Logs the first problems.
#[derive(Debug, Default)]
struct ProblemLog {
    problems: u64,
    first: Option<Text>,
}

/// Describes a problem for the log. The message of a problem of an execution can contain values of
/// its rows, which are not logged.
fn describe_without_values(problem: Problem) -> Text {
    match problem.execution_id {
        Some(id) => {
            let kind = problem.kind;
            format!("{kind:?} in execution {id}; see noetl db check --run {id}").into()
        }
        None => problem.message,
    }
}

impl VerifyObserver for ProblemLog {
    fn on_problem(&mut self, problem: Problem) {
        let text = describe_without_values(problem);
        if self.problems < MAX_LOGGED_PROBLEMS {
            tracing::error!(problem = %text, "the store was tampered with or damaged");
        }
        self.problems += 1;
        self.first.get_or_insert(text);
    }
}

impl VerifyStatus {
    /// Warning about the last verification, if it found a problem or failed.
    pub(crate) fn warning(&self) -> Option<HealthWarning> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let reason = match (last.first_problem, last.error) {
            (Some(first), _) => {
                let (problems, ended_at) = (last.problems, last.ended_at);
                format!("the verification of {ended_at} found {problems} problems, first: {first}")
            }
            (None, Some(error)) => format!("the verification could not be completed: {error}"),
            (None, None) => return None,
        };
        let health = HealthStatus::Degraded;
        Some(HealthWarning { check_name: "verification", health, reason: reason.into() })
    }
}

impl Verification {
    /// Verifies the store at an interval.
    pub(crate) async fn verify_loop(self: Arc<Self>) {
        let interval = Duration::from_millis(self.infra.settings.verify_interval.as_ms());
        if interval.is_zero() {
            return;
        }
        while self.infra.sleep_unless_shutdown(interval).await {
            let outside = match self.infra.settings.anchor_file.clone() {
                Some(file) => OutsideAnchor::File(file),
                None => OutsideAnchor::None,
            };
            let mut log = ProblemLog::default();
            let verified = tokio::select! {
                verified = self.verify_store(VerifyScope::All, &outside, &mut log) => verified,
                () = self.infra.shutdown.cancelled() => return,
            };
            let error = verified.err().map(|error| Text::from(error_chain(&error)));
            if let Some(error) = &error {
                tracing::error!(%error, "the store could not be verified");
            }
            let now = self.infra.now();
            let completed_at = error.is_none().then_some(now);
            self.infra.metrics.platform.record_verification(log.problems, completed_at);
            let last = LastVerification {
                ended_at: now,
                problems: log.problems,
                first_problem: log.first,
                error,
            };
            *self.status.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        }
    }
}
