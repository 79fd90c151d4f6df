//! Servers that die, sleep and come back, each with a line of its own to the one store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_server::{Chance, Clock, Runtime, Settings};
use noetl_store::Store;
use noetl_store::faulty::{Fault, FaultyStore, Method};
use noetl_testkit::sim::SplitMix;
use noetl_types::{Millis, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::weather::{draw, up_to};
use crate::world::World;

/// A server as others see it: up, or not there.
pub(crate) struct Server {
    number: usize,
    up: Mutex<Option<Up>>,
    /// How often it was started.
    starts: Mutex<u32>,
}

/// A server that is up.
#[derive(Clone)]
pub(crate) struct Up {
    pub(crate) runtime: Runtime,
    /// Cancelled when it dies: whoever waits for an answer learns that there is none.
    pub(crate) down: CancellationToken,
    wire: Arc<Wire>,
}

/// The line from a server to the store.
struct Wire {
    name: String,
    /// A dead server does nothing any more, though its tasks linger.
    is_cut: AtomicBool,
    /// Until when the whole process sleeps.
    asleep_until: Mutex<Option<Instant>>,
    chance: Mutex<SplitMix>,
}

/// The time of a server: that of the simulation, a little off.
struct SimClock {
    began: Instant,
    skew: Millis,
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let start = Timestamp::parse("2026-01-01T00:00:00Z").expect("a time");
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        start
            .saturating_add(Millis::from_ms(passed))
            .saturating_add(self.skew)
    }
}

struct SimChance(Mutex<SplitMix>);

impl Chance for SimChance {
    fn fill(&self, bytes: &mut [u8]) {
        let mut chance = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            let number = chance.next().to_be_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

impl Server {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            up: Mutex::default(),
            starts: Mutex::default(),
        }
    }

    /// The server, if it is up.
    pub(crate) fn up(&self) -> Option<Up> {
        let up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        up.clone()
    }

    /// Starts it, however often that has to be tried.
    pub(crate) async fn start(&self, world: &Arc<World>) {
        while self.up().is_none() {
            if let Some(up) = self.try_to_start(world).await {
                world.trace.note(format_args!("{} is up", up.wire.name));
                *self.up.lock().unwrap_or_else(PoisonError::into_inner) = Some(up);
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn try_to_start(&self, world: &Arc<World>) -> Option<Up> {
        let start = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            *starts += 1;
            *starts
        };
        let name = format!("s{}.{start}", self.number);
        let wire = Arc::new(Wire {
            is_cut: AtomicBool::new(false),
            asleep_until: Mutex::default(),
            chance: Mutex::new(draw(world.seed, &format!("wire {name}"))),
            name: name.clone(),
        });
        let skew =
            draw(world.seed, &format!("skew {}", self.number)).below(world.weather.skew_ms + 1);
        let clock = SimClock {
            began: world.began,
            skew: Millis::from_ms(skew as u64),
        };
        let chance = SimChance(Mutex::new(draw(world.seed, &format!("chance {name}"))));
        let settings = Settings {
            server_name: format!("s{}", self.number).into(),
            lease: world.weather.lease,
            snapshot_every: world.weather.snapshot_every,
            // Room for one execution in each part: others are put out and read again.
            cached_executions: if self.number == 0 { 1 } else { 1_000 },
            ..Settings::default()
        };
        let store = store(world, &wire);
        let opened =
            Runtime::open_by_chance(store, Arc::new(clock), Arc::new(chance), settings).await;
        match opened {
            Ok(runtime) => Some(Up {
                runtime,
                down: CancellationToken::new(),
                wire,
            }),
            Err(error) => {
                world
                    .trace
                    .note(format_args!("{name} does not start: {error}"));
                None
            }
        }
    }

    /// Ends it at once, in the middle of whatever it does.
    pub(crate) fn crash(&self, world: &World) {
        let up = self
            .up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(up) = up {
            world.trace.note(format_args!("{} dies", up.wire.name));
            up.wire.is_cut.store(true, Ordering::Relaxed);
            up.down.cancel();
        }
    }

    /// Lets the whole process sleep for a time; it knows nothing of it afterwards.
    pub(crate) fn stall(&self, world: &World, time: Duration) {
        if let Some(up) = self.up() {
            world
                .trace
                .note(format_args!("{} sleeps {time:?}", up.wire.name));
            let until = Instant::now() + time;
            let mut asleep = up
                .wire
                .asleep_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *asleep = Some(until);
        }
    }
}

/// The store as a server reaches it: late first, and then perhaps not at all.
fn store(world: &Arc<World>, wire: &Arc<Wire>) -> Arc<dyn Store> {
    let (faulty, late) = (Arc::clone(world), Arc::clone(world));
    let (fails, waits) = (Arc::clone(wire), Arc::clone(wire));
    let inner = FaultyStore::sharing(
        Arc::clone(&world.memory),
        Box::new(move |method| fails.fails(&faulty, method)),
    );
    Arc::new(FaultyStore::new(
        inner,
        Box::new(move |method| waits.takes(&late, method)),
    ))
}

impl Wire {
    /// How long a call takes.
    fn takes(&self, world: &World, method: Method) -> Fault {
        if self.is_cut.load(Ordering::Relaxed) {
            return Fault::Never;
        }
        // A snapshot is taken on another thread, so when it is written is not the seed's choice. It
        // changes nothing that anybody sees.
        if method == Method::WriteSnapshot {
            return Fault::None;
        }
        let asleep = self
            .asleep_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = asleep.and_then(|until| until.checked_duration_since(Instant::now()))
            && !left.is_zero()
        {
            return Fault::Wait(left);
        }
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let time = up_to(&mut chance, world.weather.store_ms);
        if world.is_calm() || time.is_zero() {
            Fault::None
        } else {
            Fault::Wait(time)
        }
    }

    /// How a call fails.
    fn fails(&self, world: &World, method: Method) -> Fault {
        if self.is_cut.load(Ordering::Relaxed) {
            return Fault::Never;
        }
        if method == Method::WriteSnapshot || world.is_calm() {
            return Fault::None;
        }
        let weather = &world.weather;
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = if chance.percent(weather.fails_before) {
            Fault::Before
        } else if chance.percent(weather.fails_after) {
            Fault::After
        } else if method == Method::Append && chance.percent(weather.conflicts) {
            Fault::Conflict
        } else {
            return Fault::None;
        };
        world
            .trace
            .note(format_args!("{} {method:?} fails: {fault:?}", self.name));
        fault
    }
}
