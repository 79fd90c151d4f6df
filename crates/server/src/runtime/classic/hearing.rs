//! What events of workers come to, as far as the queue tells.
//!
//! The events of a call are read in order, before any of them is written: each is read against the
//! commands as they will be once those before it are.

use std::collections::BTreeMap;

use noetl_api::classic::{EventAnswer, ResultKind};
use noetl_engine::{Late, ReportOutcome, State, Told};
use noetl_store::{
    Command, CommandChoice, CommandFilter, Fence, MAX_APPEND_RESULT_BYTES, RuntimeKind,
};
use noetl_types::limits::PageLimit;
use noetl_types::{
    ByteSize, CommandId, CommandStatus, ErrorCode, EventType, Json, NewEvent, WorkerId,
};

use super::events::Named;
use super::judge::{Attempted, Judged};
use super::payload;
use super::tale::Tale;
use super::teller::{Standing, Teller};
use crate::read::value_of;
use crate::runtime::{Runtime, RuntimeError};

/// What an event comes to.
pub(super) enum Heard {
    /// Nothing is to be written.
    Answered(EventAnswer),
    /// The word of a worker about a command.
    Told {
        told: Box<Told>,
        /// What must be true of its lease for the word to count.
        fence: Option<Fence>,
        /// Whose command it ends.
        over: Option<(WorkerId, CommandId)>,
    },
    /// Something that shapes nothing.
    Remark(Box<NewEvent>),
}

/// The events of a call, read in order.
pub(super) struct Hearing<'r> {
    runtime: &'r Runtime,
    /// Commands as they are after what was read so far.
    commands: BTreeMap<CommandId, Command>,
    /// The run before the call, once somebody asked.
    state: Option<State>,
    /// Bytes of the results that its events refer to, as far as they were read.
    resolved: usize,
}

impl<'r> Hearing<'r> {
    pub(super) fn of(runtime: &'r Runtime) -> Self {
        Self {
            runtime,
            commands: BTreeMap::new(),
            state: None,
            resolved: 0,
        }
    }

    /// Reads the next event.
    pub(super) async fn hear(&mut self, named: &Named<'_>) -> Result<Heard, RuntimeError> {
        if let Some(kind) = named.tale.about_command() {
            return self.of_command(named, kind).await;
        }
        let record = named.tale.record(named.event_id, self.runtime.now())?;
        Ok(Heard::Remark(Box::new(record)))
    }

    async fn of_command(
        &mut self,
        named: &Named<'_>,
        kind: EventType,
    ) -> Result<Heard, RuntimeError> {
        let tale = named.tale;
        let worker = tale.worker.clone().ok_or_else(|| {
            let text = "worker_id says whose command it is, and is missing";
            RuntimeError::refused(ErrorCode::Validation, text)
        })?;
        let (command_id, row) = self.command_told(tale, &worker).await?;
        self.runtime.behalf().check_command(command_id)?;
        let attempt = payload::attempt(&tale.told);
        let teller = Teller {
            tale,
            kind,
            event_id: named.event_id,
            command_id,
            worker,
            attempt: attempt.or(row.as_ref().map(|row| row.attempt)).unwrap_or(1),
        };
        let Some(row) = row else {
            // A command that is not kept any more is over: the log tells what came of it.
            return Ok(late(&teller, Late::Closed));
        };
        match teller.standing(&row) {
            Standing::Holds => self.of_holder(&teller, row).await,
            Standing::Companion => Ok(Heard::Answered(teller.answer("ok"))),
            // The log tells a repetition from a late result.
            Standing::Closed => Ok(late(&teller, Late::Closed)),
            Standing::Superseded => Ok(late(&teller, Late::Superseded(ErrorCode::StaleAttempt))),
            Standing::Impossible => Err(teller.refused()),
            Standing::Stranger => {
                if self.works_for(&teller.worker, &row).await? {
                    Ok(late(&teller, Late::Superseded(ErrorCode::NotLeaseHolder)))
                } else {
                    Err(teller.refused())
                }
            }
        }
    }

    /// The command that an event is about: the one that it names, else the one of its step that the
    /// worker had last.
    async fn command_told(
        &self,
        tale: &Tale,
        worker: &WorkerId,
    ) -> Result<(CommandId, Option<Command>), RuntimeError> {
        let unknown = || RuntimeError::refused(ErrorCode::NotFound, "there is no such command");
        let store = self.runtime.store();
        if let Some(command_id) = payload::command_id(&tale.told) {
            let row = match self.commands.get(&command_id) {
                Some(row) => Some(row.clone()),
                None => store.command(command_id).await?,
            };
            let is_foreign = |row: &Command| row.execution_id != tale.execution_id;
            if row.as_ref().is_some_and(is_foreign) {
                return Err(unknown());
            }
            return Ok((command_id, row));
        }
        let step = tale.told.step.as_deref().ok_or_else(unknown)?;
        for choice in [CommandChoice::Open, CommandChoice::All] {
            let filter = CommandFilter {
                tenant_id: self.runtime.tenant().clone(),
                choice,
                execution_id: Some(tale.execution_id),
                pool: None,
                worker: Some(worker.clone()),
                after: None,
                limit: PageLimit::MAX,
            };
            let page = store.commands(filter).await?;
            let rows = page.commands.into_iter().rev();
            let mut rows = rows.map(|row| match self.commands.get(&row.command_id) {
                Some(changed) => changed.clone(),
                None => row,
            });
            let is_told = |row: &Command| {
                let is_chosen = choice == CommandChoice::All || !row.status.is_terminal();
                is_chosen && row.instance.step_name.as_str() == step
            };
            if let Some(row) = rows.find(is_told) {
                return Ok((row.command_id, Some(row)));
            }
        }
        Err(unknown())
    }

