//! Output of running tasks, sent to the server while they run.
//!
//! Output waits in bounded memory and is sent in batches. A command that ends before its first
//! output is due sends none, because its report contains it. Afterwards, everything up to the end is
//! sent: the rest together with the report. Output never delays a task: if the server is slow or
//! unreachable, the middle of the output is dropped.

mod attempt;
mod buffer;

use std::sync::Arc;
use std::time::Duration;

use noetl_api::ApiError;
use noetl_api::output::{CommandOutput, OutputRequest, OutputResponse};
use noetl_types::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

pub(crate) use self::attempt::AttemptOutput;
use crate::backoff::Backoff;
use crate::context::{WorkerContext, call_with_timeout};

/// Interval at which the output of all commands is looked through.
const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a call.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum chunks per call.
const MAX_CHUNKS_PER_CALL: usize = 64;

/// The commands that have output.
#[derive(Default)]
pub(crate) struct OutputQueue {
    attempts: Mutex<Vec<Arc<AttemptOutput>>>,
    /// Notified when there is output to send.
    wakeup: Notify,
}

impl OutputQueue {
    fn add(&self, attempt: &Arc<AttemptOutput>) {
        self.attempts.lock().push(Arc::clone(attempt));
    }

    fn remove(&self, attempt: &AttemptOutput) {
        self.attempts.lock().retain(|other| !std::ptr::eq(Arc::as_ptr(other), attempt));
    }

    fn is_idle(&self) -> bool {
        // The lock of an attempt is never taken under the lock of the list.
        let attempts = self.attempts.lock().clone();
        !attempts.iter().any(|attempt| attempt.has_unsent())
    }

    /// Returns the output that is due, with its commands.
    fn take_due(&self, now: Instant) -> Vec<(Arc<AttemptOutput>, CommandOutput)> {
        let attempts = self.attempts.lock().clone();
        let mut chunks_left = MAX_CHUNKS_PER_CALL;
        let mut due = Vec::new();
        for attempt in attempts {
            let Some(output) = attempt.due_output(now, chunks_left) else { continue };
            chunks_left -= output.chunks.len();
            due.push((attempt, output));
            if chunks_left == 0 {
                break;
            }
        }
        // The others are first in the next call.
        if chunks_left == 0 {
            let mut attempts = self.attempts.lock();
            let count = due.len().min(attempts.len());
            attempts.rotate_left(count);
        }
        due
    }
}

/// Sends output until the worker ends.
pub(crate) async fn output_loop(context: Arc<WorkerContext>) {
    let shutdown = context.shutdown.clone();
    let send = async {
        loop {
            context.outputs.wakeup.notified().await;
            let mut backoff: Option<Backoff> = None;
            let mut delay = TICK_INTERVAL;
            while !context.outputs.is_idle() {
                sleep(delay).await;
                let due = context.outputs.take_due(Instant::now());
                if due.is_empty() {
                    continue;
                }
                delay = match send_due_output(&context, due).await {
                    Ok(()) => {
                        backoff = None;
                        TICK_INTERVAL
                    }
                    Err(error) => {
                        tracing::debug!("output of tasks was not sent: {error}");
                        let backoff = backoff.get_or_insert_with(Backoff::new);
                        backoff.next_delay(error.retry_after())
                    }
                };
            }
        }
    };
    let _ = shutdown.run_until_cancelled(send).await;
}

/// Sends output. Fails if the server may accept it later.
async fn send_due_output(
    context: &WorkerContext,
    due: Vec<(Arc<AttemptOutput>, CommandOutput)>,
) -> Result<(), ApiError> {
    // A command that ends during the call has more output, which is sent by the next call.
    let attempts = || due.iter().map(|(attempt, _)| attempt);
    let finished: Vec<_> = attempts().filter(|attempt| attempt.is_finished()).cloned().collect();
    let request = OutputRequest {
        worker_id: context.settings.worker_id.clone(),
        outputs: due.iter().map(|(_, output)| output.clone()).collect(),
    };
    let response = call_with_timeout(OUTPUT_TIMEOUT, context.api.send_output(request)).await;
    let result = match response {
        Err(error) if may_be_accepted_later(&error) => Err(error),
        Err(error) => {
            tracing::warn!("the server does not accept output of running tasks: {error}");
            for (attempt, _) in &due {
                attempt.close();
            }
            Ok(())
        }
        Ok(response) => {
            apply_response(&due, &response);
            Ok(())
        }
    };
    // Output of commands that ended without a report is sent once.
    let is_all_stored =
        |attempt: &&Arc<AttemptOutput>| attempt.is_finished() && !attempt.has_unsent();
    for attempt in finished.iter().chain(attempts().filter(is_all_stored)) {
        context.outputs.remove(attempt);
    }
    result
}

fn apply_response(due: &[(Arc<AttemptOutput>, CommandOutput)], response: &OutputResponse) {
    for (index, (attempt, output)) in due.iter().enumerate() {
        let result = response.results.get(index);
        let is_stored =
            result.is_some_and(|result| result.ok && result.command_id == output.command_id);
        if is_stored {
            attempt.acknowledge(output);
        } else {
            attempt.close();
        }
    }
}

/// Tokens are renewed while the worker runs.
fn may_be_accepted_later(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable(_) | ApiError::Unreadable(_) => true,
        ApiError::Refused { .. } => {
            error.is_retryable()
                || matches!(
                    error.code(),
                    Some(ErrorCode::Unauthenticated | ErrorCode::TokenExpired)
                )
        }
    }
}
