//! Messages to servers: late, doubled, lost on the way there or on the way back.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noetl_server::Runtime;
use noetl_testkit::sim::SplitMix;

use crate::weather::{draw, up_to};
use crate::world::World;

/// The line from somebody to the servers.
pub(crate) struct Line {
    world: Arc<World>,
    name: String,
    chance: Mutex<SplitMix>,
}

/// What becomes of a message.
struct Fate {
    server: usize,
    there: Duration,
    back: Duration,
    is_request_lost: bool,
    is_answer_lost: bool,
    /// Where and when it arrives once more.
    again: Option<(usize, Duration)>,
}

/// How long it takes until somebody gives a lost message up.
const LOST: Duration = Duration::from_millis(300);

impl Line {
    pub(crate) fn new(world: &Arc<World>, name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            chance: Mutex::new(draw(world.seed, &format!("line {name}"))),
            world: Arc::clone(world),
            name,
        }
    }

    fn fate(&self) -> Fate {
        let (world, weather) = (&self.world, &self.world.weather);
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        let server = chance.below(weather.servers);
        if world.is_calm() {
            return Fate {
                server,
                there: Duration::ZERO,
                back: Duration::ZERO,
                is_request_lost: false,
                is_answer_lost: false,
                again: None,
            };
        }
        let again = chance.percent(weather.doubled);
        Fate {
            server,
            there: up_to(&mut chance, weather.message_ms),
            back: up_to(&mut chance, weather.message_ms),
            is_request_lost: chance.percent(weather.request_lost),
            is_answer_lost: chance.percent(weather.answer_lost),
            again: again.then(|| {
                let server = chance.below(weather.servers);
                (server, up_to(&mut chance, 10 * weather.message_ms))
            }),
        }
    }

    /// Sends a request; nothing where no answer came.
    pub(crate) async fn ask<T, F, A>(
        &self,
        what: impl Display,
        patience: Duration,
        ask: F,
    ) -> Option<T>
    where
        T: Send + 'static,
        F: Fn(Runtime) -> A + Send + Sync + 'static,
        A: Future<Output = T> + Send + 'static,
    {
        let fate = self.fate();
        let trace = &self.world.trace;
        let what = format!("{} → s{}: {what}", self.name, fate.server);
        trace.note(&what);
        let ask = Arc::new(ask);
        if let Some((server, later)) = fate.again {
            self.deliver_again(server, later, (Arc::clone(&ask), what.clone()));
        }
        tokio::time::sleep(fate.there).await;
        if fate.is_request_lost {
            trace.note(format_args!("lost on the way there: {what}"));
            tokio::time::sleep(LOST).await;
            return None;
        }
        let Some(up) = self.world.servers[fate.server].up() else {
            trace.note(format_args!("nobody there: {what}"));
            tokio::time::sleep(Duration::from_millis(50)).await;
            return None;
        };
        let answer = up.down.run_until_cancelled(ask(up.runtime.clone()));
        let answer = tokio::time::timeout(patience, answer).await.ok().flatten();
        if answer.is_none() {
            trace.note(format_args!("no answer: {what}"));
        }
        let answer = answer?;
        if fate.is_answer_lost {
            trace.note(format_args!("lost on the way back: {what}"));
            tokio::time::sleep(LOST).await;
            return None;
        }
        tokio::time::sleep(fate.back).await;
        Some(answer)
    }

    /// Lets the same request arrive once more; nobody hears the answer.
    fn deliver_again<T, F, A>(&self, server: usize, later: Duration, (ask, what): (Arc<F>, String))
    where
        T: Send + 'static,
        F: Fn(Runtime) -> A + Send + Sync + 'static,
        A: Future<Output = T> + Send + 'static,
    {
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            tokio::time::sleep(later).await;
            if let Some(up) = world.servers[server].up() {
                world
                    .trace
                    .note(format_args!("again, to s{server}: {what}"));
                drop(up.down.run_until_cancelled(ask(up.runtime.clone())).await);
            }
        });
    }
}
