//! Announces commands that wait for a worker, and receives the announcements of other servers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use noetl_messaging::nats::{OutgoingMessage, PublishFailure};
use noetl_store::{Command, CommandFilter, CommandStatusFilter};
use noetl_types::id::CommandLabel;
use noetl_types::json::to_canonical;
use noetl_types::limits::PageLimit;
use noetl_types::{
    CommandId, CommandStatus, ExecutionId, Json, Millis, PoolName, StepName, TenantId, Timestamp,
};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::error::{Result, error_chain};
use crate::services::notifications::{COMMAND_STREAM, NatsMessaging};
use crate::services::waiters::Waiters;
use crate::services::{Identities, Infrastructure};

/// Maximum notifications per publish.
const MAX_NOTIFICATIONS_PER_PUBLISH: usize = 500;

/// Interval of the search for commands that need another notification.
const RENOTIFY_SEARCH_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum repeated notifications per pool and search, which keep its workers busy enough.
const MAX_RENOTIFIED_PER_POOL: i64 = 200;

/// First and maximum delay before the notification of a command is repeated.
const FIRST_RENOTIFY_DELAY: Millis = Millis::from_secs(5);
const MAX_RENOTIFY_DELAY: Millis = Millis::from_secs(60);

/// Notification of a command that waits for a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandNotification {
    pub(crate) execution_id: ExecutionId,
    pub(crate) command_id: CommandId,
    pub(crate) step: StepName,
    pub(crate) index: Option<u64>,
    pub(crate) pool: PoolName,
    /// Maximum duration of an attempt.
    pub(crate) deadline: Option<Millis>,
    /// Attempt that the next lease begins.
    pub(crate) attempt: u32,
    /// Distinguishes the notifications of an attempt. The broker drops a second one with the same
    /// number.
    pub(crate) number: i64,
}

impl CommandNotification {
    fn repeated_notification(command: &Command, now: Timestamp) -> Self {
        Self {
            execution_id: command.execution_id,
            command_id: command.command_id,
            step: command.instance.step_name.clone(),
            index: command.instance.iter_index,
            pool: command.pool.clone(),
            deadline: command.deadline,
            attempt: command.attempt.saturating_add(1),
            // Equal on all servers that search at about the same time, so that the broker
            // deduplicates their notifications, and different from the first notification.
            number: 1 + now.as_unix_ms() / i64::try_from(FIRST_RENOTIFY_DELAY.as_ms()).unwrap_or(1),
        }
    }

    fn to_nats_messages(&self, server_url: &str, bare_subject: bool) -> Vec<OutgoingMessage> {
        let label = CommandLabel {
            execution_id: self.execution_id,
            step: self.step.clone(),
            command_id: self.command_id,
            index: self.index,
        };
        let (tenant_id, pool) = self.pool.split_tenant();
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
        let mut prefix = "noetl".to_owned();
        if !is_default {
            body.push(("tenant_id", Json::from(tenant_id.as_str())));
            prefix = format!("noetl.t.{tenant_id}");
        }
        let body = to_body_bytes(&Json::object(body));
        let id = format!("{}:{}:{}", self.command_id, self.attempt, self.number);
        let mut messages = vec![OutgoingMessage {
            subject: format!("{prefix}.commands.{pool}.{}", self.execution_id),
            message_id: id.clone(),
            body: body.clone(),
        }];
        // The queue of another tenant has a different name than its pool.
        if bare_subject && self.pool == PoolName::shared() {
            messages.push(OutgoingMessage {
                subject: "noetl.commands".to_owned(),
                message_id: format!("{id}:bare"),
                body,
            });
        }
        messages
    }
}

fn to_body_bytes(body: &Json) -> bytes::Bytes {
    to_canonical(body).into()
}

/// Time of the last notification of each waiting command, with the current delay.
#[derive(Default)]
struct NotificationHistory(HashMap<CommandId, (Timestamp, Millis)>);

impl NotificationHistory {
    /// Returns true if the notification of a command should be repeated, and records that it is.
    fn take_if_due(&mut self, command: &Command, now: Timestamp) -> bool {
        let (notified_at, delay) = match self.0.get(&command.command_id) {
            Some(last) => *last,
            // A delayed command was never announced. Any other one was announced when it was
            // issued.
            None if command.not_before.is_some() => {
                (now.saturating_sub(FIRST_RENOTIFY_DELAY), Millis::ZERO)
            }
            None => (command.command_id.time(), Millis::ZERO),
        };
        if now.duration_since(notified_at) < delay.max(FIRST_RENOTIFY_DELAY) {
            return false;
        }
        let next_delay = delay.saturating_mul(2).max(FIRST_RENOTIFY_DELAY).min(MAX_RENOTIFY_DELAY);
        self.0.insert(command.command_id, (now, next_delay));
        true
    }
}

/// Announces waiting commands to workers of other processes, and receives such announcements.
pub(crate) struct CommandNotifier {
    pub(crate) infra: Arc<Infrastructure>,
    pub(crate) messaging: Arc<NatsMessaging>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) identities: Arc<Identities>,
}

