//! Output of one attempt of a command.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use noetl_api::output::{CommandOutput, OutputChunk};
use noetl_tools::platform::OutputStream;
use noetl_types::Text;
use noetl_types::limits::MAX_OUTPUT_CHUNK_SIZE;
use noetl_types::redact::SharedSecretSet;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::OutputQueue;
use super::buffer::{OutputPart, StreamBuffer};
use crate::context::WorkerContext;
use crate::leases::ActiveLease;

/// Time after which output is sent.
const SEND_DELAY: Duration = Duration::from_millis(500);
/// Time after which output is sent by attempts that have sent much already.
const SLOW_SEND_DELAY: Duration = Duration::from_secs(5);
/// Number of chunks after which an attempt has sent much.
const MAX_QUICK_CHUNKS: u32 = 120;
/// Maximum chunks that wait for the server. Further output waits in its buffer.
const MAX_READY_CHUNKS: usize = 64;

/// Output of one attempt of a command.
pub(crate) struct AttemptOutput {
    context: Arc<WorkerContext>,
    lease: Arc<ActiveLease>,
    secrets: SharedSecretSet,
    state: Mutex<OutputState>,
}

#[derive(Default)]
struct OutputState {
    stdout: StreamBuffer,
    stderr: StreamBuffer,
    /// Task that writes.
    task: Option<Text>,
    /// Chunks that the server has not acknowledged.
    ready: VecDeque<OutputChunk>,
    /// Bytes of earlier tasks that were dropped.
    dropped_bytes: u64,
    next_number: u32,
    /// Time at which the buffers are due, if they contain new output.
    due_at: Option<Instant>,
    phase: OutputPhase,
    /// True if the queue knows the attempt.
    is_queued: bool,
}

/// Sending state of the output of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum OutputPhase {
    /// Nothing was sent yet. A report that contains the output is enough.
    #[default]
    Unsent,
    /// All output is sent.
    Sent,
    /// The command has ended without a report.
    Finished,
    /// Output is dropped.
    Closed,
}

impl AttemptOutput {
    pub(crate) fn new(
        context: &Arc<WorkerContext>,
        lease: &Arc<ActiveLease>,
        secrets: SharedSecretSet,
    ) -> Arc<Self> {
        let (context, lease) = (Arc::clone(context), Arc::clone(lease));
        Arc::new(Self { context, lease, secrets, state: Mutex::default() })
    }

    /// Starts the output of a task. Output of the previous task is no longer mixed with it.
    pub(crate) fn begin_task(&self, label: &str) {
        let mut state = self.state.lock();
        if state.has_buffered() {
            state.flush(&self.secrets, true);
        }
        state.task = Some(label.into());
    }

    /// Adds output of the current task.
    pub(crate) fn write(self: &Arc<Self>, stream: OutputStream, bytes: &[u8]) {
        let mut state = self.state.lock();
        if matches!(state.phase, OutputPhase::Finished | OutputPhase::Closed) {
            return;
        }
        match stream {
            OutputStream::Stdout => state.stdout.push(bytes),
            OutputStream::Stderr => state.stderr.push(bytes),
        }
        if state.due_at.is_none() {
            let is_slow = state.next_number >= MAX_QUICK_CHUNKS
                || state.stdout.has_only_tail()
                || state.stderr.has_only_tail();
            let delay = if is_slow { SLOW_SEND_DELAY } else { SEND_DELAY };
            state.due_at = Some(Instant::now() + delay);
            self.enqueue(&mut state);
        }
    }

    fn enqueue(self: &Arc<Self>, state: &mut OutputState) {
        if !std::mem::replace(&mut state.is_queued, true) {
            self.queue().add(self);
        }
        self.queue().wakeup.notify_one();
    }

    fn queue(&self) -> &OutputQueue {
        &self.context.outputs
    }

    /// Makes sure that the output so far is sent, because no result contains it.
    pub(crate) fn require_sending(&self) {
        let mut state = self.state.lock();
        if state.phase == OutputPhase::Unsent && state.has_unsent() {
            state.phase = OutputPhase::Sent;
        }
    }

    /// Ends the output of a command that is reported. Returns the rest of it, unless the report
    /// contains all of it.
    pub(crate) fn finish(&self) -> Option<CommandOutput> {
        let mut state = self.state.lock();
        let is_sent = state.phase == OutputPhase::Sent;
        if is_sent {
            state.flush(&self.secrets, true);
            if state.ready.is_empty() {
                state.push_chunk(OutputChunk::default());
            }
            if let Some(last) = state.ready.back_mut() {
                last.last = true;
            }
        }
        let chunks = std::mem::take(&mut state.ready).into();
        self.close_state(&mut state);
        is_sent.then(|| self.to_command_output(chunks))
    }

