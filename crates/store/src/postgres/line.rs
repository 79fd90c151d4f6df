//! The line between servers: `LISTEN` and `NOTIFY` on a connection of its own.
//!
//! Nothing of it is part of an append: there a `NOTIFY` makes commits wait for each other.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use noetl_types::{ExecutionId, PoolName, sha256};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Notification, Statement};

use super::bind::failure;
use super::pool::Pool;
use crate::error::StoreError;
use crate::line::Line;
use crate::model::{Growth, Hints, Places};

/// The longest name of a channel that the server takes, in bytes.
const LONGEST_NAME: usize = 63;

/// Bytes of a notification; the server takes fewer than 8000.
const MOST_BYTES: usize = 7_900;

/// How long the server may take over what it is told. It is the work of a moment.
const PATIENCE: Duration = Duration::from_secs(10);

/// Notifications of one statement, however many, are one commit.
const TELL: &str = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload";

/// The name on which servers of a schema hear each other, and nobody else does.
pub(super) fn channel(schema: &str) -> String {
    let name = format!("noetl_hints_{schema}");
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let digest = sha256(schema).to_string();
    name.chars()
        .take(30)
        .chain("_".chars())
        .chain(digest.chars().take(32))
        .collect()
}

/// A line over one connection.
#[derive(Debug)]
pub(super) struct PostgresLine {
    client: Client,
    tell: Statement,
    channel: String,
    heard: Arc<Heard>,
    /// Rings when something was heard; is gone with the connection.
    bell: mpsc::Receiver<()>,
}

/// What was heard and not yet asked for.
#[derive(Debug, Default)]
struct Heard {
    hints: Mutex<Hints>,
    /// The process of this connection at the server, whose words come back to it.
    own: AtomicI32,
}

impl Heard {
    fn hints(&self) -> MutexGuard<'_, Hints> {
        // Hints are whole between any two of their steps.
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, notification: &Notification) {
        if notification.process_id() != self.own.load(Ordering::Acquire) {
            self.hints().merge(read(notification.payload()));
        }
    }
}

impl PostgresLine {
    pub(super) async fn open(pool: &Pool, channel: &str) -> Result<Self, StoreError> {
        let heard = Arc::new(Heard::default());
        let (ring, bell) = mpsc::channel(1);
        let ear = {
            let heard = Arc::clone(&heard);
            move |notification: Notification| {
                heard.note(&notification);
                // It rings already where there is no room.
                let _ = ring.try_send(());
            }
        };
        let client = pool.connect_to_hear(Box::new(ear)).await?;
        let opening = async {
            // What is told is gone after a crash anyway, so it waits for no disk; and whoever waits
            // to be told something is idle for as long as nothing happens.
            let set_up = format!(
                "SET application_name = '{channel}';
                 SET synchronous_commit = off;
                 SET idle_session_timeout = 0"
            );
            client.batch_execute(&set_up).await?;
            let own = client.query_one("SELECT pg_backend_pid()", &[]).await?;
            heard.own.store(own.get(0), Ordering::Release);
            let tell = client.prepare(TELL).await?;
            client.batch_execute(&format!("LISTEN {channel}")).await?;
            Ok(tell)
        };
        let tell = timeout(PATIENCE, opening).await.map_err(silent)?;
        let tell = tell.map_err(failure)?;
        Ok(Self {
            client,
            tell,
            channel: channel.to_owned(),
            heard,
            bell,
        })
    }
}

fn silent(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::retry("the PostgreSQL server does not answer")
}

#[async_trait]
impl Line for PostgresLine {
    async fn tell(&mut self, hints: &Hints) -> Result<(), StoreError> {
        let payloads = written(hints);
        let params: [&(dyn ToSql + Sync); 2] = [&self.channel, &payloads];
        let telling = self.client.query(&self.tell, &params);
        let told = timeout(PATIENCE, telling).await.map_err(silent)?;
        told.map(drop).map_err(failure)
    }

    async fn hear(&mut self) -> Result<Hints, StoreError> {
        loop {
            let heard = std::mem::take(&mut *self.heard.hints());
            if !heard.is_empty() {
                return Ok(heard);
            }
            if self.bell.recv().await.is_none() {
                return Err(StoreError::retry(
                    "the connection that is listened on broke",
                ));
            }
        }
    }
}

/// All of a kind, whichever they are.
const ALL_QUEUES: &str = "@";
const ALL_RUNS: &str = "+";