impl CommandNotifier {
    /// Sends queued notifications until shutdown.
    pub(crate) async fn notify_loop(
        self: Arc<Self>,
        mut notifications: mpsc::Receiver<CommandNotification>,
    ) {
        // Connection count when the stream was last ensured.
        let mut ensured_at = None;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                () = self.infra.shutdown.cancelled() => return,
                count = notifications.recv_many(&mut batch, MAX_NOTIFICATIONS_PER_PUBLISH) => if count == 0 { return },
            }
            self.send_notifications(batch, &mut ensured_at).await;
        }
    }

    async fn send_notifications(
        &self,
        batch: Vec<CommandNotification>,
        ensured_at: &mut Option<u64>,
    ) {
        let messaging = &self.messaging;
        let connection = messaging.link().connection_info();
        if !connection.is_connected {
            // The sweep repeats them once NATS is connected.
            return;
        }
        if *ensured_at != Some(connection.connect_count) {
            if let Err(error) = messaging.link().ensure_stream(&COMMAND_STREAM).await {
                tracing::warn!(%error, "creating the command stream failed; workers are not notified");
                return;
            }
            *ensured_at = Some(connection.connect_count);
        }
        let with_token = messaging.may_carry_tokens();
        let messages = batch.iter().flat_map(|notification| {
            let server_url = self.identities.worker_url_for(notification, with_token);
            notification.to_nats_messages(&server_url, messaging.bare_subject)
        });
        let outcomes =
            messaging.link().publish_batch(COMMAND_STREAM.name, messages.collect()).await;
        for failure in outcomes.into_iter().filter_map(Result::err) {
            if failure == PublishFailure::NoStream {
                *ensured_at = None;
            }
            tracing::debug!(%failure, "publishing a command notification failed");
        }
    }

    /// Repeats the notifications of commands that still wait.
    pub(crate) async fn renotify_loop(self: Arc<Self>) {
        let mut history = NotificationHistory::default();
        while self.infra.sleep_unless_shutdown(RENOTIFY_SEARCH_INTERVAL).await {
            if !self.messaging.is_connected() {
                continue;
            }
            if let Err(error) = self.renotify_waiting_commands(&mut history).await {
                tracing::warn!(error = %error_chain(&error), "searching for waiting commands failed");
            }
        }
    }

    async fn renotify_waiting_commands(&self, history: &mut NotificationHistory) -> Result<()> {
        let now = self.infra.now();
        let mut waiting = HashMap::new();
        for count in self.infra.store.pool_counts().await? {
            if count.pending == 0 {
                continue;
            }
            let (tenant_id, _) = count.pool.split_tenant();
            let filter = CommandFilter {
                status: CommandStatusFilter::Only(CommandStatus::Pending),
                pool: Some(count.pool),
                execution_id: None,
                tenant_id,
                worker: None,
                after: None,
                limit: PageLimit::clamped(MAX_RENOTIFIED_PER_POOL),
            };
            let page = self.infra.store.list_commands(filter).await?;
            let is_leasable = |command: &Command| {
                !command.held && command.not_before.is_none_or(|time| time <= now)
            };
            for command in page.commands.into_iter().filter(is_leasable) {
                if history.take_if_due(&command, now) {
                    self.messaging.queue_notifications(vec![
                        CommandNotification::repeated_notification(&command, now),
                    ]);
                }
                if let Some(last) = history.0.get(&command.command_id) {
                    waiting.insert(command.command_id, *last);
                }
            }
        }
        // Drops commands that no longer wait, to bound the memory.
        history.0 = waiting;
        Ok(())
    }

    /// Wakes local pollers when another server has queued a command.
    pub(crate) async fn listen_loop(self: Arc<Self>, subjects: &'static str) {
        let messaging = &self.messaging;
        loop {
            match messaging.link().subscribe(subjects).await {
                Ok(mut subscription) => loop {
                    let received = tokio::select! {
                        biased;
                        () = self.infra.shutdown.cancelled() => return,
                        received = subscription.next() => received,
                    };
                    let Some(body) = received else { break };
                    // Other publishers may send any content on these subjects.
                    if let Ok(notification) = serde_json::from_slice::<ReceivedNotification>(&body)
                    {
                        let queue =
                            notification.execution_pool.tenant_queue(&notification.tenant_id);
                        self.waiters.matcher.add_backlog(&queue, 1);
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "subscribing to command notifications failed; retrying");
                }
            }
            if !self.infra.sleep_unless_shutdown(RESUBSCRIBE_DELAY).await {
                return;
            }
        }
    }
}

/// Subjects of command notifications: of the default tenant and of the other tenants. The bare
/// subject only repeats them.
pub(crate) const NOTIFICATION_SUBJECTS: [&str; 2] = ["noetl.commands.>", "noetl.t.*.commands.>"];

/// Delay before a failed subscription is retried.
const RESUBSCRIBE_DELAY: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct ReceivedNotification {
    execution_pool: PoolName,
    #[serde(default)]
    tenant_id: TenantId,
}

#[cfg(test)]
mod tests;
