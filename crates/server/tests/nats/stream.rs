//! The stream has every event of the log, whatever happens.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, StorageType};
use noetl_api::health::Health;
use noetl_server::{Behalf, Runtime, StreamSettings};
use noetl_store::{QuarantineFilter, StreamOwner};
use noetl_testkit::nats::Nats;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Json, Millis, Seq, TenantId, Text, json};

use crate::hold::{Hold, copy_large};
use crate::house::{
    House, Place, complete, completed, start, start_with, streaming, streaming_by, until, work,
};
use crate::outside::{assert_refers, expected, jetstream, read, sees_everything};

/// The same test on every store.
macro_rules! on_every_store {
    ($name:ident) => {
        mod $name {
            use crate::house::House;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn in_memory() {
                super::$name(House::new().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(House::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(House::postgres().await).await;
            }
        }
    };
}

/// A stream that begins with the first event and soon forgets which messages it has.
pub(crate) fn forgetful() -> StreamSettings {
    StreamSettings {
        backfill: true,
        duplicate_window: Millis::from_secs(1),
        ..StreamSettings::default()
    }
}

pub(crate) fn from_the_first() -> StreamSettings {
    StreamSettings {
        backfill: true,
        ..StreamSettings::default()
    }
}

/// Waits until a server is the publisher, so that what is written now is streamed by it.
pub(crate) async fn publishes(runtime: &Runtime) {
    until("a server publishes", || async {
        let status = runtime.stream_status().await.unwrap();
        status.state == "publishing"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_stream_begins_now_or_with_the_first_event() {
    for backfill in [false, true] {
        let nats = Nats::start().unwrap();
        let house = House::new().await;
        let before = house.server(noetl_server::Settings::default()).await;
        let worker = work(&before);
        complete(&before, 2).await;
        drop(worker);
        before.close(Duration::from_secs(30)).await;
        let old = expected(&*house.store).await;
        let settings = StreamSettings {
            backfill,
            ..StreamSettings::default()
        };
        let runtime = house.server(streaming_by(&nats, settings)).await;
        let _worker = work(&runtime);
        publishes(&runtime).await;
        complete(&runtime, 2).await;
        let all = expected(&*house.store).await;
        let wanted = if backfill {
            all.len()
        } else {
            all.len() - old.len()
        };
        until("everything is there", || async {
            read(&nats).await.1 >= u64::try_from(wanted).unwrap()
        })
        .await;
        let (found, count) = read(&nats).await;
        assert_eq!((found.len(), count), (wanted, wanted as u64));
        assert!(backfill || old.keys().all(|id| !found.contains_key(id)));
    }
}

on_every_store!(t7_one_server_publishes_at_a_time_and_the_next_one_goes_on);
async fn t7_one_server_publishes_at_a_time_and_the_next_one_goes_on(house: House) {
    let nats = Nats::start().unwrap();
    let first = house.server(streaming_by(&nats, from_the_first())).await;
    let worker = work(&first);
    publishes(&first).await;
    let second = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&second);
    complete(&first, 20).await;
    complete(&second, 20).await;
    until("the second one stands by", || async {
        second.stream_status().await.unwrap().state == "standby"
    })
    .await;
    assert_eq!(second.stream_status().await.unwrap().published, 0);
    let epoch = second.stream_status().await.unwrap().epoch;
    drop(worker);
    first.close(Duration::from_secs(30)).await;
    complete(&second, 20).await;
    let count = sees_everything(&nats, &*house.store).await;
    let all = u64::try_from(expected(&*house.store).await.len()).unwrap();
    assert_eq!(count, all, "nothing is there twice");
    assert!(second.stream_status().await.unwrap().epoch > epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t1_an_event_that_commits_late_is_held_for_and_not_lost() {
    let nats = Nats::start().unwrap();
    let house = House::postgres().await;
    let Place::Database(database) = &house.place else {
        return;
    };
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    complete(&runtime, 1).await;
    let published = sees_everything(&nats, &*house.store).await;
    let (writer, connection) = tokio_postgres::connect(&database.config(), tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    // A writer takes its place in the log, and stays there.
    writer.batch_execute("BEGIN").await.unwrap();
    writer.batch_execute(STRAGGLER).await.unwrap();
    complete(&runtime, 5).await;
    until("somebody says that the log is held back", || async {
        runtime.stream_status().await.unwrap().horizon_age_ms > 0
    })
    .await;
    assert_eq!(read(&nats).await.1, published, "nothing overtakes it");
    writer.batch_execute("COMMIT").await.unwrap();
    until("the log is whole", || async {
        let lag = house.store.feed_lag(FeedPosition::default()).await.unwrap();
        lag.held_back_since.is_none()
    })
    .await;
    let all = expected(&*house.store).await;
    assert!(
        all.keys().any(|id| id.ends_with(":999")),
        "{:?}",
        all.keys()
    );
    sees_everything(&nats, &*house.store).await;
}

/// One more event of some execution, by a transaction that is still open.
pub(crate) const STRAGGLER: &str = "INSERT INTO noetl.event
    (execution_id, event_id, seq, event_type, status, tenant_id, organization_id, event_time,
     created_at, ingest_time, schema_version, chain)
    SELECT execution_id, event_id + 1, 999, event_type, status, tenant_id, organization_id,
     event_time, created_at, ingest_time, schema_version, chain
    FROM noetl.event ORDER BY event_id DESC LIMIT 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t7_a_publisher_that_was_replaced_moves_nothing() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    complete(&runtime, 3).await;
    sees_everything(&nats, &*house.store).await;
    let status = runtime.stream_status().await.unwrap();
    let stale = StreamOwner {
        name: Text::from("event_stream_tailer"),
        epoch: status.epoch.unwrap() - 1,
        now: noetl_types::Timestamp::from_unix_ms(0).unwrap(),
    };
    let back = noetl_store::StreamMove::Restart {
        to: FeedPosition::default(),
        stream_created_at: None,
    };
    assert!(!house.store.move_stream(stale, back).await.unwrap());
}

on_every_store!(t12_a_broker_that_comes_late_gets_everything_and_nobody_waited_for_it);
async fn t12_a_broker_that_comes_late_gets_everything_and_nobody_waited_for_it(house: House) {
    comes_late(house, from_the_first()).await;
}

on_every_store!(t12_a_broker_that_comes_late_gets_everything_since_the_first_start);
/// The stream begins when its server does, and not when its broker comes.
async fn t12_a_broker_that_comes_late_gets_everything_since_the_first_start(house: House) {
    comes_late(house, StreamSettings::default()).await;
}

async fn comes_late(house: House, settings: StreamSettings) {
    let mut nats = Nats::start().unwrap();
    nats.kill().unwrap();
    let runtime = house.server(streaming_by(&nats, settings)).await;
    let _worker = work(&runtime);
    complete(&runtime, 30).await;
    let ready = runtime.health().await;
    assert_eq!(&*ready.status, "ok", "runs go on without the broker");
    until(
        "everything that was written is told to be behind",
        || async {
            let status = runtime.stream_status().await.unwrap();
            let events = house.store.feed_lag(FeedPosition::default()).await.unwrap();
            status.lag_events > 0 && status.lag_events == events.events
        },
    )
    .await;
    let status = runtime.stream_status().await.unwrap();
    assert_eq!(&*status.state, "troubled");
    let ready = runtime.ready().await;
    assert_eq!(ready.status, Health::Degraded, "{ready:?}");
    for check in ["nats", "stream"] {
        assert_eq!(ready.checks[&Text::from(check)], Health::Degraded);
    }
    nats.restart().unwrap();
    sees_everything(&nats, &*house.store).await;
    publishes(&runtime).await;
    until("nothing is left to publish", || async {
        runtime.stream_status().await.unwrap().lag_events == 0
    })
    .await;
}

on_every_store!(t10_nothing_is_lost_when_broker_and_publishers_are_killed_in_the_middle);
async fn t10_nothing_is_lost_when_broker_and_publishers_are_killed_in_the_middle(house: House) {
    let mut nats = Nats::start().unwrap();
    for _ in 0..3 {
        let runtime = house.server(streaming_by(&nats, from_the_first())).await;
        let worker = work(&runtime);
        let runs = tokio::spawn({
            let runtime = runtime.clone();
            async move { complete(&runtime, 60).await }
        });
        publishes(&runtime).await;
        nats.kill().unwrap();
        nats.restart().unwrap();
        runs.await.unwrap();
        drop(worker);
        // In the middle of whatever it publishes; its lease is left to run out or given back.
        runtime.close(Duration::ZERO).await;
    }
    let last = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&last);
    complete(&last, 5).await;
    sees_everything(&nats, &*house.store).await;
}

on_every_store!(t10_a_broker_that_dies_in_the_middle_of_its_answers_loses_nothing);
/// Some messages are acknowledged, of others nobody knows: the broker dies with its answers.
async fn t10_a_broker_that_dies_in_the_middle_of_its_answers_loses_nothing(house: House) {
    let mut nats = Nats::start().unwrap();
    let hold = Hold::before(&nats).await;
    let before = house.server(noetl_server::Settings::default()).await;
    let worker = work(&before);
    complete(&before, 60).await;
    drop(worker);
    before.close(Duration::from_secs(30)).await;
    hold.begin_after(30_000);
    let _runtime = house.server(hold.streaming_by(from_the_first())).await;
    until("the broker was told a part of it", || async {
        hold.told() >= 30_000
    })
    .await;
    nats.kill().unwrap();
    hold.end();
    nats.restart().unwrap();
    sees_everything(&nats, &*house.store).await;
}

on_every_store!(t11_a_stream_that_was_wiped_is_made_anew_from_the_log);
async fn t11_a_stream_that_was_wiped_is_made_anew_from_the_log(house: House) {
    let mut nats = Nats::start().unwrap();
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    complete(&runtime, 30).await;
    sees_everything(&nats, &*house.store).await;
    nats.kill().unwrap();
    nats.wipe().unwrap();
    nats.restart().unwrap();
    complete(&runtime, 30).await;
    sees_everything(&nats, &*house.store).await;
    assert!(runtime.stream_status().await.unwrap().rebuilds >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t11_a_stream_that_was_deleted_or_emptied_is_made_anew_too() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming_by(&nats, forgetful())).await;
    let _worker = work(&runtime);
    complete(&runtime, 10).await;
    sees_everything(&nats, &*house.store).await;
    let context = jetstream(&nats).await;
    context.delete_stream("noetl_events").await.unwrap();
    sees_everything(&nats, &*house.store).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    stream.purge().await.unwrap();
    sees_everything(&nats, &*house.store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t11_what_somebody_took_out_of_the_stream_is_put_back_by_the_next_publisher() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let first = house.server(streaming_by(&nats, forgetful())).await;
    let worker = work(&first);
    complete(&first, 5).await;
    sees_everything(&nats, &*house.store).await;
    drop(worker);
    first.close(Duration::from_secs(30)).await;
    let context = jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    for sequence in [3, 7, 20] {
        stream.delete_message(sequence).await.unwrap();
    }
    let second = house.server(streaming_by(&nats, forgetful())).await;
    sees_everything(&nats, &*house.store).await;
    assert!(second.stream_status().await.unwrap().restored >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_to_make_the_stream_anew_is_carried_out() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming_by(&nats, forgetful())).await;
    let _worker = work(&runtime);
    complete(&runtime, 5).await;
    let count = sees_everything(&nats, &*house.store).await;
    let other = house.server(streaming_by(&nats, forgetful())).await;
    other.rebuild_stream().await.unwrap();
    until("everything was published once more", || async {
        let published = runtime.stream_status().await.unwrap().published;
        published + other.stream_status().await.unwrap().published >= 2 * count
    })
    .await;
    sees_everything(&nats, &*house.store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_an_event_that_is_too_large_goes_out_as_a_reference() {
    let nats = Nats::configured("max_payload: 8192").unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    let run = start_with(&runtime, Json::from("x".repeat(20_000))).await;
    completed(&runtime, run).await;
    sees_everything(&nats, &*house.store).await;
    let (found, _) = read(&nats).await;
    let (subject, reference) = &found[&format!("1:{run}:1")];
    assert_eq!(subject, "noetl.events.playbook.started");
    let whole = runtime.streamed_event(run, Seq::FIRST).await.unwrap();
    assert!(whole.len() > 20_000);
    assert_refers(reference, &whole);
    let told = json::parse(reference).unwrap();
    let path = format!("/api/stream/events/{run}/1");
    assert_eq!(told.get("ref"), Some(&Json::from(path)));
    assert_eq!(told.get("execution_id"), Some(&Json::from(run.get())));
    assert!(runtime.stream_status().await.unwrap().by_reference > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_an_event_that_no_broker_takes_is_put_aside_and_stops_no_other() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let context = jetstream(&nats).await;
    let tiny = Config {
        name: "noetl_events".into(),
        subjects: vec!["noetl.events.>".into()],
        storage: StorageType::File,
        max_message_size: 150,
        ..Config::default()
    };
    context.create_stream(tiny.clone()).await.unwrap();
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    complete(&runtime, 1).await;
    let refused = expected(&*house.store).await;
    until("all of them are put aside", || async {
        let status = runtime.stream_status().await.unwrap();
        status.parked >= u64::try_from(refused.len()).unwrap() && status.lag_events == 0
    })
    .await;
    let filter = QuarantineFilter {
        source: Some("stream".into()),
        after: None,
        limit: PageLimit::MAX,
    };
    let parked = house.store.quarantined(filter).await.unwrap();
    assert_eq!(parked.len(), refused.len());
    assert!(
        parked
            .iter()
            .all(|one| refused.contains_key(one.raw.as_str()))
    );
    let roomy = Config {
        max_message_size: -1,
        ..tiny
    };
    context.update_stream(roomy).await.unwrap();
    complete(&runtime, 1).await;
    let all = expected(&*house.store).await;
    until("the others are there", || async {
        let (found, _) = read(&nats).await;
        all.keys()
            .filter(|id| !refused.contains_key(*id))
            .all(|id| found.contains_key(id))
    })
    .await;
}

/// While the broker acknowledges nothing, no more is on its way to it than a few messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t17_many_large_events_go_out_in_small_parts() {
    let nats = Nats::configured("max_payload: 4194304").unwrap();
    let hold = Hold::before(&nats).await;
    let house = House::new().await;
    let runtime = house.server(hold.streaming_by(from_the_first())).await;
    publishes(&runtime).await;
    hold.begin_after(100_000);
    copy_large(&runtime, 6, 2_500_000).await;
    until("the publisher has waited in vain", || async {
        runtime.stream_status().await.unwrap().state == "troubled"
    })
    .await;
    let told = hold.told();
    assert!((2_500_000..6_000_000).contains(&told), "{told}");
    hold.end();
    sees_everything(&nats, &*house.store).await;
}

/// A backlog goes out batch upon batch: only who has all of it waits for the next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_batch_is_followed_by_the_next_at_once() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let before = house.server(noetl_server::Settings::default()).await;
    let worker = work(&before);
    complete(&before, 2).await;
    drop(worker);
    before.close(Duration::from_secs(30)).await;
    let settings = StreamSettings {
        batch: 1,
        poll: Millis::from_hours(1),
        ..from_the_first()
    };
    let _runtime = house.server(streaming_by(&nats, settings)).await;
    sees_everything(&nats, &*house.store).await;
}

/// What was made otherwise than it is set is used, and told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_not_as_it_is_set_is_told_of() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let otherwise = Config {
        name: "noetl_events".into(),
        subjects: vec!["noetl.events.>".into()],
        storage: StorageType::Memory,
        duplicate_window: Duration::from_mins(1),
        ..Config::default()
    };
    let context = jetstream(&nats).await;
    context.create_stream(otherwise).await.unwrap();
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    publishes(&runtime).await;
    let told = runtime.stream_status().await.unwrap().trouble.unwrap();
    let expected = "it is kept in memory, and is gone with the broker; \
        it keeps a message for ever, and 1d is set; it knows a message for 1m, and 2m is set";
    assert_eq!(told, expected);
    let ready = runtime.ready().await;
    assert_eq!(
        ready.checks.get("stream"),
        Some(&Health::Degraded),
        "{ready:?}"
    );
    // As it is set, nothing is to be told.
    runtime.close(Duration::from_secs(30)).await;
    context.delete_stream("noetl_events").await.unwrap();
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    publishes(&runtime).await;
    assert_eq!(runtime.stream_status().await.unwrap().trouble, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_is_read_in_parts_from_where_the_last_one_ended() {
    let house = House::new().await;
    let runtime = house.server(noetl_server::Settings::default()).await;
    let _worker = work(&runtime);
    complete(&runtime, 3).await;
    let all = expected(&*house.store).await;
    let limit = noetl_store::FeedLimit::clamped(7);
    let (mut after, mut seen) = (FeedPosition::default(), 0);
    loop {
        let feed = runtime.feed(after, limit, Duration::ZERO).await.unwrap();
        seen += feed.events.len();
        after = feed.next;
        if !feed.is_full {
            break;
        }
    }
    assert_eq!(seen, all.len());
    let waiting = tokio::spawn({
        let runtime = runtime.clone();
        async move {
            runtime
                .feed(after, limit, Duration::from_mins(5))
                .await
                .unwrap()
        }
    });
    complete(&runtime, 1).await;
    let feed = waiting.await.unwrap();
    let kind = feed.events[0].get("event_type");
    assert_eq!(kind, Some(&Json::from("playbook.started")));
    assert_eq!(&*runtime.stream_status().await.unwrap().state, "off");
}

/// A reader that was away for longer than the broker keeps messages finds a gap, and what was in it in
/// the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t13_what_expired_unseen_is_read_from_the_log() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let settings = StreamSettings {
        retention: Millis::from_secs(1),
        ..forgetful()
    };
    let runtime = house.server(streaming_by(&nats, settings)).await;
    let _worker = work(&runtime);
    let run = start(&runtime).await;
    completed(&runtime, run).await;
    until(
        "all of it has been in the stream, and is no more",
        || async {
            let context = jetstream(&nats).await;
            let Ok(stream) = context.get_stream("noetl_events").await else {
                return false;
            };
            let state = &stream.cached_info().state;
            let lag = runtime.stream_status().await.unwrap().lag_events;
            state.last_sequence > 0 && state.messages == 0 && lag == 0
        },
    )
    .await;
    for (id, (_, body)) in expected(&*house.store).await {
        let (_, seq) = id.rsplit_once(':').unwrap();
        let seq = Seq::new(seq.parse().unwrap()).unwrap();
        assert_eq!(runtime.streamed_event(run, seq).await.unwrap(), body);
    }
}

/// The same as in the small, with as many runs as a busy day has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten thousand runs take minutes"]
async fn heavy_t10_ten_thousand_runs_with_a_broker_that_is_killed_again_and_again() {
    let mut nats = Nats::start().unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming(&nats)).await;
    let _worker = work(&runtime);
    publishes(&runtime).await;
    for _ in 0..20 {
        let runs = tokio::spawn({
            let runtime = runtime.clone();
            async move { complete(&runtime, 500).await }
        });
        nats.kill().unwrap();
        nats.restart().unwrap();
        runs.await.unwrap();
    }
    sees_everything(&nats, &*house.store).await;
}

/// What another tenant's runs do goes out too, in a place of its own, and holds nobody back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_every_tenant_go_out() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let acme = TenantId::new("acme").unwrap();
    house.register_for(&acme, 2).await;
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    let theirs = runtime.on_behalf_of(Behalf {
        tenant_id: acme,
        ..Behalf::default()
    });
    let run = start(&theirs).await;
    complete(&runtime, 2).await;
    sees_everything(&nats, &*house.store).await;
    let (found, _) = read(&nats).await;
    let (subject, _) = &found[&format!("1:{run}:1")];
    assert_eq!(subject, "noetl.t.acme.events.playbook.started");
}
