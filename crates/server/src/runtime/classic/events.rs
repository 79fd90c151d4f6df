//! Events that workers tell, and what follows from them.

use noetl_api::classic::{EventAnswer, EventBatch, EventBatchAnswer, EventPost, ResultKind};
use noetl_engine::{IgnoredResult, Input, Remark, Report, ReportOutcome, Told, Verdict};
use noetl_store::{Command, CommandChoice, CommandFilter, Fence, Holder, RuntimeKind};
use noetl_types::limits::{MAX_EVENT_BATCH, PageLimit};
use noetl_types::{
    CommandId, CommandStatus, ErrorCode, EventId, EventType, Json, Seq, Text, WorkerId,
};

use super::judge::{Attempted, Judged, plain};
use super::payload;
use super::tale::{SENT_SHA256, Tale};
use crate::runtime::driver::{Letter, Reply};
use crate::runtime::{Runtime, RuntimeError};

impl Runtime {
    /// Takes an event. The same one again, by its id, is answered as it was the first time.
    pub async fn take_event(&self, post: EventPost) -> Result<EventAnswer, RuntimeError> {
        let tale = Tale::read(post.execution_id, post.worker_id, post.event)?;
        self.execution_row(tale.execution_id).await?;
        self.take(&tale).await
    }

    /// Takes events of one execution, in order. One that may not be told refuses all of them before
    /// anything is written.
    pub async fn take_events(&self, batch: EventBatch) -> Result<EventBatchAnswer, RuntimeError> {
        if batch.events.len() > MAX_EVENT_BATCH {
            let text = format!("a call brings at most {MAX_EVENT_BATCH} events");
            return Err(RuntimeError::refused(ErrorCode::Validation, text));
        }
        let mut tales = Vec::with_capacity(batch.events.len());
        for told in batch.events {
            let worker = batch.worker_id.clone();
            tales.push(Tale::read(batch.execution_id, worker, told)?);
        }
        self.execution_row(batch.execution_id).await?;
        let mut answer = EventBatchAnswer {
            status: "ok".into(),
            event_ids: Vec::with_capacity(tales.len()),
            commands_generated: 0,
        };
        for tale in &tales {
            let one = self.take(tale).await?;
            answer.event_ids.push(one.event_id);
            answer.commands_generated += one.commands_generated;
        }
        Ok(answer)
    }

    async fn take(&self, tale: &Tale) -> Result<EventAnswer, RuntimeError> {
        let named = tale.event_id(self.now())?;
        let event_id = match named {
            None => self.mint()?,
            Some(event_id) => match self.known(tale, event_id).await? {
                Some(known) => return Ok(known),
                None => event_id,
            },
        };
        let answered = match tale.about_command() {
            Some(kind) => self.take_of_command(tale, kind, event_id).await,
            None => self.take_remark(tale, event_id).await,
        };
        match answered {
            // Somebody told the same between the look and the write.
            Err(error) if named.is_some() && error.code() == Some(ErrorCode::IdConflict) => {
                self.known(tale, event_id).await?.ok_or(error)
            }
            answered => answered,
        }
    }

    /// What was answered before, where the event is there already.
    async fn known(
        &self,
        tale: &Tale,
        event_id: EventId,
    ) -> Result<Option<EventAnswer>, RuntimeError> {
        let stored = self.store().event(tale.execution_id, event_id).await?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let event = &stored.record.event;
        let meta = event.meta.as_ref();
        let field = |key: &str| meta.and_then(|meta| meta.get(key));
        let sent = field(SENT_SHA256).and_then(Json::as_str);
        if sent != Some(tale.sha256.to_string().as_str()) {
            let text = format!("event {event_id} is there already and says something else");
            return Err(RuntimeError::refused(ErrorCode::IdConflict, text));
        }
        let issued = field("commands_generated").and_then(Json::as_u64);
        let is_ignored = event.event_type == EventType::CommandResultIgnored;
        Ok(Some(EventAnswer {
            status: if is_ignored { "ignored" } else { "ok" }.into(),
            event_id,
            commands_generated: issued
                .and_then(|issued| u32::try_from(issued).ok())
                .unwrap_or(0),
            seq: Some(stored.record.seq),
        }))
    }

