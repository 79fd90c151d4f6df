use noetl_store::SqliteStore;
use noetl_store_testing::{Fault, FaultyStore};

use super::*;

/// The clocks of a server and of its database, in seconds.
#[derive(Default)]
struct TestClocks {
    wall: AtomicI64,
    monotonic: AtomicI64,
    database: AtomicI64,
}

struct ServerClock(Arc<TestClocks>);

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        seconds_to_time(&self.0.wall)
    }

    fn monotonic(&self) -> Duration {
        let seconds = self.0.monotonic.load(Ordering::SeqCst);
        Duration::from_secs(u64::try_from(seconds).unwrap())
    }
}

fn seconds_to_time(seconds: &AtomicI64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + 1_000 * seconds.load(Ordering::SeqCst)).unwrap()
}

impl TestClocks {
    /// Lets time pass on all clocks.
    fn advance(&self, seconds: i64) {
        for clock in [&self.wall, &self.monotonic, &self.database] {
            clock.fetch_add(seconds, Ordering::SeqCst);
        }
    }
}

/// Returns clocks, a store whose database has one of them, and the measured clock of the store.
async fn measure_clocks(wall: i64) -> (Arc<TestClocks>, FaultyStore<SqliteStore>, StoreClock) {
    let clocks = Arc::new(TestClocks::default());
    clocks.wall.store(wall, Ordering::SeqCst);
    let database = Arc::clone(&clocks);
    let store = FaultyStore::new(SqliteStore::in_memory().unwrap(), Box::new(|_| Fault::None))
        .with_database_clock(Box::new(move || seconds_to_time(&database.database)));
    let clock = Arc::new(ServerClock(Arc::clone(&clocks)));
    let measured = StoreClock::measured(&store, clock).await.unwrap();
    (clocks, store, measured)
}

#[tokio::test]
async fn follows_database_and_reports_skew() {
    let (clocks, store, clock) = measure_clocks(20).await;
    assert_eq!(clock.now(), seconds_to_time(&clocks.database));
    let reason = clock.check_skew().unwrap_err();
    assert!(reason.contains("20 s ahead of the database's"), "{reason}");
    assert!(clock.check_may_grant().is_err());
    clocks.advance(7);
    assert_eq!(clock.now(), seconds_to_time(&clocks.database));
    // The wall clock is set, which changes no decision.
    clocks.wall.store(8, Ordering::SeqCst);
    assert_eq!(clock.now(), seconds_to_time(&clocks.database));
    clock.check_skew().unwrap();
    clocks.wall.store(-3_600, Ordering::SeqCst);
    assert!(clock.check_skew().unwrap_err().contains("3607 s behind the database's"));
    assert!(!clock.synchronize(&store).await.unwrap());
    assert!(!clock.is_settling());
}

#[tokio::test]
async fn leases_settle_after_step_of_database_clock() {
    let (clocks, store, clock) = measure_clocks(0).await;
    for step in [90, -90] {
        let before = clock.now();
        clocks.database.fetch_add(step, Ordering::SeqCst);
        assert_eq!(clock.now(), before, "nothing changes before the measurement");
        assert!(clock.synchronize(&store).await.unwrap());
        assert_eq!(clock.now(), seconds_to_time(&clocks.database));
        assert!(clock.is_settling());
        clocks.advance(29);
        assert!(clock.is_settling());
        clocks.advance(1);
        assert!(!clock.is_settling());
    }
}

/// A store without a clock follows the wall clock of its server, which cannot be skewed.
#[tokio::test]
async fn embedded_store_follows_server() {
    let (clocks, _, _) = measure_clocks(0).await;
    let store = SqliteStore::in_memory().unwrap();
    let clock = Arc::new(ServerClock(Arc::clone(&clocks)));
    let clock = StoreClock::measured(&store, clock).await.unwrap();
    clocks.wall.fetch_add(90, Ordering::SeqCst);
    clock.check_skew().unwrap();
    assert!(clock.synchronize(&store).await.unwrap());
    assert_eq!(clock.now(), seconds_to_time(&clocks.wall));
    clock.check_skew().unwrap();
}
