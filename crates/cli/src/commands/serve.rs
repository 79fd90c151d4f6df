//! `noetl dev` and `noetl server`: a process that answers until it is told to stop.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use noetl_server::Runtime;
use noetl_server::http::{self, HttpSettings, Listeners};
use noetl_store::{LogWall, Store};
use noetl_types::{Millis, PoolName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::table::{BOOTSTRAP_TOKEN, SQL_CONSOLE};
use crate::config::{Config, Dev, Flags, Server};
use crate::error::Error;
use crate::exit::Exit;
use crate::io::Io;
use crate::roles::{self, Beacon, Gone, Opened, Place, StartError, WorkerPlan};

/// Start a server and a worker in one process, to develop with
///
/// It listens on a loopback address, keeps everything in a database in the data folder, and lets
/// programs of this machine in without a token. A 'noetl run' beside it on the same database is
/// handed to it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The first line on standard output says where it listens. Ctrl-C stops it: what
is under way is finished or goes on at the next start; pressed again, it quits
at once.

Examples:
  noetl dev                      on port 8082, or what NOETL_PORT says
  noetl dev --port 0             on any free port
  noetl dev --store memory       with nothing kept")]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) settings: Flags<Dev>,
}

/// Start a server
///
/// It drives runs, hands out commands to workers and answers the API. Any number of servers work
/// together on one PostgreSQL database; a database file has one server.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The first line on standard output says where it listens; log lines go to
standard error. Callers show tokens ('noetl token'); the first one is printed
when there is none yet. With NOETL_DEV=true programs of this machine need none.
Other machines are let in with TLS only.

Examples:
  noetl server                                       on a file
  NOETL_DSN=postgres://noetl@db/noetl noetl server   on PostgreSQL
  noetl config show --origin                         what the settings are")]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) settings: Flags<Server>,
}

/// Threads of a server, where the user does not say.
const THREADS: usize = 64;
/// How long commands under way may take when a development server stops.
const WORKER_DRAIN: Millis = Millis::from_secs(5);
/// How long what is being written may take at the end.
const CLOSING: Duration = Duration::from_secs(10);
/// What is still under way gets this long to end when the process is over.
const PARTING: Duration = Duration::from_secs(1);

/// Whether a worker runs in the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Here,
    Elsewhere,
}

/// Serves until the process is told to stop.
pub(crate) fn run(
    given: &crate::config::Given,
    work: Work,
    io: &mut Io<'_>,
) -> Result<Exit, Error> {
    // Keys and what they open are in its memory. Who develops may want to look into it.
    if work == Work::Elsewhere {
        noetl_tools::walls::hide_this_process();
    }
    let config = Config::load(given, &io.env)?;
    roles::start_logging(&config, io.err.is_terminal(), io.err.paint().is_on())?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if config.value(&SQL_CONSOLE)? {
        tracing::warn!("NOETL_SQL_CONSOLE is on, and this version has no SQL console");
    }
    let place = Place::of(&config)?;
    let threads = roles::threads(&config, THREADS)?;
    let served = threads.block_on(serve(&config, &place, work, io));
    threads.shutdown_timeout(PARTING);
    served.map(|()| Exit::Ok)
}

async fn serve(config: &Config, place: &Place, work: Work, io: &mut Io<'_>) -> Result<(), Error> {
    let (orderly, at_once) = roles::stopped()?;
    // Before the store is opened: a second server on the same port must not touch it.
    let settings = roles::http_settings(config, place, work == Work::Here)?;
    let listening = roles::listen(config, &settings).await?;
    let store = open(place).await?;
    warn_of_walls(&*store, place).await?;
    let scheme = if settings.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{}", listening.public);
    let facade = roles::Facade {
        url: &url,
        wants_tokens: !settings.is_dev,
    };
    let runtime = roles::open_runtime(Arc::clone(&store), place, config, Some(facade)).await?;
    if let Some(gone) = Gone::of(place, config)? {
        let count = roles::bury(&*store, &runtime, gone)
            .await
            .map_err(StartError::Runtime)?;
        if count > 0 {
            tracing::warn!(count, "runs whose process is gone are cancelled");
        }
    }
    let first_token = if settings.is_dev {
        None
    } else {
        let given = config.get(&BOOTSTRAP_TOKEN)?;
        let made = runtime.bootstrap(given.as_deref()).await;
        made.map_err(StartError::Runtime)?
    };
    let worker = match work {
        Work::Here => Some(start_worker(config, &runtime, io)?),
        Work::Elsewhere => None,
    };
    let beside = Beside {
        internal: listening
            .internal
            .map(|address| format!("{scheme}://{address}")),
        metrics: listening
            .metrics
            .map(|address| format!("{scheme}://{address}")),
    };
    let house = House::start(runtime, listening.listeners, settings, worker);
    let _beacon = match place.file() {
        Some(file) => Some(
            Beacon::new(url.clone())
                .light(file)
                .map_err(StartError::Process)?,
        ),
        None => None,
    };
    announce(&url, place, work, &beside, io)?;
    if let Some(token) = first_token {
        introduce(&token, io)?;
    }
    tokio::select! {
        stopped = house.until(&orderly) => stopped?,
        () = at_once.cancelled() => {}
    }
    Ok(())
}

