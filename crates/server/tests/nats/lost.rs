//! What the broker lost is put back, by whoever has the stream, and what is broken stops nobody.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use noetl_api::internal::ProjectRequest;
use noetl_server::{Clock, Runtime, SystemClock};
use noetl_store::faulty::{Fault, FaultyStore, Method};
use noetl_store::{CopyScope, MemoryStore, QuarantineFilter, Store};
use noetl_testkit::nats::Nats;
use noetl_types::limits::PageLimit;
use noetl_types::{FeedPosition, Json, Millis, Timestamp};

use crate::hold::{Hold, copy_large};
use crate::house::{House, Place, complete, streaming_by, until, work};
use crate::outside::{jetstream, read, sees_everything};
use crate::stream::{STRAGGLER, forgetful, from_the_first, publishes};

/// Has so many events copied into the log, whose ids begin with a number.
async fn copied(runtime: &Runtime, first: i64, count: i64) {
    let ids: Vec<_> = (first..first + count).collect();
    for some in ids.chunks(1_000) {
        let event = |id: &i64| {
            Json::object([
                ("execution_id", Json::from(first)),
                ("event_id", Json::from(*id)),
                ("event_type", Json::from("copied")),
            ])
        };
        let events = some.iter().map(event).collect();
        let answer = runtime
            .project(ProjectRequest { events }, CopyScope::OfExecution)
            .await
            .unwrap();
        assert_eq!(answer.rejected.len(), 0, "{:?}", answer.rejected.first());
    }
}

/// What the broker's disk held at some time.
struct Disk(tempfile::TempDir);

impl Disk {
    /// Remembers what a killed broker has.
    fn of(nats: &Nats) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&nats.folder().join("data"), &folder.path().join("data"));
        Self(folder)
    }

    /// Gives a killed broker what it had: as after a power cut, it has lost all that came since.
    fn put_back(&self, nats: &mut Nats) {
        nats.wipe().unwrap();
        copy(&self.0.path().join("data"), &nats.folder().join("data"));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Waits until everything that is in the log was published.
async fn caught_up(runtime: &Runtime) {
    publishes(runtime).await;
    until("nothing is left to publish", || async {
        runtime.stream_status().await.unwrap().lag_events == 0
    })
    .await;
}

/// However many events went out since the broker last synced its disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t10_all_that_a_power_cut_took_is_put_back() {
    let mut nats = Nats::start().unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    copied(&runtime, 1_000_000, 50).await;
    sees_everything(&nats, &*house.store).await;
    nats.kill().unwrap();
    let disk = Disk::of(&nats);
    nats.restart().unwrap();
    // More than a publisher looks back at first, and than it looks back in the end.
    let many = 21_000;
    copied(&runtime, 2_000_000, many).await;
    caught_up(&runtime).await;
    nats.kill().unwrap();
    disk.put_back(&mut nats);
    nats.restart().unwrap();
    let restored = u64::try_from(many).unwrap();
    until("all of it was put back", || async {
        runtime.stream_status().await.unwrap().restored >= restored
    })
    .await;
    let status = runtime.stream_status().await.unwrap();
    assert_eq!((status.restored, status.rebuilds), (restored, 0));
    let context = jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    assert_eq!(stream.cached_info().state.messages, restored + 50);
}

/// What the broker has not acknowledged may be lost, so the cursor stays before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cursor_waits_for_the_acknowledgements_of_the_broker() {
    let nats = Nats::start().unwrap();
    let hold = Hold::before(&nats).await;
    let house = House::new().await;
    let runtime = house.server(hold.streaming_by(from_the_first())).await;
    copied(&runtime, 1_000_000, 5).await;
    caught_up(&runtime).await;
    let position = async || runtime.stream_status().await.unwrap().position;
    let before = position().await;
    hold.begin_after(5_000);
    copy_large(&runtime, 1, 10_000).await;
    until("the publisher has waited in vain", || async {
        runtime.stream_status().await.unwrap().state == "troubled"
    })
    .await;
    assert!(hold.told() >= 10_000);
    assert_eq!(position().await, before);
    hold.end();
    caught_up(&runtime).await;
    assert!(position().await > before);
    sees_everything(&nats, &*house.store).await;
}

/// Whatever comes into the stream behind it, what was in it before is put back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t11_a_stream_that_is_emptied_while_more_goes_into_it_is_made_anew() {
    let nats = Nats::start().unwrap();
    let house = House::new().await;
    let runtime = house.server(streaming_by(&nats, forgetful())).await;
    let _worker = work(&runtime);
    complete(&runtime, 10).await;
    sees_everything(&nats, &*house.store).await;
    let context = jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    let runs = tokio::spawn({
        let runtime = runtime.clone();
        async move { complete(&runtime, 50).await }
    });
    stream.purge().await.unwrap();
    runs.await.unwrap();
    sees_everything(&nats, &*house.store).await;
    assert!(runtime.stream_status().await.unwrap().rebuilds >= 1);
}