/// Hints as texts that a notification can carry: `2@shared` for two commands in a queue, `+7` for an
/// execution whose log has grown, `!7` for one that has ended, and a sign alone for all of a kind.
fn written(hints: &Hints) -> Vec<String> {
    let mut words = Vec::new();
    match &hints.queues {
        Places::All => words.push(ALL_QUEUES.to_owned()),
        Places::Named(queues) => {
            words.extend(
                queues
                    .iter()
                    .map(|(queue, count)| format!("{count}@{queue}")),
            );
        }
    }
    match &hints.runs {
        Places::All => words.push(ALL_RUNS.to_owned()),
        Places::Named(runs) => words.extend(runs.iter().map(|(execution_id, growth)| {
            let sign = match growth {
                Growth::Events => '+',
                Growth::End => '!',
            };
            format!("{sign}{execution_id}")
        })),
    }
    let mut payloads: Vec<String> = Vec::new();
    for word in words {
        match payloads.last_mut() {
            Some(last) if last.len() + 1 + word.len() <= MOST_BYTES => {
                last.push(' ');
                last.push_str(&word);
            }
            Some(_) | None => payloads.push(word),
        }
    }
    payloads
}

/// What a notification says. A server of another version may say what is not understood here: then
/// one looks everywhere.
fn read(payload: &str) -> Hints {
    let mut hints = Hints::default();
    for word in payload.split(' ') {
        match word {
            ALL_QUEUES => hints.queues = Places::All,
            ALL_RUNS => hints.runs = Places::All,
            word => {
                if read_word(&mut hints, word).is_none() {
                    return Hints::EVERYTHING;
                }
            }
        }
    }
    hints
}

fn read_word(hints: &mut Hints, word: &str) -> Option<()> {
    if let Some((count, queue)) = word.split_once('@') {
        hints.left(PoolName::read_queue(queue).ok()?, count.parse().ok()?);
        return Some(());
    }
    let (growth, id) = match word.strip_prefix('+') {
        Some(id) => (Growth::Events, id),
        None => (Growth::End, word.strip_prefix('!')?),
    };
    hints.grew(ExecutionId::new(id.parse().ok()?).ok()?, growth);
    Some(())
}

#[cfg(test)]
mod tests {
    use noetl_types::TenantId;

    use super::*;
    use crate::model::MAX_HINTED;

    fn run(number: i64) -> ExecutionId {
        ExecutionId::new(number).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut hints = Hints::default();
        hints.left(PoolName::shared(), 2);
        hints.left(
            PoolName::shared().within(&TenantId::new("acme").unwrap()),
            1,
        );
        hints.grew(run(7), Growth::Events);
        hints.grew(run(8), Growth::End);
        assert_eq!(written(&hints), ["1@acme.shared 2@shared +7 !8"]);
        assert_eq!(read("1@acme.shared 2@shared +7 !8"), hints);
        assert_eq!(written(&Hints::EVERYTHING), ["@ +"]);
        assert_eq!(read("@ +"), Hints::EVERYTHING);
        assert!(written(&Hints::default()).is_empty());
    }

    #[test]
    fn many_hints_are_several_notifications() {
        let mut hints = Hints::default();
        let most = i64::try_from(MAX_HINTED).unwrap();
        for number in 0..most {
            hints.grew(run(i64::MAX - number), Growth::Events);
        }
        let payloads = written(&hints);
        assert!(payloads.len() > 1);
        let mut heard = Hints::default();
        for payload in payloads {
            assert!(payload.len() < 8_000);
            heard.merge(read(&payload));
        }
        assert_eq!(heard, hints);
    }

    #[test]
    fn what_is_not_understood_means_everything() {
        for strange in [
            "", "hello", "+", "+x", "!", "@ x", "2@", "x@shared", "1@a b",
        ] {
            let expected = match strange {
                "+" => Hints {
                    runs: Places::All,
                    ..Hints::default()
                },
                _ => Hints::EVERYTHING,
            };
            assert_eq!(read(strange), expected, "{strange}");
        }
    }

    #[test]
    fn every_schema_has_a_channel_of_its_own() {
        assert_eq!(channel("noetl"), "noetl_hints_noetl");
        let long = "s".repeat(62);
        let names = [&long, &format!("{long}a"), &format!("{long}b")].map(|schema| channel(schema));
        assert!(
            names.iter().all(|name| name.len() == LONGEST_NAME),
            "{names:?}"
        );
        assert_ne!(names[1], names[2]);
        assert_ne!(names[0], names[1]);
    }
}