    async fn take_remark(
        &self,
        tale: &Tale,
        event_id: EventId,
    ) -> Result<EventAnswer, RuntimeError> {
        let record = tale.record(event_id, self.now())?;
        let (letter, answer) = Letter::new(Input::Remark(Box::new(Remark(record))));
        let reply = self.core.ask(tale.execution_id, letter, answer).await?;
        Ok(answered(event_id, &reply))
    }

    async fn take_of_command(
        &self,
        tale: &Tale,
        kind: EventType,
        event_id: EventId,
    ) -> Result<EventAnswer, RuntimeError> {
        let worker = tale.worker.clone().ok_or_else(|| {
            let text = "worker_id says whose command it is, and is missing";
            RuntimeError::refused(ErrorCode::Validation, text)
        })?;
        let (command_id, row) = self.command_told(tale, &worker).await?;
        let attempt = payload::attempt(&tale.told);
        let teller = Teller {
            tale,
            kind,
            event_id,
            command_id,
            worker,
            attempt: attempt.or(row.as_ref().map(|row| row.attempt)).unwrap_or(1),
        };
        let Some(row) = row else {
            // A command that is not kept any more is over: the log tells what came of it.
            return self.late(&teller).await;
        };
        match teller.standing(&row) {
            Standing::Holds => self.heard(&teller, &row).await,
            Standing::Companion => Ok(teller.answer("ok")),
            Standing::Closed => self.late(&teller).await,
            Standing::Superseded => self.ignored(&teller, ErrorCode::StaleAttempt).await,
            Standing::Impossible => Err(teller.refused()),
            Standing::Stranger => {
                if self.works_for(&teller.worker, &row).await? {
                    self.ignored(&teller, ErrorCode::NotLeaseHolder).await
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
        if let Some(command_id) = payload::command_id(&tale.told) {
            let row = self.store().command(command_id).await?;
            let is_foreign = |row: &Command| row.execution_id != tale.execution_id;
            if row.as_ref().is_some_and(is_foreign) {
                return Err(unknown());
            }
            return Ok((command_id, row));
        }
        let step = tale.told.step.as_deref().ok_or_else(unknown)?;
        for choice in [CommandChoice::Open, CommandChoice::All] {
            let filter = CommandFilter {
                tenant_id: self.tenant().clone(),
                choice,
                execution_id: Some(tale.execution_id),
                pool: None,
                worker: Some(worker.clone()),
                after: None,
                limit: PageLimit::MAX,
            };
            let page = self.store().commands(filter).await?;
            let mut rows = page.commands.into_iter().rev();
            if let Some(row) = rows.find(|row| row.instance.step_name.as_str() == step) {
                return Ok((row.command_id, Some(row)));
            }
        }
        Err(unknown())
    }

    /// Takes the word of whoever holds the command.
    async fn heard(&self, teller: &Teller<'_>, row: &Command) -> Result<EventAnswer, RuntimeError> {
        let told = match teller.kind {
            EventType::CommandStarted | EventType::CommandHeartbeat => teller.progress(),
            _ => self.outcome(teller, row).await?,
        };
        let is_over = !matches!(told.report.outcome, ReportOutcome::Running { .. });
        let (letter, answer) = Letter::new(Input::Told(Box::new(told)));
        let letter = letter.fenced(Fence {
            command_id: teller.command_id,
            attempt: teller.attempt,
            holder: Holder::Worker(teller.worker.clone()),
        });
        let execution_id = teller.tale.execution_id;
        let reply = self.core.ask(execution_id, letter, answer).await?;
        if is_over {
            let kept_name = self.kept_name(&Text::from(&teller.worker));
            self.core.claims.settle(&kept_name, teller.command_id);
        }
        Ok(answered(teller.event_id, &reply))
    }

    /// What became of a command, once its policy was followed.
    async fn outcome(&self, teller: &Teller<'_>, row: &Command) -> Result<Told, RuntimeError> {
        let issued = self
            .store()
            .event(row.execution_id, row.command_id.into())
            .await?;
        let issued = issued.ok_or_else(|| {
            RuntimeError::refused(ErrorCode::Internal, "a command without its event")
        })?;
        let issued = self.core.issued(&issued.record).await?;
        let folded = self.state_of(row.execution_id).await?;
        let known = folded.as_ref().map(|(_, state)| state);
        let known = known.and_then(|state| state.command(row.command_id));
        let told = &teller.tale.told;
        let mut answer = payload::answer(told, teller.kind);
        if told.result_kind == ResultKind::Ref
            && let Some(uri) = told.result_uri.as_deref()
            && uri.starts_with("noetl://")
        {
            answer.data = self.resolve_result(uri).await?;
        }
        let judged = self.core.judged(Attempted {
            issued: &issued,
            command: row,
            worker: &teller.worker,
            number: known.map_or(0, |known| known.retried).saturating_add(1),
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

    /// Takes the word about a command that is closed: the log tells a repetition from a late result.
    async fn late(&self, teller: &Teller<'_>) -> Result<EventAnswer, RuntimeError> {
        if !teller.is_result() {
            return Ok(teller.answer("ignored"));
        }
        let told = teller.told(teller.plain());
        let (letter, answer) = Letter::new(Input::Told(Box::new(told)));
        let execution_id = teller.tale.execution_id;
        match self.core.ask(execution_id, letter, answer).await {
            Ok(reply) => Ok(answered(teller.event_id, &reply)),
            // It was withdrawn before it came to anything.
            Err(error) if error.code() == Some(ErrorCode::NotFound) => {
                self.ignored(teller, ErrorCode::StaleAttempt).await
            }
            Err(error) => Err(error),
        }
    }

    /// Notes a result that does not count.
    async fn ignored(
        &self,
        teller: &Teller<'_>,
        code: ErrorCode,
    ) -> Result<EventAnswer, RuntimeError> {
        if teller.is_result() {
            let report = teller.report(teller.plain());
            let ignored = Box::new(IgnoredResult::of(&report, code));
            let (letter, answer) = Letter::new(Input::Ignored(ignored));
            self.core
                .ask(teller.tale.execution_id, letter, answer)
                .await?;
        }
        Ok(teller.answer("ignored"))
    }

    /// Whether a worker is known to work for the pool of a command.
    async fn works_for(&self, worker: &WorkerId, row: &Command) -> Result<bool, RuntimeError> {
        let known = self.store().runtimes(RuntimeKind::WorkerPool).await?;
        let kept_name = self.kept_name(&Text::from(worker));
        let known = known.iter().find(|known| known.name == kept_name);
        let Some(known) = known else {
            return Ok(false);
        };
        let labels = known.detail.as_ref().and_then(|told| told.get("labels"));
        let pool = labels.and_then(|labels| labels.get("pool_name"));
        let pool = pool.and_then(Json::as_str).unwrap_or("shared");
        let own = row.pool.of_tenant(self.tenant());
        Ok(own.is_some_and(|own| own == *pool))
    }
}

/// A worker that tells something of a command.
struct Teller<'t> {
    tale: &'t Tale,
    kind: EventType,
    event_id: EventId,
    command_id: CommandId,
    worker: WorkerId,
    attempt: u32,
}

/// Where a worker stands that tells something of a command.
enum Standing {
    /// It has the command.
    Holds,
    /// It had the command, which is closed; what it tells goes with the closing.
    Companion,
    /// It had the command, which is closed.
    Closed,
    /// It had the command once, or may have had it.
    Superseded,
    /// Another worker has it.
    Stranger,
    /// It names an attempt that nobody made.
    Impossible,
}

impl Teller<'_> {
    fn standing(&self, row: &Command) -> Standing {
        let is_last = row.worker.as_ref() == Some(&self.worker);
        if self.attempt > row.attempt.saturating_add(1) {
            return Standing::Impossible;
        }
        if is_last && self.attempt == row.attempt {
            return match row.status {
                _ if row.lease.is_some() => Standing::Holds,
                CommandStatus::Completed if self.closes_well() => Standing::Companion,
                CommandStatus::Failed if self.kind == EventType::CommandFailed => {
                    Standing::Companion
                }
                CommandStatus::Completed | CommandStatus::Failed | CommandStatus::Cancelled => {
                    Standing::Closed
                }
                CommandStatus::Pending | CommandStatus::Claimed | CommandStatus::Running => {
                    Standing::Superseded
                }
            };
        }
        if is_last || self.attempt < row.attempt {
            return Standing::Superseded;
        }
        Standing::Stranger
    }

    /// Whether it only repeats that a command went well.
    fn closes_well(&self) -> bool {
        self.kind == EventType::CommandCompleted || self.tale.is_exit()
    }

    /// Whether it tells what came of the command.
    fn is_result(&self) -> bool {
        !matches!(
            self.kind,
            EventType::CommandStarted | EventType::CommandHeartbeat
        )
    }

    fn answer(&self, status: &str) -> EventAnswer {
        EventAnswer {
            status: status.into(),
            event_id: self.event_id,
            commands_generated: 0,
            seq: None,
        }
    }

    fn refused(&self) -> RuntimeError {
        let (worker, command, attempt) = (&self.worker, self.command_id, self.attempt);
        tracing::warn!(%worker, %command, attempt, "a worker speaks of a command that is not its");
        let text = format!("command {command} is not held by {worker} in attempt {attempt}");
        RuntimeError::refused(ErrorCode::NotLeaseHolder, text)
    }

    fn report(&self, outcome: ReportOutcome) -> Report {
        Report {
            command: self.command_id,
            attempt: self.attempt,
            worker: self.worker.clone(),
            lease_until: None,
            claimed_at: None,
            started_at: None,
            retries: Vec::new(),
            outcome,
        }
    }

    fn told(&self, outcome: ReportOutcome) -> Told {
        let event_type = match (&outcome, self.kind) {
            // A policy may make a success of a failure, and the other way round.
            (ReportOutcome::Completed(_), EventType::CallError) => EventType::CallDone,
            (ReportOutcome::Failed { .. }, EventType::CallDone) => EventType::CallError,
            (ReportOutcome::Completed(_), EventType::CommandFailed) => EventType::CommandCompleted,
            (ReportOutcome::Failed { .. }, EventType::CommandCompleted) => EventType::CommandFailed,
            (_, kind) => kind,
        };
        Told {
            report: self.report(outcome),
            again: None,
            event_id: self.event_id,
            event_type,
            meta: self.tale.beside(),
        }
    }

    /// How far the command is.
    fn progress(&self) -> Told {
        let told = &self.tale.told;
        let is_start = self.kind == EventType::CommandStarted;
        let progress = (!is_start).then(|| told.payload.clone());
        let mut told = self.told(ReportOutcome::Running { progress });
        // Without a time the engine writes no start; its own clock bounds one from the future.
        let started = self
            .tale
            .told
            .created_at
            .unwrap_or(noetl_types::Timestamp::MAX);
        told.report.started_at = is_start.then_some(started);
        told
    }

    /// The outcome as it is told, not judged.
    fn plain(&self) -> ReportOutcome {
        let told = &self.tale.told;
        plain(payload::answer(told, self.kind), payload::writes(told))
    }
}

/// What became of an event, as its worker is told.
fn answered(event_id: EventId, reply: &Reply) -> EventAnswer {
    let status = match reply.verdict {
        None | Some(Verdict::Accepted | Verdict::Kept | Verdict::Duplicate) => "ok",
        Some(Verdict::Ignored(_)) => "ignored",
    };
    EventAnswer {
        status: status.into(),
        event_id,
        commands_generated: reply.issued,
        seq: Seq::new(reply.version.get()).ok(),
    }
}