    /// Ends the output of a command without a report. The rest is sent once.
    pub(crate) fn abandon(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let is_closed = state.phase == OutputPhase::Closed || self.context.shutdown.is_cancelled();
        if is_closed || !state.has_unsent() {
            return self.close_state(&mut state);
        }
        state.flush(&self.secrets, true);
        state.due_at = None;
        state.phase = OutputPhase::Finished;
        self.enqueue(&mut state);
    }

    /// Drops the output from now on.
    pub(super) fn close(&self) {
        self.close_state(&mut self.state.lock());
    }

    fn close_state(&self, state: &mut OutputState) {
        let is_queued = state.is_queued;
        *state = OutputState { phase: OutputPhase::Closed, ..OutputState::default() };
        if is_queued {
            self.queue().remove(self);
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().phase == OutputPhase::Finished
    }

    pub(super) fn has_unsent(&self) -> bool {
        let state = self.state.lock();
        state.due_at.is_some() || !state.ready.is_empty()
    }

    /// Returns output that is due, up to a number of chunks. It is returned again until it is
    /// acknowledged.
    pub(super) fn due_output(&self, now: Instant, max_chunks: usize) -> Option<CommandOutput> {
        let mut state = self.state.lock();
        let is_due = state.due_at.is_some_and(|due_at| due_at <= now);
        if is_due && state.ready.len() < MAX_READY_CHUNKS {
            state.due_at = None;
            state.flush(&self.secrets, false);
        } else if !is_due && state.phase == OutputPhase::Unsent {
            return None;
        }
        let chunks: Vec<_> = state.ready.iter().take(max_chunks).cloned().collect();
        if chunks.is_empty() {
            return None;
        }
        // A chunk without an answer may be stored.
        if state.phase == OutputPhase::Unsent {
            state.phase = OutputPhase::Sent;
        }
        Some(self.to_command_output(chunks))
    }

    fn to_command_output(&self, chunks: Vec<OutputChunk>) -> CommandOutput {
        let held = self.lease.to_held_lease();
        CommandOutput {
            execution_id: held.execution_id,
            command_id: held.command_id,
            attempt: held.attempt,
            lease_token: held.lease_token,
            chunks,
        }
    }

    /// Removes chunks that the server has stored.
    pub(super) fn acknowledge(&self, output: &CommandOutput) {
        let mut state = self.state.lock();
        let stored = output.chunks.last().map(|chunk| chunk.number);
        while state.ready.front().is_some_and(|chunk| Some(chunk.number) <= stored) {
            state.ready.pop_front();
        }
    }
}

impl OutputState {
    fn has_buffered(&self) -> bool {
        !self.stdout.is_empty() || !self.stderr.is_empty()
    }

    fn has_unsent(&self) -> bool {
        self.has_buffered() || !self.ready.is_empty()
    }

    /// Moves output from the buffers to chunks. With `is_end`, moves all of it, and drops it if too
    /// much is waiting for the server.
    fn flush(&mut self, secrets: &SharedSecretSet, is_end: bool) {
        let secrets = secrets.current_secrets();
        let stdout = self.stdout.take_parts(&secrets, is_end);
        let stderr = self.stderr.take_parts(&secrets, is_end);
        for part in &stdout {
            self.add_part(part, false);
        }
        for part in &stderr {
            self.add_part(part, true);
        }
    }

    fn add_part(&mut self, part: &OutputPart, is_stderr: bool) {
        self.dropped_bytes = self.dropped_bytes.saturating_add(part.dropped_bytes);
        let max_bytes = usize::try_from(MAX_OUTPUT_CHUNK_SIZE.as_bytes()).unwrap_or(usize::MAX);
        let mut rest = part.text.as_str();
        while !rest.is_empty() || self.dropped_bytes > 0 {
            // Only output of several tasks can be more.
            if self.ready.len() >= 2 * MAX_READY_CHUNKS {
                let bytes = u64::try_from(rest.len()).unwrap_or(u64::MAX);
                self.dropped_bytes = self.dropped_bytes.saturating_add(bytes);
                return;
            }
            let (text, more) = rest.split_at(rest.floor_char_boundary(max_bytes));
            rest = more;
            let (text, empty) = (Text::from(text), Text::default());
            let (stdout, stderr) = if is_stderr { (empty, text) } else { (text, empty) };
            let dropped_bytes = std::mem::take(&mut self.dropped_bytes);
            let task = self.task.clone();
            self.push_chunk(OutputChunk {
                stdout,
                stderr,
                dropped_bytes,
                task,
                ..OutputChunk::default()
            });
        }
    }

    fn push_chunk(&mut self, chunk: OutputChunk) {
        self.ready.push_back(OutputChunk { number: self.next_number, ..chunk });
        self.next_number = self.next_number.saturating_add(1);
    }
}
