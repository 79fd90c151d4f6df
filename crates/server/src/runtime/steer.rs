//! People steer executions.

use noetl_api::execution::{CancelAnswer, CancelRequest};
use noetl_engine::Input;
use noetl_engine::event::Steering;
use noetl_types::{ErrorCode, ExecutionId, ExecutionStatus, Text};

use super::Runtime;
use super::driver::Letter;
use super::error::RuntimeError;

impl Runtime {
    /// Ends an execution. Once this is answered, nothing of it is issued or handed out any more.
    pub async fn cancel(
        &self,
        execution_id: ExecutionId,
        actor: Option<Text>,
        request: CancelRequest,
    ) -> Result<CancelAnswer, RuntimeError> {
        let steering = Steering {
            actor,
            reason: request.reason,
        };
        let (letter, reply) = Letter::new(Input::Cancel(steering));
        let answer = |cancelled, message: &str| CancelAnswer {
            execution_id,
            status: "cancelled".into(),
            cancelled_executions: cancelled,
            message: message.into(),
        };
        match self.core.ask(execution_id, letter, reply).await {
            Ok(_) => Ok(answer(vec![execution_id], "the execution is cancelled")),
            Err(error) => {
                if error.code() == Some(ErrorCode::AlreadyTerminal)
                    && self.status_of(execution_id).await? == Some(ExecutionStatus::Cancelled)
                {
                    return Ok(answer(Vec::new(), "the execution was cancelled before"));
                }
                Err(error)
            }
        }
    }

    async fn status_of(
        &self,
        execution_id: ExecutionId,
    ) -> Result<Option<ExecutionStatus>, RuntimeError> {
        let execution = self.store().execution(execution_id).await?;
        Ok(execution.map(|execution| execution.view.status))
    }
}
