//! Notification channel between servers: `LISTEN` and `NOTIFY` on a dedicated connection.
//!
//! Appends never send notifications, since `NOTIFY` in a transaction serializes commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::{CommandId, ExecutionId, PoolName, sha256};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Notification, Statement};

use super::bind::to_store_error;
use super::pool::ConnectionPool;
use crate::error::StoreError;
use crate::model::{LogChange, Wakeup, WakeupSet};
use crate::notify_channel::NotifyChannel;

/// Maximum length of a channel name in PostgreSQL.
const MAX_CHANNEL_NAME_BYTES: usize = 63;

/// Maximum size of a payload. PostgreSQL requires fewer than 8000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_900;

/// Maximum duration of a statement on the channel's connection. Normally it takes milliseconds.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends any number of notifications in one commit.
const NOTIFY: &str = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";

/// Returns the name of the channel of a schema. It differs for every schema.
pub(super) fn channel_name(schema: &str) -> String {
    let name = format!("noetl_wakeups_{schema}");
    if name.len() <= MAX_CHANNEL_NAME_BYTES {
        return name;
    }
    let digest = sha256(schema).to_string();
    name.chars().take(30).chain("_".chars()).chain(digest.chars().take(32)).collect()
}

/// [`NotifyChannel`](crate::notify_channel::NotifyChannel) over one connection.
#[derive(Debug)]
pub(super) struct PostgresNotifyChannel {
    client: Client,
    notify_statement: Statement,
    channel: String,
    received: Arc<ReceivedWakeups>,
    /// Receives a message after each notification. Closed when the connection ends.
    signals: mpsc::Receiver<()>,
}

/// Wakeups that were received but not yet returned by `recv`.
#[derive(Debug, Default)]
struct ReceivedWakeups {
    pending: Mutex<Wakeup>,
    /// Server process id of this connection. Its own notifications are ignored.
    own_pid: AtomicI32,
}

impl ReceivedWakeups {
    fn record_notification(&self, notification: &Notification) {
        if notification.process_id() != self.own_pid.load(Ordering::Acquire) {
            self.pending.lock().merge(decode_wakeup(notification.payload()));
        }
    }
}

impl PostgresNotifyChannel {
    pub(super) async fn open_channel(
        pool: &ConnectionPool,
        channel: &str,
    ) -> Result<Self, StoreError> {
        let received = Arc::new(ReceivedWakeups::default());
        let (signal_sender, signals) = mpsc::channel(1);
        let handler = {
            let received = Arc::clone(&received);
            move |notification: Notification| {
                received.record_notification(&notification);
                // If the channel is full, a signal is already pending.
                let _ = signal_sender.try_send(());
            }
        };
        let client = pool.open_listening_connection(Box::new(handler)).await?;
        let setup = async {
            // Notifications do not survive a crash anyway, so they need no sync to disk. A
            // listening session is idle while there are no notifications, so it has no idle
            // timeout.
            let session_settings = format!(
                "SET application_name = '{channel}';
                 SET synchronous_commit = off;
                 SET idle_session_timeout = 0"
            );
            client.batch_execute(&session_settings).await?;
            let pid = client.query_one("SELECT pg_backend_pid()", &[]).await?;
            received.own_pid.store(pid.get(0), Ordering::Release);
            let notify_statement = client.prepare(NOTIFY).await?;
            client.batch_execute(&format!("LISTEN {channel}")).await?;
            Ok(notify_statement)
        };
        let notify_statement = timeout(NOTIFY_TIMEOUT, setup).await.map_err(to_timeout_error)?;
        let notify_statement = notify_statement.map_err(to_store_error)?;
        Ok(Self { client, notify_statement, channel: channel.to_owned(), received, signals })
    }
}

fn to_timeout_error(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::retry("the PostgreSQL server does not answer")
}

