//! Output of running commands.

use noetl_api::output::OutputChunk;

use super::TestWorker;
use super::fake::leased_command;
use super::secrets::worker_with_credentials;

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
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    worker.server.with_state(|state| state.is_unreachable = false);
    worker.wait_for_reports(1).await;
    let [sent, last] = worker.output_chunks();
    assert_eq!((sent, &*stdout_of(&last)), (vec![], "key: [REDACTED]\n"));
    worker.shut_down().await;
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
