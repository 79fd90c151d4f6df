//! Output of running commands.

use std::sync::Arc;
use std::time::Duration;

use noetl_api::output::OutputChunk;
use noetl_tools::platform::OutputStream;
use noetl_types::redact::SharedSecretSet;
use tokio_util::sync::CancellationToken;

use super::TestWorker;
use super::fake::{FakeServer, FakeTools, leased_command, test_settings};
use super::secrets::worker_with_credentials;
use crate::WorkerMetrics;
use crate::context::WorkerContext;
use crate::leases::GrantTime;
use crate::output::{AttemptOutput, output_loop};

impl TestWorker {
    /// Chunks that arrived while commands ran, and those that arrived with reports.
    fn output_chunks(&self) -> [Vec<OutputChunk>; 2] {
        self.server.with_state(|state| {
            let requests = state.output_requests.iter().flat_map(|request| &request.outputs);
            let chunks = requests.flat_map(|output| output.chunks.clone()).collect();
            let last = state.last_outputs.iter().flat_map(|output| output.chunks.clone());
            [chunks, last.collect()]
        })
    }
}

fn stdout_of(chunks: &[OutputChunk]) -> String {
    chunks.iter().map(|chunk| chunk.stdout.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn short_or_silent_command_sends_no_output() {
    let worker = worker_with_credentials();
    worker.server.enqueue([
        leased_command(1, "print"),
        leased_command(2, "long"),
        leased_command(3, "nap"),
    ]);
    worker.wait_for_reports(3).await;
    assert_eq!(worker.output_chunks(), [vec![], vec![]]);
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn long_command_sends_redacted_output_once() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(1, "print_slowly")]);
    let has_output = |worker: &TestWorker| !worker.output_chunks()[0].is_empty();
    worker.wait_until("output arrives", has_output).await;
    assert!(worker.server.final_reports().is_empty(), "the command is running");
    let [sent, _] = worker.output_chunks();
    assert_eq!((&*stdout_of(&sent), &*sent[1].stderr), ("key: ", "to stderr\n"));
    assert_eq!(sent[0].task.as_deref(), Some("print_slowly"));
    worker.wait_for_reports(1).await;
    let [sent, last] = worker.output_chunks();
    assert_eq!((sent.len(), &*stdout_of(&last)), (2, "[REDACTED]\n"));
    let numbers: Vec<_> =
        sent.iter().chain(&last).map(|chunk| (chunk.number, chunk.last)).collect();
    assert_eq!(numbers, [(0, false), (1, false), (2, true)]);
    worker.shut_down().await;
}

/// The result of a task that timed out contains no output.
#[tokio::test(start_paused = true)]
async fn timed_out_command_reports_its_output() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(1, "print_and_time_out")]);
    worker.wait_for_reports(1).await;
    let [sent, last] = worker.output_chunks();
    assert_eq!((sent, &*stdout_of(&last)), (vec![], "key: [REDACTED]\n"));
    worker.shut_down().await;
}

#[tokio::test(start_paused = true)]
async fn output_waits_for_unreachable_server() {
    let worker = worker_with_credentials();
    worker.server.enqueue([leased_command(1, "print_slowly")]);
    worker.wait_until("it runs", |worker| worker.tools.running_count() == 1).await;
    worker.server.with_state(|state| state.is_unreachable = true);
    tokio::time::sleep(Duration::from_secs(5)).await;
    worker.server.with_state(|state| state.is_unreachable = false);
    worker.wait_for_reports(1).await;
    let [sent, last] = worker.output_chunks();
    assert_eq!((sent, &*stdout_of(&last)), (vec![], "key: [REDACTED]\n"));
    worker.shut_down().await;
}

/// Their output fills the queue before the first of it is due.
#[tokio::test(start_paused = true)]
async fn output_of_many_quick_tasks_is_sent() {
    let server = Arc::new(FakeServer::default());
    let (context, _reports) = WorkerContext::new(
        Arc::clone(&server) as _,
        Arc::new(FakeTools::default()),
        test_settings(1),
        Arc::new(WorkerMetrics::for_concurrency(1)),
        CancellationToken::new(),
    );
    let granted = GrantTime::new(context.now());
    let cancel = context.shutdown.child_token();
    let lease = context.leases.add_lease(&leased_command(1, "ok"), granted, cancel);
    let output = AttemptOutput::new(&context, &lease, SharedSecretSet::default());
    let sending = tokio::spawn(output_loop(Arc::clone(&context)));
    for _ in 0..100 {
        output.begin_task("quick");
        output.write(OutputStream::Stdout, b"line\n");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let requests = server.with_state(|state| state.output_requests.clone());
    let outputs = requests.iter().flat_map(|request| &request.outputs);
    let chunks: Vec<_> = outputs.flat_map(|output| output.chunks.clone()).collect();
    assert_eq!(stdout_of(&chunks), "line\n".repeat(100));
    context.shutdown.cancel();
    sending.await.unwrap();
}

/// 320 MiB in 20 seconds: the head, and the last output of every five seconds.
#[tokio::test(start_paused = true)]
async fn endless_output_is_bounded() {
    let worker = TestWorker::with_concurrency(1);
    worker.server.enqueue([leased_command(1, "print_endlessly")]);
    worker.wait_for_reports(1).await;
    let [mut chunks, last] = worker.output_chunks();
    chunks.extend(last);
    let bytes: usize = chunks.iter().map(|chunk| chunk.stdout.len()).sum();
    assert!((256 << 10..2 << 20).contains(&bytes), "{bytes}");
    let dropped: u64 = chunks.iter().map(|chunk| chunk.dropped_bytes).sum();
    assert_eq!(u64::try_from(bytes).unwrap() + dropped, 200 * 100 * 16 * 1024);
    worker.shut_down().await;
}
