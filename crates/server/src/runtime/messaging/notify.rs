//! Workers are told of commands that wait for one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use noetl_bus::nats::{Outgoing, PublishFailed};
use noetl_store::{Command, CommandChoice, CommandFilter};
use noetl_types::id::CommandLabel;
use noetl_types::json::to_canonical;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, CommandStatus, ExecutionId, Json, Millis, PoolName, StepName, TenantId, Timestamp,
};
use tokio::sync::mpsc;

use super::COMMANDS;
use crate::runtime::Core;
use crate::runtime::error::{RuntimeError, causes};

/// Notices that are sent together.
const TOGETHER: usize = 500;

/// How often the store is looked through for commands that nobody was told of.
const LOOK: Duration = Duration::from_secs(2);

/// Commands of a pool that one look repeats at most: its workers have enough to do with those.
const MOST_REPEATED: i64 = 200;

/// After how long a command is told again, and the longest time until it is told once more.
const FIRST_PAUSE: Millis = Millis::from_secs(5);
const LONGEST_PAUSE: Millis = Millis::from_secs(60);

/// A command that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::runtime) struct Notice {
    pub(in crate::runtime) execution_id: ExecutionId,
    pub(in crate::runtime) command_id: CommandId,
    pub(in crate::runtime) step: StepName,
    pub(in crate::runtime) index: Option<u64>,
    pub(in crate::runtime) pool: PoolName,
    /// How long an attempt may take.
    pub(in crate::runtime) deadline: Option<Millis>,
    /// The attempt that the next grant begins.
    pub(in crate::runtime) attempt: u32,
    /// Tells one notice of an attempt from the next: the server drops a second one of the same
    /// number.
    pub(in crate::runtime) number: i64,
}

impl Notice {
    fn again(command: &Command, now: Timestamp) -> Self {
        Self {
            execution_id: command.execution_id,
            command_id: command.command_id,
            step: command.instance.step_name.clone(),
            index: command.instance.iter_index,
            pool: command.pool.clone(),
            deadline: command.deadline,
            attempt: command.attempt.saturating_add(1),
            // The same for every server that looks at about the same time, so that they tell it once
            // together, and never that of the first notice.
            number: 1 + now.as_unix_ms() / i64::try_from(FIRST_PAUSE.as_ms()).unwrap_or(1),
        }
    }

    fn messages(&self, server_url: &str, bare: bool) -> Vec<Outgoing> {
        let label = CommandLabel {
            execution_id: self.execution_id,
            step: self.step.clone(),
            command_id: self.command_id,
            index: self.index,
        };
        let (tenant_id, pool) = self.pool.owner();
        let is_default = tenant_id == TenantId::default();
        let mut body = vec![
            ("execution_id", Json::from(self.execution_id.get())),
            ("event_id", Json::from(self.command_id.get())),
            ("command_id", Json::from(label.to_string())),
            ("step", Json::from(self.step.as_str())),
            ("server_url", Json::from(server_url)),
            ("execution_pool", Json::from(pool.as_str())),
            ("attempt", Json::from(self.attempt)),
        ];
        let mut place = "noetl".to_owned();
        if !is_default {
            body.push(("tenant_id", Json::from(tenant_id.as_str())));
            place = format!("noetl.t.{tenant_id}");
        }
        let body = bytes(&Json::object(body));
        let id = format!("{}:{}:{}", self.command_id, self.attempt, self.number);
        let mut messages = vec![Outgoing {
            subject: format!("{place}.commands.{pool}.{}", self.execution_id),
            message_id: id.clone(),
            body: body.clone(),
        }];
        // A queue of another tenant has another name than the pool that it is of.
        if bare && self.pool == PoolName::shared() {
            messages.push(Outgoing {
                subject: "noetl.commands".to_owned(),
                message_id: format!("{id}:bare"),
                body,
            });
        }
        messages
    }
}

fn bytes(body: &Json) -> bytes::Bytes {
    to_canonical(body).into()
}

/// When commands were told of last, as far as they still wait.
#[derive(Default)]
struct Told(HashMap<CommandId, (Timestamp, Millis)>);

impl Told {
    /// Whether it is time to tell of a command again; then it counts as told.
    fn is_due(&mut self, command: &Command, now: Timestamp) -> bool {
        let (at, pause) = match self.0.get(&command.command_id) {
            Some(known) => *known,
            // One that was put off was told to nobody; any other one was when it was issued.
            None if command.not_before.is_some() => (now.saturating_sub(FIRST_PAUSE), Millis::ZERO),
            None => (command.command_id.time(), Millis::ZERO),
        };
        if now.since(at) < pause.max(FIRST_PAUSE) {
            return false;
        }
        let longer = pause.saturating_mul(2).max(FIRST_PAUSE).min(LONGEST_PAUSE);
        self.0.insert(command.command_id, (now, longer));
        true
    }
}