/// A row that only somebody else can have written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t8_an_event_that_cannot_be_read_is_put_aside_and_stops_no_other() {
    let nats = Nats::start().unwrap();
    let house = House::postgres().await;
    let Place::Database(database) = &house.place else {
        return;
    };
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let _worker = work(&runtime);
    complete(&runtime, 1).await;
    sees_everything(&nats, &*house.store).await;
    let strange = STRAGGLER.replace("999", "-5");
    database.run(&strange).unwrap();
    complete(&runtime, 5).await;
    until("it is passed by", || async {
        let status = runtime.stream_status().await.unwrap();
        let lag = house.store.feed_lag(FeedPosition::default()).await.unwrap();
        let is_all = lag.held_back_since.is_none() && status.lag_events == 0;
        // All others are there.
        is_all && read(&nats).await.1 + 1 == lag.events
    })
    .await;
    let filter = QuarantineFilter {
        source: Some("stream".into()),
        after: None,
        limit: PageLimit::MAX,
    };
    let parked = house.store.quarantined(filter).await.unwrap();
    let [one] = &*parked else {
        panic!("{parked:?}");
    };
    assert_eq!(one.code, "unreadable");
    assert!(one.message.contains("seq"), "{one:?}");
    assert_eq!(runtime.stream_status().await.unwrap().parked, 1);
}

/// A look at the end of a long stream takes longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t7_whoever_compares_stream_and_log_keeps_its_lease() {
    let nats = Nats::start().unwrap();
    let store = Arc::new(MemoryStore::new());
    let open = async |store: Arc<dyn Store>, clock: Arc<dyn Clock>| {
        let settings = streaming_by(&nats, forgetful());
        Runtime::open(store, clock, settings).await.unwrap()
    };
    let first = open(store.clone(), Arc::new(SystemClock)).await;
    copied(&first, 1_000_000, 9_000).await;
    caught_up(&first).await;
    first.close(Duration::from_secs(30)).await;
    let context = jetstream(&nats).await;
    let stream = context.get_stream("noetl_events").await.unwrap();
    stream.delete_message(8_500).await.unwrap();
    // Every read of the log takes longer than two servers take to change hands.
    let late = Arc::new(Late::default());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let plan = {
        let (late, calls) = (Arc::clone(&late), Arc::clone(&calls));
        move |method| {
            calls.lock().unwrap().push(method);
            if method == Method::Messages {
                late.0.fetch_add(20, Ordering::Relaxed);
            }
            Fault::None
        }
    };
    let slow = FaultyStore::sharing(store, Box::new(plan));
    let second = open(Arc::new(slow), late).await;
    until("what was lost is there again", || async {
        second.stream_status().await.unwrap().restored == 1
    })
    .await;
    publishes(&second).await;
    let calls = calls.lock().unwrap();
    let (mut reads, mut since) = (0, 0);
    for method in &*calls {
        match method {
            Method::Messages => (reads, since) = (reads + 1, since + 1),
            Method::RenewStream | Method::TakeStream => since = 0,
            _ => {}
        }
        assert!(since <= 2, "read {since} times without a sign of life");
    }
    assert!(reads >= 9, "{reads}");
}

/// A clock that is late by some seconds more every time that somebody says so.
#[derive(Default)]
struct Late(AtomicU64);

impl Clock for Late {
    fn now(&self) -> Timestamp {
        let late = Millis::from_secs(self.0.load(Ordering::Relaxed));
        SystemClock.now().saturating_add(late)
    }
}

/// A mistake in the code ends a turn, and not the stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_reading_breaks_off_is_read_again() {
    let nats = Nats::start().unwrap();
    let store = Arc::new(MemoryStore::new());
    let breaks = Arc::new(AtomicBool::new(false));
    let plan = {
        let breaks = Arc::clone(&breaks);
        move |method| {
            let is_read = method == Method::Messages;
            assert!(
                !is_read || !breaks.swap(false, Ordering::Relaxed),
                "a mistake"
            );
            Fault::None
        }
    };
    let faulty = Arc::new(FaultyStore::sharing(Arc::clone(&store), Box::new(plan)));
    let settings = streaming_by(&nats, from_the_first());
    let runtime = Runtime::open(faulty, Arc::new(SystemClock), settings)
        .await
        .unwrap();
    copied(&runtime, 1_000_000, 5).await;
    caught_up(&runtime).await;
    breaks.store(true, Ordering::Relaxed);
    copied(&runtime, 2_000_000, 5).await;
    until("reading breaks off", || async {
        !breaks.load(Ordering::Relaxed)
    })
    .await;
    copied(&runtime, 3_000_000, 5).await;
    caught_up(&runtime).await;
    sees_everything(&nats, &*store).await;
}

/// A transaction has thousands of events under load: what is looked at again is counted in events, since
/// only of the last messages of the stream their ids are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "sixty thousand events take a minute"]
async fn heavy_t10_a_broker_that_was_away_is_sent_nothing_that_it_has() {
    let mut nats = Nats::start().unwrap();
    let house = House::postgres().await;
    let runtime = house.server(streaming_by(&nats, from_the_first())).await;
    let many = 60_000;
    copied(&runtime, 1_000_000, many).await;
    caught_up(&runtime).await;
    nats.kill().unwrap();
    nats.restart().unwrap();
    copied(&runtime, 2_000_000, 5).await;
    let all = u64::try_from(many).unwrap() + 5;
    until("everything is there", || async {
        runtime.stream_status().await.unwrap().published >= all
    })
    .await;
    caught_up(&runtime).await;
    let status = runtime.stream_status().await.unwrap();
    assert_eq!((status.published, status.duplicates), (all, 0));
    assert_eq!((status.restored, status.rebuilds), (0, 0));
}