/// Who names another owner of the tables wants a log that this process cannot change.
async fn warn_of_walls(store: &dyn Store, place: &Place) -> Result<(), Error> {
    if !place.has_owner() {
        return Ok(());
    }
    let missing = store.missing_walls().await.map_err(Error::Store)?;
    for missing in missing.iter().filter(|it| it.wall == LogWall::AppendOnly) {
        tracing::warn!(wall = %missing, "a wall is not raised");
    }
    Ok(())
}

async fn open(place: &Place) -> Result<Arc<dyn Store>, StartError> {
    match place.open().await? {
        Opened::Store(store) => Ok(store),
        Opened::Held(beacon) => Err(StartError::InUse {
            path: place.shown(),
            waited: Millis::ZERO,
            holder: Some(match beacon {
                Some(beacon) => format!("the server of process {} at {}", beacon.pid, beacon.url),
                None => "a 'noetl run'".to_owned(),
            }),
        }),
    }
}

/// A worker in this process, and how to stop it.
struct InProcess {
    task: JoinHandle<Result<(), noetl_worker::WorkerError>>,
    stop: CancellationToken,
}

fn start_worker(config: &Config, runtime: &Runtime, io: &Io<'_>) -> Result<InProcess, Error> {
    let plan = WorkerPlan::new(config, PoolName::shared(), &io.env)?.draining(WORKER_DRAIN);
    let toolbox = roles::toolbox(
        config,
        &io.env,
        roles::Code::Own,
        roles::OfPlatform::default(),
    )?;
    let stop = CancellationToken::new();
    let worker = plan.start(Arc::new(runtime.clone()), toolbox);
    let task = tokio::spawn(worker.run(stop.clone()));
    Ok(InProcess { task, stop })
}

/// All that runs in the process.
struct House {
    runtime: Runtime,
    server: JoinHandle<Result<(), http::ServeError>>,
    stop_server: CancellationToken,
    worker: Option<InProcess>,
}

impl House {
    fn start(
        runtime: Runtime,
        listeners: Listeners,
        settings: HttpSettings,
        worker: Option<InProcess>,
    ) -> Self {
        let stop_server = CancellationToken::new();
        let server = http::serve(runtime.clone(), listeners, settings, stop_server.clone());
        Self {
            runtime,
            server: tokio::spawn(server),
            stop_server,
            worker,
        }
    }

    /// Goes on until it is told to stop or a part of it ends, then lets go of everything in order:
    /// first no new work is taken, then no new requests, then what is being written is finished.
    async fn until(mut self, stop: &CancellationToken) -> Result<(), StartError> {
        let failed = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = &mut self.server => Err(StartError::of_end("server", ended)),
            error = end_of(&mut self.worker) => Err(error),
        };
        tracing::info!("stopping");
        if let Some(worker) = self.worker.filter(|worker| !worker.task.is_finished()) {
            worker.stop.cancel();
            drop(worker.task.await);
        }
        self.stop_server.cancel();
        if !self.server.is_finished() {
            drop(self.server.await);
        }
        self.runtime.close(CLOSING).await;
        failed
    }
}

/// Waits for the worker to end, where there is one.
async fn end_of(worker: &mut Option<InProcess>) -> StartError {
    match worker {
        Some(worker) => StartError::of_end("worker", (&mut worker.task).await),
        None => std::future::pending().await,
    }
}

/// Shows the first token. It goes to standard output alone, which no log keeps.
fn introduce(token: &str, io: &mut Io<'_>) -> Result<(), Error> {
    writeln!(
        io.out,
        "First token, which may do everything; it is shown this once:"
    )?;
    writeln!(io.out, "{token}")?;
    io.out.flush()?;
    Ok(())
}

/// Where a server listens besides.
struct Beside {
    internal: Option<String>,
    metrics: Option<String>,
}

