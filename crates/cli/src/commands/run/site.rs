//! Where a run takes place: here, once the database is free, or at the server that has it.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::{Client, ClientSettings};
use noetl_playbook::model::ToolKind;
use noetl_server::Runtime;
use noetl_store::Store;
use noetl_types::{Millis, PoolName};
use noetl_worker::WorkerError;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Wish;
use crate::config::Config;
use crate::error::Error;
use crate::io::Io;
use crate::progress::Style;
use crate::render::words::visible;
use crate::roles::{self, Beacon, Gone, Host, Opened, Place, Signals, StartError, WorkerPlan};

/// How often it is looked whether the database is free.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long what is being written may take at the end.
const CLOSING: Duration = Duration::from_secs(10);

/// Where a run takes place.
pub(super) enum Site {
    /// In this process.
    Here(Box<Here>),
    /// At a server.
    There(Client),
}

/// What runs in this process.
pub(super) struct Here {
    runtime: Runtime,
    pool: PoolName,
    /// Absent once its end is known.
    worker: Option<JoinHandle<Result<(), WorkerError>>>,
    stop: CancellationToken,
}

impl Site {
    /// Whom to ask.
    pub(super) fn host(&self) -> Host {
        match self {
            Self::Here(here) => Host::Here(here.runtime.clone()),
            Self::There(client) => Host::There(client.clone()),
        }
    }

    /// The pool that a run here needs.
    pub(super) fn pool(&self) -> Option<PoolName> {
        match self {
            Self::Here(here) => Some(here.pool.clone()),
            Self::There(_) => None,
        }
    }

    /// Waits for the worker to end before it is told to, which it hardly ever does, and tells it
    /// once. It may have left because it was asked to, which is no failure of its own.
    pub(super) async fn worker_left(&mut self) -> Result<(), StartError> {
        if let Self::Here(here) = self
            && let Some(worker) = &mut here.worker
        {
            let ended = worker.await;
            here.worker = None;
            return match StartError::of_end("worker", ended) {
                StartError::Left { .. } => Ok(()),
                failed => Err(failed),
            };
        }
        std::future::pending().await
    }

    /// Stops what runs here: tools are killed, what is being written is finished.
    pub(super) async fn leave(self) {
        let Self::Here(here) = self else { return };
        let Here {
            runtime,
            worker,
            stop,
            ..
        } = *here;
        stop.cancel();
        // Its end is all that counts: what it failed with was told when it did.
        if let Some(worker) = worker {
            drop(worker.await);
        }
        runtime.close(CLOSING).await;
    }
}

/// Finds a place for the run; none if the user stopped waiting for one.
pub(super) async fn find(
    wish: &Wish<'_>,
    place: &Place,
    config: &Config,
    io: &mut Io<'_>,
    signals: &mut Signals,
) -> Result<Option<Site>, Error> {
    let since = Instant::now();
    let patience = Duration::from(wish.lock_timeout);
    let mut is_told = wish.style == Style::Quiet;
    loop {
        let beacon = match place.open().await? {
            Opened::Store(store) => {
                if !matches!(place, Place::Database(_)) {
                    tell_what_nobody_answers(wish, io)?;
                }
                let here = settle(store, place, config, io).await?;
                return Ok(Some(Site::Here(Box::new(here))));
            }
            Opened::Held(beacon) => beacon,
        };
        if let Some(client) = answering(beacon.as_ref(), config).await? {
            return Ok(Some(Site::There(client)));
        }
        if since.elapsed() >= patience {
            return Err(in_use(place, beacon, wish.lock_timeout).into());
        }
        if !is_told {
            is_told = true;
            io.talk(format_args!("waiting: another run uses {}", place.shown()))?;
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            _ = signals.next() => return Ok(None),
        }
    }
}

/// Signals and decisions come in through a server. A run in a process of its own has none, and would
/// wait for ever without a word.
fn tell_what_nobody_answers(wish: &Wish<'_>, io: &mut Io<'_>) -> Result<(), Error> {
    let mut steps = wish.flow.playbook.workflow.iter();
    let waits = |kind: ToolKind| matches!(kind, ToolKind::Wait | ToolKind::Approval);
    let waiting = steps.find(|step| step.tool.tasks().iter().any(|task| waits(*task.kind)));
    if let Some(step) = waiting.filter(|_| wish.style != Style::Quiet) {
        let name = visible(&step.name);
        io.talk(format_args!(
            "'{name}' waits for an answer, which only a server takes: run this beside noetl dev"
        ))?;
    }
    Ok(())
}

/// The client of a server that lives.
async fn answering(beacon: Option<&Beacon>, config: &Config) -> Result<Option<Client>, Error> {
    let settings = ClientSettings {
        connect_timeout: Millis::from_secs(1),
        ..roles::client_settings(config)?
    };
    let Some(client) = beacon.and_then(|beacon| Client::new(&beacon.url, settings).ok()) else {
        return Ok(None);
    };
    Ok(client.readyz().await.is_ok().then_some(client))
}

fn in_use(place: &Place, beacon: Option<Beacon>, waited: Millis) -> StartError {
    StartError::InUse {
        path: place.shown(),
        waited,
        holder: beacon.map(|beacon| format!("process {} at {}", beacon.pid, beacon.url)),
    }
}

/// Puts the parts together in this process.
async fn settle(
    store: Arc<dyn Store>,
    place: &Place,
    config: &Config,
    io: &mut Io<'_>,
) -> Result<Here, Error> {
    let runtime = roles::open_runtime(Arc::clone(&store), place, config, None).await?;
    if let Some(gone) = Gone::of(place, config)? {
        let buried = roles::bury(&*store, &runtime, gone).await;
        buried.map_err(StartError::Runtime)?;
    }
    let pool = roles::own_pool();
    let plan = WorkerPlan::new(config, pool.clone(), &io.env)?.for_one_run();
    let toolbox = roles::toolbox(
        config,
        &io.env,
        roles::Code::Own,
        roles::OfPlatform::default(),
    )?;
    let worker = plan.start(Arc::new(runtime.clone()), toolbox);
    let stop = CancellationToken::new();
    let worker = tokio::spawn(worker.run(stop.clone()));
    Ok(Here {
        runtime,
        pool,
        worker: Some(worker),
        stop,
    })
}