#[async_trait]
impl NotifyChannel for PostgresNotifyChannel {
    async fn notify(&mut self, wakeup: &Wakeup) -> Result<(), StoreError> {
        let payloads = encode_wakeup(wakeup);
        let params: [&(dyn ToSql + Sync); 2] = [&self.channel, &payloads];
        let query = self.client.query(&self.notify_statement, &params);
        let result = timeout(NOTIFY_TIMEOUT, query).await.map_err(to_timeout_error)?;
        result.map(drop).map_err(to_store_error)
    }

    async fn recv(&mut self) -> Result<Wakeup, StoreError> {
        loop {
            let wakeup = std::mem::take(&mut *self.received.pending.lock());
            if !wakeup.is_empty() {
                return Ok(wakeup);
            }
            if self.signals.recv().await.is_none() {
                return Err(StoreError::retry("the connection for notifications was lost"));
            }
        }
    }
}

/// Items for all queues, all executions and all commands.
const ALL_QUEUES: &str = "@";
const ALL_EXECUTIONS: &str = "+";
const ALL_COMMANDS: &str = "-";

/// Encodes a wakeup as payloads: `2@shared` for two commands in a queue, `+7` for an execution with
/// new events, `!7` for one that has ended, `-9` for a command that was stopped, and `@`, `+` or `-`
/// alone for all queues, executions or commands.
fn encode_wakeup(wakeup: &Wakeup) -> Vec<String> {
    let mut items = Vec::new();
    match &wakeup.queues {
        WakeupSet::All => items.push(ALL_QUEUES.to_owned()),
        WakeupSet::Only(queues) => {
            items.extend(queues.iter().map(|(queue, count)| format!("{count}@{queue}")));
        }
    }
    match &wakeup.executions {
        WakeupSet::All => items.push(ALL_EXECUTIONS.to_owned()),
        WakeupSet::Only(executions) => {
            items.extend(executions.iter().map(|(execution_id, change)| {
                let sign = match change {
                    LogChange::Events => '+',
                    LogChange::End => '!',
                };
                format!("{sign}{execution_id}")
            }));
        }
    }
    match &wakeup.commands {
        WakeupSet::All => items.push(ALL_COMMANDS.to_owned()),
        WakeupSet::Only(commands) => {
            items.extend(commands.keys().map(|command| format!("-{command}")));
        }
    }
    let mut payloads: Vec<String> = Vec::new();
    for item in items {
        match payloads.last_mut() {
            Some(last) if last.len() + 1 + item.len() <= MAX_PAYLOAD_BYTES => {
                last.push(' ');
                last.push_str(&item);
            }
            Some(_) | None => payloads.push(item),
        }
    }
    payloads
}

/// Decodes a payload. If it contains an unknown item, as a server of another version may send, the
/// result wakes everything.
fn decode_wakeup(payload: &str) -> Wakeup {
    let mut wakeup = Wakeup::default();
    for item in payload.split(' ') {
        match item {
            ALL_QUEUES => wakeup.queues = WakeupSet::All,
            ALL_EXECUTIONS => wakeup.executions = WakeupSet::All,
            ALL_COMMANDS => wakeup.commands = WakeupSet::All,
            item => {
                if decode_item(&mut wakeup, item).is_none() {
                    return Wakeup::WAKE_ALL;
                }
            }
        }
    }
    wakeup
}

fn decode_item(wakeup: &mut Wakeup, item: &str) -> Option<()> {
    if let Some((count, queue)) = item.split_once('@') {
        wakeup.add_queue(PoolName::parse_queue(queue).ok()?, count.parse().ok()?);
        return Some(());
    }
    if let Some(id) = item.strip_prefix('-') {
        wakeup.add_command(CommandId::new(id.parse().ok()?).ok()?);
        return Some(());
    }
    let (change, id) = match item.strip_prefix('+') {
        Some(id) => (LogChange::Events, id),
        None => (LogChange::End, item.strip_prefix('!')?),
    };
    wakeup.add_execution(ExecutionId::new(id.parse().ok()?).ok()?, change);
    Some(())
}

#[cfg(test)]
mod tests;
