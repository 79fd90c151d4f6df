//! Commands that classic workers read and claim by id.

use noetl_api::classic::{ClaimRequest, ClaimResponse, ClassicCommand};
use noetl_engine::EngineInput;
use noetl_store::{Command, Fence, LeaseCondition, LeaseOutcome, LeaseRelease, LeaseTerms};
use noetl_types::{CommandId, CommandStatus, ErrorCode, EventId, Timestamp, WorkerId};

use super::context::{IssuedCommand, to_classic_command};
use super::{derive_lease_token, derive_stored_token};
use crate::runtime::driver::Message;
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Returns a command by the event that issued it.
    pub async fn classic_command(&self, event_id: EventId) -> Result<ClassicCommand, RuntimeError> {
        let command = self.command_row(event_id.into()).await?;
        to_classic_command(&self.load_issued_command(&command).await?, &command)
    }

    /// Loads an issued command with its definition.
    pub(super) async fn load_issued_command(
        &self,
        command: &Command,
    ) -> Result<IssuedCommand, RuntimeError> {
        let event_id = command.command_id.into();
        let issued = self.store().find_event(command.execution_id, event_id).await?;
        let issued = issued.ok_or_else(command_not_found)?;
        self.core.load_issued(&issued.record).await
    }

    /// Leases a command to a worker that names it. A worker that already holds it gets it again.
    pub async fn claim_command(
        &self,
        event_id: EventId,
        request: ClaimRequest,
    ) -> Result<ClaimResponse, RuntimeError> {
        let command_id = CommandId::from(event_id);
        let worker = request.worker_id;
        self.check_claim_deadline()?;
        self.command_row(command_id).await?;
        let now = self.now();
        let claim = LeaseTerms {
            worker: worker.clone(),
            token: derive_stored_token(command_id, &worker),
            lease_until: self.core.claim_expiry(now, now),
            now,
        };
        let claimed = self.store().try_lease_command(command_id, claim).await?;
        let claimed = claimed.ok_or_else(command_not_found)?;
        let lease_until = if claimed.is_granted {
            self.record_claim(&claimed, &worker).await?;
            claimed.leased.command.lease.map(|lease| lease.until)
        } else {
            self.renew_held_claim(&claimed.leased.command, &worker, now).await?
        };
        let stored_name = self.stored_worker_name(&worker);
        self.core.classic_claims.add_claim(&stored_name, command_id);
        let issued = self.core.load_issued(&claimed.leased.issued).await?;
        let command = &claimed.leased.command;
        Ok(ClaimResponse {
            status: "ok".into(),
            event_id,
            command: to_classic_command(&issued, command)?,
            lease_token: command.lease.map_or_else(
                || derive_lease_token(command_id, &worker),
                |lease| noetl_api::LeaseToken::from_bytes(*lease.token.as_bytes()),
            ),
            lease_until: lease_until.unwrap_or(now),
            attempt: command.attempt,
        })
    }

    /// Returns a command that the caller can access.
    pub(in crate::runtime) async fn command_row(
        &self,
        id: CommandId,
    ) -> Result<Command, RuntimeError> {
        self.auth_context().check_token_command(id)?;
        let command = self.store().find_command(id).await?.ok_or_else(command_not_found)?;
        match self.visible_execution(command.execution_id).await {
            Ok(_) => {}
            Err(RuntimeError::Refused(problem))
                if problem.known_code() != Some(ErrorCode::Forbidden) =>
            {
                return Err(command_not_found());
            }
            Err(error) => return Err(error),
        }
        Ok(command)
    }

    /// Records the claim in the log. From now on its worker is identified by name alone.
    async fn record_claim(
        &self,
        claimed: &LeaseOutcome,
        worker: &WorkerId,
    ) -> Result<(), RuntimeError> {
        let command = &claimed.leased.command;
        let fence = Fence {
            command_id: command.command_id,
            attempt: command.attempt,
            condition: LeaseCondition::Worker(worker.clone()),
        };
        let (message, answer) = Message::new(EngineInput::Claim(noetl_engine::CommandClaim {
            command: command.command_id,
            attempt: command.attempt,
            worker: worker.clone(),
            lease_until: command.lease.map(|lease| lease.until),
        }));
        let message = message.with_fence(fence.clone());
        let recorded = self.core.send_and_wait(command.execution_id, message, answer).await;
        let Err(error) = recorded else {
            return Ok(());
        };
        // The execution was paused or ended in between: releases the claim.
        let release = LeaseRelease { fence, not_before: command.not_before };
        if let Err(release_error) = self.store().release_leases(vec![release]).await {
            tracing::debug!(%release_error, "releasing an unrecorded claim failed; it will expire");
        }
        Err(match error.code() {
            Some(ErrorCode::NotFound) => command_closed(),
            Some(ErrorCode::IllegalTransition) => command_not_ready(),
            _ => error,
        })
    }

    /// Renews the claim of a worker that already holds the command, or returns why it cannot be
    /// claimed.
    async fn renew_held_claim(
        &self,
        command: &Command,
        worker: &WorkerId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RuntimeError> {
        let Some(lease) = command.lease else {
            return Err(match command.status {
                CommandStatus::Completed | CommandStatus::Failed | CommandStatus::Cancelled => {
                    command_closed()
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running
                    if command.held =>
                {
                    RuntimeError::refused(ErrorCode::Paused, "the execution is paused")
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running => {
                    command_not_ready()
                }
            });
        };
        if command.worker.as_ref() != Some(worker) {
            let (id, until) = (command.command_id, lease.until);
            let text = format!("command {id} is leased until {until}");
            return Err(RuntimeError::refused(ErrorCode::ActiveClaim, text));
        }
        self.core.renew_claim(command, worker, now).await
    }
}

fn command_not_found() -> RuntimeError {
    RuntimeError::refused(ErrorCode::NotFound, "there is no such command")
}

fn command_closed() -> RuntimeError {
    RuntimeError::refused(ErrorCode::AlreadyTerminal, "the command is already closed")
}

fn command_not_ready() -> RuntimeError {
    let text = "the command cannot be claimed yet; try again later";
    RuntimeError::refused(ErrorCode::NotReady, text)
}
