//! A stream consumer with an inbox table, as the NATS page describes it.

use async_nats::jetstream::consumer::AckPolicy;
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::{AckKind, Message};
use futures_util::StreamExt as _;
use noetl_server::StreamSettings;
use noetl_testkit::nats::NatsServer;
use noetl_testkit::postgres::TestDatabase;
use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use crate::nats::cluster::{
    TestCluster, complete_runs, spawn_worker, streaming_settings_with, wait_until,
};
use crate::nats::stream_reader::{assert_stream_complete, connect_jetstream, read_stream};

/// The documentation page that contains the tested statements.
const NATS_DOC_PAGE: &str = include_str!("../../../../../docs/nats.md");

/// Returns the SQL block of the page with this number.
fn sql_block(number: usize) -> &'static str {
    let block = NATS_DOC_PAGE.split("```sql\n").nth(number + 1).expect("a block");
    block.split("```").next().expect("its end")
}

async fn connect_consumer(database: &TestDatabase) -> Client {
    let (client, connection) =
        tokio_postgres::connect(&database.connection_config(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Processes a message as a consumer does.
async fn consume_message(client: &mut Client, message: &Message) -> AckKind {
    let body: Value = serde_json::from_slice(&message.payload).unwrap();
    let number = |name: &str| body[name].as_i64().unwrap();
    let (run, seq) = (number("execution_id"), number("seq"));
    let transaction = client.transaction().await.unwrap();
    let types = [
        tokio_postgres::types::Type::TEXT,
        tokio_postgres::types::Type::INT8,
        tokio_postgres::types::Type::INT8,
    ];
    let insert = transaction.prepare_typed(sql_block(1), &types).await.unwrap();
    let inserted = transaction.execute(&insert, &[&"test", &run, &seq]).await;
    if inserted.unwrap() == 1 {
        let effect = "INSERT INTO effect (execution_id, seq) VALUES ($1, $2)";
        transaction.execute(effect, &[&run, &seq]).await.unwrap();
        transaction.commit().await.unwrap();
        return AckKind::Ack;
    }
    let select = "SELECT FROM inbox WHERE consumer = 'test' AND execution_id = $1 AND seq = $2";
    match transaction.query_opt(select, &[&run, &seq]).await.unwrap() {
        Some(_) => AckKind::Ack,
        None => AckKind::Nak(None),
    }
}

/// Asserts that the effects of all events were applied once each and in the order of their run.
async fn assert_effects_once_in_order(client: &Client, events: u64) {
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

/// Events that are delivered twice, to concurrent consumers that skip acknowledgements, take effect
/// once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inbox_applies_each_event_once_in_order() {
    let (nats, database) = (NatsServer::start().unwrap(), TestDatabase::new().unwrap());
    let cluster = TestCluster::new().await;
    let settings = StreamSettings { backfill: true, ..StreamSettings::default() };
    let services = cluster.start_server(streaming_settings_with(&nats, settings)).await;
    let worker = spawn_worker(&services);
    complete_runs(&services, 5).await;
    assert_stream_complete(&nats, &*cluster.store).await;
    let (sent, _) = read_stream(&nats).await;
    let events = sent.len() as u64;
    // Everything is published again in reverse order, as if the broker had lost its duplicate
    // window.
    let context = connect_jetstream(&nats).await;
    for (subject, body) in sent.into_values().rev() {
        let again = context.publish(subject, body.into()).await;
        again.unwrap().await.unwrap();
    }
    drop(worker);
    let client = connect_consumer(&database).await;
    let effect = "CREATE TABLE effect (n BIGSERIAL, execution_id BIGINT, seq BIGINT)";
    client.batch_execute(sql_block(0)).await.unwrap();
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
        let (consumer, mut client) = (consumer.clone(), connect_consumer(&database).await);
        consumers.push(tokio::spawn(async move {
            let mut messages = consumer.messages().await.unwrap();
            let mut count = 0;
            while let Some(message) = messages.next().await {
                let message = message.unwrap();
                let ack = consume_message(&mut client, &message).await;
                count += 1;
                // The first consumer skips some acknowledgements, so that messages are redelivered.
                if number > 0 || count % 3 > 0 {
                    message.ack_with(ack).await.unwrap();
                }
            }
        }));
    }
    wait_until("all effects are applied", || async {
        let row = client.query_one("SELECT count(*) FROM effect", &[]).await;
        u64::try_from(row.unwrap().get::<_, i64>(0)).unwrap() >= events
    })
    .await;
    wait_until("no message is pending", || async {
        let mut consumer = consumer.clone();
        let info = consumer.info().await.unwrap();
        info.num_pending == 0 && info.num_ack_pending == 0
    })
    .await;
    for consumer in consumers {
        consumer.abort();
    }
    assert_effects_once_in_order(&client, events).await;
}