fn announce(
    url: &str,
    place: &Place,
    work: Work,
    beside: &Beside,
    io: &mut Io<'_>,
) -> Result<(), Error> {
    writeln!(io.out, "NoETL listening on {url}")?;
    if let Some(internal) = &beside.internal {
        writeln!(io.out, "Internal API on {internal}")?;
    }
    if let Some(metrics) = &beside.metrics {
        writeln!(io.out, "Metrics on {metrics}/metrics")?;
    }
    let shown = place.shown();
    match place {
        Place::Memory => writeln!(io.out, "Data in memory: it is gone when this stops")?,
        Place::File { .. } | Place::Database(_) => writeln!(io.out, "Data in {shown}")?,
    }
    match work {
        Work::Here => writeln!(io.out, "Stop with Ctrl-C")?,
        Work::Elsewhere => writeln!(
            io.out,
            "Workers: noetl worker --server {url} · stop with Ctrl-C"
        )?,
    }
    io.out.flush()?;
    let Beside { internal, metrics } = beside;
    tracing::info!(url, ?internal, ?metrics, store = %shown, "listening");
    Ok(())
}

#[cfg(test)]
mod tests {
    use noetl_server::{RuntimeError, Settings, SystemClock};
    use noetl_store::MemoryStore;
    use noetl_types::MachineId;
    use noetl_worker::WorkerError;

    use super::*;

    /// What a part of the process does.
    #[derive(Clone, Copy)]
    enum Part {
        /// It works until it is told to stop.
        Works,
        /// It leaves by itself.
        Leaves,
        /// It dies.
        Crashes,
    }

    impl Part {
        async fn play<E>(self, stop: CancellationToken) -> Result<(), E> {
            match self {
                Self::Works => stop.cancelled().await,
                Self::Leaves => {}
                Self::Crashes => panic!("it dies, as the test wants it"),
            }
            Ok(())
        }
    }

    struct Stage {
        house: House,
        store: Arc<MemoryStore>,
        stop_server: CancellationToken,
        stop_worker: CancellationToken,
    }

    /// A runtime under a machine id that one process at a time has.
    async fn opened(store: &Arc<MemoryStore>) -> Result<Runtime, RuntimeError> {
        let settings = Settings {
            machine_id: Some(MachineId::new(7).unwrap()),
            ..Settings::default()
        };
        Runtime::open(Arc::clone(store) as _, Arc::new(SystemClock), settings).await
    }

    async fn stage(server: Part, worker: Part) -> Stage {
        let store = Arc::new(MemoryStore::new());
        let runtime = opened(&store).await.unwrap();
        assert!(opened(&store).await.is_err());
        let (stop_server, stop_worker) = (CancellationToken::new(), CancellationToken::new());
        let house = House {
            runtime,
            server: tokio::spawn(server.play(stop_server.clone())),
            stop_server: stop_server.clone(),
            worker: Some(InProcess {
                task: tokio::spawn(worker.play::<WorkerError>(stop_worker.clone())),
                stop: stop_worker.clone(),
            }),
        };
        Stage {
            house,
            store,
            stop_server,
            stop_worker,
        }
    }

    /// One part alone would only look as if it did something: the other is told to stop, what is
    /// written is finished, and the process says which of them it was.
    #[tokio::test]
    async fn a_part_that_ends_takes_the_others_along() {
        for (server, worker, text) in [
            (Part::Crashes, Part::Works, "the server has crashed"),
            (Part::Works, Part::Crashes, "the worker has crashed"),
            (Part::Leaves, Part::Works, "the server has left"),
            (Part::Works, Part::Leaves, "the worker has left"),
        ] {
            let stage = stage(server, worker).await;
            let ended = stage.house.until(&CancellationToken::new()).await;
            let error = ended.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            let is_told = |part: Part, stop: &CancellationToken| {
                !matches!(part, Part::Works) || stop.is_cancelled()
            };
            assert!(is_told(server, &stage.stop_server), "{text}");
            assert!(is_told(worker, &stage.stop_worker), "{text}");
            // The runtime is closed, so what was its alone is free.
            assert!(opened(&stage.store).await.is_ok(), "{text}");
        }
    }

    /// Whoever stops it ends both, and that is no failure.
    #[tokio::test]
    async fn a_stop_ends_all_parts() {
        let stage = stage(Part::Works, Part::Works).await;
        let stop = CancellationToken::new();
        stop.cancel();
        stage.house.until(&stop).await.unwrap();
        assert!(stage.stop_server.is_cancelled() && stage.stop_worker.is_cancelled());
        assert!(opened(&stage.store).await.is_ok());
    }
}
