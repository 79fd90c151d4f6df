use noetl_server::{RuntimeError, Settings, SystemClock};
use noetl_store::SqliteStore;
use noetl_types::MachineId;
use noetl_worker::WorkerError;

use super::*;

/// Behaviour of a fake server or worker task.
#[derive(Clone, Copy)]
enum FakeTask {
    /// Runs until it is cancelled.
    Runs,
    /// Returns without being cancelled.
    Exits,
    /// Panics.
    Crashes,
}

impl FakeTask {
    async fn run_task<E>(self, stop: CancellationToken) -> Result<(), E> {
        match self {
            Self::Runs => stop.cancelled().await,
            Self::Exits => {}
            Self::Crashes => panic!("deliberate panic of the test"),
        }
        Ok(())
    }
}

struct DevProcessFixture {
    process: DevProcess,
    store: Arc<SqliteStore>,
    stop_server: CancellationToken,
    stop_worker: CancellationToken,
}

/// Opens a runtime with a fixed machine id, which only one process can lease at a time.
async fn open_runtime(store: &Arc<SqliteStore>) -> Result<ControlPlane, RuntimeError> {
    let settings = Settings { machine_id: Some(MachineId::new(7).unwrap()), ..Settings::default() };
    ControlPlane::open(Arc::clone(store) as _, Arc::new(SystemClock), settings).await
}

async fn start_fixture(server: FakeTask, worker: FakeTask) -> DevProcessFixture {
    let store = Arc::new(SqliteStore::in_memory().unwrap());
    let runtime = open_runtime(&store).await.unwrap();
    assert!(open_runtime(&store).await.is_err());
    let (stop_server, stop_worker) = (CancellationToken::new(), CancellationToken::new());
    let process = DevProcess {
        runtime,
        server: tokio::spawn(server.run_task(stop_server.clone())),
        stop_server: stop_server.clone(),
        worker: Some(InProcessWorker {
            task: tokio::spawn(worker.run_task::<WorkerError>(stop_worker.clone())),
            stop: stop_worker.clone(),
        }),
        socket: None,
    };
    DevProcessFixture { process, store, stop_server, stop_worker }
}

/// If one task ends, the other is cancelled, pending writes are finished, and the error names
/// the task.
#[tokio::test]
async fn one_ended_task_stops_the_others() {
    for (server, worker, text) in [
        (FakeTask::Crashes, FakeTask::Runs, "the server has crashed"),
        (FakeTask::Runs, FakeTask::Crashes, "the worker has crashed"),
        (FakeTask::Exits, FakeTask::Runs, "the server stopped unexpectedly"),
        (FakeTask::Runs, FakeTask::Exits, "the worker stopped unexpectedly"),
    ] {
        let fixture = start_fixture(server, worker).await;
        let result = fixture.process.run_until(&CancellationToken::new()).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        let is_cancelled = |task: FakeTask, stop: &CancellationToken| {
            !matches!(task, FakeTask::Runs) || stop.is_cancelled()
        };
        assert!(is_cancelled(server, &fixture.stop_server), "{text}");
        assert!(is_cancelled(worker, &fixture.stop_worker), "{text}");
        // The runtime is closed, so its machine id is available again.
        assert!(open_runtime(&fixture.store).await.is_ok(), "{text}");
    }
}

/// A requested stop ends both tasks without an error.
#[tokio::test]
async fn stop_ends_all_tasks() {
    let fixture = start_fixture(FakeTask::Runs, FakeTask::Runs).await;
    let stop = CancellationToken::new();
    stop.cancel();
    fixture.process.run_until(&stop).await.unwrap();
    assert!(fixture.stop_server.is_cancelled() && fixture.stop_worker.is_cancelled());
    assert!(open_runtime(&fixture.store).await.is_ok());
}