impl Core {
    /// Sends what is to be told, for as long as the process lives.
    pub(in crate::runtime) async fn notify_for_ever(
        self: Arc<Self>,
        mut notices: mpsc::Receiver<Notice>,
    ) {
        // How often the connection had been made when the stream was last seen.
        let mut seen = None;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                count = notices.recv_many(&mut batch, TOGETHER) => if count == 0 { return },
            }
            self.send_notices(batch, &mut seen).await;
        }
    }

    async fn send_notices(&self, batch: Vec<Notice>, seen: &mut Option<u64>) {
        let Some(messaging) = &self.messaging else {
            return;
        };
        let facts = messaging.link().facts();
        if !facts.is_connected {
            // The sweep tells of them once somebody can hear it.
            return;
        }
        if *seen != Some(facts.connects) {
            if let Err(error) = messaging.link().ensure(&COMMANDS).await {
                tracing::warn!(%error, "workers are not told of commands");
                return;
            }
            *seen = Some(facts.connects);
        }
        let messages = batch.iter().flat_map(|notice| {
            let server_url = self.address_for(notice);
            notice.messages(&server_url, messaging.bare_subject)
        });
        let outcomes = messaging
            .link()
            .publish(COMMANDS.name, messages.collect())
            .await;
        for failed in outcomes.into_iter().filter_map(Result::err) {
            if failed == PublishFailed::NoStream {
                *seen = None;
            }
            tracing::debug!(%failed, "a worker is not told of a command now");
        }
    }

    /// Tells again of commands that wait in spite of it.
    pub(in crate::runtime) async fn repeat_for_ever(self: Arc<Self>) {
        let mut told = Told::default();
        while self.pause(LOOK).await {
            let is_heard = self
                .messaging
                .as_ref()
                .is_some_and(|messaging| messaging.link().facts().is_connected);
            if !is_heard {
                continue;
            }
            if let Err(error) = self.repeat(&mut told).await {
                tracing::warn!(error = %causes(&error), "waiting commands were not looked for");
            }
        }
    }

    async fn repeat(&self, told: &mut Told) -> Result<(), RuntimeError> {
        let now = self.clock.now();
        let mut waiting = HashMap::new();
        for count in self.store.pool_counts().await? {
            if count.pending == 0 {
                continue;
            }
            let (tenant_id, _) = count.pool.owner();
            let filter = CommandFilter {
                choice: CommandChoice::Only(CommandStatus::Pending),
                pool: Some(count.pool),
                execution_id: None,
                tenant_id,
                worker: None,
                after: None,
                limit: PageLimit::clamped(MOST_REPEATED),
            };
            let page = self.store.commands(filter).await?;
            let is_free = |command: &Command| {
                !command.held && command.not_before.is_none_or(|time| time <= now)
            };
            for command in page.commands.into_iter().filter(is_free) {
                if told.is_due(&command, now)
                    && let Some(messaging) = &self.messaging
                {
                    messaging.tell(vec![Notice::again(&command, now)]);
                }
                if let Some(known) = told.0.get(&command.command_id) {
                    waiting.insert(command.command_id, *known);
                }
            }
        }
        // What does not wait any more is forgotten, so that the memory of it stays small.
        told.0 = waiting;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use noetl_store::StepInstance;
    use noetl_types::limits::{MaxAttempts, Priority};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_unix_ms(1_800_000_000_000 + second * 1000).unwrap()
    }

    fn command(not_before: Option<Timestamp>) -> Command {
        let id = noetl_types::id::first_id_at(at(0).as_unix_ms());
        Command {
            command_id: CommandId::new(id).unwrap(),
            execution_id: ExecutionId::new(7).unwrap(),
            instance: StepInstance {
                step_name: StepName::new("load").unwrap(),
                run: 1,
                iter_index: Some(3),
                frame_no: None,
                segment: 0,
                server_retry: 0,
            },
            tool_kind: "noop".into(),
            pool: PoolName::shared(),
            priority: Priority::clamped(0),
            max_attempts: MaxAttempts::clamped(3),
            deadline: None,
            not_before,
            held: false,
            status: CommandStatus::Pending,
            attempt: 1,
            worker: None,
            lease: None,
            claimed_at: None,
            started_at: None,
            completed_at: None,
            error: None,
        }
    }

    #[test]
    fn a_command_is_told_again_ever_more_rarely() {
        let (mut told, command) = (Told::default(), command(None));
        let due: Vec<i64> = (0..300)
            .filter(|second| told.is_due(&command, at(*second)))
            .collect();
        assert_eq!(due, [5, 10, 20, 40, 80, 140, 200, 260]);
    }

    #[test]
    fn one_that_was_put_off_is_told_as_soon_as_it_is_seen() {
        let mut told = Told::default();
        assert!(told.is_due(&command(Some(at(1))), at(1)));
        assert!(!told.is_due(&command(Some(at(1))), at(2)));
    }

    #[test]
    fn what_workers_are_told() {
        let command = command(None);
        let notice = Notice::again(&command, at(0));
        let messages = notice.messages("http://localhost:1", true);
        let id = command.command_id;
        assert_eq!(messages[0].subject, "noetl.commands.shared.7");
        assert_eq!(messages[0].message_id, format!("{id}:2:360000001"));
        let body = format!(
            "{{\"attempt\":2,\"command_id\":\"7:load:{id}:i3\",\"event_id\":{id},\
             \"execution_id\":7,\"execution_pool\":\"shared\",\
             \"server_url\":\"http://localhost:1\",\"step\":\"load\"}}"
        );
        assert_eq!(messages[0].body, body);
        assert_eq!(messages[1].subject, "noetl.commands");
        assert_eq!(messages[1].message_id, format!("{id}:2:360000001:bare"));
        assert_eq!(notice.messages("", false).len(), 1);
    }

    #[test]
    fn what_workers_of_another_tenant_are_told() {
        let mut command = command(None);
        let acme = TenantId::new("acme").unwrap();
        command.pool = PoolName::shared().within(&acme);
        let messages = Notice::again(&command, at(0)).messages("", true);
        assert_eq!(
            messages.len(),
            1,
            "the bare subject is of the default tenant"
        );
        assert_eq!(messages[0].subject, "noetl.t.acme.commands.shared.7");
        let body: serde_json::Value = serde_json::from_slice(&messages[0].body).unwrap();
        assert_eq!(body["execution_pool"], "shared");
        assert_eq!(body["tenant_id"], "acme");
    }
}
