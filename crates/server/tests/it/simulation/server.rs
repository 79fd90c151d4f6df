//! Servers that crash, are suspended and restart, each with its own link to the shared store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_server::{Clock, ControlPlane, RandomSource, Settings};
use noetl_store::Store;
use noetl_store_testing::{Fault, FaultyStore, StoreMethod};
use noetl_testkit::sim::SplitMix;
use noetl_types::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::simulation::fault_plan::{random_duration, seeded_rng};
use crate::simulation::world::SimWorld;

/// A server that is running or down.
pub(crate) struct SimServer {
    number: usize,
    running: Mutex<Option<RunningServer>>,
    /// Number of starts.
    start_count: Mutex<u32>,
}

/// Handle of a running server.
#[derive(Clone)]
pub(crate) struct RunningServer {
    pub(crate) services: ControlPlane,
    /// Cancelled on a crash, so that pending requests get no answer.
    pub(crate) crashed: CancellationToken,
    link: Arc<StoreLink>,
}

/// Link from a server to the store.
struct StoreLink {
    name: String,
    /// True after a crash: the remaining tasks of the server have no effect any more.
    is_disconnected: AtomicBool,
    /// End of a suspension of the whole process.
    suspended_until: Mutex<Option<Instant>>,
    rng: Mutex<SplitMix>,
}

/// Clocks of a server in simulated time.
struct SimClock {
    world: Arc<SimWorld>,
    server: usize,
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.world.started_at.elapsed();
        let clocks = &self.world.fault_plan.clocks;
        if self.world.has_database_clock() {
            clocks.wall_time(self.server, elapsed, !self.world.has_stopped_faults())
        } else {
            clocks.store_time(elapsed)
        }
    }

    fn monotonic(&self) -> Duration {
        self.world.started_at.elapsed()
    }
}

struct SimRandom(Mutex<SplitMix>);

impl RandomSource for SimRandom {
    fn fill_random(&self, bytes: &mut [u8]) {
        let mut rng = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            let number = rng.next_u64().to_be_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

impl SimServer {
    pub(crate) fn new(number: usize) -> Self {
        Self { number, running: Mutex::default(), start_count: Mutex::default() }
    }

    /// Returns the running server, or `None` if it is down.
    pub(crate) fn running_server(&self) -> Option<RunningServer> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.clone()
    }

    /// Starts the server, and retries until it succeeds.
    pub(crate) async fn start(&self, world: &Arc<SimWorld>) {
        while self.running_server().is_none() {
            if let Some(running) = self.try_to_start(world).await {
                world.trace.record(format_args!("{} is up", running.link.name));
                *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn try_to_start(&self, world: &Arc<SimWorld>) -> Option<RunningServer> {
        let start = {
            let mut starts = self.start_count.lock().unwrap_or_else(PoisonError::into_inner);
            *starts += 1;
            *starts
        };
        let name = format!("s{}.{start}", self.number);
        let link = Arc::new(StoreLink {
            is_disconnected: AtomicBool::new(false),
            suspended_until: Mutex::default(),
            rng: Mutex::new(seeded_rng(world.seed, &format!("wire {name}"))),
            name: name.clone(),
        });
        let clock = SimClock { world: Arc::clone(world), server: self.number };
        let rng = SimRandom(Mutex::new(seeded_rng(world.seed, &format!("chance {name}"))));
        let settings = Settings {
            server_name: format!("s{}", self.number).into(),
            lease_duration: world.fault_plan.lease,
            snapshot_min_events: world.fault_plan.snapshot_every,
            // With capacity for one execution per shard, executions are evicted and reloaded.
            cached_executions: if self.number == 0 { 1 } else { 1_000 },
            ..Settings::default()
        };
        let store = open_faulty_store(world, &link);
        let opened =
            ControlPlane::open_with_rng(store, Arc::new(clock), Arc::new(rng), settings).await;
        match opened {
            Ok(services) => {
                Some(RunningServer { services, crashed: CancellationToken::new(), link })
            }
            Err(error) => {
                world.trace.record(format_args!("{name} does not start: {error}"));
                None
            }
        }
    }

    /// Crashes the server at once, at any point.
    pub(crate) fn crash(&self, world: &SimWorld) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            world.trace.record(format_args!("{} crashes", running.link.name));
            running.link.is_disconnected.store(true, Ordering::Relaxed);
            running.crashed.cancel();
        }
    }

    /// Suspends the whole process for a time. The process does not notice it.
    pub(crate) fn suspend(&self, world: &SimWorld, duration: Duration) {
        if let Some(running) = self.running_server() {
            world.trace.record(format_args!("{} is suspended for {duration:?}", running.link.name));
            let until = Instant::now() + duration;
            let mut suspended_until =
                running.link.suspended_until.lock().unwrap_or_else(PoisonError::into_inner);
            *suspended_until = Some(until);
        }
    }
}

/// The store as a server reaches it: calls are delayed first and may then fail.
fn open_faulty_store(world: &Arc<SimWorld>, link: &Arc<StoreLink>) -> Arc<dyn Store> {
    let (failure_world, delay_world) = (Arc::clone(world), Arc::clone(world));
    let (failure_link, delay_link) = (Arc::clone(link), Arc::clone(link));
    let mut inner = FaultyStore::with_shared_store(
        Arc::clone(&world.memory),
        Box::new(move |method| failure_link.next_failure(&failure_world, method)),
    );
    if world.has_database_clock() {
        let world = Arc::clone(world);
        inner = inner.with_database_clock(Box::new(move || {
            world.fault_plan.clocks.store_time(world.started_at.elapsed())
        }));
    }
    Arc::new(FaultyStore::new(
        inner,
        Box::new(move |method| delay_link.next_delay(&delay_world, method)),
    ))
}

impl StoreLink {
    /// Returns the delay of a call.
    fn next_delay(&self, world: &SimWorld, method: StoreMethod) -> Fault {
        if self.is_disconnected.load(Ordering::Relaxed) {
            return Fault::Hang;
        }
        // Snapshots are written by another thread, so the seed cannot determine their timing. They
        // have no visible effect.
        if method == StoreMethod::WriteSnapshot {
            return Fault::None;
        }
        let suspended_until = self.suspended_until.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(remaining) =
            suspended_until.and_then(|until| until.checked_duration_since(Instant::now()))
            && !remaining.is_zero()
        {
            return Fault::Sleep(remaining);
        }
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let delay = random_duration(&mut rng, world.fault_plan.store_ms);
        if world.has_stopped_faults() || delay.is_zero() {
            Fault::None
        } else {
            Fault::Sleep(delay)
        }
    }

    /// Returns the failure of a call, if any.
    fn next_failure(&self, world: &SimWorld, method: StoreMethod) -> Fault {
        if self.is_disconnected.load(Ordering::Relaxed) {
            return Fault::Hang;
        }
        if method == StoreMethod::WriteSnapshot || world.has_stopped_faults() {
            return Fault::None;
        }
        let fault_plan = &world.fault_plan;
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = if rng.draw_percent(fault_plan.fails_before) {
            Fault::FailBefore
        } else if rng.draw_percent(fault_plan.fails_after) {
            Fault::FailAfter
        } else if method == StoreMethod::AppendEvents && rng.draw_percent(fault_plan.conflicts) {
            Fault::Conflict
        } else {
            return Fault::None;
        };
        world.trace.record(format_args!("{} {method:?} fails: {fault:?}", self.name));
        fault
    }
}
