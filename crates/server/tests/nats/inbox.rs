//! A consumer of the stream that keeps an inbox, as the page on NATS tells it to.

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use noetl_server::StreamSettings;
use noetl_testkit::nats::Nats;
use noetl_testkit::postgres::Database;
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use crate::house::{House, complete, streaming_by, until, work};
use crate::outside::{jetstream, read, sees_everything};

/// The page, whose statements are those of the test.
const PAGE: &str = include_str!("../../../../docs/nats.md");

/// A block of SQL of the page.
fn sql(number: usize) -> &'static str {
    let block = PAGE.split("```sql\n").nth(number + 1).expect("a block");
    block.split("```").next().expect("its end")
}

async fn connect(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.config(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// What a consumer does with a message.
async fn take(client: &mut Client, message: &Message) -> AckKind {
    let body: Value = serde_json::from_slice(&message.payload).unwrap();
    let number = |name: &str| body[name].as_i64().unwrap();
    let (run, seq) = (number("execution_id"), number("seq"));
    let transaction = client.transaction().await.unwrap();
    let types = [
        tokio_postgres::types::Type::TEXT,
        tokio_postgres::types::Type::INT8,
        tokio_postgres::types::Type::INT8,
    ];
    let insert = transaction.prepare_typed(sql(1), &types).await.unwrap();
    let new = transaction.execute(&insert, &[&"test", &run, &seq]).await;
    if new.unwrap() == 1 {
        let effect = "INSERT INTO effect (execution_id, seq) VALUES ($1, $2)";
        transaction.execute(effect, &[&run, &seq]).await.unwrap();
        transaction.commit().await.unwrap();
        return AckKind::Ack;
    }
    let known = "SELECT FROM inbox WHERE consumer = 'test' AND execution_id = $1 AND seq = $2";
    match transaction.query_opt(known, &[&run, &seq]).await.unwrap() {
        Some(_) => AckKind::Ack,
        None => AckKind::Nak(None),
    }
}

/// Events that come twice, to consumers that work at once and forget to acknowledge, have their effect
/// once, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_applies_each_event_once_and_in_order() {
    let (nats, database) = (Nats::start().unwrap(), Database::new().unwrap());
    let house = House::new().await;
    let from_the_first = StreamSettings {
        backfill: true,
        ..StreamSettings::default()
    };
    let runtime = house.server(streaming_by(&nats, from_the_first)).await;
    let worker = work(&runtime);
    complete(&runtime, 5).await;
    sees_everything(&nats, &*house.store).await;
    let (sent, _) = read(&nats).await;
    let events = sent.len() as u64;
    // All of it comes once more, the last first, as if the broker had forgotten that it has it.
    let context = jetstream(&nats).await;
    for (subject, body) in sent.into_values().rev() {
        let again = context.publish(subject, body.into()).await;
        again.unwrap().await.unwrap();
    }
    drop(worker);
    let client = connect(&database).await;
    let effect = "CREATE TABLE effect (n BIGSERIAL, execution_id BIGINT, seq BIGINT)";
    client.batch_execute(sql(0)).await.unwrap();
    client.batch_execute(effect).await.unwrap();
    let stream = context.get_stream("noetl_events").await.unwrap();
    let config = Config {
        durable_name: Some("test".to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: std::time::Duration::from_secs(2),
        ..Config::default()
    };
    let consumer = stream.create_consumer(config).await.unwrap();
    let mut consumers = Vec::new();
    for number in 0..3 {
        let (consumer, mut client) = (consumer.clone(), connect(&database).await);
        consumers.push(tokio::spawn(async move {
            let mut messages = consumer.messages().await.unwrap();
            let mut count = 0;
            while let Some(message) = messages.next().await {
                let message = message.unwrap();
                let answer = take(&mut client, &message).await;
                count += 1;
                // The first one forgets some, so that they come again.
                if number > 0 || count % 3 > 0 {
                    message.ack_with(answer).await.unwrap();
                }
            }
        }));
    }
    until("all effects are there", || async {
        let row = client.query_one("SELECT count(*) FROM effect", &[]).await;
        u64::try_from(row.unwrap().get::<_, i64>(0)).unwrap() >= events
    })
    .await;
    until("nothing is left to be taken", || async {
        let mut consumer = consumer.clone();
        let info = consumer.info().await.unwrap();
        info.num_pending == 0 && info.num_ack_pending == 0
    })
    .await;
    for consumer in consumers {
        consumer.abort();
    }
    let rows = "SELECT execution_id, array_agg(seq ORDER BY n) FROM effect GROUP BY execution_id";
    let mut count = 0;
    for row in client.query(rows, &[]).await.unwrap() {
        let applied: Vec<i64> = row.get(1);
        let expected: Vec<i64> = (1..).take(applied.len()).collect();
        assert_eq!(applied, expected, "once each, and in order");
        count += applied.len() as u64;
    }
    assert_eq!(count, events);
}
