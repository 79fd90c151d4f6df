//! A command is shown and given to whoever names it.

use noetl_api::classic::{ClaimAnswer, ClaimRequest, ClassicCommand};
use noetl_engine::Input;
use noetl_store::{Claim, ClaimedCommand, Command, Fence, Holder, Release};
use noetl_types::{CommandId, CommandStatus, ErrorCode, EventId, Timestamp, WorkerId};

use super::context::{Issued, hand_out};
use super::{stored_token, token};
use crate::runtime::driver::Letter;
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// A command, by the event that issued it.
    pub async fn command_of(&self, event_id: EventId) -> Result<ClassicCommand, RuntimeError> {
        let command = self.command_row(event_id.into()).await?;
        hand_out(&self.issued(&command).await?, &command)
    }

    /// A command with its definition.
    pub(super) async fn issued(&self, command: &Command) -> Result<Issued, RuntimeError> {
        let event_id = command.command_id.into();
        let issued = self.store().event(command.execution_id, event_id).await?;
        let issued = issued.ok_or_else(no_command)?;
        self.core.issued(&issued.record).await
    }

    /// Gives a command to a worker that names it. One that has it already gets it again.
    pub async fn claim_command(
        &self,
        event_id: EventId,
        request: ClaimRequest,
    ) -> Result<ClaimAnswer, RuntimeError> {
        let command_id = CommandId::from(event_id);
        let worker = request.worker_id;
        self.check_claim_time()?;
        self.command_row(command_id).await?;
        let now = self.now();
        let claim = Claim {
            worker: worker.clone(),
            token: stored_token(command_id, &worker),
            lease_until: self.core.claimed_until(now, now),
            now,
        };
        let claimed = self.store().claim(command_id, claim).await?;
        let claimed = claimed.ok_or_else(no_command)?;
        let lease_until = if claimed.is_granted {
            self.record(&claimed, &worker).await?;
            claimed.leased.command.lease.map(|lease| lease.until)
        } else {
            self.held_by(&claimed.leased.command, &worker, now).await?
        };
        let kept_name = self.kept_name(&worker);
        self.core.claims.note(&kept_name, command_id);
        let issued = self.core.issued(&claimed.leased.issued).await?;
        let command = &claimed.leased.command;
        Ok(ClaimAnswer {
            status: "ok".into(),
            event_id,
            command: hand_out(&issued, command)?,
            lease_token: command.lease.map_or_else(
                || token(command_id, &worker),
                |lease| noetl_api::LeaseToken::from_bytes(*lease.token.as_bytes()),
            ),
            lease_until: lease_until.unwrap_or(now),
            attempt: command.attempt,
        })
    }

    /// A command that the caller may see.
    pub(in crate::runtime) async fn command_row(
        &self,
        id: CommandId,
    ) -> Result<Command, RuntimeError> {
        self.behalf().check_command(id)?;
        let command = self.store().command(id).await?.ok_or_else(no_command)?;
        match self.execution_row(command.execution_id).await {
            Ok(_) => {}
            Err(RuntimeError::Refused(problem))
                if problem.known_code() != Some(ErrorCode::Forbidden) =>
            {
                return Err(no_command());
            }
            Err(error) => return Err(error),
        }
        Ok(command)
    }

    /// Writes down that a worker has a command, durably: it is told by its name alone from now on.
    async fn record(
        &self,
        claimed: &ClaimedCommand,
        worker: &WorkerId,
    ) -> Result<(), RuntimeError> {
        let command = &claimed.leased.command;
        let fence = Fence {
            command_id: command.command_id,
            attempt: command.attempt,
            holder: Holder::Worker(worker.clone()),
        };
        let (letter, answer) = Letter::new(Input::Claim(noetl_engine::Claim {
            command: command.command_id,
            attempt: command.attempt,
            worker: worker.clone(),
            lease_until: command.lease.map(|lease| lease.until),
        }));
        let letter = letter.fenced(fence.clone());
        let told = self.core.ask(command.execution_id, letter, answer).await;
        let Err(error) = told else {
            return Ok(());
        };
        // It was paused or ended in between: nobody has it.
        let release = Release {
            fence,
            not_before: command.not_before,
        };
        if let Err(lost) = self.store().release(vec![release]).await {
            tracing::debug!(%lost, "a claim that was not recorded runs out by itself");
        }
        Err(match error.code() {
            Some(ErrorCode::NotFound) => over(),
            Some(ErrorCode::IllegalTransition) => too_early(),
            _ => error,
        })
    }

    /// Until when a command is a worker's that has it already; else why it cannot be had.
    async fn held_by(
        &self,
        command: &Command,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RuntimeError> {
        let Some(lease) = command.lease else {
            return Err(match command.status {
                CommandStatus::Completed | CommandStatus::Failed | CommandStatus::Cancelled => {
                    over()
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running
                    if command.held =>
                {
                    RuntimeError::refused(ErrorCode::Paused, "the execution is paused")
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running => {
                    too_early()
                }
            });
        };
        if command.worker.as_ref() != Some(worker) {
            let (id, until) = (command.command_id, lease.until);
            let text = format!("command {id} is leased until {until}");
            return Err(RuntimeError::refused(ErrorCode::ActiveClaim, text));
        }
        self.core.renew(command, worker, now).await
    }
}

fn no_command() -> RuntimeError {
    RuntimeError::refused(ErrorCode::NotFound, "there is no such command")
}

fn over() -> RuntimeError {
    RuntimeError::refused(ErrorCode::AlreadyTerminal, "the command is done with")
}

fn too_early() -> RuntimeError {
    let text = "the command may not be handed out yet; ask again";
    RuntimeError::refused(ErrorCode::NotReady, text)
}