    /// The word of whoever holds the command.
    async fn of_holder(
        &mut self,
        teller: &Teller<'_>,
        mut row: Command,
    ) -> Result<Heard, RuntimeError> {
        let told = match teller.kind {
            EventType::CommandStarted | EventType::CommandHeartbeat => teller.progress(),
            _ => self.outcome(teller, &row).await?,
        };
        let end = match (&told.report.outcome, &told.again) {
            (ReportOutcome::Completed(_), _) => Some(CommandStatus::Completed),
            (ReportOutcome::Failed { .. }, _) => Some(CommandStatus::Failed),
            (_, Some(_)) => Some(CommandStatus::Pending),
            (ReportOutcome::Running { .. } | ReportOutcome::Parked { .. }, None) => None,
        };
        if let Some(status) = end {
            row.status = status;
            row.lease = None;
        }
        let is_over = end.is_some_and(CommandStatus::is_terminal);
        self.commands.insert(row.command_id, row);
        Ok(Heard::Told {
            told: Box::new(told),
            fence: Some(teller.fence()),
            over: is_over.then(|| (teller.worker.clone(), teller.command_id)),
        })
    }

    /// What became of a command, once its policy was followed.
    async fn outcome(&mut self, teller: &Teller<'_>, row: &Command) -> Result<Told, RuntimeError> {
        let core = &self.runtime.core;
        let issued = self
            .runtime
            .store()
            .event(row.execution_id, row.command_id.into())
            .await?;
        let issued = issued.ok_or_else(|| {
            RuntimeError::refused(ErrorCode::Internal, "a command without its event")
        })?;
        let issued = core.issued(&issued.record).await?;
        if self.state.is_none() {
            let folded = self.runtime.state_of(row.execution_id).await?;
            self.state = folded.map(|(_, state)| state);
        }
        let known = self.state.as_ref();
        let known = known.and_then(|state| state.command(row.command_id));
        let retried = known.map_or(0, |known| known.retried);
        let told = &teller.tale.told;
        let mut answer = payload::answer(told, teller.kind);
        if told.result_kind == ResultKind::Ref
            && let Some(uri) = told.result_uri.as_deref()
            && uri.starts_with("noetl://")
        {
            answer.data = self.resolve(uri).await?;
        }
        let judged = core.judged(Attempted {
            issued: &issued,
            command: row,
            worker: &teller.worker,
            number: retried.saturating_add(1),
            answer,
            set: payload::writes(told),
        });
        Ok(match judged.await? {
            Judged::Over(outcome) => teller.told(*outcome),
            Judged::Again(error, delay) => Told {
                again: Some((error, delay)),
                event_type: EventType::CallError,
                ..teller.told(ReportOutcome::Running { progress: None })
            },
        })
    }

    /// A result that an event refers to. All of a call are in memory until it is written, which is in
    /// one append, so they are bounded as that is.
    async fn resolve(&mut self, uri: &str) -> Result<Json, RuntimeError> {
        let stored = self.runtime.found_result(uri).await?;
        self.resolved += stored.bytes.len();
        if self.resolved > MAX_APPEND_RESULT_BYTES {
            let most = ByteSize::from_bytes(MAX_APPEND_RESULT_BYTES as u64);
            let text = format!(
                "the results that the events of a call refer to have at most {most} together: \
                 send fewer of them at once"
            );
            return Err(RuntimeError::refused(ErrorCode::TooLarge, text));
        }
        value_of(&stored)
    }

    /// Whether a worker is known to work for the pool of a command.
    async fn works_for(&self, worker: &WorkerId, row: &Command) -> Result<bool, RuntimeError> {
        let runtime = self.runtime;
        let known = runtime.store().runtimes(RuntimeKind::WorkerPool).await?;
        let kept_name = runtime.kept_name(worker);
        let known = known.iter().find(|known| known.name == kept_name);
        let Some(known) = known else {
            return Ok(false);
        };
        let labels = known.detail.as_ref().and_then(|told| told.get("labels"));
        let pool = labels.and_then(|labels| labels.get("pool_name"));
        let pool = pool.and_then(Json::as_str).unwrap_or("shared");
        let own = row.pool.of_tenant(runtime.tenant());
        Ok(own.is_some_and(|own| own == *pool))
    }
}

/// A word about a command that is not its worker's any more: only a result is noted.
fn late(teller: &Teller<'_>, late: Late) -> Heard {
    if !teller.tale.is_result() {
        return Heard::Answered(teller.answer("ignored"));
    }
    Heard::Told {
        told: Box::new(teller.late(late)),
        fence: None,
        over: None,
    }
}
